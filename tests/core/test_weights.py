import hashlib
import io
import struct
import tempfile
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weei_core.errors import Invalid
from weei_core.weights import (
    BLOCK_BYTES,
    BytesSource,
    FileSource,
    Source,
    blocks,
    check_finite_file,
    first_non_finite,
    sha256_of,
    sha256_of_finite,
)

NAN = bytes.fromhex("0000c07f")
BAD_FLOATS = ["0000c07f", "0000c0ff", "0100a07f", "0000807f", "000080ff", "ffffff7f"]


@pytest.mark.parametrize("bad", BAD_FLOATS)
def test_finds_every_kind_of_non_finite_float(bad):
    """C07, U5: quiet and signalling NaN of either sign, both infinities."""
    assert first_non_finite(bytes.fromhex("0000803f000000c00000003f" + bad)) == 3


@pytest.mark.parametrize("good", ["00000080", "c2160100", "01000000", "ffff7f7f", "ffff7fff", ""])
def test_negative_zero_denormals_and_the_largest_floats_are_finite(good):
    """C07."""
    assert first_non_finite(bytes.fromhex(good)) is None


def test_looks_beyond_the_first_block():
    data = bytearray(2 * BLOCK_BYTES + 400)
    assert first_non_finite(data) is None
    data[-4:] = NAN
    data[BLOCK_BYTES + 8 : BLOCK_BYTES + 12] = NAN
    assert first_non_finite(data) == BLOCK_BYTES // 4 + 2
    with pytest.raises(
        Invalid, match=rf"^update must hold finite numbers only; found nan at position {BLOCK_BYTES // 4 + 2}"
    ):
        sha256_of_finite(BytesSource(data), "update")


@pytest.mark.parametrize("size", [1, 2, 3, 6, BLOCK_BYTES + 2])
def test_refuses_bytes_that_are_not_whole_floats(size):
    """C40: a block of 6 bytes."""
    with pytest.raises(Invalid, match=r"whole float32 values") as refused:
        first_non_finite(bytes(size))
    assert refused.value.code == "not_float32"
    with pytest.raises(Invalid):
        sha256_of_finite(BytesSource(bytes(size)), "update")


@given(st.lists(st.floats(width=32), max_size=50))
def test_agrees_with_a_look_at_each_float(floats):
    data = struct.pack(f"<{len(floats)}f", *floats)
    expected = next((i for i, value in enumerate(floats) if value - value != 0), None)
    assert first_non_finite(data) == expected


def sources(data: bytes) -> tuple[list[Source], IO[bytes]]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 the test's end closes it
    file.write(b"head" + data + b"tail")
    file.flush()
    return [
        BytesSource(data),
        FileSource(io.BytesIO(data)),
        FileSource(file, 4, len(data)),
        FileSource(file.fileno(), 4, len(data)),
    ], file


@pytest.mark.parametrize("size", [0, 4, BLOCK_BYTES - 4, BLOCK_BYTES, BLOCK_BYTES + 4, 3 * BLOCK_BYTES])
def test_every_source_gives_the_same_bytes(size):
    data = (b"\x00\x01\x02\x03" * size)[:size]
    kinds, file = sources(data)
    with file:
        for source in kinds:
            assert source.size == size
            assert b"".join(bytes(block) for block in blocks(source)) == data
            assert sha256_of(source) == sha256_of_finite(source, "weights") == hashlib.sha256(data).hexdigest()


def test_a_whole_file_is_the_default():
    with tempfile.TemporaryFile() as file:
        file.write(b"abcdefgh")
        file.flush()
        assert FileSource(file).size == FileSource(file.fileno()).size == 8
        assert FileSource(file.fileno(), 4).size == 4
        check_finite_file(file)
        check_finite_file(file.fileno())
        file.write(NAN)
        file.flush()
        with pytest.raises(Invalid, match=r"found nan at position 2"):
            check_finite_file(file.fileno())


def test_a_file_that_ends_early_is_an_error_not_a_short_read():
    """C39: cut while it is read."""
    kinds, file = sources(bytes(8))
    with file:
        file.truncate(6)
        for source in [*kinds[2:], BytesSource(b"12")]:
            with pytest.raises(Invalid, match=r"must reach byte 8; it ends at byte 2") as refused:
                source.readinto(0, memoryview(bytearray(8)))
            assert refused.value.code == "truncated"
