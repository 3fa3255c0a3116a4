"""What kind of job it is, in the words of its pages: passes over chunks and validation, or rounds of units that a model
makes itself, and evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.models import Job
from jobs.services.texts import info_of
from weei_core.model_info import ModelInfo, WorkSource


@dataclass(frozen=True)
class Kind:
    """`source` is None for a dataset job. `info` is None while nobody has run the module yet: what only the module
    tells is then taken as possible, and the server refuses it later if it is not."""

    source: WorkSource | None = None
    info: ModelInfo | None = None

    @property
    def experience(self) -> bool:
        return self.source is not None

    @property
    def reads_data(self) -> bool:
        return self.source is None or self.source.inputs == "dataset"

    @property
    def units(self) -> str:
        """The model's own label, as a heading."""
        return self.source.unit.label if self.source else "Examples"

    @property
    def units_in_text(self) -> str:
        """The same inside a sentence; an abbreviation keeps its capitals."""
        label = self.units
        return label if label[:2].isupper() else label[:1].lower() + label[1:]

    @property
    def evaluation_units(self) -> int:
        """Units that the model makes for each evaluation; 0 for models that cannot, and for those that read data."""
        if self.info is not None:
            return self.info.evaluation_units
        return 0 if self.source is None or self.reads_data else self.source.evaluation_units

    @property
    def splits(self) -> bool:
        """Whether one device can share an assignment among several Workers."""
        return not self.reads_data and (self.info is None or self.info.max_workers > 1)


DATASET = Kind()


def kind_of(job: Job) -> Kind:
    info = info_of(job)
    return Kind(info.work_source, info)


@dataclass(frozen=True)
class Checks:
    """How a job's checkpoints are measured beside training, and what that is called: on a validation file, or on units
    that the model makes for it."""

    possible: bool
    noun: str
    verb: str
    under_way: str


def checks_of(job: Job) -> Checks:
    info = info_of(job)
    possible = info.can_evaluate(validation_file=job.validation_file_id is not None)
    words = ("validation", "Validate", "Validating") if info.reads_data else ("evaluation", "Evaluate", "Evaluating")
    return Checks(possible, *words)
