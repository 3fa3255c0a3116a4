"""The one shape in which an expected error goes over HTTP: RFC 9457 problem details."""

from __future__ import annotations

from weei_core.errors import WeeiError


def problem_body(error: WeeiError) -> dict[str, object]:
    """The members of the problem, in the order in which they are written."""
    return {
        "type": f"/help/errors#{error.code}",
        "title": error.message,
        "status": error.status,
        "code": error.code,
        **({"field": error.field} if error.field else {}),
        **{key: value for key, value in error.extra.items() if value is not None},
    }
