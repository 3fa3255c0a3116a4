"""`manage.py verify_store`: read every artifact and compare it with the hash that it is named by."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints.services.verifying import artifacts_verify
from weei_core.errors import Unavailable


class Command(BaseCommand):
    help = (
        "Reads every stored artifact anew and compares it with its SHA-256, as after a restore. Says which are missing "
        "or damaged. Exit code 1: at least one is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON object a line, and a sum")

    def handle(self, *args: Any, **options: Any) -> None:
        count = size = damaged = 0
        try:
            for found in artifacts_verify():
                count, size, damaged = count + 1, size + found.bytes, damaged + bool(found.problem)
                if found.problem and not options["as_json"]:
                    self.stdout.write(f"DAMAGED {found.problem}")
                elif options["as_json"]:
                    line = {"sha256": found.sha256, "bytes": found.bytes, "problem": found.problem or None}
                    self.stdout.write(json.dumps(line))
        except Unavailable as error:
            raise CommandError(f"After {count} artifacts: {error.message}") from None
        if options["as_json"]:
            self.stdout.write(json.dumps({"artifacts": count, "bytes": size, "damaged": damaged}))
        else:
            self.stdout.write(f"{count} artifacts, {size} bytes: {f'{damaged} DAMAGED' if damaged else 'all whole'}")
        if damaged:
            raise SystemExit(1)
