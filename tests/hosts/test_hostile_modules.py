"""Hostile modules against the jail: each is refused with a reason, within its limits, and harms nobody else.

Covers W1-W16, C55, C58, C60, C61, C63 and the machine-readable copies that hosts in other languages are tested with.
"""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from tests.hosts.modules.bombs import BOMBS
from tests.hosts.modules.build import BINARIES, files, plus_one
from tests.hosts.modules.hostile import BY_NAME, CASES
from weei_core.abi.codes import CODES
from weei_core.abi.limits import MIB, Limits
from weei_core.abi.progress import OnProgress, Report
from weei_core.errors import ModelError
from weei_core.jail.parent import InputFile, Jail

LIMITS = Limits(memory_bytes=64 * MIB, run_seconds=0.5, compile_seconds=3)
TRAIN = {
    "operation": "train",
    "work": {"settings": "{}", "round": 1, "units": {"seed": "1", "unit_start": 0, "unit_count": 8}},
}

BOMBS_END = {
    "900,000 functions": {"time_limit", "memory_limit"},
    "jump tables": {"time_limit", "memory_limit"},
    "1,000,000 types": {"export_missing", "time_limit", "memory_limit"},  # valid, only large
    "1,000,000 data segments": {"invalid_module"},  # more than wasmtime reads
}


def describe_and_train(path: Path, on_progress: OnProgress | None = None, limits: Limits = LIMITS) -> dict[str, Any]:
    """What a server does with a new module, and then once more for a round."""
    weights = path.with_name("weights")
    with Jail(path, limits) as jail, weights.open("w+b") as initial, tempfile.TemporaryFile() as trained:
        described = jail.run({"operation": "describe", "seed": "7"}, {}, {"weightsOut": initial})
        inputs = {"weights": InputFile(weights)}
        return described | jail.run(TRAIN, inputs, {"weightsOut": trained}, on_progress=on_progress)


@pytest.fixture(scope="module")
def neighbour(tmp_path_factory):
    """An honest module in a child of its own, which goes on training whatever the others do."""
    folder = tmp_path_factory.mktemp("neighbour")
    (folder / "plus_one.wasm").write_bytes(plus_one())
    (folder / "weights").write_bytes(bytes(16))
    with Jail(folder / "plus_one.wasm", LIMITS) as jail:

        def train():
            with tempfile.TemporaryFile() as out:
                jail.run(TRAIN, {"weights": InputFile(folder / "weights")}, {"weightsOut": out})
                out.seek(0)
                return out.read()

        yield train


def write(folder: Path, data: bytes) -> Path:
    path = folder / "module.wasm"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("case", [case for case in CASES if case.code], ids=lambda case: case.name)
def test_refuses_by_name(case, tmp_path, neighbour):
    with pytest.raises(ModelError) as refusal:
        describe_and_train(write(tmp_path, case.wasm()))
    assert (refusal.value.code, refusal.value.operation) == (case.code, case.operation or "compile"), (
        refusal.value.message
    )
    assert refusal.value.message.strip()
    assert len(refusal.value.message) <= 1000
    assert neighbour() == bytes.fromhex("0000803f" * 4)


@pytest.mark.parametrize("case", [case for case in CASES if not case.code], ids=lambda case: case.name)
def test_allows_what_is_odd_but_legal(case, tmp_path):
    outcome = describe_and_train(write(tmp_path, case.wasm()))
    assert outcome["weightsBytes"] == 16
    assert bool(outcome["warnings"]) == (case.name == "memory_without_maximum")


