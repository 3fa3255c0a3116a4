"""The errors that Weei shows to people. A leaf: it imports nothing.

Every error is a sentence that names the field, what was found and what is allowed, plus a stable `code` that
programs decide on. One place per edge (HTTP, websocket, command line) maps the class to that edge's answer.
"""

from __future__ import annotations


class WeeiError(Exception):
    """Base of all expected errors. `status` is the HTTP status that the API answers with."""

    status = 400
    default_code = "error"

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None, **extra: object) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code or self.default_code
        self.extra = extra


class Invalid(WeeiError):
    """Input that can never be accepted as it is: wrong type, range, size, hash or format."""

    status = 422
    default_code = "invalid"


class Forbidden(WeeiError):
    """The caller is known and may not do this."""

    status = 403
    default_code = "forbidden"


class Unauthorized(WeeiError):
    """The caller is not known: no session, or a token that is wrong."""

    status = 401
    default_code = "unauthorized"


class NotFound(WeeiError):
    """No such thing, or none that the caller may know of."""

    status = 404
    default_code = "not_found"


class Conflict(WeeiError):
    """Right in itself, but not now: the state it speaks of is another one."""

    status = 409
    default_code = "conflict"


class TooLarge(WeeiError):
    """More bytes than allowed; refused before they are read."""

    status = 413
    default_code = "too_large"


class TooManyRequests(WeeiError):
    """The caller must wait."""

    status = 429
    default_code = "rate_limited"


class Unavailable(WeeiError):
    """A service that is needed is away or full; the same call may be made again."""

    status = 503
    default_code = "unavailable"


class StorageFull(WeeiError):
    """The disk is full, or would be."""

    status = 507
    default_code = "storage_full"


class ModelError(WeeiError):
    """A model module refused, trapped, or broke the ABI. `operation` is the ABI operation it happened in."""

    status = 422
    default_code = "model_error"

    def __init__(
        self, message: str, *, operation: str | None = None, field: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, field=field, code=code, operation=operation)
        self.operation = operation
