"""One assignment of each kind of model, which every host must play to the same bits.

Paths are relative to the repository. `work` is in the ABI's own names, as static/weei/host/node.js and
tests/browser/host_worker.js take it; {"seed": …} instead of a file are the initial weights of that seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.hosts.recording import Entry, RecordingRun
from weei_core.abi.limits import Limits
from weei_core.abi.module import compile_module, make_engine
from weei_core.abi.requests import DataRange, Units, Work

ROOT = Path(__file__).resolve().parent.parent.parent
Plan = dict[str, Any]

INITIAL = {"seed": "7"}
OTHER = {"seed": "9007199254740993"}
SEED = "18446744073709551615"

PLANS: dict[str, Plan] = {
    "digits": {
        "module": "reference_models/digits/digits.wasm",
        "weights": INITIAL,
        "auxiliary": [],
        "data": "reference_models/digits/data/train-001.bin",
        "work": {
            "settings": '{"localEpochs":3,"batchSize":16,"learningRate":0.05}',
            "round": 2,
            "seed": SEED,
            "format": "digits-u8-v1",
            "recordStart": 5,
            "recordCount": 100,
        },
    },
    "cartpole": {
        "module": "reference_models/cartpole/cartpole.wasm",
        "weights": INITIAL,
        "auxiliary": [],
        "work": {
            "settings": '{"localEpochs":1,"batchSize":16}',
            "round": 2,
            "experience": {"seed": SEED, "unitStart": 4294967296, "unitCount": 32},
        },
    },
    "connect-four": {
        "module": "reference_models/connect4/connect4.wasm",
        "weights": INITIAL,
        "auxiliary": [{"id": "opponent", "file": OTHER}],
        "work": {
            "settings": '{"localEpochs":1,"batchSize":16}',
            "round": 5,
            "experience": {"seed": SEED, "unitStart": 4294967296, "unitCount": 32},
        },
    },
    "record-bandit": {
        "module": "reference_models/bandit/bandit.wasm",
        "weights": INITIAL,
        "auxiliary": [],
        "data": "reference_models/bandit/data/train-1.bin",
        "work": {
            "settings": '{"localEpochs":2,"batchSize":8,"learningRate":0.1}',
            "round": 3,
            "format": "bandit-f32-v1",
            "experience": {"seed": SEED, "unitStart": 208, "unitCount": 40},
        },
    },
    "configured rows": {
        "module": "tests/models/configured/mlp-rows.wasm",
        "weights": INITIAL,
        "auxiliary": [],
        "data": "tests/models/configured/mlp-rows.bin",
        "work": {
            "settings": '{"localEpochs":3,"batchSize":16}',
            "round": 2,
            "seed": SEED,
            "format": "weei-rows",
            "recordStart": 5,
            "recordCount": 140,
        },
    },
    "configured images": {
        "module": "tests/models/configured/mlp-images.wasm",
        "weights": INITIAL,
        "auxiliary": [],
        "data": "tests/models/configured/mlp-images.bin",
        "work": {
            "settings": '{"localEpochs":3,"batchSize":100,"learningRate":0.1}',
            "round": 2,
            "seed": SEED,
            "format": "weei-rows",
        },
    },
    "configured text": {
        "module": "tests/models/configured/transformer.wasm",
        "weights": INITIAL,
        "auxiliary": [],
        "data": "tests/models/configured/transformer.bin",
        "work": {
            "settings": '{"localEpochs":2,"batchSize":4,"learningRate":0.003}',
            "round": 2,
            "seed": SEED,
            "format": "weei-tokens",
            "recordStart": 2,
            "recordCount": 17,
        },
    },
    "configured policy": {
        "module": "tests/models/configured/text-policy.wasm",
        "weights": INITIAL,
        "auxiliary": [{"id": "reference", "file": OTHER}],
        "work": {
            "settings": '{"localEpochs":2,"batchSize":8,"learningRate":0.003}',
            "round": 2,
            "experience": {"seed": SEED, "unitStart": 4294967296, "unitCount": 20},
        },
    },
    "aux-echo": {
        "module": "tests/models/auxiliary/aux-echo.wasm",
        "weights": INITIAL,
        "auxiliary": [
            {"id": "reward", "file": "tests/models/auxiliary/reward.bin"},
            {"id": "start", "file": INITIAL},
            {"id": "old", "file": OTHER},
        ],
        "work": {
            "settings": '{"localEpochs":1,"batchSize":16,"learningRate":1e-7}',
            "round": 4,
            "experience": {"seed": SEED, "unitStart": 100, "unitCount": 10},
        },
    },
}


def content(plan: Plan, source: str | dict[str, str]) -> bytes:
    """A file of the plan, or its model's initial weights."""
    if isinstance(source, str):
        return (ROOT / source).read_bytes()
    with _run(plan) as run:
        run.get_model_info()
        return run.weights(run.create_initial_weights(source["seed"]).weights)


def play(plan: Plan, **options: Any) -> tuple[list[Entry], bytes]:
    """(calls, weights) of the assignment on wasmtime."""
    with _run(plan, **options) as run:
        run.get_model_info()
        run.load_model(content(plan, plan["weights"]))
        for slot in plan["auxiliary"]:
            run.load_auxiliary(slot["id"], content(plan, slot["file"]))
        answer = run.train(_work(plan["work"]), content(plan, plan["data"]) if "data" in plan else None)
        calls = list(run.entries)
        return calls, run.weights(answer.weights)


def _run(plan: Plan, **options: Any) -> RecordingRun:
    engine = make_engine(**options)
    return RecordingRun(compile_module(engine, (ROOT / plan["module"]).read_bytes()), engine, Limits())


def _work(work: Plan) -> Work:
    units = work.get("experience")
    return Work(
        work["settings"],
        round=work["round"],
        seed=work.get("seed"),
        data=DataRange(work["format"], work.get("recordStart"), work.get("recordCount")) if "format" in work else None,
        units=Units(units["seed"], units["unitStart"], units["unitCount"]) if units else None,
    )
