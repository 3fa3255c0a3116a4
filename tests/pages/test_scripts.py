"""The page scripts: types, their tests under Node, and the files they vendor."""

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
PAGES = sorted((ROOT / "static/pages").rglob("*.js"))


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_hold():
    run("node_modules/.bin/tsc", "--noEmit", "-p", "tests/pages/tsconfig.json")


def test_node_tests_pass():
    run("node", "--test", *sorted(str(path) for path in (ROOT / "tests/pages").glob("*.test.js")))


def test_vendored_files_are_unchanged():
    rows = re.findall(r"\| `([^`]+)` \| `[^`]+` \| `([0-9a-f]{64})` \|", (ROOT / "static/vendor/UPLOT.md").read_text())
    assert len(rows) == 2
    for name, sha256 in rows:
        assert hashlib.sha256((ROOT / "static/vendor" / name).read_bytes()).hexdigest() == sha256


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_imports_name_files_that_exist(path):
    """No bundler: every import is a path with its extension."""
    for name in re.findall(r'^import (?:[^"]* from )?"([^"]+)"|import\("([^"]+)"\)', path.read_text(), re.M):
        name = name[0] or name[1]
        assert name.startswith(".") and name.endswith(".js")
        assert (path.parent / name).resolve().is_file(), name


def test_scripts_that_pages_name_exist():
    named = set()
    for template in (ROOT / "templates").rglob("*.html"):
        named |= set(re.findall(r"static '(pages/[^']+|css/[^']+|vendor/[^']+)'", template.read_text()))
    assert len(named) > 6
    assert [name for name in named if not (ROOT / "static" / name).is_file()] == []
