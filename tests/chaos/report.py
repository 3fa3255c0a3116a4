"""The summary of chaos and soak runs: as JSON, as text, and as the tables of docs/reliability.md.

python -m tests.chaos.report SUMMARY.json … writes the tables between the page's markers.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reliability.md"


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def begun(seed: int, kills: int) -> dict[str, Any]:
    now = datetime.now().strftime("%Y-%m-%d %H:%M")
    return {"kind": "chaos", "seed": seed, "kills": kills, "begun": now, "machine": machine(), "faults": []}


def add(summary: dict[str, Any], outcome: dict[str, Any]) -> None:
    summary["faults"].append(outcome)


def end(summary: dict[str, Any], at_the_end: dict[str, list[str]], figures: dict[str, Any], seconds: float) -> None:
    ran = [one for one in summary["faults"] if not one["not_run"]]
    violations = [
        {"step": one["fault"]["step"], "invariant": name, "told": told}
        for one in ran
        for name, found in one["violations"].items()
        for told in found
    ]
    violations += [{"step": None, "invariant": n, "told": told} for n, found in at_the_end.items() for told in found]
    summary |= {
        "seconds": round(seconds, 1),
        "kills_done": sum(one["fault"]["kind"] == "kill" for one in ran),
        "other_faults_done": sum(one["fault"]["kind"] != "kill" for one in ran),
        "not_run": sorted({f"{name(one['fault'])}: {one['not_run']}" for one in summary["faults"] if one["not_run"]}),
        "violations": violations,
        "figures": figures,
    }


def name(fault: dict[str, Any]) -> str:
    return " ".join(filter(None, (fault["kind"], fault["target"], fault["toxic"])))


def groups(summary: dict[str, Any]) -> list[tuple[str, int, float | None, float | None]]:
    """Of each fault that ran: its name, how often, and the middle and the longest recovery in seconds."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in summary["faults"]:
        if not one["not_run"]:
            found[name(one["fault"])].append(one["recovery_seconds"])
    rows = []
    for fault, seconds in sorted(found.items()):
        known = sorted(taken for taken in seconds if taken is not None)
        rows.append((fault, len(seconds), known[len(known) // 2] if known else None, max(known, default=None)))
    return rows


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"


def as_text(summary: dict[str, Any]) -> str:
    figures = summary["figures"]
    parts = [
        f"{summary['kills_done']} kills and {summary['other_faults_done']} other faults in "
        f"{summary['seconds'] / 60:.1f} minutes; {figures['rounds']} rounds, {figures['receipts']} accepted updates.",
        *(f"not run: {reason}" for reason in summary["not_run"]),
        *(f"VIOLATED {one['invariant']} (step {one['step']}): {one['told']}" for one in summary["violations"]),
    ]
    return "\n".join([*parts, f"{len(summary['violations'])} violations"])


def as_failed_seed(summary: dict[str, Any]) -> str:
    first = summary["violations"][0]
    return (
        f"SEED={summary['seed']} KILLS={summary['kills']}  step {first['step']}  {first['invariant']}: {first['told']}"
    )


def chaos_page(summary: dict[str, Any]) -> str:
    """The table of a chaos run."""
    figures = summary["figures"]
    held = "no violation" if not summary["violations"] else f"**{len(summary['violations'])} violations**"
    rounds = " and ".join(f"{count} of {job}" for job, count in figures["rounds"].items())
    said = (
        f"`make chaos SEED={summary['seed']} KILLS={summary['kills']}`, {summary['begun']}, {summary['machine']}: "
        f"{summary['kills_done']} kills and {summary['other_faults_done']} other faults in "
        f"{summary['seconds'] / 60:.0f} minutes, during {rounds} rounds with {figures['receipts']} accepted updates; "
        f"{held}."
    )
    rows = [(fault, count, seconds(middle), seconds(most)) for fault, count, middle, most in groups(summary)]
    missing = "".join(f"\n\nNot run: {reason}." for reason in summary["not_run"])
    return f"{said}\n\n{table(('fault', 'times', 'recovery, middle (s)', 'longest (s)'), rows)}{missing}"


def soak_page(summary: dict[str, Any]) -> str:
    """The table of a soak."""
    held = "no violation" if not summary["violations"] else f"**{len(summary['violations'])} violations**"
    said = (
        f"`make soak MINUTES={summary['seconds'] / 60:g} PEERS={summary['peers']}`, {summary['begun']}, "
        f"{summary['machine']}: {summary['kills']} kills, {summary['rounds']} rounds, {summary['accepted']} accepted "
        f"updates; {held}. Of connections to the machine that was never touched {summary['drops']['spared']} were "
        f"dropped, of those to the other {summary['drops']['killed']}; p99 of a message's way there and back "
        f"{summary['message_ms']['spared']['p99']} ms and {summary['message_ms']['killed']['p99']} ms. Temporary files "
        f"{_change(summary['temporary'])}, database {_change(summary['database_mib'])} MiB."
    )
    rows = [
        (
            one["name"],
            _change(one["rss_mib"]),
            one["most_mib"],
            "killed" if one["slope_mib"] is None else one["slope_mib"],
            _change(one["fds"]),
        )
        for one in summary["processes"]
    ]
    head = ("process", "resident (MiB)", "most", "MiB in ten minutes", "descriptors")
    wrong = "".join(f"\n\nVIOLATED {one['invariant']}: {one['told']}" for one in summary["violations"])
    return f"{said}\n\n{table(head, rows)}{wrong}"


def _change(pair: Sequence[object]) -> str:
    return f"{pair[0]} → {pair[1]}"


def written(folder: Path, summary: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{summary.get('seed', summary['begun'].replace(' ', '-').replace(':', ''))}.json"
    path.write_text(json.dumps(summary, indent=1) + "\n")
    return path


def rendered(page: str, kind: str, text: str) -> str:
    """The page with `text` between the markers of `kind`."""
    begin, finish = f"<!-- {kind}: begin -->\n", f"<!-- {kind}: end -->"
    before, after = page.index(begin) + len(begin), page.index(finish)
    return f"{page[:before]}{text}\n{page[after:]}"


PAGES = {"chaos": chaos_page, "soak": soak_page}


def main(paths: Sequence[str]) -> int:
    page = PAGE.read_text()
    for path in paths:
        summary = json.loads(Path(path).read_text())
        page = rendered(page, summary["kind"], PAGES[summary["kind"]](summary))
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
