"""The archive that is sent without being made: read back by Python's own reader."""

import io
import zipfile
import zlib

import pytest

from checkpoints.domain.stored_zip import LARGEST_FILE, Member, archive, archive_size


def written(files):
    members = [Member(name, len(data), zlib.crc32(data)) for name, data in files.items()]
    parts = archive(members)
    joined = b"".join(files[part.name] if isinstance(part, Member) else part for part in parts)
    assert archive_size(parts) == len(joined)
    return joined


FILES = {"model.wasm": b"\0asm" * 999, "manifest.json": b"{}", "Stücke 001.bin": bytes(range(256)), "empty": b""}


@pytest.mark.parametrize("files", [{}, FILES, {f"chunk-{n}.bin": b"%d" % n for n in range(70_000)}])
def test_every_file_is_read_back(files):
    with zipfile.ZipFile(io.BytesIO(written(files))) as read:
        assert read.namelist() == list(files)
        assert read.testzip() is None
        for name in list(files)[:10]:
            assert read.read(name) == files[name]


def test_the_same_files_are_the_same_bytes():
    assert written(FILES) == written(FILES)


class Sparse(io.RawIOBase):
    """The bytes of an archive whose files are all zeros, without keeping them."""

    def __init__(self, parts):
        self.parts, self.size, self.at = parts, archive_size(parts), 0

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = offset + {0: 0, 1: self.at, 2: self.size}[whence]
        return self.at

    def read(self, count=-1):
        end = self.size if count < 0 else min(self.size, self.at + count)
        found, start = [], 0
        for part in self.parts:
            size = part.size if isinstance(part, Member) else len(part)
            first, last = max(start, self.at), min(start + size, end)
            if first < last:
                found.append(bytes(last - first) if isinstance(part, Member) else part[first - start : last - start])
            start += size
        self.at = end
        return b"".join(found)


def test_an_archive_over_four_gibibytes_is_read_to_its_last_file():
    big = [Member(f"chunk-{n}.bin", 2**31, 0) for n in range(5)]
    last = Member("last.bin", 4, zlib.crc32(bytes(4)))
    with zipfile.ZipFile(Sparse(archive([*big, last]))) as read:
        assert [info.file_size for info in read.infolist()] == [2**31] * 5 + [4]
        assert read.infolist()[-1].header_offset > 10 * 2**30
        assert read.read("last.bin") == bytes(4)


def test_a_file_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=str(LARGEST_FILE)):
        archive([Member("x", LARGEST_FILE + 1, 0)])
