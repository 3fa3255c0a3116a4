"""What stands before the weights in files of other programs, read by these programs' own libraries."""

import io
import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load

from weei_core.model_info import NamedTensor
from weei_core.weight_files import npy_header, safetensors_header

SHAPES = st.lists(st.lists(st.integers(1, 5), max_size=4), min_size=1, max_size=6)
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)


def weights(count):
    return np.random.default_rng(count).standard_normal(count, np.float32)


@given(SHAPES, st.data())
def test_safetensors_reads_every_tensor_bit_for_bit(shapes, data):
    names = data.draw(st.lists(NAMES, min_size=len(shapes), max_size=len(shapes), unique=True))
    tensors = [NamedTensor(name=name, shape=tuple(shape)) for name, shape in zip(names, shapes, strict=True)]
    values = weights(sum(math.prod(shape) for shape in shapes))
    read = load(safetensors_header(tensors, values.nbytes, {"round": "3"}) + values.tobytes())
    assert set(read) == set(names)
    parts = np.split(values, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    for name, shape, part in zip(names, shapes, parts, strict=True):
        assert read[name].dtype == np.float32 and read[name].tobytes() == part.reshape(shape).tobytes()
        assert read[name].shape == tuple(shape)


def test_weights_without_names_are_one_tensor():
    values = weights(7)
    read = load(safetensors_header([], values.nbytes, {}) + values.tobytes())
    assert list(read) == ["weights"] and read["weights"].tobytes() == values.tobytes()


def test_the_values_begin_at_a_multiple_of_8_and_the_metadata_are_texts():
    for length in range(9):
        header = safetensors_header([], 4, {"model": "x" * length})
        (stated,) = struct.unpack_from("<Q", header)
        assert len(header) == 8 + stated and len(header) % 8 == 0
        assert json.loads(header[8:])["__metadata__"] == {"model": "x" * length}


def test_names_that_do_not_cover_the_weights_are_a_bug_and_not_a_file():
    with pytest.raises(ValueError, match="the tensors have 8 bytes, the weights 12"):
        safetensors_header([NamedTensor(name="a", shape=(2,))], 12, {})


@given(st.integers(1, 5000))
def test_numpy_reads_the_array(count):
    values = weights(count)
    read = np.load(io.BytesIO(npy_header(values.nbytes) + values.tobytes()), allow_pickle=False)
    assert read.dtype == np.dtype("<f4") and read.tobytes() == values.tobytes()
