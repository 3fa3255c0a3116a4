"""Static files and the shipped models, beside Django: `/static/<name>` and `/presets/<model>/<path>`.

Names are looked up by Django's finders, so that nothing has to be collected first. There are no hashed names, because
a second name of a module would be a second instance of it: own files are asked for again each time (ETag), vendored
ones carry their version and are kept for good. Text is sent compressed to whoever takes it so.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Receive, Scope, Send

from checkpoints.bytes.http import MethodNotAllowed, send_problem
from weei_core.errors import NotFound
from weei_site.middleware import POLICY

Find = Callable[[str], Path | None]

_VERSIONED = re.compile(r"vendor/[^/]*-\d+\.\d+(\.\d+)?[^/]*")
_TYPES = {
    # Not left to the machine's own table: browsers refuse modules and WebAssembly of another type.
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".css": "text/css",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".ts": "text/plain",
    ".md": "text/plain",
}

_COMPRESSED = frozenset({"text/javascript", "text/css", "image/svg+xml"})
_WORTH_BYTES = 500


class FoundFiles(StaticFiles):
    """Starlette's conditional requests and ranges over files that a function finds."""

    def __init__(self, prefix: str, find: Find) -> None:
        super().__init__(check_dir=False)
        self._prefix = prefix
        self._find = find

    def get_path(self, scope: Scope) -> str:
        return str(scope["path"]).removeprefix(self._prefix)

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        found = self._find(path)
        if found is None:
            return "", None
        try:
            return str(found), found.stat()
        except FileNotFoundError:
            return "", None

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        keeps = _VERSIONED.fullmatch(self.get_path(scope)) is not None
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable" if keeps else "no-cache",
            "X-Content-Type-Options": "nosniff",
            # A Worker lives by the policy of its own script.
            "Content-Security-Policy": POLICY,
            # Registered pages of other origins load weei.js from here; there is nothing private in it.
            "Access-Control-Allow-Origin": "*",
            "Cross-Origin-Resource-Policy": "cross-origin",
        }
        kind, asked = media_type(str(full_path)), Headers(scope=scope)
        response: Response
        if kind in _COMPRESSED and stat_result.st_size >= _WORTH_BYTES:
            headers["Vary"] = "Accept-Encoding"
            if "range" not in asked and "gzip" in asked.get("accept-encoding", ""):
                return _gzipped_response(Path(full_path), stat_result, asked, headers, kind)
        response = FileResponse(full_path, status_code, headers, media_type=kind, stat_result=stat_result)
        if self.is_not_modified(response.headers, Headers(scope=scope)):
            return NotModifiedResponse(response.headers)
        return response


def _gzipped_response(
    path: Path, found: os.stat_result, asked: Headers, headers: dict[str, str], kind: str
) -> Response:
    body = _gzipped(path, found.st_mtime_ns, found.st_size)
    # Another body than the plain file's, and so another tag.
    tag = f'"{found.st_mtime_ns:x}-{found.st_size:x}-gzip"'
    response = Response(body, headers={**headers, "Content-Encoding": "gzip", "ETag": tag}, media_type=kind)
    same = tag in [part.strip().removeprefix("W/") for part in asked.get("if-none-match", "").split(",")]
    return NotModifiedResponse(response.headers) if same else response


@lru_cache(maxsize=512)
def _gzipped(path: Path, modified: int, size: int) -> bytes:
    """Of the file as it was then: what changes is compressed again. All files of the project take about a megabyte."""
    return gzip.compress(path.read_bytes(), compresslevel=9, mtime=0)


def media_type(name: str) -> str:
    return _TYPES.get(Path(name).suffix.lower()) or guess_type(name)[0] or "application/octet-stream"


_found: dict[str, Path] = {}


def find_static(name: str) -> Path | None:
    """A file of this project or of an installed app. What was found once is not searched for again."""
    known = _found.get(name)
    if known is not None and known.is_file():
        return known
    try:
        path = finders.find(name)
    except SuspiciousFileOperation:
        return None
    if not isinstance(path, str) or not os.path.isfile(path):
        return None
    _found[name] = Path(path)
    return _found[name]


def find_preset(name: str) -> Path | None:
    """`<model>/<path>` below REFERENCE_MODELS_DIR."""
    root = Path(settings.REFERENCE_MODELS_DIR).resolve()
    path = (root / name).resolve()
    inside = path.is_relative_to(root) and not any(part.startswith(".") for part in path.relative_to(root).parts)
    return path if inside and len(path.relative_to(root).parts) > 1 and path.is_file() else None


class StaticApp:
    def __init__(self) -> None:
        self._apps = {
            "/static/": FoundFiles("/static/", find_static),
            "/presets/": FoundFiles("/presets/", find_preset),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = next((app for prefix, app in self._apps.items() if scope["path"].startswith(prefix)), None)
        if app is None:
            await send_problem(send, NotFound("There is nothing at this address."))
            return
        try:
            await app(scope, receive, send)
        except HTTPException as error:
            if error.status_code == 405:
                await send_problem(send, MethodNotAllowed(f"The method must be GET or HEAD; found {scope['method']}."))
            else:
                await send_problem(send, NotFound("There is no such file."))


application = StaticApp()
