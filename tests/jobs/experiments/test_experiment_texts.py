"""The data of the experiments: the same from the same seed, and every conclusion in it follows."""

import re

import pytest

from jobs.services.experiments.texts import DAYS, END, LARGEST, Draws, arithmetic, reasoning_text

TEXT = reasoning_text(1, 60_000)
LINES = TEXT.splitlines()[:-1]


def test_a_text_is_a_function_of_seed_and_size():
    assert reasoning_text(1, 1000) == TEXT[:1000]
    assert reasoning_text(2, 1000) != TEXT[:1000]
    assert len(TEXT) == 60_000 and TEXT.isascii()


def test_the_text_has_not_changed():
    """Recorded results rest on it."""
    assert reasoning_text(1, 75) == "If it rains, Eva runs home. Now Eva does not run home. So it does not rain."


def test_every_sum_is_right():
    sums = [match.groups() for line in LINES for match in re.finditer(r"(\d+) ([+-]) (\d+) = (-?\d+)", line)]
    assert len(sums) > 100
    assert all(int(c) == (int(a) + int(b) if sign == "+" else int(a) - int(b)) for a, sign, b, c in sums)
    assert all(int(c) > 0 for *_, c in sums)


def test_every_order_puts_the_first_before_the_last():
    orders = [line for line in LINES if " is the " in line and "than" in line]
    assert len(orders) > 30
    for line in orders:
        pairs = re.findall(r"(\w+) is \w+ than (\w+)[.,]", line)
        above, below = pairs[:2], pairs[2]
        assert {(a, d) for a, b in above for c, d in above if b == c} == {below}


def test_every_sequence_goes_on():
    found = [re.findall(r"\d+", line) for line in LINES if "So the next is" in line]
    assert len(found) > 30
    for *shown, step, following in found:
        steps = {int(b) - int(a) for a, b in zip(shown, [*shown[1:], following], strict=True)}
        assert steps == {int(step)}


def test_every_day_is_the_right_one():
    found = [re.match(r"Today is (\w+)\. So in (\d) days? it is (\w+)\.", line) for line in LINES]
    days = [match.groups() for match in found if match]
    assert len(days) > 30
    assert all(DAYS[(DAYS.index(a) + int(n)) % 7] == b for a, n, b in days)


def test_every_kind_of_argument_occurs():
    kinds = ("finds", "than", "Every", "is in the", "each is", "Today", "If ")
    assert all(sum(kind in line for line in LINES) > len(LINES) / 20 for kind in kinds)


@pytest.fixture(scope="module")
def problems():
    return arithmetic(1, held_out=500, asked=200)


def test_the_held_out_pairs_are_not_in_the_data(problems):
    assert len(problems.training) == (LARGEST + 1) ** 2 - 500
    assert len(set(problems.training)) == len(problems.training)
    assert not set(problems.held_out) & set(problems.training)
    assert not any(problem.line in problems.text.splitlines(keepends=True) for problem in problems.held_out)


def test_questions_differ_and_are_of_their_kind(problems):
    for asked in (problems.seen, problems.held_out, problems.larger):
        assert len(set(asked)) == len(asked) == 200
    assert all(problem.left <= LARGEST and problem.right <= LARGEST for problem in problems.seen)
    assert all(100 <= problem.left <= 999 and 100 <= problem.right <= 999 for problem in problems.larger)


def test_a_line_ends_with_the_end_token(problems):
    line = problems.text.splitlines()[0]
    left, right, total = re.fullmatch(rf"(\d+)\+(\d+)=(\d+){re.escape(END)}", line).groups()
    assert int(left) + int(right) == int(total)
    assert arithmetic(1, held_out=500, asked=200) == problems != arithmetic(2, held_out=500, asked=200)


def test_draws_are_even():
    draws = Draws(3, "test")
    counts = [0] * 7
    for _ in range(7000):
        counts[draws.below(7)] += 1
    assert min(counts) > 850 and max(counts) < 1150
    assert sorted(draws.shuffled(range(50))) == list(range(50))
