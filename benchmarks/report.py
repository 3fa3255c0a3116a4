"""`python -m benchmarks.report`: the table in docs/performance.md, from benchmarks/latest.json.

What a figure is short of its goal for, people write here: a figure that misses without a reason fails a test.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks import latest

PAGE = latest.FILE.parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- figures: written by python -m benchmarks.report -->", "<!-- end of figures -->"

REASONS: Mapping[str, str] = {
    "aggregation": (
        "at least 1 is asked for, 2 is the goal. Flower adds up arrays that are in memory; of our 34 ms on two cores "
        "about half is work that it does not do at all: 268 MB out of the page cache, the result into it, and its "
        "SHA-256. The sums themselves run in float64, so that no order of arrival changes a bit."
    ),
    "training_browser": (
        "the kernel does about what 128 bits with separate multiply and add can; PyTorch's uses AVX-512 and fused "
        "operations, which WebAssembly has only as relaxed SIMD, whose results differ between machines."
    ),
}
"""By the figure's name: why it misses its goal, and what the limit is now."""


def main() -> int:
    text = rendered(PAGE.read_text(encoding="utf-8"), latest.read())
    aside = PAGE.with_suffix(".part")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, PAGE)
    return 0


def rendered(page: str, results: latest.Results) -> str:
    """The page with these results between its marks."""
    between = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.S)
    body = f"{BEGIN}\n\n{_machine(results)}\n\n{_table(results)}{_misses(results)}\n{END}"
    return between.sub(lambda _: body, page)


def _machine(results: latest.Results) -> str:
    machine, figures = results["machine"], results["figures"]
    dates = sorted({figure["date"] for figure in figures})
    commits = sorted({figure["commit"] or "no checkout" for figure in figures})
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"Measured on {machine['cpu']}, {machine['cores']} cores, {machine['memoryGiB']} GiB, {machine['kernel']}; "
        f"{' to '.join(dict.fromkeys([dates[0], dates[-1]]))}; commit {', '.join(commits)}. {versions}."
    )


def _table(results: latest.Results) -> str:
    columns = ["figure", "value", "beside", "its value", "ratio", "goal", "met"]
    rows = [columns, ["---", "---:", "---", "---:", "---:", "---:", "---"], *map(_cells, results["figures"])]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _cells(figure: Mapping[str, Any]) -> list[str]:
    unit = f" {figure['unit']}" if figure["unit"] else ""
    alone = figure["ratio"] is None
    goal, met = "", "**no**" if figure["missed"] else ""
    if figure["goal"] is not None:
        sign = "≥" if figure["moreIsBetter"] else "≤"
        least_or_most = f"{sign} {_number(figure['goal'])}"
        goal = f"{least_or_most}{unit.partition(',')[0]}" if alone else f"ratio {least_or_most}"
        met = met or "yes"
    return [
        f"`{figure['name']}`",
        "–" if figure["value"] is None else f"{_number(figure['value'])}{unit}",
        (figure["peer"] or "").replace("|", "\\|"),
        "" if figure["peer_value"] is None else f"{_number(figure['peer_value'])}{unit}",
        "" if alone else f"{figure['ratio']:g}",
        goal,
        met,
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _misses(results: latest.Results) -> str:
    missed = [figure["name"] for figure in results["figures"] if figure["missed"]]
    lines = [f"- `{name}`: {REASONS.get(name, 'nobody has said why yet.')}" for name in missed]
    return "\n" + "\n".join(["Where a goal is missed:", "", *lines]) + "\n" if lines else ""


if __name__ == "__main__":
    sys.exit(main())
