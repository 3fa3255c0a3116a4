"""A short chaos run from its command to its summary."""

import json
import subprocess
import sys

import pytest

from tests.chaos.schedule import draw
from tests.stack.stack import ROOT

SEED, KILLS = 4, 3


@pytest.mark.full
def test_a_few_kills_with_everything_around_them_violate_nothing():
    command = [sys.executable, "-m", "tests.chaos", "--seed", str(SEED), "--kills", str(KILLS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((ROOT / f"var/chaos/{SEED}.json").read_text())
    assert [one["fault"] for one in summary["faults"]] == [fault.to_json() for fault in draw(SEED, KILLS)]
    assert summary["violations"] == [] and summary["figures"]["receipts"] > 0
