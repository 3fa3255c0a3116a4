"""The text of every request: compact JavaScript JSON, keys in the ABI's order, absent options left out.

A module's results depend on these bytes, so each host writes the same ones. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from weei_core import js_json
from weei_core.abi.memory import Region


@dataclass(frozen=True)
class DataRange:
    """How to read the data buffer; `record_start` and `record_count` only for a part of a chunk."""

    format: str
    record_start: int | None = None
    record_count: int | None = None


@dataclass(frozen=True)
class Units:
    """A range of experience units. `seed` is a decimal u64."""

    seed: str
    unit_start: int
    unit_count: int


@dataclass(frozen=True)
class Work:
    """What `train` and `evaluate` are asked for.

    `settings` is JSON text and passed on byte for byte. `round` is for `train` alone, `seed` for `train` of a
    dataset job. `data` alone is a dataset job, `units` alone an experience job, both experience over records.
    """

    settings: str
    round: int | None = None
    seed: str | None = None
    data: DataRange | None = None
    units: Units | None = None


def buffer_text(region: Region) -> str:
    return f'{{"pointer":{region.pointer},"bytes":{region.bytes}}}'


def weights_request(weights: Region) -> str:
    return _object(weights=buffer_text(weights))


def auxiliary_request(slot: str, weights: Region) -> str:
    return _object(id=js_json.dumps(slot), weights=buffer_text(weights))


def seed_request(seed: str) -> str:
    return _object(seed=js_json.dumps(seed))


def inspect_request(data: DataRange, region: Region) -> str:
    return _object(data=_data(data, region))


def predict_request(input_text: str) -> str:
    return _object(input=input_text)


def train_request(work: Work, region: Region | None) -> str:
    round_text = None if work.round is None else str(work.round)
    seed = None if work.units or work.seed is None else js_json.dumps(work.seed)
    return _object(**_inputs(work, region), settings=work.settings, round=round_text, seed=seed)


def evaluate_request(work: Work, region: Region | None) -> str:
    return _object(**_inputs(work, region), settings=work.settings)


def _inputs(work: Work, region: Region | None) -> dict[str, str | None]:
    data = _data(work.data, region) if work.data and region else None
    return {"data": data, "experience": _experience(work.units) if work.units else None}


def _data(data: DataRange, region: Region) -> str:
    return _object(
        pointer=str(region.pointer),
        bytes=str(region.bytes),
        format=js_json.dumps(data.format),
        recordStart=None if data.record_start is None else str(data.record_start),
        recordCount=None if data.record_count is None else str(data.record_count),
    )


def _experience(units: Units) -> str:
    return _object(seed=js_json.dumps(units.seed), unitStart=str(units.unit_start), unitCount=str(units.unit_count))


def _object(**members: str | None) -> str:
    """Members are JSON text already; None leaves one out."""
    return "{" + ",".join(f'"{key}":{text}' for key, text in members.items() if text is not None) + "}"
