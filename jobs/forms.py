"""The settings form: what a person types, as the settings of the specification. Ranges are checked by weei_core; the
form only reads numbers, knows which option belongs to which method, and asks each kind of job for what it has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.html import format_html

from jobs.selectors.kind import DATASET, Kind
from weei_core.aggregation import METHODS, method_named
from weei_core.errors import Invalid
from weei_core.strict_json import JsonValue
from weei_core.training_settings import MAX_WORKERS

# Path in the settings → field of this form, where the names differ.
_FIELD_OF = {
    "aggregation": "method",
    "aggregation.method": "method",
    "validationSchedule": "validationEnabled",
    "validationSchedule.enabled": "validationEnabled",
    "validationSchedule.unit": "validationUnit",
    "validationSchedule.every": "validationEvery",
}

# Settings whose meaning is the model's own in experience jobs.
_MODEL_DEFINED = {
    "localEpochs": "What the model makes of this is its own; most use 1.",
    "batchSize": "Of one training step. What it counts, the model defines.",
    "learningRate": "Its meaning is the model's. Left empty, the model uses its own default.",
}
DEFAULT_ROUNDS = 30


class _Number(forms.FloatField):
    """A number, shown without the spinner's rounding."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}), **options)


class SettingsForm(forms.Form):
    """As declared here it asks for a dataset job. `from_round` is the round that an experience job goes on from: its
    newest, or that of the checkpoint it begins with."""

    epochs = forms.IntegerField(
        label="Dataset passes", min_value=1, initial=3, help_text="How often every example is trained on."
    )
    localEpochs = forms.IntegerField(
        label="Local epochs",
        min_value=1,
        initial=1,
        help_text="Passes over its chunk that a participant makes in one round. More means fewer transfers and "
        "coarser merges.",
    )
    batchSize = forms.IntegerField(
        label="Batch size", min_value=1, initial=32, help_text="Examples per training step on a device."
    )
    learningRate = _Number(
        label="Learning rate", required=False, help_text="Left empty, the model uses its own default."
    )
    coordinatorParticipates = forms.BooleanField(
        label="This browser trains too",
        required=False,
        initial=True,
        help_text="The browser in which you opened the job takes part like any other.",
    )
    method = forms.ChoiceField(
        label="Merge method",
        choices=[(method.id, method.label) for method in METHODS],
        initial=METHODS[0].id,
        help_text="FedAvg averages and is always safe. FedAvgM can be faster with many small rounds and a small "
        "learning rate; FedAdam too, with a step that fits.",
    )
    serverLearningRate = _Number(
        label="Server learning rate",
        required=False,
        help_text="Size of the merge step. Empty: 1 for FedAvgM, 0.01 for FedAdam.",
    )
    momentum = _Number(label="Momentum", required=False, help_text="Of earlier steps. Empty: 0.9.")
    beta1 = _Number(label="Beta 1", required=False, help_text="Decay of the mean step. Empty: 0.9.")
    beta2 = _Number(label="Beta 2", required=False, help_text="Decay of its square. Empty: 0.99.")
    epsilon = _Number(label="Epsilon", required=False, help_text="Keeps small steps small. Empty: 0.001.")
    validationEnabled = forms.BooleanField(
        label="Validate on a schedule",
        required=False,
        initial=True,
        help_text="Evaluates checkpoints on the validation file while training goes on.",
    )
    validationUnit = forms.ChoiceField(
        label="Counted in", choices=[("round", "rounds"), ("epoch", "dataset passes")], initial="round"
    )
    validationEvery = forms.IntegerField(label="Every", min_value=1, initial=1)
    stragglerFactor = _Number(
        label="Straggler limit",
        initial=5,
        help_text="Work that takes this many times the usual time is given to somebody else. 0: never.",
    )
    seed = forms.CharField(
        label="Seed",
        required=False,
        max_length=20,
        help_text="A whole number. The same seed and the same updates give the same job. Empty: drawn.",
    )

    def __init__(self, *args: Any, kind: Kind = DATASET, from_round: int | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kind = kind
        if kind.experience:
            self._count_rounds(from_round)
            self._let_the_model_define()
            self._evaluate_in_rounds()
        if not kind.reads_data:
            self._ask_for_units()
        if kind.splits:
            self._ask_for_workers()

    def _count_rounds(self, from_round: int | None) -> None:
        epochs = self.fields["epochs"]
        epochs.label = "Rounds"
        epochs.initial = (from_round or 0) + DEFAULT_ROUNDS
        epochs.help_text = "How many times the participants' results are merged."
        if from_round:
            last = int(self.get_initial_for_field(epochs, "epochs"))
            epochs.widget.attrs |= {"data-from-round": from_round}
            epochs.help_text = format_html(
                "The number of the last round. <output data-rounds-left>From round {} on, {} trains {} more.</output>",
                *(from_round, last, max(0, last - from_round)),
            )

    def _let_the_model_define(self) -> None:
        for name, help_text in _MODEL_DEFINED.items():
            self.fields[name].help_text = help_text

    def _evaluate_in_rounds(self) -> None:
        del self.fields["validationUnit"]
        self.fields["validationEvery"].label = "Every (rounds)"
        if self.kind.reads_data:
            return
        if not self.kind.evaluation_units:
            del self.fields["validationEnabled"], self.fields["validationEvery"]
            return
        enabled, every = self.fields["validationEnabled"], self.fields["validationEvery"]
        enabled.label = "Evaluate on a schedule"
        enabled.help_text = (
            f"The server runs the model on {self.kind.evaluation_units} {self.kind.units_in_text}, the same for "
            "every checkpoint, while training goes on."
        )
        every.initial = 5

    def _ask_for_units(self) -> None:
        assert self.kind.source is not None
        bounds = self.kind.source.units_per_assignment
        self.fields["unitsPerAssignment"] = forms.IntegerField(
            label=f"{self.kind.units} per round",
            min_value=bounds.minimum,
            max_value=bounds.maximum,
            initial=bounds.default,
            help_text=f"For each participant, {bounds.minimum:,} to {bounds.maximum:,}. More means fewer transfers and "
            "less chance in each update.",
        )

    def _ask_for_workers(self) -> None:
        most = self.kind.info.max_workers if self.kind.info else None
        self.fields["workers"] = forms.IntegerField(
            label="Workers per device",
            min_value=1,
            max_value=MAX_WORKERS,
            initial=1,
            help_text="Share a participant's part among its processor cores. "
            + (f"The model allows {most}; " if most else "Counts if the model allows several; ")
            + "each device has its own limit too.",
        )

    def settings(self) -> dict[str, JsonValue]:
        """The settings of a cleaned form; options that were left empty are left out."""
        data = self.cleaned_data
        plain = ("epochs", "localEpochs", "batchSize", "coordinatorParticipates", "workers", "stragglerFactor")
        settings: dict[str, JsonValue] = {name: data[name] for name in plain if name in self.fields}
        for name in ("learningRate", "seed"):
            if data.get(name) not in (None, ""):
                settings[name] = data[name]
        if "unitsPerAssignment" in self.fields:
            settings["experience"] = {"unitsPerAssignment": data["unitsPerAssignment"]}
        if "validationEnabled" in self.fields:
            settings["validationSchedule"] = {
                "enabled": data["validationEnabled"],
                "unit": data.get("validationUnit", "round"),
                "every": data["validationEvery"],
            }
        return {**settings, "aggregation": self._aggregation()}

    def _aggregation(self) -> dict[str, JsonValue]:
        method = method_named(self.cleaned_data["method"])
        given = {option.id: self.cleaned_data.get(option.id) for option in method.options}
        return {"method": method.id, **{name: value for name, value in given.items() if value is not None}}

    def refuse(self, error: Invalid) -> None:
        """Put a refusal beside the field it speaks of, or on top."""
        path = (error.field or "").removeprefix("settings.")
        name = _FIELD_OF.get(path, path.rsplit(".", 1)[-1])
        self.add_error(name if name in self.fields else None, error.message)

    def main_fields(self) -> Iterator[forms.BoundField]:
        return self._those("epochs", "unitsPerAssignment", "localEpochs", "batchSize", "learningRate", "workers")

    def validation_fields(self) -> list[forms.BoundField]:
        return list(self._those("validationEnabled", "validationEvery", "validationUnit"))

    def option_fields(self) -> list[tuple[forms.BoundField, str]]:
        """Options of the merge methods, each with the ids of the methods that take it."""
        names = ("serverLearningRate", "momentum", "beta1", "beta2", "epsilon")
        return [(self[name], " ".join(m.id for m in METHODS if name in {o.id for o in m.options})) for name in names]

    def more_fields(self) -> Iterator[forms.BoundField]:
        return self._those("stragglerFactor", "seed")

    def _those(self, *names: str) -> Iterator[forms.BoundField]:
        return (self[name] for name in names if name in self.fields)


def settings_initial(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as the values of the form."""
    schedule = settings.get("validationSchedule") or {}
    nested = {
        "validationEnabled": schedule.get("enabled", False),
        "validationUnit": schedule.get("unit", "round"),
        "validationEvery": schedule.get("every", 1),
    }
    flat = {"stragglerFactor": 5, **settings, **settings.get("aggregation", {"method": "fedavg"})}
    return {**flat, **settings.get("experience", {}), **nested}


class ContinueForm(SettingsForm):
    """The settings of a job that begins with a checkpoint. The round of one in a file nobody knows yet."""

    def __init__(self, *args: Any, from_round: int | None = None, **options: Any) -> None:
        super().__init__(*args, from_round=from_round, **options)
        self._from_round = from_round or 0
        if self.kind.experience and not from_round:
            self.fields[
                "epochs"
            ].help_text = "The number of the last round: a checkpoint of round 397 with 500 trains 103 more."

    def clean_epochs(self) -> int:
        last: int = self.cleaned_data["epochs"]
        if self.kind.experience and last <= self._from_round:
            raise forms.ValidationError(
                f"The checkpoint is of round {self._from_round}: the last round must be above it; found {last}."
            )
        return last


class JobSettingsForm(SettingsForm):
    """The settings of a job that exists: its seed cannot change."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        del self.fields["seed"]

    def patch(self, old: dict[str, Any]) -> dict[str, Any]:
        """What to change; null takes away a learning rate that was there."""
        new: dict[str, Any] = self.settings()
        if "learningRate" in old and "learningRate" not in new:
            new["learningRate"] = None
        return new


class InvitationForm(forms.Form):
    uses = forms.IntegerField(min_value=1, max_value=10_000, initial=1)
    days = forms.IntegerField(min_value=1, max_value=365, initial=7)

    def expires_at(self) -> datetime:
        return timezone.now() + timedelta(days=self.cleaned_data["days"])


class AdviceForm(forms.Form):
    """What the browser can tell about files that are chosen and not uploaded yet."""

    chunks = forms.IntegerField(min_value=0, max_value=10_000, required=False)
    largestExamples = forms.IntegerField(min_value=0, required=False)
    hasValidation = forms.BooleanField(required=False)


class DeleteForm(forms.Form):
    """The name of the job, typed out."""

    confirmation = forms.CharField(max_length=200)

    def __init__(self, *args: Any, name: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._name = name

    def clean_confirmation(self) -> str:
        if self.cleaned_data["confirmation"].strip() != self._name.strip():
            raise forms.ValidationError("This is not the name of the job. Nothing was deleted.")
        return self._name
