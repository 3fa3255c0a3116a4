"""The agent is a distribution of its own: the core and the agent, without Django."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Nothing of the site may be importable, and what the agent needs must come from this environment all the same.
RUN = """
import sys
class NoDjango:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("django", "channels", "celery", "uvicorn", "starlette"):
            raise ImportError(name)
sys.meta_path.insert(0, NoDjango())
import runpy
sys.argv = ["weei-agent", "--help"]
runpy.run_module("weei_agent", run_name="__main__")
"""


@pytest.mark.slow
def test_the_wheel_holds_the_agent_alone_and_runs_without_django(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(_copy(tmp_path))]
    subprocess.run([*pip, *build], check=True, timeout=100)
    (wheel,) = tmp_path.glob("weei_agent-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"weei_core", "weei_agent"}

    target = tmp_path / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, timeout=100)
    found = subprocess.run(
        [sys.executable, "-c", RUN],
        env={**os.environ, "PYTHONPATH": str(target)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    assert "Takes part in a Weei training job" in found.stdout


def _copy(tmp_path):
    """Building leaves folders behind; the tree stays clean."""
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(ROOT / "pyproject.toml", source)
    for package in ("weei_core", "weei_agent", "jobs", "weei_site"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    return source
