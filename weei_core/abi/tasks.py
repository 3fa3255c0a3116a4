"""One unit of work for a module, as plain data: what the parent of a jailed child asks for and what it gets back.

A task is a JSON object `{"operation": …}`; files are named beside it:

| operation | members | files read | files written | answer |
| --- | --- | --- | --- | --- |
| describe | seed? | weights (without seed) | weightsOut (with seed) | modelInfo, weightsBytes, warnings |
| inspect | auxiliary, chunks | weights, auxiliary/<n>, chunk/<n> | | exampleCounts |
| train | auxiliary, work | weights, auxiliary/<n>, data? | weightsOut | result, weightsBytes |
| evaluate | auxiliary, work | weights, auxiliary/<n>, data? | | result |
| predict | auxiliary, input | weights, auxiliary/<n> | | result |

`auxiliary` is the list of slot ids in declared order, `chunks` a list of DataRange, `work` a Work, `input` and
`settings` JSON text. `modelInfo` and `result` are the module's own text. Standard library and wasmtime only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import wasmtime

from weei_core.abi.codes import refusal
from weei_core.abi.host import ModuleRun
from weei_core.abi.limits import Limits
from weei_core.abi.memory import FileSlice
from weei_core.abi.module import has_export, memory_maximum_pages
from weei_core.abi.progress import OnProgress
from weei_core.abi.requests import DataRange, Units, Work
from weei_core.abi.results import JsonObject
from weei_core.strict_json import JsonValue

Task = Mapping[str, Any]
Outcome = dict[str, JsonValue]

_PROMISES = {"evaluation": "evaluate", "inspection": "inspectData", "inference": "predict"}


@dataclass
class TaskRunner:
    """Runs tasks of one compiled module, each on fresh instances."""

    engine: wasmtime.Engine
    module: wasmtime.Module
    limits: Limits
    on_progress: OnProgress | None = None
    on_call: Callable[[str], None] | None = None

    def run(self, task: Task, inputs: Mapping[str, FileSlice], outputs: Mapping[str, int]) -> Outcome:
        """`outputs` are descriptors of empty files, open for reading too: describe loads what it has written."""
        run = {
            "describe": self._describe,
            "inspect": self._inspect,
            "train": self._train,
            "evaluate": self._evaluate,
            "predict": self._predict,
        }[task["operation"]]
        return run(task, inputs, outputs)

    def _instance(self) -> ModuleRun:
        return ModuleRun(self.module, self.engine, self.limits, on_progress=self.on_progress, on_call=self.on_call)

    def _loaded(self, run: ModuleRun, task: Task, inputs: Mapping[str, FileSlice]) -> None:
        """The part of the call sequence that every operation on weights shares."""
        run.get_model_info()
        run.load_model(inputs["weights"])
        for index, slot in enumerate(task.get("auxiliary", ())):
            run.load_auxiliary(slot, inputs[f"auxiliary/{index}"])

    def _describe(self, task: Task, inputs: Mapping[str, FileSlice], outputs: Mapping[str, int]) -> Outcome:
        with self._instance() as run:
            info = run.get_model_info()
            check_promises(self.module, info.value)
            weights = inputs.get("weights")
            if weights is None:
                region = run.create_initial_weights(task["seed"]).weights
                assert region is not None
                run.save(region, outputs["weightsOut"])
                weights = FileSlice(outputs["weightsOut"], 0, region.bytes)
            if run.get_model_info().text != info.text:
                message = "getModelInfo must answer the same every time; asked again, it answered something else."
                raise refusal("invalid_result", message, operation="getModelInfo")
        with self._instance() as run:
            self._loaded(run, {}, {"weights": weights})
        warnings: list[JsonValue] = []
        if memory_maximum_pages(self.module) is None:
            warnings.append("The module declares no maximum for its memory; results may depend on the device.")
        return {"modelInfo": info.text, "weightsBytes": weights.bytes, "warnings": warnings}

    def _inspect(self, task: Task, inputs: Mapping[str, FileSlice], outputs: Mapping[str, int]) -> Outcome:
        with self._instance() as run:
            self._loaded(run, task, inputs)
            counts: list[JsonValue] = []
            for index, chunk in enumerate(task["chunks"]):
                counts.append(run.inspect_data(DataRange(**chunk), inputs[f"chunk/{index}"]))
        return {"exampleCounts": counts}

    def _train(self, task: Task, inputs: Mapping[str, FileSlice], outputs: Mapping[str, int]) -> Outcome:
        with self._instance() as run:
            self._loaded(run, task, inputs)
            answer = run.train(_work(task["work"]), inputs.get("data"))
            assert answer.weights is not None
            run.save(answer.weights, outputs["weightsOut"])
            return {
                "result": answer.text,
                "weightsBytes": answer.weights.bytes,
                "droppedReports": run.progress.dropped,
            }

    def _evaluate(self, task: Task, inputs: Mapping[str, FileSlice], outputs: Mapping[str, int]) -> Outcome:
        with self._instance() as run:
            self._loaded(run, task, inputs)
            answer = run.evaluate(_work(task["work"]), inputs.get("data"))
            return {"result": answer.text, "droppedReports": run.progress.dropped}

    def _predict(self, task: Task, inputs: Mapping[str, FileSlice], outputs: Mapping[str, int]) -> Outcome:
        with self._instance() as run:
            self._loaded(run, task, inputs)
            return {"result": run.predict(task["input"]).text}


def check_promises(module: wasmtime.Module, info: JsonObject) -> None:
    """Every operation that ModelInfo promises must be exported."""
    capabilities = info.get("capabilities")
    promised = capabilities if isinstance(capabilities, dict) else {}
    needed = [operation for capability, operation in _PROMISES.items() if promised.get(capability) is True]
    if info.get("auxiliaryWeights"):
        needed.append("loadAuxiliary")
    for operation in needed:
        if not has_export(module, operation):
            message = f"ModelInfo promises what needs the export {operation}; the module does not export it."
            raise refusal("export_missing", message, operation="getModelInfo", field=operation)


def _work(members: Mapping[str, Any]) -> Work:
    data, units = members.get("data"), members.get("units")
    return Work(
        settings=members["settings"],
        round=members.get("round"),
        seed=members.get("seed"),
        data=DataRange(**data) if data else None,
        units=Units(**units) if units else None,
    )
