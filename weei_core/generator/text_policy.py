"""The package of a policy that goes on from a transformer's checkpoint and learns sums by the rewards of its answers.

It is the transformer's network behind the module `text_policy`: same sizes, same vocabulary, same weights, so that a
checkpoint of the one continues in the other with `datasetMode` new, and is the reference it must stay close to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from weei_core import strict_json
from weei_core.errors import Invalid
from weei_core.generator.architectures import MAX_MEMORY_BYTES, Tensor, TransformerArchitecture
from weei_core.generator.configuration import blob_of, configured_module, named_tensors
from weei_core.generator.manifest import described, manifest
from weei_core.generator.wasm_edit import config_section, config_segment
from weei_core.strict_json import JsonValue, as_int, as_number, as_object, refuse_unknown, shown

MODULE_NAME, MANIFEST_NAME = "model.wasm", "manifest.json"
SECTION = "the section weei.config of the transformer"
MAX_OPERAND = 999_999_999
MAX_ANSWERS = 256
MAX_LONGEST_ANSWER = 64
MAX_UNITS = 1024
"""Problems of one assignment."""
EVALUATION_UNITS = 200

_ANSWER_BYTES = 40  # sizeof(answer) in WebAssembly
_ID_LENGTH = 180  # of the 200 characters of an id or a name, so that something can be put behind it


@dataclass(frozen=True)
class PolicySettings:
    """`group_size` answers to each problem are compared with each other. `clip_epsilon` 0 clips nothing, which is
    enough with one local epoch. Operands are 0 to `largest_operand`; an answer has `longest_answer` tokens at most,
    its end included."""

    group_size: int = 8
    kl_coefficient: float = 0.04
    clip_epsilon: float = 0.2
    largest_operand: int = 99
    temperature: float = 1.0
    longest_answer: int = 5
    learning_rate: float = 1e-4
    units_per_assignment: int = 64

    @classmethod
    def parse(cls, value: object, field: str = "policy") -> PolicySettings:
        members = as_object(value, field)
        refuse_unknown(members, field, tuple(cls().to_json()))

        def number(name: str, default: float, low: float, high: float) -> float:
            return as_number(members.get(name, default), f"{field}.{name}", low, high)

        def count(name: str, default: int, low: int, high: int) -> int:
            return as_int(members.get(name, default), f"{field}.{name}", low, high)

        return cls(
            group_size=count("groupSize", cls.group_size, 2, MAX_ANSWERS),
            kl_coefficient=number("klCoefficient", cls.kl_coefficient, 0, 1000),
            clip_epsilon=number("clipEpsilon", cls.clip_epsilon, 0, 0.99),
            largest_operand=count("largestOperand", cls.largest_operand, 1, MAX_OPERAND),
            temperature=number("temperature", cls.temperature, 0.01, 10),
            longest_answer=count("longestAnswer", cls.longest_answer, 2, MAX_LONGEST_ANSWER),
            learning_rate=number("learningRate", cls.learning_rate, 1e-9, 100),
            units_per_assignment=count("unitsPerAssignment", cls.units_per_assignment, 1, MAX_UNITS),
        )

    def to_json(self) -> dict[str, JsonValue]:
        """What `parse` reads."""
        return {
            "groupSize": self.group_size,
            "klCoefficient": self.kl_coefficient,
            "clipEpsilon": self.clip_epsilon,
            "largestOperand": self.largest_operand,
            "temperature": self.temperature,
            "longestAnswer": self.longest_answer,
            "learningRate": self.learning_rate,
            "unitsPerAssignment": self.units_per_assignment,
        }

    @property
    def question_bytes(self) -> int:
        """Of the longest question, and so its tokens at most."""
        return 2 * len(str(self.largest_operand)) + 2


@dataclass(frozen=True)
class TextPolicyArchitecture:
    """A transformer with an end token, whose context holds every problem and its answer."""

    transformer: TransformerArchitecture
    policy: PolicySettings

    kind: ClassVar = "textPolicy"
    config_kind: ClassVar = 3
    base_module: ClassVar = "text_policy"
    heap_begin: ClassVar = 4_215_248
    """Where the memory of the built module that `alloc` gives begins."""

    @classmethod
    def of(cls, transformer: TransformerArchitecture, policy: PolicySettings) -> TextPolicyArchitecture:
        """`Invalid` when the transformer cannot answer such problems."""
        if transformer.end_token is None:
            raise Invalid(
                "The transformer must have an end token, which an answer ends with; found none.",
                field="tokenizer.endToken",
            )
        needed = policy.question_bytes + policy.longest_answer - 1
        if transformer.context < needed:
            raise Invalid(
                f"The transformer's context must be {needed} or more for numbers up to {policy.largest_operand} and "
                f"answers of {policy.longest_answer} tokens; found {transformer.context}.",
                field="policy.largestOperand",
            )
        training = replace(transformer.training, learning_rate=policy.learning_rate)
        return cls(replace(transformer, training=training), policy)

    def to_json(self) -> dict[str, JsonValue]:
        return {**self.transformer.to_json(), "kind": self.kind, "policy": self.policy.to_json()}

    def tensors(self) -> list[Tensor]:
        return self.transformer.tensors()

    @property
    def parameter_count(self) -> int:
        return self.transformer.parameter_count

    @property
    def weight_bytes(self) -> int:
        return self.transformer.weight_bytes

    def values(self) -> list[float]:
        policy = self.policy
        return [
            *self.transformer.values(),
            policy.group_size,
            policy.kl_coefficient,
            policy.clip_epsilon,
            policy.largest_operand,
            policy.temperature,
            policy.longest_answer,
        ]

    def memory_bytes(self, batch_size: int, max_chunk_bytes: int) -> int:
        """Bytes of memory that the transformer takes, beside the reference and all the answers that a batch of an
        assignment's units can have; there are no chunks."""
        policy, rows = self.policy, max(self.transformer.context, self.transformer.tile_rows)
        tokens = policy.question_bytes + policy.longest_answer
        answer = _ANSWER_BYTES + 2 * tokens + 16 * policy.longest_answer
        answers = min(batch_size, MAX_UNITS) * policy.group_size * answer
        tables = 64 * self.transformer.vocab_size + 12 * rows + 1024
        moved = self.heap_begin - self.transformer.heap_begin
        needed = self.transformer.memory_bytes(1, 0) + moved + self.weight_bytes + answers + tables
        if needed > MAX_MEMORY_BYTES:
            raise Invalid(
                f"The policy must fit into {MAX_MEMORY_BYTES} bytes (4 GiB), all that a module can address; found "
                f"{needed}. A smaller network or fewer answers need less.",
                field="policy",
                code="too_large",
            )
        return needed


