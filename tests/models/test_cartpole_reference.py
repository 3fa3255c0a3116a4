"""The CartPole module against an independent implementation in NumPy, and against its own sources built natively."""

import subprocess

import numpy as np
import pytest

from tests.c.build import compile_program
from tests.models import cartpole
from tests.models.test_digits_reference import Stream

SHAPES = ((4, 16), (16,), (16, 2), (2,))
DISCOUNT = 0.99


def uniform(stream, limit):
    """float32 on [-limit, limit) from 24 random bits."""
    return np.float32(limit) * np.float32(((stream.next() >> 40) - 2**23) / 2**23)


def initial(seed):
    stream = Stream(seed, 0)
    return np.array([uniform(stream, limit) for limit in [0.5] * 80 + [0.25] * 34], "f4")


def unpack(weights):
    parts = np.split(weights, np.cumsum([np.prod(shape) for shape in SHAPES])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def forward(weights, observations):
    """Hidden units (n, 16) and probabilities (n, 2)."""
    w1, b1, w2, b2 = unpack(weights)
    hidden = np.tanh(observations @ w1 + b1)
    powers = np.exp(hidden @ w2 + b2)
    return hidden, powers / powers.sum(axis=1, keepdims=True)


def step(state, action):
    """The equations of Barto, Sutton and Anderson as Gymnasium has them, Euler's method with 0.02 s."""
    x, x_dot, theta, theta_dot = state
    sin, cos, force = np.sin(theta), np.cos(theta), 10.0 if action else -10.0
    push = (force + 0.05 * theta_dot**2 * sin) / 1.1
    theta_acceleration = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    x_acceleration = push - 0.05 * theta_acceleration * cos / 1.1
    return state + 0.02 * np.array([x_dot, x_acceleration, theta_dot, theta_acceleration])


def play(weights, seed, unit, greedy=False):
    """Observations (n, 4), actions (n,) and whether the pole fell."""
    stream, observations, actions = Stream(seed, unit), [], []
    state, fell = np.array([uniform(stream, 0.05) for _ in range(4)], "f8"), False
    while not fell and len(actions) < 500:
        observations.append(state.astype("f4").astype("f8"))
        probability = forward(weights, observations[-1][None])[1][0, 1]
        actions.append(int(probability > 0.5 if greedy else (stream.next() >> 40) / 2**24 < probability))
        state = step(state, actions[-1])
        fell = abs(state[0]) > 2.4 or abs(state[2]) > 12 * np.pi / 180
    return np.array(observations), np.array(actions), fell


def returns_of(actions, fell):
    left = np.arange(len(actions), 0, -1)
    return (1 - DISCOUNT**left) / (1 - DISCOUNT) if fell else np.full(len(actions), 1 / (1 - DISCOUNT))


def gradient(weights, batch):
    """(114,): of the mean of -advantage * log(probability of the action)."""
    observations = np.concatenate([episode[0] for episode in batch])
    actions = np.concatenate([episode[1] for episode in batch])
    returns = np.concatenate([returns_of(*episode[1:]) for episode in batch])
    advantages = (returns - returns.mean()) / (returns.std() + 1e-3)
    hidden, probabilities = forward(weights, observations)
    dlogits = (probabilities - np.eye(2)[actions]) * advantages[:, None] / len(actions)
    dsums = dlogits @ unpack(weights)[2].T * (1 - hidden**2)
    parts = (observations.T @ dsums, dsums.sum(0), hidden.T @ dlogits, dlogits.sum(0))
    return np.concatenate([part.ravel() for part in parts])


def train(weights, seed, start, count, epochs, batch_size, rate):
    """All in float64, Adam from empty; the weights and the mean return."""
    weights, mean, square, steps, lengths = weights.astype("f8"), np.zeros(114), np.zeros(114), 0, list[int]()
    for at in range(0, count, batch_size):
        units = range(start + at, start + min(at + batch_size, count))
        batch = [play(weights, seed, unit) for unit in units]
        lengths.extend(len(actions) for _, actions, _ in batch)
        for _ in range(epochs):
            slope, steps = gradient(weights, batch), steps + 1
            mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
            weights = weights - rate * mean / (1 - 0.9**steps) / (np.sqrt(square / (1 - 0.999**steps)) + 1e-8)
    return weights, np.mean(lengths)


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_initial_weights_are_the_same_bits(seed):
    assert initial(seed).astype("<f4").tobytes() == cartpole.initial_weights(seed)


# float32 rounds each operation by 2^-24 = 6e-8; the largest difference seen was 1.6e-7. One action drawn otherwise
# would change weights by 1e-3 and more.
TOLERANCE = 2e-6


@pytest.mark.parametrize(
    ("seed", "start", "count", "epochs", "batch"), [(3, 0, 16, 1, 16), (3, 64, 40, 1, 16), (4, 2**40, 12, 3, 8)]
)
def test_a_trained_assignment_agrees_with_float64(seed, start, count, epochs, batch):
    """One update, several with a last batch that is not full, and local epochs on units far from the first."""
    weights = cartpole.initial_weights()
    settings = {"localEpochs": epochs, "batchSize": batch, "learningRate": 0.01}
    result = cartpole.train(weights, seed, start, count, settings)
    expected, mean_return = train(np.frombuffer(weights, "<f4"), seed, start, count, epochs, batch, 0.01)
    assert result["metrics"]["episodeReturn"] == pytest.approx(mean_return, abs=1e-6)
    np.testing.assert_allclose(np.frombuffer(result["weights"], "<f4"), expected, rtol=0, atol=TOLERANCE)


def test_an_assignment_with_episodes_that_the_limit_cut_agrees_with_float64():
    """A policy that has half learned: some of its episodes end at 500 and count on, some fall."""
    weights = cartpole.initial_weights(1)
    for start in range(0, 256, 64):
        weights = cartpole.train(weights, start=start, count=64)["weights"]
    result = cartpole.train(weights, 9, 0, 8, {"localEpochs": 1, "batchSize": 8, "learningRate": 0.01})
    batch = [play(np.frombuffer(weights, "<f4"), 9, unit) for unit in range(8)]
    assert 0 < sum(fell for *_, fell in batch) < 8
    expected, mean_return = train(np.frombuffer(weights, "<f4"), 9, 0, 8, 1, 8, 0.01)
    assert result["metrics"]["episodeReturn"] == pytest.approx(mean_return, abs=1e-6)
    np.testing.assert_allclose(np.frombuffer(result["weights"], "<f4"), expected, rtol=0, atol=TOLERANCE)


def test_evaluation_agrees_with_float64():
    weights = cartpole.train(cartpole.initial_weights())["weights"]
    lengths = [len(play(np.frombuffer(weights, "<f4"), 5, unit, greedy=True)[1]) for unit in range(8)]
    measured = cartpole.evaluate(weights, 5, count=8)["metrics"]["episodeReturn"]
    assert measured == pytest.approx(np.mean(lengths), abs=1e-6)


def test_the_native_build_returns_the_same_bits(tmp_path):
    """Nothing in the sources depends on the engine: gcc on this machine and WebAssembly agree bit for bit."""
    native = subprocess.run([compile_program("train_cartpole", tmp_path)], capture_output=True, check=True).stdout
    assert native == cartpole.train(cartpole.initial_weights(7), 3, 64, 200)["weights"]
