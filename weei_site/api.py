"""The HTTP API: one object, its parser, its authentications, and the map from errors to problem details."""

from __future__ import annotations

from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.operation import Operation
from ninja.parser import Parser
from ninja.renderers import BaseRenderer

from jobs.api import peer_router as peer_jobs_router
from jobs.api import router as jobs_router
from jobs.export_api import router as export_router
from jobs.making_api import router as making_router
from jobs.package_api import router as packages_router
from jobs.reading_api import router as reading_router
from peers.api import router as peers_router
from weei_core import js_json, strict_json
from weei_core.errors import Forbidden, Invalid, NotFound, Unauthorized, WeeiError
from weei_site import openapi
from weei_site.middleware import expected, problem


class StrictParser(Parser):
    def parse_body(self, request: HttpRequest) -> Any:
        return strict_json.loads(request.body, what="body")


class JavaScriptRenderer(BaseRenderer):
    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> str:
        return js_json.dumps(data)


class VersionedAPI(NinjaAPI):
    """Its description is that of weei_site/openapi.py, made once."""

    _described: dict[str, Any] | None = None

    def get_openapi_operation_id(self, operation: Operation) -> str:
        first, *rest = operation.view_func.__name__.split("_")
        return first + "".join(word.capitalize() for word in rest)

    def get_openapi_schema(self, *, path_prefix: str | None = None, path_params: Any = None) -> Any:
        if self._described is None:
            for bound in self._get_bound_routers():
                for view in bound.path_operations.values():
                    for operation in view.operations:
                        operation.by_alias = True  # Schemas alone: answers are written as they are made.
            self._described = openapi.described(super().get_openapi_schema(path_prefix=path_prefix))
        return self._described


api = VersionedAPI(
    title="Weei",
    version="1",
    description=openapi.DESCRIPTION,
    parser=StrictParser(),
    renderer=JavaScriptRenderer(),
    docs_url=None,  # The pages stand beside the versions (weei_site/urls.py).
)
for router in (
    jobs_router,
    making_router,
    reading_router,
    export_router,
    packages_router,
    peers_router,
    peer_jobs_router,
):
    api.add_router("", router)


@api.exception_handler(WeeiError)
@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def _expected(request: HttpRequest, error: Exception) -> HttpResponse:
    found = expected(error)
    assert found is not None
    return problem(found)


@api.exception_handler(AuthenticationError)
def _unauthorized(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return problem(Unauthorized("Sign in, or send the peer's token.", field="Authorization"))


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    """ninja's own refusals: a body that the parser refused, and a missing CSRF token."""
    if isinstance(error.__cause__, WeeiError):
        return problem(error.__cause__)
    if error.status_code == 403:
        return problem(Forbidden("The CSRF token is missing or wrong; reload the page.", field="X-CSRFToken"))
    return problem(NotFound(str(error)) if error.status_code == 404 else Invalid(str(error)))


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    first = error.errors[0]
    field = ".".join(str(part) for part in first["loc"] if part not in ("body", "payload", "path", "query"))
    return problem(Invalid(f"{field or 'body'}: {first['msg']}.", field=field or "body"))
