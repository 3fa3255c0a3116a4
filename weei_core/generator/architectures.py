"""The networks that the base modules can be configured as: their sizes, their defaults, and the memory they take.

What a person writes is parsed here once. `values()` is what the module reads (reference_models/lib/config.h), and
`memory_bytes` repeats the module's own allocations, so that the maximum its memory declares is an honest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import ClassVar, Protocol, TypeVar

from weei_core.errors import Invalid
from weei_core.generator.training import Training
from weei_core.strict_json import JsonValue, as_choice, as_int, as_list, as_object, refuse_unknown

MAX_MEMORY_BYTES = 2**32
MAX_WIDTH = 2**20
MAX_HIDDEN_LAYERS = 16
MAX_TRANSFORMER_LAYERS = 256
MAX_TRANSFORMER_WIDTH = 65_536
MAX_OUTPUTS = 4096
MAX_VOCABULARY = 65_536
"""Chunks hold tokens as u16."""
MAX_CONTEXT = 16_384
MAX_PREDICT_TEXT_BYTES = 32_768

ACTIVATIONS = ("relu", "gelu", "tanh")
TASKS = ("classification", "regression")
INPUT_KINDS = ("float32", "uint8")
"""Rows of numbers that the module normalises, and rows of bytes that it divides by 255. Values count from 0 in each."""

_REQUEST_BYTES = 1024
"""The longest request of a training, which lies in the module's memory beside everything else."""
_BLOCK_BYTES = 16  # of the module's allocator
_TOKENS_HEADER_BYTES = 16
_SHORTEST_RECORD_BYTES = 12  # its entry and two tokens
_PANEL_COLUMNS = 8  # of the scratch of a matrix product (MATMUL_COLUMNS in matmul.h)


Tensor = tuple[str, tuple[int, ...]]
"""Name and shape."""


