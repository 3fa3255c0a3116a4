"""The shuffled order, the plan, and the bytes of chunks, read back by hand."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weei_core.errors import Invalid
from weei_core.generator.chunking import LARGE_BYTES, planned, rows_file, shuffled, tokens_file
from weei_core.generator.records import Rows, RowSpool, TokenSpool, normalisation
from weei_core.generator.request import ChunkingRequest


@given(seed=st.integers(0, 2**64 - 1), count=st.integers(1, 3000), cut=st.floats(0, 1))
@settings(deadline=None, max_examples=80)
def test_every_record_has_one_place_and_parts_make_the_whole(seed, count, cut):
    whole = shuffled(seed, count, 0, count)
    assert sorted(whole.tolist()) == list(range(count))
    at = int(cut * count)
    assert [*shuffled(seed, count, 0, at), *shuffled(seed, count, at, count)] == whole.tolist()


def test_the_order_never_changes():
    """Packages are made again byte for byte from their request."""
    assert shuffled(7, 12, 0, 12).tolist() == ORDER
    assert shuffled(8, 12, 0, 12).tolist() != ORDER


ORDER = [0, 1, 7, 8, 3, 5, 11, 6, 2, 10, 4, 9]


def test_every_place_is_as_likely():
    places = np.array([shuffled(seed, 5, 0, 5) for seed in range(4000)])
    counts = np.array([[(places[:, place] == record).sum() for record in range(5)] for place in range(5)])
    assert (((counts - 800) ** 2) / 800).sum() < 60  # chi-square with 16 degrees of freedom: far beyond p = 0.001


@pytest.mark.parametrize("request_, records, record_bytes, expected", [
    (ChunkingRequest(), 1000, 100, (100, 18, 50)),
    (ChunkingRequest(), 100, 100, (10, 16, 6)),
    (ChunkingRequest(validation_share=0), 1, 100, (0, 16, 1)),
    (ChunkingRequest(records_per_chunk=30, validation_share=0.5), 100, 100, (50, 30, 2)),
    (ChunkingRequest(validation_share=0.001), 100, 100, (1, 16, 7)),
    (ChunkingRequest(), 2**24, 136, (LARGE_BYTES // 136, LARGE_BYTES // 136, 136)),
])  # fmt: skip
def test_the_plan_holds_out_and_cuts(request_, records, record_bytes, expected):
    plan = planned(request_, records, record_bytes)
    assert (plan.validation, plan.per_chunk, plan.chunk_count) == expected


def test_chunks_and_held_out_records_are_all_there_are():
    plan = planned(ChunkingRequest(records_per_chunk=7, seed=3), 100, 10)
    parts = [plan.held_out(), *plan.chunks()]
    assert [len(part) for part in parts] == [10, *[7] * 12, 6]
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))
    assert plan.largest == 10 and plan.chunk_count == 13


def test_a_plan_that_cannot_be_is_refused():
    with pytest.raises(Invalid, match="a record to train on beside 1 held out; found 1"):
        planned(ChunkingRequest(), 1, 10)
    with pytest.raises(Invalid, match="recordsPerChunk must be at least 2 for 18000 records.*10000 chunks; found 1"):
        planned(ChunkingRequest(records_per_chunk=1), 20_000, 10)


def test_a_tokens_file_reads_back(tmp_path):
    spool = TokenSpool(tmp_path)
    spool.append_tokens(np.array([5, 6, 7, 8, 9]))
    spool.append_records(np.array([0, 2]), np.array([3, 3]), np.array([0, 1]))  # they share a token
    spool.append_tokens(np.array([60000]))
    spool.append_records(np.array([4]), np.array([2]), np.array([1]))
    spool.finish()
    content = tokens_file(spool, np.array([2, 0, 1, 2]), 60001)
    assert content[:4] == b"WTOK" and struct.unpack_from("<3I", content, 4) == (1, 4, 60001)
    table = [struct.unpack_from("<IHH", content, 16 + 8 * index) for index in range(4)]
    assert table == [(0, 2, 1), (2, 3, 0), (5, 3, 1), (8, 2, 1)]
    tokens = np.frombuffer(content[48:], "<u2").tolist()
    assert tokens == [9, 60000, 5, 6, 7, 7, 8, 9, 9, 60000]
    assert spool.mean_record_bytes == 8 + 2 * 8 / 3
    odd = tokens_file(spool, np.array([0]), 60001)
    assert len(odd) % 4 == 0 and odd[24:] == struct.pack("<4H", 5, 6, 7, 0)


@pytest.mark.parametrize("inputs_type, classes, kind", [
    (np.float32, True, 0), (np.float32, False, 1), (np.uint8, True, 2), (np.uint8, False, 3),
])  # fmt: skip
def test_a_rows_file_reads_back(tmp_path, inputs_type, classes, kind):
    inputs = np.arange(15).reshape(5, 3).astype(inputs_type)
    targets = np.array([0, 1, 2, 1, 0], np.uint32) if classes else np.arange(10, dtype=np.float32).reshape(5, 2)
    spool = RowSpool(tmp_path)
    spool.append(Rows(inputs[:2], targets[:2]))
    spool.append(Rows(inputs[2:], targets[2:]))
    spool.finish()
    order = np.array([4, 0, 1])
    content = rows_file(spool, order, np.array([2, 0, 1], np.uint32) if classes else None)
    assert content[:4] == b"WROW" and struct.unpack_from("<5I", content, 4) == (1, 3, 3, 1 if classes else 2, kind)
    size = 9 * np.dtype(inputs_type).itemsize
    assert np.frombuffer(content[24 : 24 + size], inputs_type).tolist() == inputs[order].ravel().tolist()
    rest = content[24 + size + -size % 4 :]
    assert content[24 + size : 24 + size + -size % 4] == bytes(-size % 4)
    expected = [2, 2, 0] if classes else targets[order].ravel().tolist()
    assert np.frombuffer(rest, "<u4" if classes else "<f4").tolist() == expected


def test_statistics_know_nothing_of_held_out_records(tmp_path):
    inputs = np.array([[1, 7, 5e6], [3, 7, 5e6 + 1], [1e9, 9, 0], [5, 7, 5e6 + 2]], np.float32)
    spool = RowSpool(tmp_path)
    spool.append(Rows(inputs, np.zeros(4, np.uint32)))
    spool.finish()
    found = normalisation(spool, 0, np.array([True, True, False, True]))
    chosen = inputs[[0, 1, 3]].astype(np.float64)
    assert found.mean.tolist() == [3, 7, 5e6 + 1]
    np.testing.assert_allclose(found.scale, [1 / chosen[:, 0].std(), 1, 1 / chosen[:, 2].std()], rtol=1e-6)
