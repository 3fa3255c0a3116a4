"""A job's settings: what a person may choose, checked against what the model allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weei_core import js_json
from weei_core.aggregation import AggregationSettings, method_named, parse_aggregation
from weei_core.errors import Invalid
from weei_core.model_info import ModelInfo, allowed_methods
from weei_core.seeds import parse_seed
from weei_core.strict_json import (
    JsonValue,
    as_bool,
    as_choice,
    as_int,
    as_number,
    as_object,
    refuse_unknown,
    shown,
)

MAX_COUNT = 2**31 - 1  # modules read their settings into 32-bit integers
MAX_LEARNING_RATE = 1e6
MAX_WORKERS = 64
MAX_STRAGGLER_FACTOR = 1000.0
DEFAULT_WORKERS = 1
DEFAULT_STRAGGLER_FACTOR = 5.0
MAX_CHECKPOINT_BYTES = 256 * 2**20
CHECKPOINT_METADATA_ROOM = 2**20

_FIELDS = (
    "epochs",
    "rounds",
    "localEpochs",
    "batchSize",
    "learningRate",
    "validationSchedule",
    "coordinatorParticipates",
    "aggregation",
    "experience",
    "workers",
    "seed",
    "stragglerFactor",
)
_REQUIRED = ("localEpochs", "batchSize", "coordinatorParticipates")


@dataclass(frozen=True)
class ValidationSchedule:
    enabled: bool
    unit: str
    """"round" or "epoch"."""
    every: int

    def to_json(self) -> dict[str, JsonValue]:
        return {"enabled": self.enabled, "unit": self.unit, "every": self.every}


@dataclass(frozen=True)
class TrainingSettings:
    """`epochs` are passes over the dataset; rounds for experience jobs, counted from the job's very first."""

    epochs: int
    local_epochs: int
    batch_size: int
    coordinator_participates: bool
    learning_rate: float | None = None
    validation_schedule: ValidationSchedule | None = None
    aggregation: AggregationSettings = field(default_factory=lambda: parse_aggregation(None))
    units_per_assignment: int | None = None
    workers: int = DEFAULT_WORKERS
    seed: str | None = None
    straggler_factor: float = DEFAULT_STRAGGLER_FACTOR
    """How many times the median a slot may take; 0 = no limit."""

    def to_json(self) -> dict[str, JsonValue]:
        """The settings in one form only: `parse_settings` reads it back to an equal value.

        What the founding format does not know stays out while it has its default, so that others read our files.
        """
        schedule, units = self.validation_schedule, self.units_per_assignment
        values: dict[str, JsonValue] = {
            "epochs": self.epochs,
            **self._module_settings(),
            "validationSchedule": None if schedule is None else schedule.to_json(),
            "coordinatorParticipates": self.coordinator_participates,
            "aggregation": self.aggregation.to_json(),
            "experience": None if units is None else {"unitsPerAssignment": units},
            "workers": None if self.workers == DEFAULT_WORKERS else self.workers,
            "seed": self.seed,
            "stragglerFactor": None if self.straggler_factor == DEFAULT_STRAGGLER_FACTOR else self.straggler_factor,
        }
        return {name: value for name, value in values.items() if value is not None}

    def _module_settings(self) -> dict[str, JsonValue]:
        settings: dict[str, JsonValue] = {"localEpochs": self.local_epochs, "batchSize": self.batch_size}
        return settings if self.learning_rate is None else {**settings, "learningRate": self.learning_rate}

    @property
    def text(self) -> str:
        return js_json.dumps(self.to_json())

    @property
    def train_text(self) -> str:
        """The `settings` of a module's request; every host passes exactly these characters on."""
        return js_json.dumps(self._module_settings())


