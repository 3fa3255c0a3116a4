"""`manage.py simulate SOURCE`: a job's rounds at full speed in this process, without a network."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from jobs.management.named import job_named
from jobs.services.simulated_work import Standing
from jobs.services.simulating import Simulated
from jobs.services.simulation_inputs import Inputs, inputs_of_folder, inputs_of_job
from jobs.services.simulation_run import Begun, Wish, simulation_run
from weei_core import strict_json
from weei_core.errors import Invalid, WeeiError
from weei_core.seeds import parse_seed


class Command(BaseCommand):
    help = (
        "Trains a model package or a job as N participants would who never leave: same dealing, seeds, merging and "
        "evaluation, without a network. For the same members its checkpoints are byte for byte those of a job."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("source", help="a folder with a model package and its files, or the id of a job on this server")
        add("--participants", type=_whole, default=2, metavar="N", help="default: %(default)s")
        add("--workers", type=_whole, default=1, metavar="N", dest="device", help="of each participant's device")
        end = parser.add_mutually_exclusive_group()
        end.add_argument("--passes", type=_whole, metavar="N", help="end after N passes over the data")
        end.add_argument("--rounds", type=_whole, metavar="N", help="end after N rounds")
        add(
            "--set",
            type=_setting,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a setting in place of the package's own, e.g. learningRate=0.001 or aggregation.method=fedavgm; null "
            "takes one away; may be repeated",
        )
        add("--seed", type=_seed, help="the job seed (default: the job's own, the settings', or a random one)")
        add("--shuffle", action="store_true", help="shuffle the chunks once before the first round")
        add("--processes", type=_whole, metavar="N", help="children at once (default: one for each core)")
        add("--out", type=Path, metavar="DIR", help="write the last checkpoint there, as a .weei-checkpoint file")
        add("--all", action="store_true", dest="every", help="with --out: write every checkpoint")
        add("--json", action="store_true", dest="as_json", help="one JSON object a line")

    def handle(self, *args: Any, **options: Any) -> None:
        tell = self._tell_json if options["as_json"] else self._tell_person
        self._last = -1
        try:
            inputs = _inputs(options["source"])
            files = simulation_run(inputs, _wish(options, inputs), tell)
        except WeeiError as error:
            raise CommandError(error.message) from None
        except OSError as error:
            raise CommandError(f"{error.filename or 'A file'} cannot be used: {error.strerror}.") from None
        except KeyboardInterrupt:
            done = f"after round {self._last}" if self._last >= 0 else "before the first checkpoint"
            raise CommandError(f"Interrupted {done}.", returncode=130) from None
        names = [str(path) for path in files]
        if options["as_json"]:
            self.stdout.write(json.dumps({"event": "finished", "files": names}))
        elif names:
            self.stdout.write(f"Written: {names[-1]}" + (f" and {len(names) - 1} more" if len(names) > 1 else ""))

    def _tell_json(self, what: Begun | Simulated) -> None:
        self.stdout.write(json.dumps(begun_json(what) if isinstance(what, Begun) else made_json(what)))
        self.stdout.flush()
        self._last = self._last if isinstance(what, Begun) else what.round

    def _tell_person(self, what: Begun | Simulated) -> None:
        if isinstance(what, Begun):
            self.stdout.write(f"{what.name}: {what.participants} participants, job seed {what.seed}")
            for advice in what.advice:
                self.stdout.write(f"Note: {advice.text}")
            return
        self.stdout.write(made_text(what))
        self.stdout.flush()
        self._last = what.round


def begun_json(what: Begun) -> dict[str, Any]:
    return {
        "event": "started",
        "name": what.name,
        "seed": str(what.seed),
        "participants": what.participants,
        "settings": what.settings,
        "advice": [{"code": advice.code, "text": advice.text} for advice in what.advice],
    }


def made_json(made: Simulated) -> dict[str, Any]:
    return {
        "event": "checkpoint",
        "round": made.round,
        "passes": made.standing.passes if made.standing else 0,
        "sha256": made.sha256,
        "uniqueExamples": made.units,
        "metrics": made.metrics,
        "evaluation": made.evaluation,
        "seconds": round(made.seconds, 3),
    }


def made_text(made: Simulated) -> str:
    """`Round 3 (pass 1): loss 1.23, accuracy 0.8; evaluated: loss 1.3; 625 in 1.2 s`"""
    if made.standing is None:
        parts = ["Initial weights"]
    else:
        parts = [f"Round {made.round}{_pass_text(made.standing)}: {_metrics_text(made.metrics)}"]
    if made.evaluation is not None:
        parts.append(f"evaluated: {_metrics_text(made.evaluation)}")
    if made.units:
        parts.append(f"{made.units} examples in {made.seconds:.1f} s")
    return "; ".join(parts)


def _pass_text(standing: Standing) -> str:
    return f" (pass {standing.progress.pass_no + 1})" if standing.progress else ""


def _metrics_text(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items()) or "no metrics"


def _inputs(source: str) -> Inputs:
    """A folder of that name goes before a job of that id."""
    folder = Path(source)
    if not folder.is_dir():
        try:
            UUID(source)
        except ValueError:
            raise Invalid(f"{source} is neither a folder nor the id of a job.", field="source") from None
        return inputs_of_job(job_named(source))
    return inputs_of_folder(folder)


def _wish(options: dict[str, Any], inputs: Inputs) -> Wish:
    return Wish(
        participants=options["participants"],
        device=options["device"],
        passes=options["passes"],
        rounds=options["rounds"],
        changes=_changes(inputs.settings, options["set"]),
        seed=options["seed"],
        shuffled=options["shuffle"],
        processes=options["processes"],
        out=options["out"],
        every=options["every"],
    )


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number from 1; found {text!r}")
    return int(text)


def _seed(text: str) -> int:
    try:
        return parse_seed(text, "--seed")
    except Invalid as error:
        raise ArgumentTypeError(error.message) from None


def _setting(text: str) -> tuple[list[str], Any]:
    """The path of the setting and its value: JSON, and a bare word is a text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"must be NAME=VALUE; found {text!r}")
    try:
        return name.split("."), strict_json.loads(value, what=name)
    except Invalid:
        return name.split("."), value


def _changes(settings: Mapping[str, Any], given: Sequence[tuple[list[str], Any]]) -> dict[str, Any]:
    """Top-level settings with the given values in them: `aggregation.method` leaves the rest of `aggregation`."""
    changed: dict[str, Any] = {}
    for (first, *rest), value in given:
        if not rest:
            changed[first] = value
            continue
        at = changed.setdefault(first, dict(settings.get(first) or {}))
        for step in rest[:-1]:
            at = at.setdefault(step, {})
        at[rest[-1]] = value
    return changed
