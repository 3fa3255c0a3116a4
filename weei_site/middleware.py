"""The content security policy, the one map from an expected error to its HTTP answer, and the log of denials."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from checkpoints.bytes.http import MethodNotAllowed, unavailable
from peers.models import Peer
from weei_core import js_json
from weei_core.errors import Invalid, NotFound, WeeiError
from weei_core.log_context import note
from weei_core.problems import problem_body

logger = logging.getLogger(__name__)
denials = logging.getLogger("weei.denied")

POLICY = "; ".join(
    (
        "default-src 'self'",
        # Model modules are WebAssembly: compiling them needs this, and nothing else is loosened.
        "script-src 'self' 'wasm-unsafe-eval'",
        "worker-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
RETRY_SECONDS = 5
GetResponse = Callable[[HttpRequest], HttpResponse]


class ContentSecurityPolicy:
    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


def problem(error: WeeiError) -> HttpResponse:
    """The error as RFC 9457 problem details. It must not be kept: the same request may be allowed a moment later."""
    response = HttpResponse(js_json.dumps(problem_body(error)), "application/problem+json", error.status)
    response["Cache-Control"] = "no-store"
    _say_when(response, error)
    if error.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    response.reason_code = error.code  # type: ignore[attr-defined]
    return response


def _say_when(response: HttpResponse, error: WeeiError) -> None:
    """When to come back, for what may go well then."""
    if error.status in (429, 503):
        response["Retry-After"] = str(error.extra.get("retry_after", RETRY_SECONDS))


def expected(error: Exception) -> WeeiError | None:
    """The error that people are told, or None for a bug."""
    if isinstance(error, WeeiError):
        return error
    if isinstance(error, OperationalError | InterfaceError):
        return unavailable(error)
    return None


class NoteRoute:
    """The name of the page or call, for metrics and log lines."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: object) -> None:
        if request.resolver_match is not None:
            note(route=request.resolver_match.view_name or request.resolver_match.route)


class WeeiErrors:
    """Turns a WeeiError that a view lets through into a problem (API), a fragment (HTMX) or a page."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.path.startswith("/api/"):
            response = _as_problem(request, response)
        _log_denial(request, response)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        error = expected(exception)
        if error is None:
            return None
        if request.path.startswith("/api/"):
            return problem(error)
        htmx = bool(request.headers.get("HX-Request"))
        template = "_error.html" if htmx else "error.html"
        response = _page(request, template, error, away=isinstance(exception, OperationalError | InterfaceError))
        _say_when(response, error)
        if htmx:
            # The message has a place of its own on every page; what the button would have replaced stays.
            response["HX-Retarget"] = "#messages"
            response["HX-Reswap"] = "innerHTML"
        response.reason_code = error.code  # type: ignore[attr-defined]
        return response


def _page(request: HttpRequest, template: str, error: WeeiError, *, away: bool) -> HttpResponse:
    """Who is signed in, and what they are to be told, stands in the database too: while it is away, without."""
    if not away:
        try:
            return render(request, template, {"error": error}, status=error.status)
        except (OperationalError, InterfaceError) as failure:
            logger.warning("the database does not answer: %s", failure)
    known = {"error": error, "request": {"COOKIES": request.COOKIES}}
    return HttpResponse(render_to_string(template, known), status=error.status)


def _as_problem(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Django's own pages for a wrong address or method are no answer to a program."""
    if response.status_code == 404 and not hasattr(response, "reason_code"):
        return problem(NotFound("There is nothing at this address."))
    if response.status_code == 400 and response["Content-Type"].startswith("text/html"):
        return problem(Invalid("The body is not what its Content-Type says; it must be JSON.", field="body"))
    if response.status_code == 405:
        allowed = response.headers.get("Allow", "")
        answer = problem(MethodNotAllowed(f"The method must be {allowed}; found {request.method}."))
        answer["Allow"] = allowed
        return answer
    return response


def _log_denial(request: HttpRequest, response: HttpResponse) -> None:
    """One line for each request that was refused for who asked. The route is the pattern, never the address itself,
    because addresses hold secrets (invitation and sign-in links)."""
    match = request.resolver_match
    if response.status_code not in (401, 403, 404) or match is None:
        return
    peer = getattr(request, "auth", None)
    denials.info(
        "user=%s peer=%s %s /%s %d %s",
        _who(request),
        peer.pk if isinstance(peer, Peer) else "-",
        request.method,
        match.route,
        response.status_code,
        getattr(response, "reason_code", "csrf" if response.status_code == 403 else "not_found"),
    )


def _who(request: HttpRequest) -> object:
    """The person's id. A refusal is not worth a failure where the database cannot say who it is."""
    try:
        return getattr(getattr(request, "user", None), "pk", None) or "-"
    except (OperationalError, InterfaceError):
        return "?"