@pytest.mark.parametrize("name", BOMBS)
def test_stops_a_bomb_within_its_limits(name, tmp_path, neighbour):
    """W9, W12: a child that compiles for ever or eats memory dies alone."""
    path = write(tmp_path, BOMBS[name]())
    jail = Jail.__new__(Jail)  # its use of resources is wanted though it never comes to be
    with pytest.raises(ModelError) as refusal:
        Jail.__init__(jail, path, LIMITS)
    assert refusal.value.code in BOMBS_END[name], refusal.value.message
    assert jail.usage
    assert jail.usage.resident_bytes < LIMITS.data_bytes(path.stat().st_size)
    assert jail.usage.processor_seconds < LIMITS.compile_seconds + 2
    assert neighbour() == bytes.fromhex("0000803f" * 4)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "an empty file"),
        (b"(module)", "28 6d 6f 64"),
        (b"<html></html>", "3c 68 74"),
        (b"\0asm\2\0\0\0", "02 00 00 00"),
        (b"\0asm\r\0\1\0", "component"),
        (b"\0asm", "00 61 73 6d"),
    ],
    ids=["empty", "text", "html", "version 2", "component", "cut"],
)
def test_refuses_what_is_not_a_core_module(data, found, tmp_path):
    """C60, F13. wasmtime-py would compile WebAssembly text; a browser would not."""
    with pytest.raises(ModelError, match=found) as refusal:
        Jail(write(tmp_path, data), LIMITS)
    assert refusal.value.code == "not_wasm"


def test_refuses_a_module_that_is_cut_short(tmp_path):
    with pytest.raises(ModelError) as refusal:
        Jail(write(tmp_path, plus_one()[:-20]), LIMITS)
    assert refusal.value.code == "invalid_module"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("imports_a_clock", "env.now"),
        ("lacks_free", "free"),
        ("train_takes_nothing", r"train must be func\(i32, i32\) -> \(i32\); it is func\(\) -> \(i32\)"),
        ("promises_evaluate", "evaluate"),
        ("info_loops", "getModelInfo .* 0.5 seconds"),
        ("recurses", "call stack exhausted"),
        ("unreachable", "unreachable"),
        ("relaxed_simd", "relaxed SIMD"),
        ("memory_of_4_gib", "65536 pages"),
        ("error_is_empty", r'module hostile without a reason \(error: ""\)'),
        ("error_is_a_number", r"error: 42"),
        ("error_is_an_object", r"error: \{\}"),
        ("result_of_2_gib", "2147483648 bytes"),
    ],
)
def test_says_what_is_wrong(name, words, tmp_path):
    """C60, C63: people read these."""
    with pytest.raises(ModelError, match=words):
        describe_and_train(write(tmp_path, BY_NAME[name].wasm()))


def test_cuts_a_long_reason_and_keeps_it_as_it_stands(tmp_path):
    """W14. Escaping is the page's work."""
    with pytest.raises(ModelError) as refusal:
        describe_and_train(write(tmp_path, BY_NAME["error_of_900_kib"].wasm()))
    assert refusal.value.message == "<script>" + "x" * 492


def test_drops_and_counts_bad_reports(tmp_path):
    """C61: training goes on, and what is shown neither passes the total nor falls."""
    limits = Limits(memory_bytes=64 * MIB, run_seconds=5, progress_seconds=0)
    seen: list[Report] = []
    outcome = describe_and_train(write(tmp_path, BY_NAME["bad_reports"].wasm()), seen.append, limits)
    assert (seen, outcome["droppedReports"]) == ([], 8)
    outcome = describe_and_train(write(tmp_path, BY_NAME["falling_reports"].wasm()), seen.append, limits)
    assert [report["processedExamples"] for report in seen] == [5, 8]
    assert outcome["droppedReports"] == 1


def test_a_flood_of_reports_is_thinned(tmp_path):
    """W10: 20,000 calls, at most one report per interval."""
    limits = Limits(memory_bytes=64 * MIB, run_seconds=30, progress_seconds=60)
    seen: list[Report] = []
    describe_and_train(write(tmp_path, BY_NAME["flood_of_reports"].wasm()), seen.append, limits)
    assert len(seen) == 1


def test_the_binaries_for_other_hosts_are_those_of_the_sources():
    made = files()
    assert {path.name for path in BINARIES.iterdir()} == set(made)
    for name, data in made.items():
        assert (BINARIES / name).read_bytes() == data, f"run python -m tests.hosts.modules.build: {name}"


def test_every_case_expects_a_known_error():
    assert {case.code for case in CASES if case.code} <= set(CODES)
    assert len(CASES) >= 30
    assert len(BY_NAME) == len(CASES)


def test_assembles_the_honest_base():
    assert wasmtime.Module(wasmtime.Engine(), BY_NAME["honest"].wasm())
