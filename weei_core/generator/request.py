"""What a person asks of the package generator: one JSON object, read once into typed values.

The page, `manage.py make_package` and tests all make this object; nothing behind it looks at raw input again. What only
the data can say (columns, classes, vocabulary) is not part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from weei_core.aggregation import AggregationSettings, parse_aggregation
from weei_core.errors import Invalid
from weei_core.generator.architectures import Architecture, MlpArchitecture, TransformerArchitecture
from weei_core.generator.training import Training
from weei_core.seeds import parse_seed
from weei_core.strict_json import (
    JsonValue,
    as_choice,
    as_int,
    as_list,
    as_number,
    as_object,
    as_text,
    refuse_unknown,
    shown,
)
from weei_core.training_settings import MAX_COUNT

Task: TypeAlias = Literal["classification", "regression"]
ArchitectureKind: TypeAlias = Literal["mlp", "transformer"]
TokenizerKind: TypeAlias = Literal["bytes", "characters", "bpe"]
TokenizerBase: TypeAlias = Literal["characters", "bytes"]

MAX_NAME_BYTES = 200
MAX_COLUMNS = 65_536
MAX_COLUMN_NAME_BYTES = 1_000
MAX_MERGES = 32_000
MAX_SPECIALS = 256
MAX_SPECIAL_BYTES = 64
MAX_IMAGE_SIDE = 512
MAX_PARTICIPANTS = 10_000
DEFAULT_VALIDATION_SHARE = 0.1
DEFAULT_MEMORY_BUDGET = 256 * 2**20

DELIMITERS = {",": ",", ";": ";", "tab": "\t", "\t": "\t"}


@dataclass(frozen=True)
class TextData:
    """A UTF-8 text. `records`: windows of context + 1 tokens over the whole text, or one record for each line."""

    records: Literal["windows", "lines"] = "windows"


@dataclass(frozen=True)
class JsonLinesData:
    """One JSON object a line: `prompt` and `answer`, of which only the answer is trained on, or a whole `text`.

    These are the names of the fields; either `text` or both others are None.
    """

    prompt: str | None = "prompt"
    answer: str | None = "answer"
    text: str | None = None


@dataclass(frozen=True)
class CsvData:
    """A table with a header row. `columns`: the inputs, in this order; None means every column but the label."""

    label: str
    task: Task = "classification"
    columns: tuple[str, ...] | None = None
    delimiter: str = ","


@dataclass(frozen=True)
class NpzData:
    """Arrays `x` (records first) and `y`. `task` None: whole numbers and texts are classes, other numbers targets."""

    task: Task | None = None
    x: str = "x"
    y: str = "y"


@dataclass(frozen=True)
class ImagesData:
    """A zip of pictures in one folder for each class; all are brought to one size. `channels`: 1 grey, 3 RGB."""

    width: int = 28
    height: int = 28
    channels: int = 1


Data: TypeAlias = TextData | JsonLinesData | CsvData | NpzData | ImagesData
FORMATS = ("text", "jsonl", "csv", "npz", "images")


@dataclass(frozen=True)
class TokenizerRequest:
    """`end_token` is set behind every line, answer or text of a record; None for none. `specials` are further ones.

    `base` says what merges start from and counts for kind "bpe" only; `merges` 0 is the vocabulary without merges.
    """

    kind: TokenizerKind = "bytes"
    merges: int = 0
    end_token: str | None = None
    specials: tuple[str, ...] = ()
    base: TokenizerBase = "characters"


@dataclass(frozen=True)
class ChunkingRequest:
    """`records_per_chunk` None: about fifty chunks. `seed` decides the shuffled order, and so what is held out."""

    records_per_chunk: int | None = None
    seed: int = 0
    validation_share: float = DEFAULT_VALIDATION_SHARE


@dataclass(frozen=True)
class TrainingRequest:
    """Defaults of the module and suggested job settings. `participants` (expected) and `memory_budget_bytes` serve the
    warnings alone.
    """

    module: Training = Training()
    batch_size: int = 16
    local_epochs: int = 1
    epochs: int = 3
    aggregation: AggregationSettings = field(default_factory=lambda: parse_aggregation(None))
    participants: int | None = None
    memory_budget_bytes: int = DEFAULT_MEMORY_BUDGET


@dataclass(frozen=True)
class PackageRequest:
    """Everything that decides the bytes of a package, beside the data file.

    `architecture` holds `kind` and the sizes as given; the architecture of that kind reads it when the data are known.
    `tokenizer` is None for tables and pictures.
    """

    name: str
    kind: ArchitectureKind
    architecture: Mapping[str, JsonValue]
    data: Data
    tokenizer: TokenizerRequest | None
    chunking: ChunkingRequest = ChunkingRequest()
    training: TrainingRequest = field(default_factory=TrainingRequest)

    @property
    def reads_text(self) -> bool:
        return isinstance(self.data, (TextData, JsonLinesData))

    def built(self, **known: JsonValue) -> Architecture:
        """The architecture, with what the data say: `vocabSize` and `endToken`, or `inputs`, `outputs` and the like."""
        members = {**self.architecture, **self.training.module.to_json(), **known}
        kind = TransformerArchitecture if self.kind == "transformer" else MlpArchitecture
        return kind.parse(members)

    @property
    def context(self) -> int:
        """Tokens that the model looks back on. For text only."""
        known = self.built(vocabSize=2)
        assert isinstance(known, TransformerArchitecture)
        return known.context

    @classmethod
    def parse(cls, value: object) -> PackageRequest:
        """Raises Invalid, naming the first field that does not fit."""
        members = as_object(value, "request")
        refuse_unknown(members, "request", ("name", "architecture", "data", "tokenizer", "chunking", "training"))
        for name in ("name", "architecture", "data"):
            if name not in members:
                raise Invalid(f"{name} is missing.", field=name)
        data = _data(members["data"])
        architecture = as_object(members["architecture"], "architecture")
        reads_text = isinstance(data, (TextData, JsonLinesData))
        kind = _kind(architecture, reads_text)
        if not reads_text and members.get("tokenizer") is not None:
            raise Invalid(
                "tokenizer must be left out for tables and pictures; found one. Only text is cut into tokens.",
                field="tokenizer",
            )
        request = cls(
            name=as_text(members["name"], "name", MAX_NAME_BYTES),
            kind=kind,
            architecture=architecture,
            data=data,
            tokenizer=_tokenizer(members.get("tokenizer")) if reads_text else None,
            chunking=_chunking(members.get("chunking")),
            training=_training(members.get("training")),
        )
        # Sizes that are wrong whatever the data are told before any of it is read.
        request.built(**({"vocabSize": 2} if reads_text else {"inputs": 1, "outputs": 2}))
        return request


_SIZES = {
    "mlp": ("kind", "hidden", "activation"),
    "transformer": ("kind", "context", "layers", "heads", "width", "hidden"),
}


def _kind(architecture: dict[str, JsonValue], reads_text: bool) -> ArchitectureKind:
    needed, data = ("transformer", "text") if reads_text else ("mlp", "tables and pictures")
    kind = as_choice(architecture.get("kind"), "architecture.kind", ("mlp", "transformer"))
    if kind != needed:
        raise Invalid(
            f"architecture.kind must be {shown(needed)} for {data}; found {shown(kind)}.", field="architecture.kind"
        )
    refuse_unknown(architecture, "architecture", _SIZES[kind])
    return cast(ArchitectureKind, kind)


def _data(value: JsonValue) -> Data:
    members = as_object(value, "data")
    chosen = as_choice(members.get("format"), "data.format", FORMATS)
    read: dict[str, Callable[[dict[str, JsonValue]], Data]] = {
        "text": _text_data,
        "jsonl": _json_lines_data,
        "csv": _csv_data,
        "npz": _npz_data,
        "images": _images_data,
    }
    return read[chosen]({name: item for name, item in members.items() if name != "format"})


def _text_data(members: dict[str, JsonValue]) -> TextData:
    refuse_unknown(members, "data", ("records",))
    records = as_choice(members.get("records", "windows"), "data.records", ("windows", "lines"))
    return TextData(cast(Literal["windows", "lines"], records))


def _json_lines_data(members: dict[str, JsonValue]) -> JsonLinesData:
    refuse_unknown(members, "data", ("prompt", "answer", "text"))
    names = {name: _column(members[name], f"data.{name}") for name in members if members[name] is not None}
    if "text" in names:
        if len(names) > 1:
            raise Invalid(
                "data.text must stand alone, without prompt and answer; found both. A record is either a whole text, "
                "or a prompt with an answer.",
                field="data.text",
            )
        return JsonLinesData(None, None, names["text"])
    prompt, answer = names.get("prompt", "prompt"), names.get("answer", "answer")
    if prompt == answer:
        raise Invalid(f"data.answer must differ from data.prompt; found {shown(answer)} twice.", field="data.answer")
    return JsonLinesData(prompt, answer, None)


def _csv_data(members: dict[str, JsonValue]) -> CsvData:
    refuse_unknown(members, "data", ("label", "task", "columns", "delimiter"))
    if "label" not in members:
        raise Invalid("data.label is missing: name the column that is to be predicted.", field="data.label")
    label = _column(members["label"], "data.label")
    columns = None
    if members.get("columns") is not None:
        listed = as_list(members["columns"], "data.columns", MAX_COLUMNS)
        columns = tuple(_column(name, f"data.columns[{index}]") for index, name in enumerate(listed))
        _check_columns(columns, label)
    return CsvData(
        label=label,
        task=_task(members.get("task", "classification")),
        columns=columns,
        delimiter=DELIMITERS[as_choice(members.get("delimiter", ","), "data.delimiter", tuple(DELIMITERS))],
    )


def _check_columns(columns: tuple[str, ...], label: str) -> None:
    if not columns:
        raise Invalid("data.columns must name at least one column; found none.", field="data.columns")
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise Invalid(f"data.columns must name each column once; found {shown(twice)} twice.", field="data.columns")
    if label in columns:
        raise Invalid(f"data.columns must not hold the label; found {shown(label)}.", field="data.columns")


def _npz_data(members: dict[str, JsonValue]) -> NpzData:
    refuse_unknown(members, "data", ("task", "x", "y"))
    x, y = _column(members.get("x", "x"), "data.x"), _column(members.get("y", "y"), "data.y")
    if x == y:
        raise Invalid(f"data.y must differ from data.x; found {shown(y)} twice.", field="data.y")
    return NpzData(None if members.get("task") is None else _task(members["task"]), x, y)


def _images_data(members: dict[str, JsonValue]) -> ImagesData:
    refuse_unknown(members, "data", ("width", "height", "channels"))
    channels = as_int(members.get("channels", 1), "data.channels", 1, 3)
    if channels == 2:
        raise Invalid("data.channels must be 1 (grey) or 3 (red, green, blue); found 2.", field="data.channels")
    return ImagesData(
        width=as_int(members.get("width", 28), "data.width", 1, MAX_IMAGE_SIDE),
        height=as_int(members.get("height", 28), "data.height", 1, MAX_IMAGE_SIDE),
        channels=channels,
    )


def _column(value: JsonValue, field: str) -> str:
    return as_text(value, field, MAX_COLUMN_NAME_BYTES)


def _task(value: JsonValue) -> Task:
    return cast(Task, as_choice(value, "data.task", ("classification", "regression")))


def _tokenizer(value: JsonValue) -> TokenizerRequest:
    members = as_object({} if value is None else value, "tokenizer")
    refuse_unknown(members, "tokenizer", ("kind", "merges", "endToken", "specials", "base"))
    kind = as_choice(members.get("kind", "bytes"), "tokenizer.kind", ("bytes", "characters", "bpe"))
    for name in ("merges", "base"):
        if kind != "bpe" and members.get(name) not in (None, 0):
            raise Invalid(
                f'tokenizer.{name} belongs to kind "bpe"; found it with {shown(kind)}.', field=f"tokenizer.{name}"
            )
    if kind == "bpe" and "merges" not in members:
        raise Invalid(
            "tokenizer.merges is missing: give the number of merges, or 0 for none.", field="tokenizer.merges"
        )
    end_token = members.get("endToken")
    base = as_choice(members.get("base") or "characters", "tokenizer.base", ("characters", "bytes"))
    return TokenizerRequest(
        kind=cast(TokenizerKind, kind),
        merges=as_int(members.get("merges") or 0, "tokenizer.merges", 0, MAX_MERGES),
        end_token=None if end_token is None else as_text(end_token, "tokenizer.endToken", MAX_SPECIAL_BYTES),
        specials=_specials(members.get("specials")),
        base=cast(TokenizerBase, base),
    )


def _specials(value: JsonValue) -> tuple[str, ...]:
    listed = as_list([] if value is None else value, "tokenizer.specials", MAX_SPECIALS)
    texts = [as_text(text, f"tokenizer.specials[{i}]", MAX_SPECIAL_BYTES) for i, text in enumerate(listed)]
    return tuple(dict.fromkeys(texts))


def _chunking(value: JsonValue) -> ChunkingRequest:
    members = as_object({} if value is None else value, "chunking")
    refuse_unknown(members, "chunking", ("recordsPerChunk", "seed", "validationShare"))
    per_chunk = members.get("recordsPerChunk")
    share = members.get("validationShare", DEFAULT_VALIDATION_SHARE)
    return ChunkingRequest(
        records_per_chunk=None if per_chunk is None else as_int(per_chunk, "chunking.recordsPerChunk", 1, MAX_COUNT),
        seed=_seed(members.get("seed", 0)),
        validation_share=as_number(share, "chunking.validationShare", 0, 0.9),
    )


def _seed(value: JsonValue) -> int:
    """A number where a double holds it, or decimal text as everywhere else."""
    if isinstance(value, str):
        return parse_seed(value, "chunking.seed")
    return as_int(value, "chunking.seed", 0, 2**53)


def _training(value: JsonValue) -> TrainingRequest:
    members = as_object({} if value is None else value, "training")
    own = ("batchSize", "localEpochs", "epochs", "aggregation", "participants", "memoryBudgetBytes")
    refuse_unknown(members, "training", (*own, *Training.FIELDS))

    def whole(name: str, default: int, high: int = MAX_COUNT) -> int:
        return as_int(members.get(name, default), f"training.{name}", 1, high)

    default = TrainingRequest()
    return TrainingRequest(
        module=Training.parse(members, "training"),
        batch_size=whole("batchSize", default.batch_size),
        local_epochs=whole("localEpochs", default.local_epochs),
        epochs=whole("epochs", default.epochs),
        aggregation=parse_aggregation(members.get("aggregation"), "training.aggregation"),
        participants=whole("participants", 1, MAX_PARTICIPANTS) if "participants" in members else None,
        memory_budget_bytes=whole("memoryBudgetBytes", default.memory_budget_bytes, 2**32),
    )