def parse_settings(
    value: object,
    *,
    for_experience: bool,
    info: ModelInfo | None = None,
    continued_from: int | None = None,
    weight_bytes: int | None = None,
    keep_unknown: bool = False,
) -> TrainingSettings:
    """Settings from JSON. `continued_from` is the round of the checkpoint that a continued job starts from.

    `keep_unknown` is for those inside a checkpoint file: fields that nobody here knows are no error there.
    """
    members = as_object(value, "settings")
    if not keep_unknown:
        refuse_unknown(members, "settings", _FIELDS)
    for name in _REQUIRED:
        if name not in members:
            raise Invalid(f"settings.{name} is missing.", field=f"settings.{name}")
    settings = TrainingSettings(
        epochs=_epochs(members),
        local_epochs=as_int(members["localEpochs"], "settings.localEpochs", 1, MAX_COUNT),
        batch_size=as_int(members["batchSize"], "settings.batchSize", 1, MAX_COUNT),
        coordinator_participates=as_bool(members["coordinatorParticipates"], "settings.coordinatorParticipates"),
        **_optional(members),
    )
    settings = _for_kind(settings, for_experience, info)
    _check_rounds_left(settings, for_experience, continued_from)
    if info is not None:
        check_settings_against_model(settings, info, weight_bytes)
    return settings


def _epochs(members: Mapping[str, JsonValue]) -> int:
    """`rounds` is the old name of `epochs`."""
    given = {name: members[name] for name in ("epochs", "rounds") if name in members}
    if not given:
        raise Invalid("settings.epochs is missing.", field="settings.epochs")
    counts = {name: as_int(value, f"settings.{name}", 1, MAX_COUNT) for name, value in given.items()}
    if len(set(counts.values())) > 1:
        raise Invalid(
            f"settings.epochs and settings.rounds, its old name, must be the same; found {counts['epochs']} "
            f"and {counts['rounds']}.",
            field="settings.epochs",
        )
    return next(iter(counts.values()))


