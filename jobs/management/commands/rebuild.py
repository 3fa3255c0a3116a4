"""`manage.py rebuild JOB`: make checkpoints again from their ledgers and compare them with what is stored."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from jobs.models import Job
from jobs.services.rebuilding import Verdict, checkpoints_rebuild
from weei_core.errors import NotFound

SAID = {
    "initial": "made again from its seed",
    "file": "taken from a checkpoint file, whose bytes are whole",
    "": "not made again",
}


class Command(BaseCommand):
    help = (
        "Trains every update of a checkpoint again, as its ledger says, merges them and compares the hashes. "
        "Exit code 1: something differs, or cannot be made again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job", help="the job's id")
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--round", type=int, dest="round_no", help="the checkpoint of this round (default: the last)"
        )
        which.add_argument("--all", action="store_true", dest="every", help="every checkpoint of the job, in order")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON object a line")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            job = Job.objects.filter(pk=options["job"]).first()
        except ValidationError:
            job = None
        if job is None:
            raise CommandError(f"There is no job {options['job']}.")
        equal = True
        try:
            for verdict in checkpoints_rebuild(job, round_no=options["round_no"], every=options["every"]):
                equal = equal and verdict.equal
                self.stdout.write(as_json(verdict) if options["as_json"] else as_text(verdict))
        except NotFound as error:
            raise CommandError(error.message) from None
        if not equal:
            raise SystemExit(1)


def as_text(verdict: Verdict) -> str:
    how = f"{verdict.updates} updates trained again" if verdict.made == "trained" else SAID[verdict.made]
    if verdict.equal:
        return f"Round {verdict.round}: equal ({how})"
    return f"Round {verdict.round}: DIFFERENT ({how}): {'; '.join(verdict.differences)}"


def as_json(verdict: Verdict) -> str:
    return json.dumps(
        {
            "round": verdict.round,
            "equal": verdict.equal,
            "made": verdict.made,
            "updates": verdict.updates,
            "differences": verdict.differences,
        }
    )
