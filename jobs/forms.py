"""The settings form: what a person types, as the settings of the specification. Ranges are checked by weei_core; the
form only reads numbers and knows which option belongs to which method."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from weei_core.aggregation import METHODS, method_named
from weei_core.errors import Invalid
from weei_core.strict_json import JsonValue

# Path in the settings → field of this form, where the names differ.
_FIELD_OF = {
    "aggregation": "method",
    "aggregation.method": "method",
    "validationSchedule": "validationEnabled",
    "validationSchedule.enabled": "validationEnabled",
    "validationSchedule.unit": "validationUnit",
    "validationSchedule.every": "validationEvery",
}


class _Number(forms.FloatField):
    """A number, shown without the spinner's rounding."""

    def __init__(self, **options: Any) -> None:
        super().__init__(widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}), **options)


class SettingsForm(forms.Form):
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
        help_text="FedAvg averages and is always safe. FedAvgM and FedAdam can be faster with many small rounds.",
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
    workers = forms.IntegerField(
        label="Workers per device",
        min_value=1,
        max_value=64,
        initial=1,
        help_text="Only models that make their own data use more than one.",
    )
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

    def settings(self) -> dict[str, JsonValue]:
        """The settings of a cleaned form; options that were left empty are left out."""
        data = self.cleaned_data
        plain = ("epochs", "localEpochs", "batchSize", "coordinatorParticipates", "workers", "stragglerFactor")
        settings: dict[str, JsonValue] = {name: data[name] for name in plain}
        for name in ("learningRate", "seed"):
            if data.get(name) not in (None, ""):
                settings[name] = data[name]
        return {
            **settings,
            "aggregation": self._aggregation(),
            "validationSchedule": {
                "enabled": data["validationEnabled"],
                "unit": data["validationUnit"],
                "every": data["validationEvery"],
            },
        }

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
        return (self[name] for name in ("epochs", "localEpochs", "batchSize", "learningRate"))

    def option_fields(self) -> list[tuple[forms.BoundField, str]]:
        """Options of the merge methods, each with the ids of the methods that take it."""
        names = ("serverLearningRate", "momentum", "beta1", "beta2", "epsilon")
        return [(self[name], " ".join(m.id for m in METHODS if name in {o.id for o in m.options})) for name in names]

    def more_fields(self) -> Iterator[forms.BoundField]:
        return (self[name] for name in ("workers", "stragglerFactor", "seed") if name in self.fields)


def settings_initial(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as the values of the form."""
    schedule = settings.get("validationSchedule") or {}
    nested = {
        "validationEnabled": schedule.get("enabled", False),
        "validationUnit": schedule.get("unit", "round"),
        "validationEvery": schedule.get("every", 1),
    }
    flat = {"workers": 1, "stragglerFactor": 5, **settings, **settings.get("aggregation", {"method": "fedavg"})}
    return {**flat, **nested}


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
