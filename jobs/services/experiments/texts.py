"""The data of the text experiments: made from a seed, so that nothing has to be fetched.

**The reasoning text** is lines of short arguments, each of which draws a conclusion that follows from what it says:
sums about things that people give away, orders by height or age, syllogisms, places within places, number sequences,
days of the week, and rules with their contraposition. Which kind, which names and which numbers come next is drawn
from the seed; everything behind "So" or "=" follows. A model lowers its loss first by spelling the words, then by
learning the forms, and at last by getting conclusions right; what was drawn it can never know, so that the loss ends
well above 0.

**The arithmetic problems** are lines such as `37+48=85<EOS>`: every sum of two numbers from 0 to 99 once, in a random
order, but for the pairs that are held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

NAMES = (
    "Ann",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gus",
    "Hana",
    "Ida",
    "Jon",
    "Kim",
    "Lou",
    "Max",
    "Nia",
    "Oli",
    "Pia",
)
THINGS = ("apples", "books", "coins", "eggs", "keys", "nuts", "pens", "shells")
RANKS = (("taller", "tallest"), ("older", "oldest"), ("faster", "fastest"), ("richer", "richest"))
KINDS = ("wug", "dax", "fep", "zib", "lorp", "mip")
TRAITS = ("blue", "loud", "small", "warm", "round", "shy")
INNER = ("ring", "letter", "stone", "map", "seed")
OUTER = ("box", "drawer", "bag", "jar", "chest")
ROOMS = ("shed", "kitchen", "attic", "cellar", "garage")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
EVENTS = (
    ("it rains", "it does not rain"),
    ("it snows", "it does not snow"),
    ("the bell rings", "the bell does not ring"),
)
ACTS = (("stays in", "does not stay in"), ("sings", "does not sing"), ("runs home", "does not run home"))

END = "<EOS>"
LARGEST = 99


class Draws:
    """Random numbers that are the same everywhere: SHA-256 of the seed, a name and a counter."""

    def __init__(self, seed: int, name: str) -> None:
        self._start = hashlib.sha256(seed.to_bytes(8, "little") + name.encode())
        self._count = 0

    def below(self, most: int) -> int:
        """From 0 to `most` - 1. The odds differ by less than one in 2⁵⁰, which nothing here can tell."""
        digest = self._start.copy()
        digest.update(self._count.to_bytes(8, "little"))
        self._count += 1
        return int.from_bytes(digest.digest()[:8], "little") % most

    def between(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)

    def one(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different ones, in a random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.some(items, len(items))


def _sum(draws: Draws) -> str:
    """Somebody gets things and gives some away."""
    who, other = draws.some(NAMES, 2)
    thing = draws.one(THINGS)
    has, more = draws.between(1, 9), draws.between(1, 9)
    total = has + more
    less = draws.between(1, total - 1)
    return (
        f"{who} has {has} {thing}. {who} finds {more} more. {has} + {more} = {total}. {who} gives {other} {less}. "
        f"{total} - {less} = {total - less}. So {who} has {total - less} {thing}."
    )


def _order(draws: Draws) -> str:
    """Three people by height or the like, told in a random order."""
    first, second, third = draws.some(NAMES, 3)
    more, most = draws.one(RANKS)
    told = draws.shuffled([f"{first} is {more} than {second}.", f"{second} is {more} than {third}."])
    return f"{' '.join(told)} So {first} is {more} than {third}, and {first} is the {most}."


def _syllogism(draws: Draws) -> str:
    who, kind, trait = draws.one(NAMES), draws.one(KINDS), draws.one(TRAITS)
    if draws.below(2):
        return f"Every {kind} is {trait}. {who} is a {kind}. So {who} is {trait}."
    return f"Every {kind} is {trait}. {who} is not {trait}. So {who} is not a {kind}."


def _place(draws: Draws) -> str:
    inner, outer, room = draws.one(INNER), draws.one(OUTER), draws.one(ROOMS)
    told = draws.shuffled([f"The {inner} is in the {outer}.", f"The {outer} is in the {room}."])
    return f"{' '.join(told)} So the {inner} is in the {room}."


def _sequence(draws: Draws) -> str:
    first, step = draws.between(0, 20), draws.between(1, 9)
    shown = ", ".join(str(first + step * place) for place in range(4))
    return f"{shown}: each is {step} more. So the next is {first + 4 * step}."


def _day(draws: Draws) -> str:
    today, later = draws.below(7), draws.between(1, 6)
    unit = "day" if later == 1 else "days"
    return f"Today is {DAYS[today]}. So in {later} {unit} it is {DAYS[(today + later) % 7]}."


def _rule(draws: Draws) -> str:
    who, (event, no_event), (act, no_act) = draws.one(NAMES), draws.one(EVENTS), draws.one(ACTS)
    if draws.below(2):
        return f"If {event}, {who} {act}. Now {event}. So {who} {act}."
    return f"If {event}, {who} {act}. Now {who} {no_act}. So {no_event}."


ARGUMENTS: Sequence[Callable[[Draws], str]] = (_sum, _order, _syllogism, _place, _sequence, _day, _rule)


def reasoning_text(seed: int, size: int) -> str:
    """`size` characters, all ASCII, of one argument a line; the last line may be cut off."""
    draws = Draws(seed, "reasoning")
    lines, room = [], size
    while room > 0:
        lines.append(draws.one(ARGUMENTS)(draws) + "\n")
        room -= len(lines[-1])
    return "".join(lines)[:size]


@dataclass(frozen=True, order=True)
class Problem:
    left: int
    right: int

    @property
    def question(self) -> str:
        return f"{self.left}+{self.right}="

    @property
    def answer(self) -> str:
        return str(self.left + self.right)

    @property
    def line(self) -> str:
        return f"{self.question}{self.answer}{END}\n"


@dataclass(frozen=True)
class Arithmetic:
    """`training` is what the data file holds. `seen` are random problems from 0 to 99, almost all of which it holds;
    `held_out` are pairs it does not, and `larger` have three digits, which it never has before the equals sign."""

    training: Sequence[Problem]
    seen: Sequence[Problem]
    held_out: Sequence[Problem]
    larger: Sequence[Problem]

    @property
    def text(self) -> str:
        return "".join(problem.line for problem in self.training)


def arithmetic(seed: int, *, held_out: int, asked: int) -> Arithmetic:
    """Sums of two numbers from 0 to 99; `asked` problems of each kind for the questions afterwards."""
    draws = Draws(seed, "arithmetic")
    every = draws.shuffled([Problem(left, right) for left in range(LARGEST + 1) for right in range(LARGEST + 1)])
    return Arithmetic(
        training=every[held_out:],
        seen=draws.some(every, asked),
        held_out=draws.some(every[:held_out], asked),
        larger=list(_distinct(draws, asked)),
    )


def _distinct(draws: Draws, count: int) -> Iterator[Problem]:
    found: set[Problem] = set()
    while len(found) < count:
        problem = Problem(draws.between(100, 999), draws.between(100, 999))
        if problem not in found:
            found.add(problem)
            yield problem
