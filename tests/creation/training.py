"""Participants that really train: the job's module in a jail that is kept for the whole run, on their assignment."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from checkpoints.services.artifacts import artifact_path
from jobs.models import Job
from jobs.services.texts import info_of
from tests.jobs.world import Participant, merge_due, start
from weei_core.abi.requests import DataRange, Units
from weei_core.assignment import Assignment
from weei_core.jail.parent import Jail

NAMES = ("attemptId", "assignmentId", "jobId", "secondsLeft")
"""What an assignment says that its update does not depend on."""


class Trainer:
    """Trains assignments; the same one again gives the same bytes, which are kept so that tests stay quick."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jails: dict[str, Jail] = {}
        self.known: dict[str, tuple[bytes, dict[str, Any]]] = {}

    def close(self) -> None:
        for jail in self.jails.values():
            jail.close()

    def train(self, job: Job, assignment: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        key = json.dumps({name: value for name, value in assignment.items() if name not in NAMES}, sort_keys=True)
        if key not in self.known:
            self.known[key] = self._train(job, assignment)
        return self.known[key]

    def _train(self, job: Job, assignment: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        begin, out = self.folder / "begin", self.folder / "out"
        begin.write_bytes(base64.b64decode(assignment["weights"]["inline"]))
        data, units = assignment["data"], assignment["experience"]
        work = Assignment(
            round=assignment["round"],
            settings=assignment["settings"],
            seed=assignment["seed"],
            info=info_of(job),
            start=begin,
            auxiliary={slot["id"]: artifact_path(slot["sha256"]) for slot in assignment["auxiliary"]},
            data=artifact_path(data["sha256"]) if data else None,
            part=DataRange(data["format"], data.get("recordStart"), data.get("recordCount")) if data else None,
            records=assignment["exampleCount"],
            units=Units(units["seed"], units["unitStart"], units["unitCount"]) if units else None,
            split=assignment["split"],
        )
        found = work.play(self._jail(job.module_id), out)
        counts = {"examplesProcessed": found.examples_processed, "uniqueExamples": found.unique_examples}
        return out.read_bytes(), {"metrics": found.metrics, **counts}

    def _jail(self, module: str) -> Jail:
        if module not in self.jails:
            self.jails[module] = Jail(artifact_path(module))
        return self.jails[module]


class Peers:
    """Some participants of a job that train in turn."""

    def __init__(self, job: Job, trainer: Trainer, count: int = 2, *, workers: int = 1) -> None:
        self.job, self.trainer = job, trainer
        self.members = [Participant(job, workers=workers) for _ in range(count)]

    def start(self) -> Peers:
        start(self.job)
        return self

    def round(self, members: int | None = None) -> None:
        """Everybody trains what they have, the round is merged, and the next is dealt."""
        for member in self.members[:members]:
            assignment = member.assignment
            if assignment:
                body, report = self.trainer.train(self.job, assignment)
                member.upload(assignment, weights=body, **report)
        merge_due(self.job)

    def run(self, rounds: int = 100) -> Job:
        """Up to so many rounds, or to the job's end."""
        for _ in range(rounds):
            if self.job.status == Job.Status.COMPLETED:
                break
            self.round()
        return self.job