@dataclass(frozen=True)
class MlpArchitecture:
    """Linear layers with one activation between them, from `inputs` numbers to class scores or target values."""

    inputs: int
    outputs: int
    task: str
    hidden: tuple[int, ...]
    activation: str = "relu"
    input_kind: str = "float32"
    training: Training = Training()

    kind: ClassVar = "mlp"
    config_kind: ClassVar = 1
    base_module: ClassVar = "mlp"
    heap_begin: ClassVar = 4_215_488
    """Where the memory of the built module that `alloc` gives begins."""
    tile: ClassVar = 64
    """Records that go through the network at a time (TILE in network.h): memory does not depend on the batch size."""

    @classmethod
    def parse(cls, value: object, field: str = "architecture") -> MlpArchitecture:
        """Whole architecture from JSON: `inputs` and `outputs` are what the data have."""
        members = as_object(value, field)
        own = ("kind", "inputs", "outputs", "task", "hidden", "activation", "inputKind")
        refuse_unknown(members, field, (*own, *Training.FIELDS))
        as_choice(members.get("kind", cls.kind), f"{field}.kind", (cls.kind,))
        task = as_choice(members.get("task", "classification"), f"{field}.task", TASKS)
        hidden = as_list(members.get("hidden", [64]), f"{field}.hidden", MAX_HIDDEN_LAYERS)
        least = 2 if task == "classification" else 1
        return _checked(
            cls(
                inputs=as_int(members.get("inputs"), f"{field}.inputs", 1, MAX_WIDTH),
                outputs=as_int(members.get("outputs"), f"{field}.outputs", least, MAX_OUTPUTS),
                task=task,
                hidden=tuple(as_int(width, f"{field}.hidden[{i}]", 1, MAX_WIDTH) for i, width in enumerate(hidden)),
                activation=as_choice(members.get("activation", "relu"), f"{field}.activation", ACTIVATIONS),
                input_kind=as_choice(members.get("inputKind", "float32"), f"{field}.inputKind", INPUT_KINDS),
                training=Training.parse(members, field),
            ),
            field,
        )

    def to_json(self) -> dict[str, JsonValue]:
        """What `parse` reads."""
        return {
            "kind": self.kind,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "task": self.task,
            "hidden": list(self.hidden),
            "activation": self.activation,
            "inputKind": self.input_kind,
            **self.training.to_json(),
        }

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.inputs, *self.hidden, self.outputs)

    def tensors(self) -> list[Tensor]:
        """What the weights consist of, in order; a layer multiplies its input by `weight` from the right."""
        found: list[Tensor] = []
        for index, (inputs, outputs) in enumerate(pairwise(self.widths)):
            found += [(f"layers.{index}.weight", (inputs, outputs)), (f"layers.{index}.bias", (outputs,))]
        return found

    @property
    def parameter_count(self) -> int:
        return _values(self.tensors())

    @property
    def weight_bytes(self) -> int:
        return 4 * self.parameter_count

    def values(self) -> list[float]:
        return [
            self.inputs,
            self.outputs,
            TASKS.index(self.task),
            len(self.hidden),
            ACTIVATIONS.index(self.activation),
            self.training.learning_rate,
            self.training.weight_decay,
            self.training.clip_norm,
            *self.training.moments,
            INPUT_KINDS.index(self.input_kind),
            *self.hidden,
        ]

    def record_bytes(self) -> int:
        """Of one record of a chunk: its inputs and its class or targets."""
        inputs = self.inputs * (4 if self.input_kind == "float32" else 1)
        return inputs + 4 * (1 if self.task == "classification" else self.outputs)

    def memory_bytes(self, batch_size: int, max_chunk_bytes: int) -> int:
        """Bytes of memory that a training needs on the largest chunk; `batch_size` makes no difference here."""
        records = max(1, max_chunk_bytes // self.record_bytes())
        work = [self.activation_bytes, 4 * records, *[self.weight_bytes] * (1 + self.training.state_copies)]
        return _within_4_gib(self.heap_begin + _blocks([self.weight_bytes, max_chunk_bytes, _REQUEST_BYTES, *work]))

    @property
    def activation_bytes(self) -> int:
        """What a tile of records makes of memory: the parts of network_place in network.c."""
        row = 4 * self.tile
        kept = 2 if self.activation == "gelu" else 1  # what the backward pass needs of a hidden layer
        hidden = [row * width for width in self.hidden for _ in range(kept)]
        back = [row * max(self.hidden, default=0)] * 2
        targets = row * (1 if self.task == "classification" else self.outputs)
        panel = 4 * _PANEL_COLUMNS * max(self.tile, *self.widths)
        return _blocks([row * self.inputs, *hidden, *[row * self.outputs] * 2, *back, targets, panel])


@dataclass(frozen=True)
class TransformerArchitecture:
    """A decoder: learned positions, causal attention, GELU, norms before each part, output tied to the embedding."""

    vocab_size: int
    context: int = 128
    layers: int = 4
    heads: int = 4
    width: int = 128
    hidden: int = 512
    end_token: int | None = None
    pad_token: int | None = None
    training: Training = Training()

    kind: ClassVar = "transformer"
    config_kind: ClassVar = 2
    base_module: ClassVar = "transformer"
    heap_begin: ClassVar = 4_215_536
    tile_rows: ClassVar = 256
    """Positions that go through the network at a time, one record at least (TILE_ROWS in network.h)."""
    head_rows: ClassVar = 128

    @classmethod
    def parse(cls, value: object, field: str = "architecture") -> TransformerArchitecture:
        """Whole architecture from JSON: `vocabSize`, `endToken` and `padToken` are the tokenizer's."""
        members = as_object(value, field)
        own = ("kind", "vocabSize", "context", "layers", "heads", "width", "hidden", "endToken", "padToken")
        refuse_unknown(members, field, (*own, *Training.FIELDS))
        as_choice(members.get("kind", cls.kind), f"{field}.kind", (cls.kind,))
        vocab_size = as_int(members.get("vocabSize"), f"{field}.vocabSize", 2, MAX_VOCABULARY)
        width = as_int(members.get("width", cls.width), f"{field}.width", 1, MAX_TRANSFORMER_WIDTH)
        heads = as_int(members.get("heads", cls.heads), f"{field}.heads", 1, MAX_TRANSFORMER_WIDTH)
        if width % heads:
            raise Invalid(
                f"{field}.width must be a multiple of heads, which is {heads}; found {width}.", field=f"{field}.width"
            )
        return _checked(
            cls(
                vocab_size=vocab_size,
                context=as_int(members.get("context", cls.context), f"{field}.context", 2, MAX_CONTEXT),
                layers=as_int(members.get("layers", cls.layers), f"{field}.layers", 1, MAX_TRANSFORMER_LAYERS),
                heads=heads,
                width=width,
                hidden=as_int(members.get("hidden", 4 * width), f"{field}.hidden", 1, 4 * MAX_TRANSFORMER_WIDTH),
                end_token=_token(members, "endToken", field, vocab_size),
                pad_token=_token(members, "padToken", field, vocab_size),
                training=Training.parse(members, field),
            ),
            field,
        )

    def to_json(self) -> dict[str, JsonValue]:
        """What `parse` reads."""
        tokens: dict[str, JsonValue] = {"endToken": self.end_token, "padToken": self.pad_token}
        return {
            "kind": self.kind,
            "vocabSize": self.vocab_size,
            "context": self.context,
            "layers": self.layers,
            "heads": self.heads,
            "width": self.width,
            "hidden": self.hidden,
            **{name: token for name, token in tokens.items() if token is not None},
            **self.training.to_json(),
        }

    def tensors(self) -> list[Tensor]:
        """What the weights consist of, in the order of network.h; a layer multiplies its input by `weight` from the
        right. The logits are products with the token embedding."""
        width, hidden = self.width, self.hidden
        parts: list[Tensor] = [
            ("norm1.weight", (width,)),
            ("norm1.bias", (width,)),
            ("attention.qkv.weight", (width, 3 * width)),
            ("attention.qkv.bias", (3 * width,)),
            ("attention.projection.weight", (width, width)),
            ("attention.projection.bias", (width,)),
            ("norm2.weight", (width,)),
            ("norm2.bias", (width,)),
            ("mlp.hidden.weight", (width, hidden)),
            ("mlp.hidden.bias", (hidden,)),
            ("mlp.out.weight", (hidden, width)),
            ("mlp.out.bias", (width,)),
        ]
        return [
            ("token_embedding.weight", (self.vocab_size, width)),
            ("position_embedding.weight", (self.context, width)),
            *[(f"layers.{layer}.{name}", shape) for layer in range(self.layers) for name, shape in parts],
            ("norm.weight", (width,)),
            ("norm.bias", (width,)),
        ]

    @property
    def parameter_count(self) -> int:
        return _values(self.tensors())

    @property
    def weight_bytes(self) -> int:
        return 4 * self.parameter_count

    def values(self) -> list[float]:
        return [
            self.vocab_size,
            self.context,
            self.layers,
            self.heads,
            self.width,
            self.hidden,
            self.training.learning_rate,
            self.training.weight_decay,
            self.training.clip_norm,
            *self.training.moments,
            -1 if self.end_token is None else self.end_token,
            -1 if self.pad_token is None else self.pad_token,
        ]

    def memory_bytes(self, batch_size: int, max_chunk_bytes: int) -> int:
        """Bytes of memory that a training needs on the largest chunk of the shortest records, or a prediction from the
        longest text; `batch_size` makes no difference, since a batch goes through in tiles.
        """
        records = max(1, (max_chunk_bytes - _TOKENS_HEADER_BYTES) // _SHORTEST_RECORD_BYTES)
        work = [4 * records, self.weight_bytes, self.weight_bytes * self.training.state_copies]
        training = _blocks([max_chunk_bytes, _REQUEST_BYTES, *work])
        texts = 10 * MAX_PREDICT_TEXT_BYTES + 128 * self.context  # as JSON, plain and as tokens; the answer
        prediction = _REQUEST_BYTES + texts + 64 * self.vocab_size  # and the vocabulary's tables, the candidates
        most = self.heap_begin + _blocks([self.weight_bytes, self.activation_bytes]) + max(training, prediction)
        return _within_4_gib(most)

    @property
    def activation_bytes(self) -> int:
        """What a tile of records makes of memory: the parts of tile_place in network.c."""
        width, context, vocabulary = self.width, self.context, self.vocab_size
        rows, wide = max(context, self.tile_rows), max(self.hidden, 3 * width)
        layer = [4 * rows * columns for columns in (width, 3 * width, width, width, self.hidden)]
        small = [12 * rows, 2 * rows, 4 * rows, 4 * rows, 2 * rows, self.head_rows, 20 * self.layers]
        shared = [4 * rows * width] * 4 + [4 * rows * wide] * 2 + [4 * self.head_rows * width] * 2
        square = 2 * context * (-(-context // _PANEL_COLUMNS) * _PANEL_COLUMNS)
        attention = square + _PANEL_COLUMNS * max(context, width // self.heads)
        panel = _PANEL_COLUMNS * max(rows, self.head_rows, wide, vocabulary)
        rest = [4 * self.head_rows * vocabulary, 4 * attention, 4 * panel]
        return _blocks([*small, *layer * self.layers, *shared, *rest])


class Configurable(Protocol):
    """What a base module can be configured as."""

    @property
    def config_kind(self) -> int: ...
    @property
    def base_module(self) -> str: ...
    def tensors(self) -> list[Tensor]: ...
    @property
    def parameter_count(self) -> int: ...
    @property
    def weight_bytes(self) -> int: ...
    def to_json(self) -> dict[str, JsonValue]: ...
    def values(self) -> list[float]: ...
    def memory_bytes(self, batch_size: int, max_chunk_bytes: int) -> int: ...


Architecture = MlpArchitecture | TransformerArchitecture
ARCHITECTURE = TypeVar("ARCHITECTURE", MlpArchitecture, TransformerArchitecture)


def _values(tensors: Sequence[Tensor]) -> int:
    return sum(prod(shape) for _, shape in tensors)


def _checked(architecture: ARCHITECTURE, field: str) -> ARCHITECTURE:
    """Weights, gradients and optimizer state alone must leave room in the memory of one module."""
    needed = architecture.weight_bytes * (2 + architecture.training.state_copies)
    if needed > MAX_MEMORY_BYTES:
        raise _too_large(f"weights, gradients and optimizer state of {needed} bytes", field)
    return architecture


def _within_4_gib(needed: int) -> int:
    if needed > MAX_MEMORY_BYTES:
        raise _too_large(f"{needed} bytes for a training on the largest chunk", "architecture")
    return needed


def _too_large(found: str, field: str) -> Invalid:
    return Invalid(
        f"{field} must fit into {MAX_MEMORY_BYTES} bytes (4 GiB), all that a module can address; found {found}. A "
        "smaller network or smaller chunks need less.",
        field=field,
        code="too_large",
    )


def _blocks(sizes: Sequence[int]) -> int:
    return sum(-(-size // _BLOCK_BYTES) * _BLOCK_BYTES for size in sizes)


def _token(members: Mapping[str, JsonValue], name: str, field: str, vocab_size: int) -> int | None:
    value = members.get(name)
    return None if value is None else as_int(value, f"{field}.{name}", 0, vocab_size - 1)
