"""The module's rules, as `predict` answers them, against the plainest implementation; its opponent against minimax."""

import random
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.c.build import compile_program
from tests.models import connect4
from tests.models.connect4 import PlainGame

NAMES = {None: "none", -1: "draw", 0: "first", 1: "second"}


@pytest.fixture(scope="module")
def player():
    return connect4.instance(connect4.initial_weights())


def played(draws):
    """A game that takes the draws for its moves, until it is over or they are used up."""
    game, moves = PlainGame(), ""
    for drawn in draws:
        legal = game.legal()
        if not legal:
            break
        column = legal[drawn % len(legal)]
        game.play(column)
        moves += str(column)
    return game, moves


def check(player, game, moves):
    said, lines = connect4.predict(player, moves), game.lines()
    assert (said["legal"], said["winner"]) == (game.legal(), NAMES[game.winner()])
    assert said["line"] == (lines[0] if lines else [])
    assert [column for column in range(7) if said["policy"][column] > 0] == game.legal()
    if game.winner() is None:
        assert said["policy"][said["move"]] == max(said["policy"])
        assert sum(said["policy"]) == pytest.approx(1, abs=1e-6)
        assert -1 < said["value"] < 1
    else:
        assert said["move"] is None
        assert said["value"] == (0 if game.winner() == -1 else -1)  # whose turn it would be has lost


@settings(max_examples=150, deadline=None)
@given(draws=st.lists(st.integers(0, 6), max_size=42))
def test_any_sequence_of_moves_is_judged_alike(player, draws):
    check(player, *played(draws))


def test_whole_random_games_are_judged_alike(player):
    """Hypothesis prefers short lists; most of these games reach their end, some a full board."""
    chance, ends = random.Random(1), []
    for _ in range(150):
        game, moves = played(chance.choices(range(420), k=42))
        check(player, game, moves)
        ends.append((game.winner(), *map(tuple, sum(game.lines()[:1], []))))
    assert {end[0] for end in ends} >= {0, 1} and len({end[1:] for end in ends}) > 40  # of 69 lines


@pytest.mark.parametrize(
    ("moves", "winner", "line"),
    [
        ("0011223", "first", [[0, 0], [1, 0], [2, 0], [3, 0]]),
        ("564544303033", "second", [[3, 3], [4, 2], [5, 1], [6, 0]]),
        ("10606005050", "none", []),  # the top three of a column and the bottom of the next
    ],
)
def test_known_games(player, moves, winner, line):
    said = connect4.predict(player, moves)
    assert (said["winner"], said["line"]) == (winner, line)


def test_a_full_board_is_a_draw(player):
    said = connect4.predict(player, "464030260060216042161565132224453151535433")
    assert said == {**said, "winner": "draw", "line": [], "legal": [], "move": None, "value": 0, "policy": [0] * 7}


def minimax(game, depth):
    """For the player to move; a sooner win and a later loss are better."""
    winner = game.winner()
    if winner in (0, 1):
        return -(100 + depth)
    if depth == 0 or winner == -1:
        return 0
    return max(-minimax(game.after(column), depth - 1) for column in game.legal())


def best_columns(game, depth):
    values = {column: -minimax(game.after(column), depth - 1) for column in game.legal()}
    return [column for column in values if values[column] == max(values.values())]


def test_alpha_beta_finds_the_moves_that_minimax_finds(tmp_path):
    """Also where several moves are equally good: the opponent draws among exactly these."""
    chance, asked = random.Random(2), []
    while len(asked) < 48:
        game, moves = played(chance.choices(range(420), k=chance.randrange(4, 40)))
        if game.winner() is None:
            asked.append((game, moves, 1 + len(asked) % 4))
    text = "".join(f"{moves} {depth}\n" for _, moves, depth in asked)
    program = compile_program("connect4_search", tmp_path)
    answer = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout
    found = [[int(column) for column in line] for line in answer.splitlines()]
    expected = [best_columns(game, depth) for game, _, depth in asked]
    assert found == expected
    assert sum(len(columns) < len(game.legal()) for (game, _, _), columns in zip(asked, expected, strict=True)) >= 12
