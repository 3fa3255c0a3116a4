"""The wasmtime host: the call sequence, the request bytes, and what it will not do."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from tests.hosts import transcripts
from tests.hosts.modules.build import plus_one
from tests.hosts.modules.hostile import BY_NAME, WEIGHTS_AT_2_GIB
from tests.hosts.recording import RecordingRun
from weei_core.abi import codes
from weei_core.abi.host import ModuleRun
from weei_core.abi.limits import MIB, Limits
from weei_core.abi.memory import FileSlice, Region
from weei_core.abi.module import compile_module, make_engine, memory_maximum_pages
from weei_core.abi.progress import ProgressFilter, Report
from weei_core.abi.requests import DataRange, Units, Work, predict_request, train_request
from weei_core.errors import ModelError

ENGINE = make_engine()
LIMITS = Limits(memory_bytes=64 * MIB, run_seconds=20, progress_seconds=0)
WORK = Work("{}", round=1, units=Units("1", 0, 8))


@pytest.fixture(scope="module")
def honest() -> wasmtime.Module:
    return compile_module(ENGINE, plus_one())


def loaded(module: wasmtime.Module, **options: Any) -> RecordingRun:
    run = RecordingRun(module, ENGINE, LIMITS, **options)
    run.get_model_info()
    run.load_model(transcripts.WEIGHTS)
    return run


def test_makes_the_golden_calls():
    """The sequence, every address and every request byte are part of the ABI."""
    golden = json.loads(transcripts.FILE.read_text())
    assert transcripts.transcripts() == golden, "if deliberate: python -m tests.hosts.transcripts"


def test_error_ids_are_shared_with_other_languages():
    """Requirement 8: the same ids in both hosts."""
    assert json.loads(Path(codes.__file__).with_name("errors.json").read_text()) == codes.CODES
    with pytest.raises(ValueError, match="not an error id"):
        codes.refusal("sorry", "…")


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (
            Work('{"a":0.00001}', round=2, seed="7", data=DataRange("é\u2028", 0, 5)),
            '{"data":{"pointer":16,"bytes":4,"format":"é\u2028","recordStart":0,"recordCount":5},'
            '"settings":{"a":0.00001},"round":2,"seed":"7"}',
        ),
        (
            Work("{}", round=2, seed="7", units=Units("9", 0, 3)),
            '{"experience":{"seed":"9","unitStart":0,"unitCount":3},"settings":{},"round":2}',
        ),
    ],
)
def test_writes_requests_as_javascript_does(work, text):
    """C53: settings pass byte for byte, text is not escaped, absent members are left out."""
    assert train_request(work, Region(16, 4)) == text
    assert predict_request('{"text":"a"}') == '{"input":{"text":"a"}}'


def test_trains_adding_one(honest):
    seen: list[Report] = []
    with loaded(honest, on_progress=seen.append) as run:
        answer = run.train(WORK)
        assert answer.value["uniqueExamples"] == 8
        assert run.weights(answer.weights).hex() == "00000040000080bf0000c03f00000041"
    assert seen == [{"processedExamples": 8, "totalExamples": 8}]


def test_same_bytes_with_and_without_canonical_nans():
    """The result of a module that keeps the rules does not depend on how NaN bits are made."""
    made = []
    for canonical in (False, True):
        engine = make_engine(canonicalize_nans=canonical)
        with RecordingRun(compile_module(engine, plus_one()), engine, LIMITS) as run:
            run.get_model_info()
            run.load_model(transcripts.WEIGHTS)
            made.append(run.weights(run.train(WORK).weights))
    assert made[0] == made[1]


def test_big_files_go_straight_to_memory_and_back(honest, tmp_path):
    """A chunk of 3 MiB makes the memory grow inside alloc; the view is taken after it (C55)."""
    (tmp_path / "chunk").write_bytes(b"#" * (3 * MIB))
    with loaded(honest) as run, open(tmp_path / "chunk", "rb") as chunk, open(tmp_path / "out", "wb") as out:
        source = FileSlice(chunk.fileno(), 1, 3 * MIB - 1)
        assert run.inspect_data(DataRange("bytes"), source) == 3 * MIB - 1
        trained = run.train(WORK).weights
        assert trained
        run.save(trained, out.fileno())
    assert (tmp_path / "out").read_bytes() == bytes.fromhex("00000040000080bf0000c03f00000041")


def test_a_file_that_ends_early_is_an_error(honest, tmp_path):
    (tmp_path / "short").write_bytes(b"12345678")
    with (
        loaded(honest) as run,
        open(tmp_path / "short", "rb") as short,
        pytest.raises(OSError, match="ended at byte 8"),
    ):
        run.train(WORK, FileSlice(short.fileno(), 0, 16))


@pytest.mark.parametrize("name", ["alloc_grows_memory", "train_grows_memory"])
def test_memory_may_move_during_a_call(name):
    """C55: no stale view, no zeros."""
    module = compile_module(ENGINE, BY_NAME[name].wasm())
    with loaded(module) as run:
        assert run.weights(run.train(WORK).weights).hex() == "0000803f000000c00000003f00000000"


def test_addresses_above_2_gib_are_unsigned():
    """wasmtime-py hands them out as negative numbers."""
    module = compile_module(ENGINE, WEIGHTS_AT_2_GIB.wasm())
    with ModuleRun(module, ENGINE, Limits(memory_bytes=4096 * MIB)) as run:
        run.get_model_info()
        assert run.create_initial_weights("1").weights == Region(0x8000_0000, 16)


def test_refuses_calls_from_within_on_progress(honest):
    """W11."""

    def meddle(report):
        run.get_model_info()

    with loaded(honest, on_progress=meddle) as run, pytest.raises(ModelError) as refused:
        run.train(WORK)
    assert refused.value.code == "re_entry"


def test_what_on_progress_raises_stops_the_module(honest):
    class Stop(Exception):
        pass

    def stop(report):
        raise Stop

    with loaded(honest, on_progress=stop) as run:
        with pytest.raises(Stop):
            run.train(WORK)
        with pytest.raises(ModelError) as refused:
            run.train(WORK)
    assert refused.value.code == "poisoned"


def test_refuses_an_instance_that_has_trapped():
    """C57."""
    with loaded(compile_module(ENGINE, BY_NAME["unreachable"].wasm())) as run:
        for code in ("trap", "poisoned"):
            with pytest.raises(ModelError) as refused:
                run.train(WORK)
            assert refused.value.code == code


def test_weights_that_do_not_fit_are_freed_again(honest):
    """A buffer becomes the module's only when loadModel answers without an error."""
    with RecordingRun(honest, ENGINE, LIMITS) as run:
        run.get_model_info()
        with pytest.raises(ModelError, match="weights must be 16 bytes"):
            run.load_model(bytes(8))
        calls = [(entry["call"], *entry["arguments"]) for entry in run.entries if "call" in entry]
        assert calls[-2:] == [("free", 8208, calls[-2][2]), ("free", 8192, 8)]


