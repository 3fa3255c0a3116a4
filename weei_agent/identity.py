"""Who this agent is to a server: kept in the state folder, so that the next start is the same participant."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from weei_agent.outcomes import Exit, Stop

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass
class Identity:
    """One peer of one server. `jobs` maps the SHA-256 of an accepted link's token to its job."""

    peer_id: str
    token: str
    jobs: dict[str, str] = field(default_factory=dict)

    def job_of(self, link_token: str) -> str | None:
        return self.jobs.get(_digest(link_token))

    def remember(self, link_token: str, job_id: str) -> None:
        self.jobs[_digest(link_token)] = job_id


class IdentityStore:
    """The folder of one (server, name); `lock` keeps a second agent out, `scratch` is for files of this run."""

    def __init__(self, state_dir: Path, origin: str, name: str) -> None:
        if not NAME.fullmatch(name):
            raise Stop(Exit.USAGE, f"--name must be letters, digits, '.', '_' and '-', 64 at most; found {name!r}.")
        self.name = name
        self.folder = state_dir / "peers" / quote(origin, safe="") / name
        self.scratch = self.folder / "scratch"
        self._file = self.folder / "peer.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """The lock ends with the process, however it dies. What an earlier run left in `scratch` is removed."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.folder / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Stop(
                    Exit.USAGE,
                    f"Another weei-agent named {self.name!r} is running for this server; "
                    "stop it, or start this one with another --name.",
                ) from None
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch.mkdir(mode=0o700)
            try:
                yield
            finally:
                shutil.rmtree(self.scratch, ignore_errors=True)

    def load(self) -> Identity | None:
        try:
            stored = json.loads(self._file.read_text())
            return Identity(stored["peerId"], stored["token"], dict(stored["jobs"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise Stop(
                Exit.USAGE, f"{self._file} cannot be read; start with --new-peer to replace it by a new identity."
            ) from None

    def save(self, identity: Identity) -> None:
        text = json.dumps({"peerId": identity.peer_id, "token": identity.token, "jobs": identity.jobs})
        part = self._file.with_suffix(".part")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        part.replace(self._file)

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
