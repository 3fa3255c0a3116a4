"""The agent and the command line are a distribution of their own, with the core, without Django."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAYS = {"weei-agent": "Takes part in a Weei training job", "weei-cli": "Coordinates training jobs"}
PACKAGES = {"weei_core", "weei_client", "weei_agent", "weei_cli"}
# Nothing of the site may be importable, and what the agent needs must come from this environment all the same.
RUN = """
import sys
class NoDjango:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("django", "channels", "celery", "uvicorn", "starlette"):
            raise ImportError(name)
sys.meta_path.insert(0, NoDjango())
import runpy
sys.argv = [sys.argv[1], "--help"]
runpy.run_module(sys.argv[0].replace("-", "_"), run_name="__main__")
"""


@pytest.mark.slow
def test_the_wheel_holds_agent_and_command_line_alone_and_runs_without_django(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(_copy(tmp_path))]
    subprocess.run([*pip, *build], check=True, timeout=100)
    (wheel,) = tmp_path.glob("weei_agent-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == PACKAGES
    assert "weei_core/aggregation/merge.wasm" in names, "an agent that plays ranges could not merge them"

    target = tmp_path / "installed"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, timeout=100)
    for program, says in SAYS.items():
        found = subprocess.run(
            [sys.executable, "-c", RUN, program],
            env={**os.environ, "PYTHONPATH": str(target)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert found.returncode == 0, found.stderr
        assert says in found.stdout


def _copy(tmp_path):
    """Building leaves folders behind; the tree stays clean."""
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(ROOT / "pyproject.toml", source)
    for package in (*PACKAGES, "jobs", "weei_site"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    return source
