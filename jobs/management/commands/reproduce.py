"""`manage.py reproduce NAME`: run a documented experiment again, from its seeds."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from jobs.services.reproducing import EXPERIMENTS, reproduce, results_page


class Command(BaseCommand):
    help = "Runs an experiment of docs/results.md again. Exit code 1: too few of its runs show what it claims."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=sorted(EXPERIMENTS))
        parser.add_argument("--json", action="store_true", dest="as_json", help="everything, as one JSON object")
        parser.add_argument("--seed", type=int, action="append", dest="seeds", help="only this one; may be repeated")
        parser.add_argument(
            "--save", action="store_true", help="keep the result in docs/results/ and write docs/results.md anew"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        experiment = EXPERIMENTS[options["name"]]
        tell = self.stderr.write if options["as_json"] else self.stdout.write
        result = reproduce(experiment, tell, options["seeds"])
        if options["as_json"]:
            self.stdout.write(json.dumps(result))
        else:
            self.stdout.write(
                f"{result['reached']} of {len(result['runs'])} runs reached it, {result['needed']} are needed. "
                f"{result['seconds']} s."
            )
        if options["save"]:
            save(result, Path(settings.BASE_DIR, "docs"))
        if result["reached"] < result["needed"]:
            raise SystemExit(1)


def save(result: dict[str, Any], docs: Path) -> None:
    folder = docs / "results"
    folder.mkdir(exist_ok=True)
    folder.joinpath(f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    docs.joinpath("results.md").write_text(results_page(kept), encoding="utf-8")
