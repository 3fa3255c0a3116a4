"""What describes the API, beside its versions: the page for people, OpenAPI and AsyncAPI for programs."""

from __future__ import annotations

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from weei_core import js_json
from weei_site.api import api
from weei_site.asyncapi import DOCUMENT


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "api/docs.html", {"section": "help"})


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_openapi_text(), "application/json")


@require_safe
def asyncapi(request: HttpRequest) -> HttpResponse:
    return HttpResponse(DOCUMENT.read_bytes(), "application/json")


@cache
def _openapi_text() -> str:
    return js_json.dumps(api.get_openapi_schema())
