"""`GET /metrics` of a web process: what Prometheus scrapes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from checkpoints.bytes.http import MethodNotAllowed, send_problem, send_start
from weei_core.errors import WeeiError
from weei_site import metrics_jobs
from weei_site.metrics_access import check_scraper

_scrapes = ThreadPoolExecutor(1, thread_name_prefix="metrics")
"""One: scrapes that come faster than they are answered wait for each other, not for the database."""


def text() -> bytes:
    """Blocks: what this process counted, then what the database and the broker say."""
    return generate_latest(REGISTRY) + metrics_jobs.kept.text()


async def application(scope: Any, receive: Any, send: Any) -> None:
    try:
        check_scraper(dict(scope["headers"]), scope["client"][0] if scope.get("client") else None)
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"The method must be GET or HEAD; found {scope['method']}.")
    except WeeiError as error:
        await send_problem(send, error)
        return
    body = await asyncio.get_running_loop().run_in_executor(_scrapes, text)
    headers = (("Content-Type", CONTENT_TYPE_LATEST), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"))
    await send_start(send, 200, headers)
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
