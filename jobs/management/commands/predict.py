"""`manage.py predict JOB`: what a job's model answers with one of its checkpoints."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs.management.named import job_named
from jobs.services.predicting import prediction_run
from weei_core import js_json
from weei_core.errors import WeeiError
from weei_core.prediction import prediction_input, shown_output


class Command(BaseCommand):
    help = "Asks the model of a job, with the weights of one of its checkpoints. The module runs in the jail."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job", help="the job's id")
        parser.add_argument(
            "--round", type=int, dest="round_no", help="the checkpoint of this round (default: the last)"
        )
        parser.add_argument("--input", dest="input_text", metavar="JSON", help="the `input` of the module's predict")
        parser.add_argument(
            "--text", help='a text to continue: short for --input \'{"text": …, "temperature": 0}\', or goes into it'
        )
        parser.add_argument("--json", action="store_true", dest="as_json", help="the whole output, as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            asked = prediction_input(options["input_text"], options["text"])
            output = prediction_run(job_named(options["job"]), asked, round_no=options["round_no"])
        except WeeiError as error:
            raise CommandError(error.message) from None
        self.stdout.write(js_json.dumps(output) if options["as_json"] else shown_output(output))
