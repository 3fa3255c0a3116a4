"""The ids of everything a host refuses in a module. The same in every language; `errors.json` is the shared copy.

Standard library only: a jailed child imports this module.
"""

from __future__ import annotations

from weei_core.errors import ModelError

CODES = {
    "not_wasm": "The file is not a WebAssembly core module (text, a component, another version).",
    "invalid_module": "The file is a WebAssembly module, but not a valid one.",
    "feature_refused": "The module uses a WebAssembly feature outside the ABI.",
    "import_not_allowed": "The module imports something else than weei.onProgress(i32, i32), or that one twice.",
    "export_missing": "The module lacks an export that the ABI, or its own ModelInfo, asks for.",
    "export_signature": "An export has another kind or signature than the ABI gives it.",
    "memory_limit": "The module, or its compilation, needs more memory or table elements than allowed.",
    "time_limit": "The module, or its compilation, ran longer than allowed.",
    "trap": "The module trapped.",
    "crash": "The process that ran the module died.",
    "cancelled": "The host stopped the module because its result is no longer wanted.",
    "poisoned": "An instance was used again after a trap or an interruption.",
    "re_entry": "The host was asked to call into the module from within onProgress.",
    "alloc_failed": "alloc returned 0.",
    "alloc_misaligned": "alloc returned an address that is not a multiple of 16.",
    "alloc_overlap": "alloc returned a range that overlaps a buffer the host still owns.",
    "out_of_bounds": "An address and a length do not lie within the module's memory.",
    "result_too_large": "A result is longer than 1 MiB of JSON, or a ModelInfo longer than 256 KiB.",
    "invalid_result": "A result is not UTF-8, not JSON, not an object, or does not fit the schema.",
    "wrong_size": "Weights are empty, no whole number of float32 values, or of another size than those loaded.",
    "non_finite": "Weights hold NaN or an infinity.",
    "module_error": "The module itself answered {error}.",
}


def refusal(code: str, message: str, *, operation: str | None = None, field: str | None = None) -> ModelError:
    """A `ModelError` whose code is one of `CODES`."""
    if code not in CODES:
        raise ValueError(f"{code} is not an error id of the ABI")
    return ModelError(message, operation=operation, field=field, code=code)