def _optional(members: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Those of the optional fields that are given."""
    found: dict[str, Any] = {}
    if "learningRate" in members:
        found["learning_rate"] = as_number(members["learningRate"], "settings.learningRate", 0, MAX_LEARNING_RATE)
    if "validationSchedule" in members:
        found["validation_schedule"] = _schedule(members["validationSchedule"])
    if "aggregation" in members:
        found["aggregation"] = parse_aggregation(as_object(members["aggregation"], "settings.aggregation"))
    if "experience" in members:
        found["units_per_assignment"] = _units(members["experience"])
    if "workers" in members:
        found["workers"] = as_int(members["workers"], "settings.workers", 1, MAX_WORKERS)
    if "seed" in members:
        found["seed"] = str(parse_seed(members["seed"], "settings.seed"))
    if "stragglerFactor" in members:
        factor = as_number(members["stragglerFactor"], "settings.stragglerFactor", 0, MAX_STRAGGLER_FACTOR)
        found["straggler_factor"] = factor
    return found


def _schedule(value: JsonValue) -> ValidationSchedule:
    path = "settings.validationSchedule"
    members = as_object(value, path)
    refuse_unknown(members, path, ("enabled", "unit", "every"))
    return ValidationSchedule(
        enabled=as_bool(members.get("enabled"), f"{path}.enabled"),
        unit=as_choice(members.get("unit"), f"{path}.unit", ("round", "epoch")),
        every=as_int(members.get("every"), f"{path}.every", 1, MAX_COUNT),
    )


def _units(value: JsonValue) -> int:
    path = "settings.experience"
    members = as_object(value, path)
    refuse_unknown(members, path, ("unitsPerAssignment",))
    return as_int(members.get("unitsPerAssignment"), f"{path}.unitsPerAssignment", 1, MAX_COUNT)


def _for_kind(settings: TrainingSettings, for_experience: bool, info: ModelInfo | None) -> TrainingSettings:
    """What only one kind of job has. An experience model's own number of units stands in for one left out."""
    if not for_experience:
        if settings.units_per_assignment is not None:
            raise Invalid(
                "settings.experience belongs to experience jobs; found it in the settings of a dataset job.",
                field="settings.experience",
            )
        return settings
    schedule = settings.validation_schedule
    if schedule and schedule.unit != "round":
        raise Invalid(
            f'settings.validationSchedule.unit must be "round" in experience jobs; found {shown(schedule.unit)}.',
            field="settings.validationSchedule.unit",
        )
    if settings.units_per_assignment is None and info is not None and info.work_source is not None:
        return replace(settings, units_per_assignment=info.work_source.units_per_assignment.default)
    return settings


def _check_rounds_left(settings: TrainingSettings, for_experience: bool, continued_from: int | None) -> None:
    """A continued experience job counts on from its checkpoint: `epochs` is its last round."""
    if for_experience and continued_from is not None and settings.epochs <= continued_from:
        raise Invalid(
            f"settings.epochs must be above {continued_from}, the round of the checkpoint, since it is the last round "
            f"of the job; found {settings.epochs}.",
            field="settings.epochs",
        )


def check_settings_against_model(settings: TrainingSettings, info: ModelInfo, weight_bytes: int | None) -> None:
    """The model allows the method and the units, can evaluate if it shall, and its checkpoints fit into a file."""
    as_choice(settings.aggregation.method, "settings.aggregation.method", allowed_methods(info))
    _check_units(settings, info)
    _check_can_evaluate(settings, info)
    if weight_bytes is not None:
        check_checkpoint_size(settings.aggregation.method, weight_bytes)


def _check_units(settings: TrainingSettings, info: ModelInfo) -> None:
    if info.work_source is not None and settings.units_per_assignment is not None:
        bounds = info.work_source.units_per_assignment
        path = "settings.experience.unitsPerAssignment"
        as_int(settings.units_per_assignment, path, bounds.minimum, min(bounds.maximum, MAX_COUNT))


def _check_can_evaluate(settings: TrainingSettings, info: ModelInfo) -> None:
    schedule = settings.validation_schedule
    if schedule is None or not schedule.enabled:
        return
    lacks = None
    if not info.capabilities.evaluation:
        lacks = "declares no evaluation"
    elif not info.reads_data and not info.evaluation_units:
        lacks = "declares no evaluation units"
    if lacks:
        raise Invalid(
            f"settings.validationSchedule.enabled must be false, since the model {lacks}; found true.",
            field="settings.validationSchedule.enabled",
        )


def check_checkpoint_size(method: str, weight_bytes: int) -> None:
    """Weights, the method's state and 1 MiB of metadata must fit into a checkpoint file."""
    size = weight_bytes * (1 + method_named(method).state_vectors) + CHECKPOINT_METADATA_ROOM
    if size > MAX_CHECKPOINT_BYTES:
        raise Invalid(
            f"settings.aggregation.method must keep checkpoints within {MAX_CHECKPOINT_BYTES} bytes; found that "
            f"{method} makes them {size} bytes for weights of {weight_bytes} bytes.",
            field="settings.aggregation.method",
        )


def changed(
    settings: TrainingSettings,
    patch: Mapping[str, JsonValue],
    *,
    for_experience: bool,
    info: ModelInfo | None = None,
    continued_from: int | None = None,
    weight_bytes: int | None = None,
) -> TrainingSettings:
    """`settings` with the fields of `patch` in place of their own; null takes an optional field away.

    The seed cannot change: what was trained so far came from it.
    """
    refuse_unknown(dict(patch), "settings", _FIELDS)
    if "seed" in patch and patch["seed"] != settings.seed:
        raise Invalid(
            f"settings.seed cannot change once the job exists: it is {shown(settings.seed)}; "
            f"found {shown(patch['seed'])}.",
            field="settings.seed",
        )
    merged = {**settings.to_json(), **patch}
    if "rounds" in patch and "epochs" not in patch:
        del merged["epochs"]
    return parse_settings(
        {name: value for name, value in merged.items() if value is not None},
        for_experience=for_experience,
        info=info,
        continued_from=continued_from,
        weight_bytes=weight_bytes,
    )
