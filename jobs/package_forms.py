"""The form of the package generator: what a person types, as `PackageRequest` reads it, and back. Ranges, and what
belongs together, are checked by weei_core; the form only knows which fields a kind of data has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from django import forms

from weei_core.errors import Invalid
from weei_core.generator.inspection.found import Found
from weei_core.generator.request import PackageRequest
from weei_core.generator.suggestion import estimated
from weei_core.strict_json import JsonValue

MOST_BOXES = 40
"""Columns that are offered one by one; of wider tables every column of numbers is an input."""

# Field of this form → its place in the request.
PLACES = {
    "name": "name",
    **{name: f"data.{name}" for name in ("records", "prompt", "answer", "text", "label", "task", "columns", "x", "y")},
    **{"imageWidth": "data.width", "imageHeight": "data.height", "channels": "data.channels"},
    **{"delimiter": "data.delimiter"},
    **{"hiddenLayers": "architecture.hidden", "activation": "architecture.activation"},
    **{name: f"architecture.{name}" for name in ("context", "layers", "heads", "width", "hidden")},
    **{"tokenizer": "tokenizer.kind", "merges": "tokenizer.merges", "base": "tokenizer.base"},
    **{"endToken": "tokenizer.endToken", "specials": "tokenizer.specials"},
    **{"recordsPerChunk": "chunking.recordsPerChunk", "validationPercent": "chunking.validationShare"},
    "chunkSeed": "chunking.seed",
    **{name: f"training.{name}" for name in ("batchSize", "localEpochs", "epochs", "learningRate")},
    **{name: f"training.{name}" for name in ("optimizer", "weightDecay", "clipNorm", "participants")},
}
_TEXT = ("context", "layers", "heads", "width", "hidden", "tokenizer", "merges", "base", "endToken", "specials")
_TABLE = ("hiddenLayers", "activation")
FIELDS_OF = {
    "text": ("records", *_TEXT),
    "jsonl": ("parts", "prompt", "answer", "text", *_TEXT),
    "csv": ("label", "task", "columns", "delimiter", *_TABLE),
    "npz": ("x", "y", "task", *_TABLE),
    "images": ("imageWidth", "imageHeight", "channels", *_TABLE),
}
COMMON = ("recordsPerChunk", "validationPercent", "chunkSeed", "batchSize", "localEpochs", "epochs", "learningRate")
COMMON_TOO = ("optimizer", "weightDecay", "clipNorm", "participants", "name")


def _whole(label: str, help_text: str = "", *, required: bool = True) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        help_text=help_text,
        required=required,
        widget=forms.NumberInput(attrs={"inputmode": "numeric"}),
    )


def _number(label: str, help_text: str = "", *, required: bool = True) -> forms.FloatField:
    widget = forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"})
    return forms.FloatField(label=label, help_text=help_text, required=required, widget=widget)


def _choice(label: str, help_text: str, *choices: tuple[str, str]) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, help_text=help_text, choices=choices)


class Sizes(NamedTuple):
    """Of the model, about: in weights, in bytes, and bytes of memory that a training takes on a device."""

    parameter_count: int
    weight_bytes: int
    memory_bytes: int


def _sizes(request: PackageRequest, found: Found) -> Sizes:
    architecture, chunk_bytes = estimated(request, found)
    memory = architecture.memory_bytes(request.training.batch_size, chunk_bytes)
    return Sizes(architecture.parameter_count, architecture.weight_bytes, memory)


class PackageForm(forms.Form):
    """Always bound: to what was sent, or to a request (`form_of`). Valid, it has `request` and `sizes`."""

    name = forms.CharField(label="Name of the model", max_length=120, help_text="Participants see it.")
    # Data
    records = _choice(
        "Records",
        "Windows suit prose; lines suit lists, where each line stands for itself.",
        ("windows", "Windows over the whole text"),
        ("lines", "One record for each line"),
    )
    parts = _choice(
        "A record is",
        "Of a question with its answer only the answer is trained on.",
        ("pair", "a question and its answer"),
        ("text", "a whole text"),
    )
    prompt = forms.ChoiceField(label="Field with the question", required=False)
    answer = forms.ChoiceField(label="Field with the answer", required=False)
    text = forms.ChoiceField(label="Field with the text", required=False)
    label = forms.ChoiceField(label="Label column", help_text="What the model learns to tell from the other columns.")
    x = forms.ChoiceField(label="Array of inputs", help_text="Records first.")
    y = forms.ChoiceField(label="Array of labels or targets")
    task = _choice(
        "The label is",
        "A class is one of a few names; a quantity is a number with a size.",
        ("classification", "a class"),
        ("regression", "a quantity"),
    )
    columns = forms.MultipleChoiceField(
        label="Input columns",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Columns of numbers. A number that only counts the rows, or repeats the label, does harm.",
    )
    delimiter = forms.CharField(widget=forms.HiddenInput)
    imageWidth = _whole("Width in pixels", "All pictures are brought to this size.")
    imageHeight = _whole("Height in pixels")
    channels = _choice("Colours", "Grey pictures make a third of the data.", ("1", "grey"), ("3", "red, green, blue"))
    # Architecture
    hiddenLayers = forms.CharField(
        label="Hidden layers",
        required=False,
        max_length=200,
        help_text="Widths from the first layer to the last, parted by commas. Empty: a linear model.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "inputmode": "text"}),
    )
    activation = _choice("Activation", "Between the layers.", ("relu", "ReLU"), ("gelu", "GELU"), ("tanh", "tanh"))
    context = _whole("Context", "Tokens that the model sees at once.")
    layers = _whole("Layers", "Blocks of attention and a perceptron.")
    heads = _whole("Heads", "Of attention; the width must be a multiple of them.")
    width = _whole("Width", "Numbers for each token between the layers.")
    hidden = _whole("Hidden width", "Of the perceptron in each layer; usually four times the width.")
    # Tokenizer
    tokenizer = _choice(
        "Tokens are",
        "What text is cut into. For arithmetic, one token for each character; for prose, pairs that are joined.",
        ("bytes", "bytes: works for every text"),
        ("characters", "characters of the data"),
        ("bpe", "joined pairs (BPE)"),
    )
    merges = _whole("Merges", "How many joined pairs are learned. 0: none are joined.", required=False)
    base = _choice("Joined from", "", ("characters", "characters"), ("bytes", "bytes"))
    endToken = forms.CharField(
        label="End token",
        required=False,
        max_length=64,
        strip=False,
        help_text="A token of its own behind each record, so that answers end. Empty: none.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    specials = forms.CharField(
        label="Further special tokens",
        required=False,
        max_length=10_000,
        help_text="Parted by spaces. They are never cut.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    # Chunks
    recordsPerChunk = _whole(
        "Records per chunk",
        "A chunk is what one participant trains on in one round. Empty: about fifty chunks.",
        required=False,
    )
    validationPercent = _number("Held out for validation, %", "Never trained on; shows how good the model really is.")
    chunkSeed = forms.CharField(
        label="Seed", max_length=20, help_text="Decides the shuffled order and what is held out."
    )
    # Training
    batchSize = _whole("Batch size", "Records for each training step.")
    localEpochs = _whole("Local epochs", "Passes over a chunk that a device makes in one round.")
    epochs = _whole("Dataset passes", "How often every record is trained on.")
    learningRate = _number("Learning rate", "Of the devices' own steps.")
    optimizer = _choice("Optimizer", "", ("adamw", "AdamW"), ("sgd", "SGD with momentum"))
    weightDecay = _number("Weight decay", "Empty: 0.01.", required=False)
    clipNorm = _number(
        "Gradient limit", "Longer gradients are shortened to this norm. 0: never. Empty: 1.", required=False
    )
    participants = _whole("Expected participants", "For the warnings only.", required=False)

    def __init__(self, data: Mapping[str, Any], *, found: Found) -> None:
        super().__init__(data)
        self.found = found
        self.request: dict[str, JsonValue] = {}
        self.sizes: Sizes | None = None
        kept = {*FIELDS_OF[found.format], *COMMON, *COMMON_TOO}
        if len(found.columns) > MOST_BOXES:
            kept.discard("columns")
        for name in self.fields.keys() - kept:
            del self.fields[name]
        for name in ("prompt", "answer", "text", "label", "x", "y"):
            if name in self.fields:
                self.fields[name].choices = [(column.name, column.name) for column in found.columns]  # type: ignore[attr-defined]
        if "columns" in self.fields:
            words = {True: "numbers", False: "words"}
            boxes = [(column.name, f"{column.name} ({words[column.numbers]})") for column in found.columns]
            self.fields["columns"].choices = boxes  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """What the fields hold together, by the rules of the generator."""
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors:
            request = self._request(cleaned)
            try:
                self.sizes = _sizes(PackageRequest.parse(request), self.found)
            except Invalid as error:
                self.refuse(error.message, error.field or "")
            else:
                self.request = request
        return cleaned

    def refuse(self, message: str, path: str) -> None:
        """Put a refusal beside the field it speaks of, or on top."""
        self.add_error(self.field_at(path), message)

    def field_at(self, path: str) -> str | None:
        """The field of a place in the request, such as `architecture.hidden[2]`."""
        place = path.partition("[")[0]
        return next((name for name, at in PLACES.items() if at == place and name in self.fields), None)

    def _request(self, cleaned: dict[str, Any]) -> dict[str, JsonValue]:
        kind = "transformer" if "tokenizer" in self.fields else "mlp"
        request: dict[str, Any] = {"architecture": {"kind": kind}, "data": {"format": self.found.format}}
        for name in self._sent(cleaned):
            value = _TO_JSON.get(name, _same)(cleaned[name])
            if value is None:
                continue
            part, _, member = PLACES[name].rpartition(".")
            (request.setdefault(part, {}) if part else request)[member] = value
        if self.found.format == "csv":
            self._choose_columns(request["data"])
        return request

    def _sent(self, cleaned: dict[str, Any]) -> Iterator[str]:
        """Fields that count with the choices made in others."""
        unused = set[str]()
        if "parts" in cleaned:
            unused |= {"text"} if cleaned["parts"] == "pair" else {"prompt", "answer"}
        if cleaned.get("tokenizer", "bpe") != "bpe":
            unused |= {"merges", "base"}
        return (name for name in self.fields if name in PLACES and name not in unused)

    def _choose_columns(self, data: dict[str, Any]) -> None:
        """Every column but the label needs no list; the label is no input, ticked or not."""
        others = [column for column in self.found.columns if column.name != data["label"]]
        ticked = data.pop("columns", [])
        if "columns" not in self.fields:
            ticked = [column.name for column in others if column.numbers]
        chosen = [column.name for column in others if column.name in ticked]
        if len(chosen) < len(others):
            data["columns"] = chosen

    # What the template asks for.

    def data_fields(self) -> list[forms.BoundField]:
        names = ("records", "label", "x", "y", "task", "imageWidth", "imageHeight", "channels")
        return self._those(*names)

    def architecture_fields(self) -> list[forms.BoundField]:
        return self._those("context", "layers", "heads", "width", "hidden", "hiddenLayers", "activation")

    def chunk_fields(self) -> list[forms.BoundField]:
        return self._those("recordsPerChunk", "validationPercent", "chunkSeed")

    def training_fields(self) -> list[forms.BoundField]:
        return self._those("epochs", "localEpochs", "batchSize", "learningRate")

    def more_fields(self) -> list[forms.BoundField]:
        return self._those("optimizer", "weightDecay", "clipNorm", "participants")

    def more_wrong(self) -> bool:
        return any(field.errors for field in self.more_fields())

    def _those(self, *names: str) -> list[forms.BoundField]:
        return [self[name] for name in names if name in self.fields]


def form_data(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request as the form would have sent it."""
    data: dict[str, Any] = {}
    for name, place in PLACES.items():
        part, _, member = place.rpartition(".")
        members = request.get(part) or {} if part else request
        if members.get(member) is not None:
            data[name] = _FROM_JSON.get(name, _same)(members[member])
    found = request["data"]
    data["parts"] = "text" if found.get("text") else "pair"
    data.setdefault("optimizer", "adamw")
    data.setdefault("base", "characters")
    data.setdefault("activation", "relu")
    return data


def form_of(request: Mapping[str, Any], found: Found) -> PackageForm:
    """The form as the request fills it. A list of columns that is left out means every one."""
    data = form_data(request)
    if found.format == "csv" and "columns" not in data:
        data["columns"] = [column.name for column in found.columns if column.name != data.get("label")]
    return PackageForm(data, found=found)


def _same(value: Any) -> Any:
    return None if value == "" else value


def _widths(text: str) -> list[JsonValue]:
    """Numbers where they are some; what is none is refused by the architecture, which names its place."""
    parts = [part.strip() for part in text.replace(";", ",").split(",")]
    return [int(part) if part.isdecimal() and len(part) < 10 else part for part in parts if part]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


# The same field of the form and of the request, where they are written differently.
_TO_JSON: dict[str, Callable[[Any], Any]] = {
    "hiddenLayers": _widths,
    "specials": lambda text: text.split() or None,
    "channels": int,
    "validationPercent": lambda percent: round(percent / 100, 6),
    "columns": list,
}
_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "hiddenLayers": lambda widths: ", ".join(map(str, _listed(widths))),
    "specials": " ".join,
    "channels": str,
    "validationPercent": lambda share: f"{round(share * 100, 4):g}",
    "task": lambda task: task or "classification",
}
