"""The one wasmtime host of Weei WASM ABI 1. The server's jail and the agent's child both run modules through it.

Standard library and wasmtime only. One module runs at a time in a process: wasmtime-py passes exceptions of host
functions through a global, and stopping a module by its engine's epoch stops every module of that engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import wasmtime

from weei_core.abi import requests, results
from weei_core.abi.codes import refusal
from weei_core.abi.limits import MAX_MODEL_INFO_BYTES, MAX_REPORT_BYTES, MAX_RESULT_BYTES, MAX_TABLE_ELEMENTS, Limits
from weei_core.abi.memory import UNSIGNED, FileSlice, GuestMemory, Region, check_weights_size, source_bytes
from weei_core.abi.module import last_cause
from weei_core.abi.progress import OnProgress, ProgressFilter
from weei_core.abi.requests import DataRange, Work
from weei_core.abi.results import JsonObject
from weei_core.errors import ModelError
from weei_core.strict_json import JsonValue

_ALIGNMENT = 16
_SIGN = 0x80000000
_START = "start"
"""What errors call the start section and `_initialize`, which run as part of making an instance."""

Source = bytes | FileSlice
_T = TypeVar("_T")


@dataclass(frozen=True)
class Answer:
    """`text` is the result exactly as the module wrote it, `value` the same parsed, `weights` where they lie."""

    text: str
    value: JsonObject
    weights: Region | None = None


class ModuleRun:
    """One instance, for one assignment, evaluation, prediction or inspection; never used again after an error.

    The methods are called in the ABI's order. `on_call` hears the name of every operation before it starts.
    Raises `ModelError` whose code is one of `codes.CODES` and which names the operation.
    """

    def __init__(
        self,
        module: wasmtime.Module,
        engine: wasmtime.Engine,
        limits: Limits,
        *,
        on_progress: OnProgress | None = None,
        on_call: Callable[[str], None] | None = None,
    ) -> None:
        self.progress = ProgressFilter(limits.progress_seconds)
        self._limits = limits
        self._on_progress = on_progress
        self._on_call = on_call
        self._entered = False
        self._broken = False
        self._owned: dict[int, int] = {}
        self._model_id = ""
        self._loaded_bytes: int | None = None
        self._memory: GuestMemory | None = None
        self._functions: dict[str, wasmtime.Func] = {}
        self._store = wasmtime.Store(engine)
        self._store.set_limits(limits.memory_bytes, MAX_TABLE_ELEMENTS, instances=1, tables=16, memories=1)
        self._store.set_epoch_deadline(1)
        self._timer = threading.Timer(limits.run_seconds, engine.increment_epoch)
        self._timer.daemon = True
        self._timer.start()
        try:
            self._instantiate(module)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the clock and give the memory back now rather than at some garbage collection."""
        self._broken = True
        self._timer.cancel()
        self._store.close()

    # The operations, in the order of a run.

    def get_model_info(self) -> Answer:
        answer = self._call("getModelInfo", "{}", most=MAX_MODEL_INFO_BYTES)
        self._model_id = str(answer.value.get("id") or "")[:200]
        return answer

    def create_initial_weights(self, seed: str) -> Answer:
        """`seed` is a decimal u64. The weights are checked to be float32 values, all finite."""
        answer = self._call("createInitialWeights", requests.seed_request(seed))
        return self._with_weights("createInitialWeights", answer, answer.value)

    def load_model(self, weights: Source) -> None:
        """On success the buffer is the module's; an error means that the weights are not compatible."""
        region = self._give(weights, "loadModel", "weights")
        self._call("loadModel", requests.weights_request(region), after_error=region)
        self._owned.pop(region.pointer)
        self._loaded_bytes = region.bytes

    def load_auxiliary(self, slot: str, weights: Source) -> None:
        region = self._give(weights, "loadAuxiliary", f"weights of {slot}")
        self._call("loadAuxiliary", requests.auxiliary_request(slot, region), after_error=region)
        self._owned.pop(region.pointer)

    def train(self, work: Work, data: Source | None = None) -> Answer:
        """The new weights are as many bytes as those loaded, and finite. They are valid until the next call."""
        region = None if data is None else self._give(data, "train", "data")
        answer = self._call("train", requests.train_request(work, region), after_error=region)
        results.check_counts(answer.value, "train")
        answer = self._with_weights("train", answer, answer.value.get("weights"))
        if region:
            self._free(region, "train")
        return answer

    def evaluate(self, work: Work, data: Source | None = None) -> Answer:
        region = None if data is None else self._give(data, "evaluate", "data")
        answer = self._call("evaluate", requests.evaluate_request(work, region), after_error=region)
        results.check_counts(answer.value, "evaluate")
        if region:
            self._free(region, "evaluate")
        return answer

    def inspect_data(self, data_range: DataRange, data: Source) -> int:
        """How many examples the chunk holds, by the module's own reading."""
        region = self._give(data, "inspectData", "data")
        answer = self._call("inspectData", requests.inspect_request(data_range, region), after_error=region)
        self._free(region, "inspectData")
        return results.example_count(answer.value)

    def predict(self, input_text: str) -> Answer:
        """`input_text` is the JSON text of an object in the form that `ModelInfo.inference` describes."""
        answer = self._call("predict", requests.predict_request(input_text))
        results.output_of(answer.value)
        return answer

    def save(self, region: Region, fd: int) -> None:
        """Write a region that the last operation returned to an open file."""
        self._guest().save(region, fd)

    # The calling convention.

    def _instantiate(self, module: wasmtime.Module) -> None:
        imports: list[wasmtime.Func] = []
        if module.imports:
            pair = wasmtime.FuncType([wasmtime.ValType.i32(), wasmtime.ValType.i32()], [])
            imports.append(wasmtime.Func(self._store, pair, self._report))
        self._announce(_START)
        exports = self._guarded(_START, lambda: wasmtime.Instance(self._store, module, imports).exports(self._store))
        for name, export in exports.items():
            if isinstance(export, wasmtime.Func):
                self._functions[name] = export
        memory = exports["memory"]
        if isinstance(memory, wasmtime.Memory):
            self._memory = GuestMemory(self._store, memory)
        if "_initialize" in self._functions:
            self._invoke("_initialize", _START)

    def _call(
        self, operation: str, request: str, *, most: int = MAX_RESULT_BYTES, after_error: Region | None = None
    ) -> Answer:
        """One operation. `after_error` is a buffer to free when the module answers with an error."""
        if operation not in self._functions:
            raise refusal("export_missing", f"The module does not export {operation}.", operation=operation)
        region = self._give(request.encode(), operation, "request")
        self._announce(operation)
        pointer = self._invoke(operation, operation, region.pointer, region.bytes)
        size = self._invoke("resultLength", operation)
        if size > most:
            message = f"{operation} returned {size} bytes of JSON; at most {most} are allowed."
            raise refusal("result_too_large", message, operation=operation)
        data = self._guest().read(self._guest().check(pointer, size, operation, "the result"))
        self._free(region, operation)
        try:
            value = results.parse_result(data, operation, self._model_id)
        except ModelError:
            if after_error:
                self._free(after_error, operation)
            raise
        return Answer(str(data, "utf-8"), value)

    def _give(self, source: Source, operation: str, what: str) -> Region:
        """`alloc` and fill a buffer, which is the host's until freed or handed over."""
        size = source_bytes(source)
        pointer = self._invoke("alloc", operation, size)
        if pointer == 0:
            message = f"{operation}: the module could not alloc {size} bytes for the {what}."
            raise refusal("alloc_failed", message, operation=operation)
        region = self._guest().check(pointer, size, operation, f"alloc({size}) for the {what}")
        if pointer % _ALIGNMENT:
            message = f"{operation}: alloc({size}) returned address {pointer}, which is not a multiple of 16."
            raise refusal("alloc_misaligned", message, operation=operation)
        if any(pointer < start + length and start < pointer + size for start, length in self._owned.items()):
            message = f"{operation}: alloc({size}) returned address {pointer}, inside a buffer that is in use."
            raise refusal("alloc_overlap", message, operation=operation)
        self._owned[pointer] = size
        self._guest().write(region, source)
        return region

    def _free(self, region: Region, operation: str) -> None:
        self._owned.pop(region.pointer)
        self._invoke("free", operation, region.pointer, region.bytes)

    def _with_weights(self, operation: str, answer: Answer, value: JsonValue) -> Answer:
        pointer, size = results.region_numbers(value, operation, "weights")
        check_weights_size(size, operation, self._loaded_bytes)
        region = self._guest().check(pointer, size, operation, "the weights")
        if not self._guest().is_finite(region):
            message = f"{operation} returned weights with a value that is not finite."
            raise refusal("non_finite", message, operation=operation, field="weights")
        return Answer(answer.text, answer.value, region)

    def _invoke(self, export: str, operation: str, *arguments: int) -> int:
        """Call one export; numbers go in and come out as unsigned 32-bit."""
        function = self._functions[export]
        signed = [number - 2 * _SIGN if number & _SIGN else number for number in arguments]
        result = self._guarded(operation, lambda: function(self._store, *signed))
        return result & UNSIGNED if isinstance(result, int) else 0

    def _guarded(self, operation: str, call: Callable[[], _T]) -> _T:
        if self._entered:
            raise refusal("re_entry", f"{operation} was called from within onProgress.", operation=operation)
        if self._broken:
            message = f"{operation} was called on an instance that has trapped or been closed."
            raise refusal("poisoned", message, operation=operation)
        self._entered = True
        try:
            return call()
        except wasmtime.Trap as trap:
            self._broken = True
            raise self._trapped(trap, operation) from trap
        except wasmtime.WasmtimeError as error:
            self._broken = True
            reason = last_cause(str(error))
            code = "memory_limit" if "limits" in reason or "allocate" in reason else "trap"
            message = f"{operation}: the module cannot be instantiated: {reason}."
            raise refusal(code, message, operation=operation) from error
        except BaseException:
            self._broken = True
            raise
        finally:
            self._entered = False

    def _trapped(self, trap: wasmtime.Trap, operation: str) -> ModelError:
        if trap.trap_code == wasmtime.TrapCode.INTERRUPT:
            message = f"{operation} was stopped: the module ran longer than {self._limits.run_seconds:g} seconds."
            return refusal("time_limit", message, operation=operation)
        return refusal("trap", f"{operation} trapped: {last_cause(trap.message)}.", operation=operation)

    def _report(self, pointer: int, size: int) -> None:
        """`weei.onProgress`. Never refuses: a report that is no good is dropped."""
        if not self.progress.is_due():
            return
        size &= UNSIGNED
        if self._memory is None or size > MAX_REPORT_BYTES:
            self.progress.drop()
            return
        try:
            data = self._memory.read(self._memory.check(pointer, size, "onProgress", "the report"))
        except ModelError:
            self.progress.drop()
            return
        report = self.progress.accept(data)
        if report and self._on_progress:
            self._on_progress(report)

    def _announce(self, operation: str) -> None:
        if self._on_call:
            self._on_call(operation)

    def _guest(self) -> GuestMemory:
        if self._memory is None:
            raise refusal("export_missing", "The module does not export memory.", field="memory")
        return self._memory
