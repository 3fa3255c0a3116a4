"""Line charts as SVG text: small, the same bytes for the same numbers, readable in light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 36, 44
TICKS = 5

# Told apart by people who see colours differently, and again by the dashes.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d00", "#555555", "#a00000")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class Line:
    """Points by rising x; None leaves a gap."""

    name: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Chart:
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log: bool = False
    """Logarithmic y; values of 0 and below are gaps then."""


def svg(chart: Chart) -> str:
    """A chart without a point has axes all the same."""
    lines = [Line(line.name, [(x, _usable(y, chart.log)) for x, y in line.points]) for line in chart.lines]
    drawn = [(x, y) for line in lines for x, y in line.points if y is not None]
    x_axis = _Axis.over([x for x, _ in drawn], LEFT, WIDTH - RIGHT, log=False)
    y_axis = _Axis.over([y for _, y in drawn], HEIGHT - BOTTOM, TOP, log=chart.log)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(chart.title, quote=True)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 20, chart.title, "start", bold=True),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, chart.x_label, "middle"),
        _text(LEFT - 8, TOP - 6, chart.y_label, "end" if len(chart.y_label) < 10 else "start"),
    ]
    for value in x_axis.ticks():
        parts.append(_text(x_axis.place(value), HEIGHT - BOTTOM + 16, f"{value:g}", "middle"))
    for value in y_axis.ticks():
        at = y_axis.place(value)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(_text(LEFT - 8, at + 4, f"{value:g}", "end"))
    for index, line in enumerate(lines):
        parts += _drawn(line, index, x_axis, y_axis)
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, *, log: bool) -> _Axis:
        low, high = (min(values), max(values)) if values else (1.0, 10.0)
        if not log:
            low = min(low, 0.0) if low >= 0 and low < 0.5 * high else low
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        return cls(low, high, start, end, log)

    def place(self, value: float) -> float:
        low, high, at = (
            (math.log(self.low), math.log(self.high), math.log(value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the axis."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            steps = (1.0, 2.0, 5.0) if last - first < 4 else (1.0,)
            found = [round(step * 10.0**power, 12) for power in range(first, last + 1) for step in steps]
        else:
            raw = (self.high - self.low) / TICKS
            size = 10.0 ** math.floor(math.log10(raw))
            step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= raw)
            first = math.ceil(self.low / step)
            found = [round((first + count) * step, 12) for count in range(2 * TICKS + 2)]
        return [value for value in found if self.low <= value <= self.high]


def _usable(value: float | None, log: bool) -> float | None:
    return None if value is None or not math.isfinite(value) or (log and value <= 0) else value


def _drawn(line: Line, index: int, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    """The line in pieces between its gaps, and its entry in the legend."""
    colour, dash = COLOURS[index % len(COLOURS)], DASHES[index // 2 % len(DASHES)]
    style = f'fill="none" stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
    path, down = "", False
    for x, y in line.points:
        if y is not None:
            path += f"{'L' if down else 'M'}{x_axis.place(x):.1f} {y_axis.place(y):.1f}"
        down = y is not None
    at = TOP + 8 + 18 * index
    beside = WIDTH - RIGHT + 12
    return [
        f'<path d="{path}" {style}/>' if path else "",
        f'<path d="M{beside} {at}h22" {style}/>',
        _text(beside + 28, at + 4, line.name, "start"),
    ]


def _text(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222222"{weight}>{escape(text)}</text>'
