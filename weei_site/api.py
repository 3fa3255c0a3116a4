"""The HTTP API: one object, its parser, its authentications, and the map from errors to problem details."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.parser import Parser
from ninja.renderers import BaseRenderer

from jobs.api import router as jobs_router
from peers.api import router as peers_router
from weei_core import js_json, strict_json
from weei_core.errors import Forbidden, Invalid, NotFound, Unauthorized, WeeiError
from weei_site.middleware import problem


class StrictParser(Parser):
    def parse_body(self, request: HttpRequest) -> Any:
        return strict_json.loads(request.body, what="body")


class JavaScriptRenderer(BaseRenderer):
    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> str:
        return js_json.dumps(data)


api = NinjaAPI(
    title="Weei",
    version="1",
    description="Training jobs, their participants and their checkpoints. Errors are RFC 9457 problem details.",
    parser=StrictParser(),
    renderer=JavaScriptRenderer(),
    docs_url="/docs",
)
api.add_router("", peers_router)
api.add_router("", jobs_router)


@api.exception_handler(WeeiError)
def _weei_error(request: HttpRequest, error: WeeiError) -> HttpResponse:
    return problem(error)


@api.exception_handler(AuthenticationError)
def _unauthorized(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return problem(Unauthorized("Sign in, or send the peer's token.", field="Authorization"))


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    kinds: dict[int, type[WeeiError]] = {401: Unauthorized, 403: Forbidden, 404: NotFound}
    return problem(kinds.get(error.status_code, Invalid)(str(error)))


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    first = error.errors[0]
    field = ".".join(str(part) for part in first["loc"] if part not in ("body", "payload"))
    return problem(Invalid(f"{field or 'body'}: {first['msg']}.", field=field or "body"))
