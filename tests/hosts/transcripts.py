"""The golden transcripts: one assignment of each kind against `plus_one.wat`, call by call, for every host.

`tests/golden/transcripts.json` holds for each the inputs and the exact sequence of calls, addresses, written and
read bytes. Run `python -m tests.hosts.transcripts` after a deliberate change of the call sequence.
"""

import json
from pathlib import Path
from typing import Any

from tests.hosts.modules.build import plus_one
from tests.hosts.recording import Entry, RecordingRun
from weei_core.abi.limits import Limits
from weei_core.abi.module import compile_module, make_engine
from weei_core.abi.requests import DataRange, Units, Work

FILE = Path(__file__).resolve().parent.parent / "golden" / "transcripts.json"
WEIGHTS = bytes.fromhex("0000803f000000c00000003f0000e040")  # 1, -2, 0.5, 7
AUXILIARY = (("reward-1", bytes(8)), ("old", b"\0\0\x80\x3f" * 4))
SETTINGS = '{"localEpochs":1,"batchSize":16,"learningRate":1e-7}'
DATA = b"eleven data"

SEED = "18446744073709551615"
UNITS = Units(seed="9007199254740993", unit_start=4294967296, unit_count=32)
RANGE = DataRange(format="bytes", record_start=3, record_count=8)
WORKS = {
    "dataset": ("train", Work(SETTINGS, round=3, seed=SEED, data=DataRange(format="bytes"))),
    "record range": ("train", Work(SETTINGS, round=3, seed=SEED, data=RANGE)),
    "experience": ("train", Work(SETTINGS, round=1, units=UNITS)),
    "experience over records": ("train", Work(SETTINGS, round=2, data=RANGE, units=UNITS)),
    "evaluation": ("evaluate", Work(SETTINGS, data=DataRange(format="bytes"))),
    "evaluation by experience": ("evaluate", Work(SETTINGS, units=UNITS)),
}


def record(operation: str, work: Work) -> list[Entry]:
    engine = make_engine()
    with RecordingRun(compile_module(engine, plus_one()), engine, Limits()) as run:
        run.get_model_info()
        run.load_model(WEIGHTS)
        for slot, data in AUXILIARY:
            run.load_auxiliary(slot, data)
        method = run.train if operation == "train" else run.evaluate
        answer = method(work, DATA if work.data else None)
        if answer.weights:
            run.weights(answer.weights)
        return run.entries


def inputs(operation: str, work: Work) -> Entry:
    """What a host is given, in the ABI's own names."""
    data, units = work.data, work.units
    return _present(
        operation=operation,
        settings=work.settings,
        round=work.round,
        seed=work.seed,
        data=data and _present(format=data.format, recordStart=data.record_start, recordCount=data.record_count),
        experience=units and {"seed": units.seed, "unitStart": units.unit_start, "unitCount": units.unit_count},
    )


def _present(**members: Any) -> Entry:
    return {key: value for key, value in members.items() if value is not None}


def transcripts() -> Entry:
    shared = {
        "module": "tests/hosts/modules/binaries/plus_one.wasm",
        "weightsHex": WEIGHTS.hex(),
        "auxiliary": [{"id": slot, "hex": data.hex()} for slot, data in AUXILIARY],
        "dataHex": DATA.hex(),
    }
    runs = [{"name": name, "inputs": inputs(*of), "entries": record(*of)} for name, of in WORKS.items()]
    return {**shared, "runs": runs}


if __name__ == "__main__":
    FILE.write_text(json.dumps(transcripts(), indent=1) + "\n")
