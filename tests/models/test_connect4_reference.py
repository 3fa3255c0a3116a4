"""The Connect Four module against an independent implementation in NumPy, and its own sources built natively."""

import subprocess

import numpy as np
import pytest

from tests.c.build import compile_program
from tests.models import connect4
from tests.models.connect4 import PlainGame
from tests.models.test_digits_reference import Stream

SHAPES = ((48, 32), (32,), (384, 16), (16,), (16,), (1,))
SIZES = [int(np.prod(shape)) for shape in SHAPES]
TEMPERATURE = 0.1
MOST_RANDOM = 6
TURNS_PER_STEP = 6


def initial(seed):
    """Uniform from 24 random bits each, biases 0."""
    stream, parts = Stream(seed, 0), []
    for size, limit in zip(SIZES, (0.35355, None, 0.125, None, 0.2, None), strict=True):
        drawn = [((stream.next() >> 40) - 2**23) / 2**23 if limit else 0 for _ in range(size)]
        parts.append(np.float32(limit or 0) * np.array(drawn, "f4"))
    return np.concatenate(parts)


def unpack(weights):
    parts = np.split(weights, np.cumsum(SIZES)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def planes(game, mirrored=False):
    """(7, 6, 3): stones of who moved last, of the other, and where the next stone can fall."""
    board, last = np.zeros((7, 6, 3)), (game.count - 1) % 2
    for column, stones in enumerate(game.columns):
        for row, owner in enumerate(stones):
            board[column, row, int(owner != last)] = 1
        if len(stones) < 6:
            board[column, len(stones), 2] = 1
    return board[::-1] if mirrored else board


def forward(weights, board):
    """The value, and what the backward pass needs."""
    filters, filter_bias, dense, dense_bias, out, out_bias = unpack(weights)
    patches = np.array([board[x : x + 4, y : y + 4].ravel() for x in range(4) for y in range(3)])
    features = np.maximum(patches @ filters + filter_bias, 0).ravel()
    hidden = np.maximum(features @ dense + dense_bias, 0)
    return np.tanh(hidden @ out + out_bias[0]), (patches, features, hidden)


def gradient(weights, board, target):
    """Of the cross-entropy of (1 + value) / 2 against (1 + target) / 2; and the value."""
    _, _, dense, _, out, _ = unpack(weights)
    value, (patches, features, hidden) = forward(weights, board)
    dsum = value - target
    dhidden = dsum * out * (hidden > 0)
    dpatches = ((dense @ dhidden) * (features > 0)).reshape(12, 32)
    parts = (
        patches.T @ dpatches,
        dpatches.sum(0),
        np.outer(features, dhidden),
        dhidden,
        dsum * hidden,
        np.array([dsum]),
    )
    return np.concatenate([part.ravel() for part in parts]), value


def values(weights, game):
    """Of each legal move, for the player to move."""
    return {column: forward(weights, planes(game.after(column)))[0] for column in game.legal()}


def policy(worth):
    shares = {column: np.exp((worth[column] - max(worth.values())) / TEMPERATURE) for column in worth}
    return {column: share / sum(shares.values()) for column, share in shares.items()}


def result(game, player):
    return {player: 1, 1 - player: -1, -1: 0}[game.winner()]


def target(weights, after):
    """For who moved last: the end of the game, or the opposite of the best answer."""
    mover = after.count % 2
    if after.winner() is not None:
        return result(after, 1 - mover)
    answers = []
    for column, value in values(weights, after).items():
        end = after.after(column)
        answers.append(value if end.winner() is None else result(end, mover))
    return -max(answers)


def play(weights, opponent, seed, number):
    """The boards after every legal move of every turn with their targets, turn by turn; and the learner's result."""
    stream, game, turns = Stream(seed, number), PlainGame(), []
    random_moves = stream.below(MOST_RANDOM + 1)
    while game.winner() is None:
        turns.append([(game.after(column), target(weights, game.after(column))) for column in game.legal()])
        if game.count < random_moves:
            column = game.legal()[stream.below(len(game.legal()))]
        else:
            chances = policy(values(weights if game.count % 2 == number % 2 else opponent, game))
            drawn = (stream.next() >> 40) / 2**24
            reached = np.cumsum([*chances.values()])
            column = [*chances][int(np.searchsorted(reached, drawn, side="right"))]
        game.play(column)
    return turns, result(game, number % 2)


def train(weights, opponent, seed, first, count, settings):
    """An assignment of one batch. Returns the weights, the share of points and the mean squared error."""
    weights, opponent = weights.astype("f8"), opponent.astype("f8")
    played = [play(weights, opponent, seed, number) for number in range(first, first + count)]
    turns = [turn for game, _ in played for turn in game]
    order, stream, errors = list(range(len(turns))), Stream(seed, 2**64 - 1 - first), []
    mean, square, steps = np.zeros_like(weights), np.zeros_like(weights), 0
    for _ in range(settings["localEpochs"]):
        stream.shuffle(order)
        for at in range(0, len(order), TURNS_PER_STEP):
            gradients = []
            for index in order[at : at + TURNS_PER_STEP]:
                mirrored = stream.below(2) == 1
                for after, wanted in turns[index]:
                    slope, value = gradient(weights, planes(after, mirrored), wanted)
                    gradients.append(slope)
                    errors.append((value - wanted) ** 2)
            slope, steps = np.mean(gradients, axis=0), steps + 1
            mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
            size = np.sqrt(square / (1 - 0.999**steps)) + 1e-8
            weights = weights - settings["learningRate"] * mean / (1 - 0.9**steps) / size
    return weights, np.mean([(1 + points) / 2 for _, points in played]), np.mean(errors), steps


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_initial_weights_are_the_same_bits(seed):
    assert initial(seed).astype("<f4").tobytes() == connect4.initial_weights(seed)


@pytest.mark.parametrize("moves", ["", "3", "33241", "332415564", "06060"])
def test_predictions_agree_with_float64(moves):
    weights = connect4.train(connect4.initial_weights(), count=16)["weights"]
    said = connect4.predict(connect4.instance(weights), moves)
    worth = values(np.frombuffer(weights, "<f4").astype("f8"), PlainGame(moves))
    chances = policy(worth)
    assert said["move"] == max(worth, key=worth.__getitem__)
    assert said["value"] == pytest.approx(max(worth.values()), abs=2e-6)
    assert said["policy"] == pytest.approx([chances.get(column, 0) for column in range(7)], abs=1e-5)


def test_trained_weights_agree_with_float64():
    """Games, targets, order, mirroring, gradients and steps. A step of Adam is as long as the rate however small its
    gradient is, so that rounding moves the few weights whose gradient is next to nothing."""
    start, opponent = connect4.initial_weights(7), connect4.initial_weights(8)
    settings = {"localEpochs": 3, "batchSize": 3, "learningRate": 0.002}
    trained = connect4.train(start, opponent, seed=11, start=5, count=3, settings=settings)
    before = np.frombuffer(start, "<f4")
    expected, points, loss, steps = train(before, np.frombuffer(opponent, "<f4"), 11, 5, 3, settings)
    assert trained["optimizerSteps"] == steps
    assert trained["metrics"] == pytest.approx({"winRate": points, "loss": loss}, abs=1e-6)
    off = np.abs(np.frombuffer(trained["weights"], "<f4") - expected)
    moved = np.abs(expected - before)
    assert np.median(moved) > 1e-3
    assert np.quantile(off, 0.99) < 1e-5 and off.max() < 1e-3


def test_the_native_build_returns_the_same_bits(tmp_path):
    """Nothing in the sources depends on the engine: gcc on this machine and WebAssembly agree bit for bit."""
    program = compile_program("train_connect4", tmp_path)
    native = subprocess.run([program], capture_output=True, check=True).stdout
    start, opponent = connect4.initial_weights(7), connect4.initial_weights(8)
    assert native == connect4.train(start, opponent, seed=3, start=40, count=6)["weights"]
