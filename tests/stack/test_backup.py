"""The commands of docs/operations.md take a copy of a running installation; another one made of it has the job, and
every byte."""

import re
import subprocess
import sys
from pathlib import Path

from tests.stack.model_jobs import DigitsJob
from tests.stack.stack import ROOT, Stack


def documented(after):
    """The first block of shell commands after this text."""
    page = (ROOT / "docs/operations.md").read_text()
    return re.search(r"```sh\n(.*?)```", page[page.index(after) :], re.S)[1]


def test_a_copy_that_was_made_while_everything_runs_is_whole(stack, tmp_path):
    job = DigitsJob(stack, epochs=1, seed="7")
    (tmp_path / "var").symlink_to(stack.folder / "var")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "backup").mkdir()
    made = subprocess.run(
        ["sh", "-e", "-c", documented("**SQLite and files**")], cwd=tmp_path, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr

    # The original goes on, and is changed; the copy is not.
    stack.shell("from jobs.models import Job\nJob.objects.filter(pk=job_id).update(name='later')", job_id=job.id)
    new = Path(tmp_path / "new")
    subprocess.run(["cp", "-a", f"{tmp_path}/backup/.", str(new)], check=True)
    with Stack({"VAR_DIR": str(new)}, services=("web",)) as restored:
        assert restored.manage("verify_store").splitlines()[-1].endswith("all whole")
        client = restored.signed_in()
        (listed,) = [row for row in client.get("/api/v1/jobs").raise_for_status().json() if row["id"] == job.id]
        assert listed["name"] != "later" and listed["status"] == "ready"
        assert restored.manage("rebuild", job.id).startswith("Round 0: equal")
