"""How a configured module trains unless its settings say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from weei_core.strict_json import JsonValue, as_choice, as_number

OPTIMIZERS = ("sgd", "adamw")


@dataclass(frozen=True)
class Training:
    """Defaults of the module. The last three are AdamW's; a clip norm of 0 clips nothing."""

    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    optimizer: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    FIELDS: ClassVar = ("learningRate", "weightDecay", "clipNorm", "optimizer", "beta1", "beta2", "epsilon")

    @classmethod
    def parse(cls, members: Mapping[str, JsonValue], field: str) -> Training:
        """Those of `FIELDS` that are given; the rest are what the optimizer usually begins with."""

        def number(name: str, default: float, low: float, high: float) -> float:
            return as_number(members.get(name, default), f"{field}.{name}", low, high)

        optimizer = as_choice(members.get("optimizer", cls.optimizer), f"{field}.optimizer", OPTIMIZERS)
        usual = cls() if optimizer == "adamw" else SGD_TRAINING
        return cls(
            learning_rate=number("learningRate", usual.learning_rate, 1e-9, 100),
            weight_decay=number("weightDecay", usual.weight_decay, 0, 10),
            clip_norm=number("clipNorm", usual.clip_norm, 0, 1e6),
            optimizer=optimizer,
            beta1=number("beta1", cls.beta1, 0, 0.9999),
            beta2=number("beta2", cls.beta2, 0, 0.999999),
            epsilon=number("epsilon", cls.epsilon, 1e-12, 1),
        )

    def to_json(self) -> dict[str, JsonValue]:
        return dict(zip(self.FIELDS, (getattr(self, field.name) for field in fields(self)), strict=True))

    @property
    def optimizer_index(self) -> int:
        return OPTIMIZERS.index(self.optimizer)

    @property
    def state_copies(self) -> int:
        """Values that the optimizer keeps for each weight: none, or AdamW's two moments."""
        return 2 * self.optimizer_index

    @property
    def moments(self) -> list[float]:
        return [self.optimizer_index, self.beta1, self.beta2, self.epsilon]


SGD_TRAINING = Training(learning_rate=0.05, weight_decay=0.0, optimizer="sgd")
