"""Compiling a module and checking what it imports and exports, all before any of its code runs.

Standard library and wasmtime only. Only a jailed child compiles: no limit of wasmtime bounds compilation.
"""

from __future__ import annotations

from collections import Counter

import wasmtime

from weei_core.abi.codes import refusal

_MAGIC = b"\0asm"
_CORE_VERSION = b"\1\0\0\0"
_COMPONENT_VERSION = b"\r\0\1\0"

_REFUSED_FEATURES = (
    "threads",
    "tail_call",
    "multi_memory",
    "memory64",
    "relaxed_simd",
    "exceptions",
    "function_references",
    "gc",
    "wide_arithmetic",
    "custom_page_sizes",
    "stack_switching",
    "component_model",
)
"""wasmtime-py's names. Reference types stay on: wasmtime 50 aborts the process when only they are switched off."""

_FEATURE_HINTS = (
    "is not enabled",
    "must be enabled",
    "not enabled",
    "multiple memories",
    "without the gc feature",
    "is disabled",
)
"""How wasmtime's validator says that a feature, and not the module, is the reason."""

OPERATIONS = (
    "getModelInfo",
    "createInitialWeights",
    "loadModel",
    "loadAuxiliary",
    "train",
    "evaluate",
    "inspectData",
    "predict",
    "gpuBegin",
    "gpuNext",
    "gpuEnd",
)
REQUIRED_OPERATIONS = ("getModelInfo", "createInitialWeights", "loadModel", "train")

_SIGNATURES = {
    "alloc": (("i32",), ("i32",)),
    "free": (("i32", "i32"), ()),
    "resultLength": ((), ("i32",)),
    "_initialize": ((), ()),
    **dict.fromkeys(OPERATIONS, (("i32", "i32"), ("i32",))),
}
_REQUIRED_FUNCTIONS = ("alloc", "free", "resultLength", *REQUIRED_OPERATIONS)


def make_engine(*, canonicalize_nans: bool = False) -> wasmtime.Engine:
    """The one configuration every program compiles with, so that compiled modules can be shared."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    for feature in _REFUSED_FEATURES:
        setattr(config, f"wasm_{feature}", False)
    if canonicalize_nans:
        config.cranelift_nan_canonicalization = True
    return wasmtime.Engine(config)


def compile_module(engine: wasmtime.Engine, wasm: bytes) -> wasmtime.Module:
    """Compile and check `wasm`. Raises `ModelError`: not_wasm, invalid_module, feature_refused, or one of imports
    and exports.
    """
    _check_header(wasm)
    try:
        module = wasmtime.Module(engine, wasm)
    except wasmtime.WasmtimeError as error:
        reason = last_cause(str(error))
        if any(hint in reason for hint in _FEATURE_HINTS):
            raise refusal("feature_refused", f"The module uses a refused WebAssembly feature: {reason}.") from error
        raise refusal("invalid_module", f"The module is not valid WebAssembly: {reason}.") from error
    check_interface(module)
    return module


def _check_header(wasm: bytes) -> None:
    # wasmtime-py compiles WebAssembly text as well; a browser would not, so the magic is checked here.
    if wasm[4:8] == _COMPONENT_VERSION and wasm.startswith(_MAGIC):
        raise refusal("not_wasm", "The module is a WebAssembly component; a core module (version 1) is needed.")
    if wasm[:8] != _MAGIC + _CORE_VERSION:
        found = wasm[:8].hex(" ") or "an empty file"
        raise refusal("not_wasm", f"The module must start with 00 61 73 6d 01 00 00 00 (WebAssembly 1); found {found}.")


def check_interface(module: wasmtime.Module) -> None:
    """Refuse by name every import but one, and every missing or mistyped export."""
    _check_imports(module)
    exports = {export.name: export.type for export in module.exports}
    _check_memory(exports.get("memory"))
    for name in _REQUIRED_FUNCTIONS:
        if name not in exports:
            raise refusal("export_missing", f"The module must export the function {name}; it does not.", field=name)
    for name, (parameters, results) in _SIGNATURES.items():
        if name in exports:
            _check_function(name, exports[name], parameters, results)


def _check_imports(module: wasmtime.Module) -> None:
    seen: Counter[str] = Counter()
    for item in module.imports:
        name = f"{item.module}.{item.name}"[:200]
        seen[name] += 1
        wanted = (item.module, item.name) == ("weei", "onProgress")
        if not wanted or _describe(item.type) != "func(i32, i32) -> ()":
            raise refusal(
                "import_not_allowed",
                f"The module imports {name} as {_describe(item.type)}; "
                "the only allowed import is weei.onProgress as func(i32, i32) -> ().",
                field=name,
            )
        if seen[name] > 1:
            raise refusal("import_not_allowed", f"The module imports {name} twice; once is allowed.", field=name)


def _check_memory(found: wasmtime._types.AsExternType | None) -> None:
    if found is None:
        raise refusal("export_missing", "The module must export its memory as memory; it does not.", field="memory")
    if not isinstance(found, wasmtime.MemoryType):
        message = f"The export memory must be a memory; it is {_describe(found)}."
        raise refusal("export_signature", message, field="memory")


def _check_function(
    name: str, found: wasmtime._types.AsExternType, parameters: tuple[str, ...], results: tuple[str, ...]
) -> None:
    wanted = _signature(parameters, results)
    if _describe(found) != wanted:
        message = f"The export {name} must be {wanted}; it is {_describe(found)}."
        raise refusal("export_signature", message, field=name)


def _signature(parameters: tuple[str, ...], results: tuple[str, ...]) -> str:
    return f"func({', '.join(parameters)}) -> ({', '.join(results)})"


def _describe(found: wasmtime._types.AsExternType) -> str:
    if isinstance(found, wasmtime.FuncType):
        return _signature(tuple(map(str, found.params)), tuple(map(str, found.results)))
    return {"MemoryType": "a memory", "TableType": "a table", "GlobalType": "a global"}.get(
        type(found).__name__, "something else"
    )


def has_export(module: wasmtime.Module, name: str) -> bool:
    return any(export.name == name for export in module.exports)


def memory_maximum_pages(module: wasmtime.Module) -> int | None:
    """The declared maximum of `memory`, or None. Without one a module's results may depend on the device."""
    for export in module.exports:
        if export.name == "memory" and isinstance(export.type, wasmtime.MemoryType):
            return export.type.limits.max
    return None


def last_cause(message: str) -> str:
    """The last, most exact line of a wasmtime error, without its numbering and the module's own function names."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    cause = lines[-1] if lines else "no reason given"
    head, _, rest = cause.partition(": ")
    return (rest if head.isdigit() and rest else cause)[:300]
