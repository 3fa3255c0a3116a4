"""Experiments that anybody can run again, and docs/results.md, which says what they found beside what was claimed.

Nothing here is drawn anew: the same code gives the same curves on every machine. Only seconds and `machine` differ.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jobs.services.experiments.arithmetic import ArithmeticStudy
from jobs.services.experiments.charts import svg
from jobs.services.experiments.grpo import Grpo
from jobs.services.experiments.methods import Methods
from jobs.services.experiments.momentum_trap import MomentumTrap
from jobs.services.experiments.play import CARTPOLE, GAME
from jobs.services.experiments.report import Claim, Report, Result, Study, Tell, claims_table, markdown_table

_STUDIES: Sequence[Study] = (Methods(), ArithmeticStudy(), MomentumTrap(), CARTPOLE, GAME, Grpo())
EXPERIMENTS: dict[str, Study] = {study.name: study for study in _STUDIES}
"""In the order of the page."""

FOLDER = "results"


def reproduce(study: Study, tell: Tell, seeds: Sequence[int] | None = None) -> dict[str, Any]:
    """Every run, whatever it shows."""
    begun = time.monotonic()
    found = study.run(tell, seeds)
    return {
        "name": study.name,
        "title": study.title,
        **found,
        "seconds": round(time.monotonic() - begun, 1),
        "machine": machine(),
    }


def claims_of(result: Result) -> Sequence[Claim]:
    return EXPERIMENTS[result["name"]].report(result).claims


def machine() -> dict[str, str | int]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "wasmtime": version("wasmtime"),
    }


def _processor() -> str:
    """Its name as Linux tells it; other systems know it themselves."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def save(result: Result, docs: Path) -> None:
    """Keep the result, and write its charts and the page of all results anew."""
    folder = docs / FOLDER
    folder.mkdir(exist_ok=True)
    folder.joinpath(f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    write_page(docs)


def write_page(docs: Path) -> None:
    """docs/results.md and the charts, out of what is kept."""
    folder = docs / FOLDER
    kept = kept_results(folder)
    for result in kept:
        for name, text in charts_of(result).items():
            folder.joinpath(name).write_text(text, encoding="utf-8")
    docs.joinpath("results.md").write_text(results_page(kept), encoding="utf-8")


def kept_results(folder: Path) -> list[dict[str, Any]]:
    paths = [folder / f"{name}.json" for name in EXPERIMENTS]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def charts_of(result: Result) -> dict[str, str]:
    """SVG by file name."""
    return {f"{name}.svg": svg(chart) for name, chart in EXPERIMENTS[result["name"]].report(result).charts.items()}


def results_page(results: Sequence[Result]) -> str:
    """docs/results.md."""
    reports = [(result, EXPERIMENTS[result["name"]].report(result)) for result in results]
    every = [claim for _, report in reports for claim in report.claims]
    minutes = sum(result["seconds"] for result in results) / 60
    head = (
        "# Results\n\n"
        "What the founding note reports, and what came out here. Each section is one command, "
        "`manage.py reproduce NAME --json`;\n`make results` runs them all and writes this page. Curves depend on "
        "nothing but the seed; only the seconds are the machine's.\n"
        "A figure that does not match is there as it is.\n\n"
        f"{_machines(results)} All together took {minutes:.0f} minutes.\n\n"
        "## Claims\n\n"
    )
    sections = [_section(result, report) for result, report in reports]
    return "\n\n".join([head + markdown_table(claims_table(every)), *sections]) + "\n"


def _machines(results: Sequence[Result]) -> str:
    told = dict.fromkeys(_machine_text(result["machine"]) for result in results)
    return "Run on " + "; ".join(told) + "."


def _machine_text(where: Mapping[str, Any]) -> str:
    processor = f", {where['processor']}" if "processor" in where else ""
    return f"{where['system']}{processor}, {where['cores']} cores, wasmtime {where['wasmtime']}"


def _section(result: Result, report: Report) -> str:
    parts = [f"## {result['title']}", f"`manage.py reproduce {result['name']}` ({result['seconds']:.0f} s)"]
    if report.about:
        parts.append(report.about)
    parts.append(markdown_table(claims_table(report.claims)))
    parts += [f"![{chart.title}]({FOLDER}/{name}.svg)" for name, chart in report.charts.items()]
    parts += [markdown_table(table) for table in report.tables]
    parts += report.remarks
    return "\n\n".join(parts)
