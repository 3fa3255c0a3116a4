"""Two middlewares: the content security policy, and the one map from an expected error to its HTTP answer."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from weei_core import js_json
from weei_core.errors import WeeiError
from weei_site.problems import problem_body

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
GetResponse = Callable[[HttpRequest], HttpResponse]


class ContentSecurityPolicy:
    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


def problem(error: WeeiError) -> HttpResponse:
    """The error as RFC 9457 problem details."""
    body = js_json.dumps(problem_body(error))
    response = HttpResponse(body, content_type="application/problem+json", status=error.status)
    if error.status in (429, 503):
        response["Retry-After"] = str(error.extra.get("retry_after", 5))
    return response


class WeeiErrors:
    """Turns a WeeiError that a view lets through into a problem (API), a fragment (HTMX) or a page."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, WeeiError):
            return None
        if request.path.startswith("/api/"):
            return problem(exception)
        context = {"error": exception}
        if request.headers.get("HX-Request"):
            response = render(request, "_error.html", context, status=exception.status)
            # The message has a place of its own on every page; what the button would have replaced stays.
            response["HX-Retarget"] = "#messages"
            response["HX-Reswap"] = "innerHTML"
            return response
        return render(request, "error.html", context, status=exception.status)
