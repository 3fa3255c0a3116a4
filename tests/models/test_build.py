"""The committed modules are what the pinned compiler makes of the committed sources, byte for byte."""

import shutil
import subprocess
import sys

import pytest

from tests.models import digits

FOLDER = digits.FOLDER.parent


def check(folder):
    return subprocess.run([sys.executable, str(folder / "build.py"), "--check"], capture_output=True, text=True)


def test_the_committed_modules_are_rebuilt_byte_for_byte():
    done = check(FOLDER)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.fixture
def copied(tmp_path):
    """Another place: a path that got into the module would change it."""
    for one in (FOLDER, FOLDER.parent / "weei_core/aggregation"):
        there = tmp_path / "elsewhere" / one.relative_to(FOLDER.parent)
        shutil.copytree(one, there, ignore=shutil.ignore_patterns("data", "__pycache__"))
    return tmp_path / "elsewhere" / FOLDER.name


def test_the_build_does_not_depend_on_its_place(copied):
    done = check(copied)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_changed_source_is_noticed_and_nothing_is_written(copied):
    source, module = copied / "digits" / "digits.c", copied / "digits" / "digits.wasm"
    source.write_text(source.read_text().replace("MOMENTUM = 0.9f", "MOMENTUM = 0.8f"))
    kernel = copied.parent / "weei_core/aggregation/merge.c"
    kernel.write_text(kernel.read_text().replace("average - start", "start - average"))
    before = module.read_bytes()
    done = check(copied)
    assert done.returncode == 1 and "digits.wasm, merge.wasm" in done.stdout
    assert module.read_bytes() == before
    assert not list(copied.rglob("*cache*"))
