"""The lines of docs/http-api.md are run as they stand, by a shell, against a server that listens."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from django.utils import timezone

from peers.services.user_tokens import personal_token_create
from tests.api.world import World

TEXT = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.S)


@pytest.mark.django_db(transaction=True)
def test_every_example_of_the_documentation_works(live_server, tmp_path):
    world = World()
    _, token = personal_token_create(world.job.owner, "examples", 1, timezone.now())
    environment = {**os.environ, "WEEI": live_server.url, "TOKEN": token, "no_proxy": "*"}
    assert len(BLOCKS) >= 5
    for block in BLOCKS:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        assert done.stdout.startswith(("[", "{")), block
