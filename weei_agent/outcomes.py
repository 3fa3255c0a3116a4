"""How a run of the agent can end. docs/agent.md lists the same codes."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes. 1 is left to errors that nobody foresaw."""

    COMPLETED = 0
    USAGE = 2
    REFUSED = 3
    REMOVED = 4
    REPLACED = 5
    UNREACHABLE = 6
    MODEL_UNUSABLE = 7
    VERSION = 8
    INTERRUPTED = 130


class Stop(Exception):
    """Ends the agent with an exit code and one sentence for the person who started it."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Enough(Stop):
    """A bound that the person set is reached; the job goes on without this agent."""

    def __init__(self, message: str) -> None:
        super().__init__(Exit.COMPLETED, message)


class UnknownPeer(Stop):
    """The stored token is worth nothing any more."""

    def __init__(self) -> None:
        super().__init__(
            Exit.REFUSED, "The server does not know this agent any more; start it again to join as a new participant."
        )


class AttemptFailed(Exception):
    """This attempt came to nothing on this machine; the server is told the reason and deals again."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def first_error(error: BaseException) -> BaseException:
    """What made a task group end: one error out of it, a `Stop` before anything else."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inner = [first_error(one) for one in error.exceptions]
    return next((one for one in inner if isinstance(one, Stop)), inner[0])
