"""Weights as files of other programs: what stands before the raw float32 values, so that these are sent as they lie.

safetensors: github.com/huggingface/safetensors, "Format". NumPy: numpy.lib.format, version 1.0.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from weei_core.model_info import NamedTensor

WHOLE = "weights"
"""The name of the one tensor of a model that names none."""
_ALIGNMENT = 8


def safetensors_header(tensors: Sequence[NamedTensor], weight_bytes: int, metadata: Mapping[str, str]) -> bytes:
    """Length and JSON of a `.safetensors` file whose data are `weight_bytes` bytes of float32. `tensors` cover them in
    order; without any there is one, `weights`. Padded with spaces, so that the values begin at a multiple of 8.
    """
    entries: dict[str, object] = {"__metadata__": dict(metadata)}
    offset = 0
    for name, shape in _named(tensors, weight_bytes):
        end = offset + 4 * int(np.prod(shape, dtype=np.int64))
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    if offset != weight_bytes:
        raise ValueError(f"the tensors have {offset} bytes, the weights {weight_bytes}")
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _named(tensors: Sequence[NamedTensor], weight_bytes: int) -> list[tuple[str, tuple[int, ...]]]:
    return [(tensor.name, tensor.shape) for tensor in tensors] or [(WHOLE, (weight_bytes // 4,))]


def npy_header(weight_bytes: int) -> bytes:
    """What stands before one flat float32 array in a `.npy` file."""
    header = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": (weight_bytes // 4,)}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()
