"""Schemathesis on the API's own description: what a case needs to reach something, and what every answer must be."""

from __future__ import annotations

from typing import Any

import schemathesis
from schemathesis import checks

from weei_site.api import api

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
    checks.allow_header_conformance,
]


def described() -> Any:
    """The schema without what schemathesis would make up of credentials: callers bring their own."""
    schema = schemathesis.openapi.from_dict(api.get_openapi_schema())
    schema.config.generation.update(with_security_parameters=False)
    return schema


def reach(case: Any, ids: dict[str, Any]) -> None:
    """Put ids that exist where the case has well-formed ones, so that more than 404 is seen. What schemathesis made
    wrong on purpose stays wrong."""
    wrong = {location.value for location, made in case.meta.components.items() if made.mode.is_negative}
    if "path" not in wrong:
        for name in case.path_parameters or {}:
            if name in ids:
                case.path_parameters[name] = str(ids[name])
    if "body" not in wrong and isinstance(case.body, dict):
        for name in ("jobId", "token", "moduleSha256", "item"):
            if name in case.body and name in ids:
                case.body[name] = ids[name]
