"""What a data file has become when its chunks can be written, whatever its format was."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from weei_core.advice import Advice
from weei_core.generator.architectures import Architecture
from weei_core.generator.bpe import Ids
from weei_core.generator.chunking import Plan
from weei_core.strict_json import JsonValue

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the stage, what is done and what there is to do: "read" counts bytes or records of the data, and begins
again where text is read twice; "chunks" counts records, and "module" is one step."""


@dataclass(frozen=True)
class ShownRecord:
    """A record of text as the model will see it. `trained_from`: the first token that is a target, None for all."""

    line: int | None
    text: str
    tokens: tuple[str, ...]
    trained_from: int | None


@dataclass(frozen=True)
class ShownTable:
    """The first rows of a table with the label last, or the first pictures by name and class. Every cell is text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Material(ABC):
    """`blob`: what the module knows of the data. `inference`: the form of `predict`."""

    plan: Plan
    architecture: Architecture
    blob: bytes
    format: str
    inference: Mapping[str, JsonValue]
    record_bytes: float
    whole_answers: bool
    warnings: tuple[Advice, ...]

    @abstractmethod
    def file(self, records: Ids) -> bytes:
        """The chunk of these records."""


@dataclass(frozen=True)
class Look:
    """What a preview knows. `exact` False: counts rest on a sample. `record_bytes`: of a record in a chunk."""

    architecture: Architecture
    record_count: int
    record_bytes: float
    exact: bool
    records: tuple[ShownRecord, ...]
    table: ShownTable | None
    vocabulary_size: int | None
    whole_answers: bool
    warnings: tuple[Advice, ...]
