"""A coordinator who never opens a page: signs in, makes a job, follows it to its end and takes the result home."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from tests.stack.model_jobs import Agent
from tests.stack.stack import ROOT

DIGITS = ROOT / "reference_models/digits"


class Terminal:
    """Runs `weei` as its user would, with a configuration of its own."""

    def __init__(self, stack, folder):
        self.folder = folder
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("WEEI_")},
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPATH": str(ROOT),
        }
        self.token = stack.manage("make_token", "carol", "--name", "end to end").strip()

    def run(self, *arguments, given=None, expected=0):
        done = subprocess.run(
            [sys.executable, "-m", "weei_cli", *arguments],
            env=self.environment,
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == expected, (arguments, done.stdout, done.stderr)
        return done

    def json(self, *arguments, **options):
        return json.loads(self.run(*arguments, "--json", **options).stdout)


@pytest.fixture
def terminal(stack, tmp_path):
    stack.shell(
        "from django.contrib.auth.models import User\nanswer = User.objects.get_or_create(username='carol')[0].pk"
    )
    return Terminal(stack, tmp_path)


def test_a_whole_session(stack, terminal):
    signed_in = terminal.json("login", stack.url, "--token-stdin", given=terminal.token + "\n")
    assert signed_in["user"] == "carol"
    assert os.stat(signed_in["file"]).st_mode & 0o777 == 0o600

    options = ("--set", "epochs=1", "--set", "seed=20261129", "--name", "From a terminal")
    job = terminal.json("create", str(DIGITS), *options, "--invite")
    assert job["status"] == "ready" and job["settings"]["seed"] == "20261129"
    again = terminal.json("create", str(DIGITS), *options)
    assert job["sentBytes"] > 100_000 and again["sentBytes"] == 0, "what the server has was sent again"
    ambiguous = terminal.run("show", "From a terminal", "--json", expected=1)
    assert set(json.loads(ambiguous.stderr)["candidates"]) == {job["id"], again["id"]}
    terminal.run("delete", again["id"], "--yes")

    refused = terminal.run("start", job["id"], "--json", expected=1)
    assert json.loads(refused.stderr)["code"] == "nobody_trains"
    with Agent(stack, job["invitation"]["url"], "cli"):
        assert terminal.json("start", job["id"], "--wait")["status"] == "running"
        watched = terminal.run("watch", job["id"][:8], "--every", "0.2", "--json").stdout.splitlines()
    last = json.loads(watched[-1])
    assert last["status"] == "completed" and len(watched) > 2
    (named,) = terminal.json("jobs", "--status", "completed", "--all")["jobs"]
    assert named["id"] == job["id"]

    newest = terminal.json("checkpoints", "From a terminal", "--limit", "1")[0]
    sha256 = newest["artifact"]["sha256"]
    assert last["checkpoint"]["sha256"] == sha256
    assert last["checkpoint"]["validationMetrics"]["accuracy"] > 0.5
    saved = terminal.json("export", job["id"], "--output", "digits.weei-checkpoint")
    assert saved["verified"] == sha256
    content = (terminal.folder / "digits.weei-checkpoint").read_bytes()
    assert hashlib.sha256(content).hexdigest() == saved["sha256"] and saved["bytes"] == len(content)
    terminal.run("export", job["id"], "--format", "module", "-o", "m.wasm")
    assert (terminal.folder / "m.wasm").read_bytes() == (DIGITS / "digits.wasm").read_bytes()
    for name in ("safetensors", "npy"):
        assert terminal.json("export", job["id"], "--format", name)["verified"] == sha256
    table = terminal.run("export", job["id"], "--format", "csv", "-o", "-").stdout
    assert len(table.splitlines()) == newest["artifact"]["round"] + 2, "a line of names, and one for each checkpoint"
    for name in ("manifest", "tensorboard"):
        assert terminal.json("export", job["id"], "--format", name)["bytes"] > 100
    assert sha256 in terminal.run("export", job["id"], "--format", "ledger", "-o", "-").stdout

    settings = ("--set", "epochs=2", "--set", "seed=20261129", "--name", "Goes on", "--dataset-mode", "new")
    on = terminal.json("create", str(DIGITS), *settings, "--checkpoint", "digits.weei-checkpoint")
    assert on["round"] == newest["artifact"]["round"]
    refused = terminal.run("create", str(DIGITS), "--set", "epochs=0", "--json", expected=1)
    assert json.loads(refused.stderr)["field"] == "settings.epochs"

    terminal.run("logout", "--revoke")
    terminal.run("jobs", expected=2)
    terminal.environment |= {"WEEI_URL": stack.url, "WEEI_TOKEN": terminal.token}
    ended = terminal.run("jobs", "--json", expected=1)
    assert json.loads(ended.stderr)["code"] == "signed_out"
