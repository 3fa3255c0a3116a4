"""How a command can end. docs/command-line.md lists the same codes."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from weei_client.server import Problem
from weei_core.errors import WeeiError
from weei_core.problems import problem_body


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130


class Failed(Exception):
    """Ends the command with an exit code and one sentence. `code` is for programs, as in the server's problems."""

    def __init__(self, message: str, *, code: str, exit_code: Exit = Exit.FAILED, **extra: object) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message
        self.problem: dict[str, Any] = {"title": message, "code": code, **extra}


def usage(message: str, code: str = "usage") -> Failed:
    """What was typed cannot be right."""
    return Failed(message, code=code, exit_code=Exit.USAGE)


def failure_of(error: Problem | WeeiError) -> Failed:
    """The server's own refusal, or that of a check that this machine makes too."""
    if isinstance(error, WeeiError):
        body = problem_body(error)
        failed = Failed(error.message, code=error.code)
    else:
        body = {"title": error.title, "status": error.status, "code": error.code, **error.body}
        failed = Failed(error.title, code=error.code)
    failed.problem = body
    return failed
