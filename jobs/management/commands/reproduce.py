"""`manage.py reproduce NAME`: run a documented experiment again, from its seeds."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs.services.experiments.report import Result
from jobs.services.reproducing import EXPERIMENTS, claims_of, reproduce, save
from weei_core.errors import WeeiError

ALL = "all"


class Command(BaseCommand):
    help = (
        "Runs an experiment of docs/results.md again, or all of them. Exit code 1: a claim does not hold; with "
        "`all` it is 0 once every experiment ran, since the page says what holds."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=[*sorted(EXPERIMENTS), ALL])
        parser.add_argument("--json", action="store_true", dest="as_json", help="everything, as one JSON object a line")
        parser.add_argument("--seed", type=int, action="append", dest="seeds", help="only this one; may be repeated")
        parser.add_argument(
            "--save", action="store_true", help="keep the result in docs/results/ and write docs/results.md anew"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = list(EXPERIMENTS) if options["name"] == ALL else [options["name"]]
        tell = self.stderr.write if options["as_json"] else self._say
        try:
            results = [self._one(name, tell, options) for name in names]
        except WeeiError as error:
            raise CommandError(error.message) from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=130) from None
        if options["name"] != ALL and not all(claim.holds for claim in claims_of(results[0])):
            raise SystemExit(1)

    def _one(self, name: str, tell: Any, options: dict[str, Any]) -> Result:
        study = EXPERIMENTS[name]
        tell(f"{study.title} …")
        result = reproduce(study, tell, options["seeds"])
        if options["as_json"]:
            self.stdout.write(json.dumps(result))
        else:
            for claim in claims_of(result):
                verdict = "Holds" if claim.holds else "Does not hold"
                self._say(f"{verdict}: {claim.text} Note: {claim.note}. Here: {claim.ours}.")
            self._say(f"{result['seconds']} s")
        if options["save"]:
            save(result, Path(settings.BASE_DIR, "docs"))
        return result

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
