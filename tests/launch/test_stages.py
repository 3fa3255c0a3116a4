"""`make test` runs everything: no test file is left out, and none is named that is not there."""

from pathlib import Path

import pytest

from tests import run

ROOT = Path(__file__).resolve().parent.parent.parent


def paths(stage):
    """What a stage hands to pytest."""
    return [ROOT / word for command in stage.commands for word in command if word.startswith("tests/")]


def test_every_test_file_belongs_to_one_stage():
    stages = [stage for stage in run.stages(full=True) if stage.name != "postgresql"]
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        found = [stage.name for stage in stages for path in paths(stage) if path == file or path in file.parents]
        assert len(found) == 1, f"{file.relative_to(ROOT)} is in the stages {found}"


def test_postgresql_runs_what_the_server_stage_runs():
    by_name = {stage.name: paths(stage) for stage in run.stages(full=False)}
    assert by_name["postgresql"] == by_name["server"] != []


@pytest.mark.parametrize("stage", run.stages(full=True), ids=lambda stage: stage.name)
def test_every_path_of_a_stage_is_there(stage):
    assert [path for path in paths(stage) if not path.exists()] == []