def test_names_an_operation_that_is_not_exported():
    module = compile_module(ENGINE, BY_NAME["honest"].wasm())
    with loaded(module) as run, pytest.raises(ModelError, match="does not export evaluate") as refused:
        run.evaluate(WORK)
    assert refused.value.code == "export_missing"


def test_a_run_leaves_no_clock_behind(honest):
    """C58: the epoch is the engine's, so a clock left running would stop a later run."""
    with loaded(honest) as run:
        run.train(WORK)
    clocks = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    for clock in clocks:
        clock.join(5)
    assert not any(clock.is_alive() for clock in clocks)


def test_modules_with_webassembly_2_features_compile():
    text = (
        BY_NAME["honest"]
        .text()
        .replace(
            "(module",
            """(module
  (global i32 (i32.add (i32.const 1) (i32.const 2)))
  (table 2 4 externref)
  (func (param v128) (result v128) (f32x4.add (local.get 0) (local.get 0)))
  (func (param f32) (result i32) (i32.trunc_sat_f32_s (local.get 0)))
  (func (param i32) (result i32 i32) (local.get 0) (i32.extend8_s (local.get 0)))""",
            1,
        )
    )
    # The import section comes first in the text format.
    module = compile_module(ENGINE, bytes(wasmtime.wat2wasm(text)))
    assert memory_maximum_pages(module) == 65536


def test_the_report_filter_keeps_its_interval():
    """C61: those in between are not even read."""
    now = [0.0]
    progress = ProgressFilter(2, clock=lambda: now[0])
    taken = []
    for _ in range(100):
        taken.append(progress.is_due())
        now[0] += 0.125
    assert sum(taken) == 7


@pytest.mark.parametrize(
    "report",
    [
        b'{"processedExamples":1.5}',
        b'{"processedExamples":true}',
        b'{"processedExamples":1,"metrics":[]}',
        b'{"processedExamples":1,"metrics":{"loss":1e400}}',
        b'{"processedExamples":1,"optimizerSteps":-1}',
        b'{"processedExamples":1,"totalExamples":"8"}',
    ],
)
def test_drops_a_report_of_the_wrong_shape(report):
    """C61, C76."""
    progress = ProgressFilter()
    assert progress.accept(report) is None
    assert progress.dropped == 1


def test_passes_on_what_the_abi_names():
    accepted = ProgressFilter().accept(
        b'{"processedExamples":1,"totalExamples":2,"optimizerSteps":3,"metrics":{"loss":-0.0,"f1":null},"more":1}'
    )
    assert accepted == {"processedExamples": 1, "totalExamples": 2, "optimizerSteps": 3, "metrics": {"loss": 0.0}}