@dataclass(frozen=True)
class MadePolicy:
    """The files of the package, and job settings to begin with."""

    module: Path
    manifest: Path
    settings: dict[str, JsonValue]


def make_text_policy(transformer: bytes, policy: PolicySettings, folder: Path, *, batch_size: int = 8) -> MadePolicy:
    """Write the package of a policy that tunes `transformer`, a module the generator made, into `folder`, which exists.

    `Invalid` when the module is no configured transformer, or none that can answer such problems.
    """
    described_by, blob = _configuration(transformer)
    network = TransformerArchitecture.parse(described_by["architecture"], "transformer")
    architecture = TextPolicyArchitecture.of(network, policy)
    info = policy_info(architecture, as_object(described_by["info"], "transformer.info"))
    # Memory for whatever batch a job chooses: answers are small beside everything else.
    module = configured_module(architecture, info, blob, batch_size=MAX_UNITS, max_chunk_bytes=0)
    text = manifest(
        architecture,
        model_id=str(info["id"]),
        module=described(MODULE_NAME, module),
        chunks=[],
        validation=None,
        data_format="",
        memory_bytes=architecture.memory_bytes(MAX_UNITS, 0),
        experience={name: info[name] for name in ("workSource", "auxiliaryWeights")},
        progress_unit="problem",
    )
    made = MadePolicy(folder / MODULE_NAME, folder / MANIFEST_NAME, _settings(policy, batch_size))
    made.module.write_bytes(module)
    made.manifest.write_bytes(text)
    return made


def policy_info(architecture: TextPolicyArchitecture, transformer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """ModelInfo of the policy, out of that of its transformer."""
    policy = architecture.policy
    return {
        "id": f"{str(transformer['id'])[:_ID_LENGTH]}-policy",
        "version": "1.0.0",
        "name": f"{str(transformer['name'])[:_ID_LENGTH]}, tuned",
        "abiVersion": 1,
        "weightFormat": "float32-le",
        "maxWorkers": 4,
        "dataFormats": [],
        "metrics": [
            {"id": "exact", "label": "Exact answers", "direction": "maximize"},
            {"id": "kl", "label": "Distance from the reference (KL)", "direction": "minimize"},
            {"id": "loss", "label": "Loss", "direction": "minimize"},
        ],
        "aggregation": {"averageOnly": []},
        "capabilities": {"evaluation": True, "inference": True},
        "workSource": {
            "kind": "experience",
            "inputs": "none",
            "unit": {"id": "problem", "label": "Problems"},
            "unitsPerAssignment": {"default": policy.units_per_assignment, "minimum": 1, "maximum": MAX_UNITS},
            "evaluationUnits": EVALUATION_UNITS,
        },
        "auxiliaryWeights": [
            {
                "id": "reference",
                "role": "reference",
                "bytes": architecture.weight_bytes,
                "source": {"kind": "initial"},
            }
        ],
        "inference": transformer.get("inference", {}),
        "tensors": named_tensors(architecture),
    }


def _configuration(module: bytes) -> tuple[Mapping[str, JsonValue], bytes]:
    """What the generator wrote into a transformer: {"info", "architecture"}, and the vocabulary."""
    section, segment = config_section(module), config_segment(module)
    if section is None or segment is None:
        raise Invalid("The module must be one that the generator made; found no configuration.", field="transformer")
    told = as_object(strict_json.loads(section, what=SECTION), SECTION)
    kind = as_object(told.get("architecture"), f"{SECTION}.architecture").get("kind")
    if kind != TransformerArchitecture.kind:
        raise Invalid(f"The module must be a configured transformer; found {shown(kind)}.", field="transformer")
    return told, blob_of(segment)


def _settings(policy: PolicySettings, batch_size: int) -> dict[str, JsonValue]:
    return {
        "localEpochs": 1,
        "batchSize": batch_size,
        "learningRate": policy.learning_rate,
        "experience": {"unitsPerAssignment": policy.units_per_assignment},
        "validationSchedule": {"enabled": True, "unit": "round", "every": 1},
    }
