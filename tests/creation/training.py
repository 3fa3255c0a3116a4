"""Participants that really train: the digits module in one jail for the whole run, on what their assignment says."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

from checkpoints.services.artifacts import artifact_path
from jobs.models import Job
from tests.creation.making import DIGITS
from tests.jobs.world import Participant, merge_due, start
from weei_core import strict_json
from weei_core.jail.parent import InputFile, Jail


class Trainer:
    """Trains assignments; the same one again gives the same bytes, which are kept so that tests stay quick."""

    def __init__(self, folder: Path) -> None:
        self.jail = Jail(DIGITS / "digits.wasm")
        self.folder = folder
        self.known: dict[tuple[Any, ...], tuple[bytes, dict[str, Any]]] = {}

    def train(self, assignment: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        data, weights = assignment["data"], assignment["weights"]["inline"]
        key = (weights, assignment["round"], assignment["seed"], assignment["settings"], *sorted(data.items()))
        if key not in self.known:
            self.known[key] = self._train(assignment, base64.b64decode(weights))
        return self.known[key]

    def _train(self, assignment: dict[str, Any], weights: bytes) -> tuple[bytes, dict[str, Any]]:
        before = self.folder / "weights"
        before.write_bytes(weights)
        data = assignment["data"]
        part = (
            {"record_start": data["recordStart"], "record_count": data["recordCount"]} if "recordStart" in data else {}
        )
        work = {
            "settings": assignment["settings"],
            "round": assignment["round"],
            "seed": assignment["seed"],
            "data": {"format": data["format"], **part},
        }
        inputs = {"weights": InputFile(before), "data": InputFile(artifact_path(data["sha256"]))}
        with tempfile.TemporaryFile() as out:
            outcome = self.jail.run({"operation": "train", "work": work}, inputs, {"weightsOut": out})
            out.seek(0)
            result = strict_json.as_object(strict_json.loads(str(outcome["result"])), "result")
            kept = ("metrics", "examplesProcessed", "uniqueExamples")
            return out.read(), {name: result[name] for name in kept}


class Peers:
    """Some participants of a job that train in turn."""

    def __init__(self, job: Job, trainer: Trainer, count: int = 2) -> None:
        self.job, self.trainer = job, trainer
        self.members = [Participant(job) for _ in range(count)]

    def start(self) -> Peers:
        start(self.job)
        return self

    def round(self, members: int | None = None) -> None:
        """Everybody trains what they have, the round is merged, and the next is dealt."""
        for member in self.members[:members]:
            assignment = member.assignment
            if assignment:
                body, report = self.trainer.train(assignment)
                member.upload(assignment, weights=body, **report)
        merge_due(self.job)

    def run(self, rounds: int = 100) -> Job:
        """Up to so many rounds, or to the job's end."""
        for _ in range(rounds):
            if self.job.status == Job.Status.COMPLETED:
                break
            self.round()
        return self.job
