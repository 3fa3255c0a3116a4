import json
from pathlib import Path

import pytest

from weei_core.advice import advise, advise_tokens
from weei_core.dataset_manifest import ChunkEntry, parse_manifest
from weei_core.model_info import parse_model_info
from weei_core.training_settings import parse_settings

GOLDEN_FOLDER = Path(__file__).parent.parent / "golden"
CHUNK = json.loads((GOLDEN_FOLDER / "manifests.json").read_text(encoding="utf-8"))["chunk"]
INFOS = json.loads((GOLDEN_FOLDER / "model_info.json").read_text(encoding="utf-8"))
BASE = json.loads((GOLDEN_FOLDER / "settings.json").read_text(encoding="utf-8"))["base"]

EVALUATED = {"validationSchedule": {"enabled": True, "unit": "round", "every": 5}}


def chunks_of(count: int, **changes: object) -> tuple[ChunkEntry, ...]:
    entries = [{**CHUNK, "id": f"{i}", "fileName": f"{i}", **changes} for i in range(count)]
    return parse_manifest(json.dumps(entries).encode(), None).chunks


def codes(
    chunks: tuple[ChunkEntry, ...] | None = None, *, method: str = "fedavg", model: str = "dataset", **changes: object
) -> list[str]:
    """The advice of a harmless run of 55 chunks in which `changes` were made."""
    info = parse_model_info(
        {**INFOS[model], **({"aggregation": changes.pop("declares")} if "declares" in changes else {})}
    )
    given = {**BASE, "aggregation": {"method": method}, **(EVALUATED if info.is_experience else {})}
    given |= {name: changes.pop(name) for name in ("experience", "validationSchedule") if name in changes}
    settings = parse_settings(given, for_experience=info.is_experience, info=info)
    if chunks is None:
        chunks = chunks_of(55) if info.reads_data else ()
    facts: dict[str, object] = {"has_validation": True, "weight_bytes": 2_300_000, "participants": 5, **changes}
    found = advise(info, chunks, settings, **facts)  # type: ignore[arg-type]
    assert all(len(advice.text) < 200 and advice.text.endswith(".") for advice in found)
    return [advice.code for advice in found]


def test_a_harmless_run_has_none():
    assert codes() == []
    assert codes(method="fedavgm", participants=5) == []
    assert codes(model="experience") == []


@pytest.mark.parametrize("method", ["fedavgm", "fedadam"])
def test_warns_of_momentum_over_whole_passes(method):
    """C20."""
    assert codes(chunks_of(1), method=method) == ["momentum-one-chunk"]
    assert codes(chunks_of(1)) == []


@pytest.mark.parametrize(
    ("chunks", "participants", "few"), [(9, None, True), (10, None, False), (45, 5, True), (46, 5, False)]
)
def test_warns_of_momentum_with_few_rounds_per_pass(chunks, participants, few):
    expected = ["momentum-few-rounds"] if few else []
    assert codes(chunks_of(chunks), method="fedavgm", participants=participants) == expected


def test_warns_of_momentum_with_one_participant():
    assert codes(method="fedadam", participants=1) == ["momentum-one-participant"]
    assert codes(participants=1) == []


@pytest.mark.parametrize(("declares", "warned"), [(None, True), ({}, True), ({"averageOnly": []}, False)])
def test_warns_when_the_model_does_not_say_what_is_only_averaged(declares, warned):
    assert codes(method="fedavgm", declares=declares) == (["average-only-undeclared"] if warned else [])
    assert codes(declares=declares) == []


def test_warns_of_missing_validation_data():
    assert codes(has_validation=False) == ["no-validation-data"]
    assert codes(model="experience", has_validation=False) == []


def test_warns_of_an_experience_job_that_is_not_evaluated():
    off = {"enabled": False, "unit": "round", "every": 5}
    assert codes(model="experience", validationSchedule=off) == ["no-evaluation"]
    source = {**INFOS["experience"]["workSource"], "evaluationUnits": 0}
    cannot = parse_model_info({**INFOS["experience"], "workSource": source})
    settings = parse_settings(BASE, for_experience=True, info=cannot)
    assert advise(cannot, (), settings, has_validation=False, weight_bytes=456) == ()


@pytest.mark.parametrize(("units", "warned"), [(1, True), (2, False)])
def test_warns_of_one_unit_per_round(units, warned):
    expected = ["one-unit-per-round"] if warned else []
    assert codes(model="experience", experience={"unitsPerAssignment": units}) == expected


@pytest.mark.parametrize(("weight_bytes", "warned"), [(399_996, True), (400_000, False)])
def test_warns_of_the_gpu_for_small_models(weight_bytes, warned):
    assert codes(weight_bytes=weight_bytes, uses_gpu=True) == (["small-model-on-gpu"] if warned else [])
    assert codes(weight_bytes=weight_bytes) == []


def test_warns_of_one_example_per_chunk():
    assert codes(chunks_of(55, exampleCount=1)) == ["one-example-per-chunk"]


def test_warns_of_chunks_over_a_memory_budget():
    assert codes(memory_budget_bytes=4095) == ["chunk-over-memory-budget"]
    assert codes(memory_budget_bytes=4096) == []


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["3", "+", "=", "<EOS>", "12", "\n", "the", "a-b"], []),
        (["7+4"], ["tokenizer-joins-operators"]),
        (["8=8", "5<EOS>\n"], ["tokenizer-joins-operators", "tokenizer-glues-end"]),
        (["5<EOS>\n"], ["tokenizer-glues-end"]),
        (["= 3"], ["tokenizer-joins-operators"]),
        (["</s>", "<|endoftext|>", "[SEP]"], []),
        ([".<|endoftext|>"], ["tokenizer-glues-end"]),
        ([], []),
    ],
)
def test_looks_at_how_a_tokenizer_cuts(tokens, expected):
    assert [advice.code for advice in advise_tokens(tokens)] == expected
