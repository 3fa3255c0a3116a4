"""The aggregation methods there are, and the settings that choose one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weei_core.aggregation.fedadam import FedAdam
from weei_core.aggregation.fedavg import FedAvg
from weei_core.aggregation.fedavgm import FedAvgM
from weei_core.aggregation.method import Method, Option
from weei_core.errors import Invalid
from weei_core.strict_json import JsonValue, as_choice, as_number, as_object, refuse_unknown

METHODS: tuple[Method, ...] = (FedAvg(), FedAvgM(), FedAdam())
"""In the order in which forms list them."""

_BY_ID = {method.id: method for method in METHODS}

METHOD_IDS = tuple(_BY_ID)
STATEFUL_METHOD_IDS = tuple(method.id for method in METHODS if method.state_vectors)


def method_named(method_id: str) -> Method:
    return _BY_ID[method_id]


@dataclass(frozen=True)
class AggregationSettings:
    """A method and all of its options, in the method's own order."""

    method: str
    options: Mapping[str, float]

    def to_json(self) -> dict[str, JsonValue]:
        return {"method": self.method, **self.options}


def parse_aggregation(value: object, field: str = "settings.aggregation") -> AggregationSettings:
    """Settings from JSON, defaults filled in. None, which is the field left out, means FedAvg."""
    members = as_object({"method": "fedavg"} if value is None else value, field)
    method = method_named(as_choice(members.get("method"), f"{field}.method", METHOD_IDS))
    refuse_unknown(members, f"{field} with {method.id}", ("method", *(option.id for option in method.options)))
    options = {option.id: _option(members, option, field) for option in method.options}
    return AggregationSettings(method.id, options)


def _option(members: Mapping[str, object], option: Option, field: str) -> float:
    name = f"{field}.{option.id}"
    number = as_number(members.get(option.id, option.default), name, option.low, option.high)
    if number == option.high and not option.high_included:
        raise Invalid(f"{name} must be from {option.low:g} to below {option.high:g}; found {number:g}.", field=name)
    return number
