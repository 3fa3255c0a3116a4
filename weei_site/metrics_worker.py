"""What a worker counts, its own small HTTP server for Prometheus (`METRICS_PORT`), and the context of its log lines.

Everything hangs on Celery's signals, which come in the thread that runs the task, whatever the pool.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from celery import signals
from django.conf import settings
from prometheus_client import Counter, Gauge, Histogram, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from weei_core.errors import WeeiError
from weei_core.log_context import about
from weei_site import logs
from weei_site.health_worker import Beat, file_of
from weei_site.metrics_access import check_scraper

logger = logging.getLogger(__name__)
SECONDS = (0.02, 0.1, 0.5, 2, 10, 60, 600)

TASKS = Counter("weei_tasks", "Tasks that this worker ended, by what came of them.", ["task", "outcome"])
TASK_SECONDS = Histogram("weei_task_seconds", "How long this worker's tasks took.", ["task"], buckets=SECONDS)
TASKS_RUNNING = Gauge("weei_tasks_running", "Tasks that this worker has begun and not ended.", ["task"])

_open: dict[str, AbstractContextManager[Any]] = {}
_beat: Beat | None = None


def _short(task: Any) -> str:
    return str(getattr(task, "name", "unknown")).rpartition(".")[2]


def worker_begins(sender: str, **_: Any) -> None:
    """Called when a worker starts; `sender` is its name: fast@host."""
    global _beat
    logs.role = sender.partition("@")[0]
    _beat = Beat(file_of(settings.RUN_DIR, sender))
    _beat.start()
    if settings.METRICS_PORT:
        serve(settings.METRICS_PORT)


@signals.setup_logging.connect
def _keep_logging(**_: Any) -> None:
    """Settings have set logging up already; with a receiver here Celery leaves it alone."""


@signals.heartbeat_sent.connect
def _consumer_is_alive(**_: Any) -> None:
    if _beat is not None:
        _beat.consumer_heard()


@signals.task_prerun.connect
def _task_begins(task_id: str, task: Any, **_: Any) -> None:
    context = about(task=_short(task), request=task_id)
    context.__enter__()
    _open[task_id] = context
    TASKS_RUNNING.labels(_short(task)).inc()
    if _beat is not None:
        _beat.begun(task_id, _short(task))


@signals.task_postrun.connect
def _task_ends(task_id: str, task: Any, state: str | None = None, **_: Any) -> None:
    name = _short(task)
    TASKS_RUNNING.labels(name).dec()
    TASKS.labels(name, "done" if state == "SUCCESS" else "failed").inc()
    seconds = _beat.ended(task_id) if _beat is not None else None
    if seconds is not None:
        TASK_SECONDS.labels(name).observe(seconds)
    if context := _open.pop(task_id, None):
        context.__exit__(None, None, None)


class _Quiet(WSGIRequestHandler):
    timeout = 10.0
    """Seconds for a caller that says nothing."""

    def log_message(self, *_: object) -> None:
        """A scrape is no news."""


def serve(port: int) -> int:
    """Answer `/metrics` from a thread of its own, also while a task runs. Without METRICS_TOKEN on this machine only.
    A port that is taken is a log line: a worker without metrics works."""
    try:
        host = "0.0.0.0" if settings.METRICS_TOKEN else "127.0.0.1"
        server = make_server(host, port, _application, ThreadingWSGIServer, _Quiet)
    except OSError as error:
        logger.error("no metrics: port %d (METRICS_PORT) cannot be opened: %s", port, error)
        return 0
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server.server_port


_metrics = make_wsgi_app()


def _application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    headers = {
        name[5:].lower().replace("_", "-").encode(): str(value).encode("latin-1")
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    try:
        check_scraper(headers, environ.get("REMOTE_ADDR"))
    except WeeiError as error:
        return _plain(start_response, f"{error.status} Refused", error.message)
    if environ.get("PATH_INFO") != "/metrics":
        return _plain(start_response, "404 Not Found", "There is /metrics here, and nothing else.")
    answer: Iterable[bytes] = _metrics(environ, start_response)
    return answer


def _plain(start_response: Callable[..., Any], status: str, text: str) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
