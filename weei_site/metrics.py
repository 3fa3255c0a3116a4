"""What each process counts of itself, for Prometheus. What the database knows is in metrics_jobs.py.

No label holds anything that grows with use: routes, methods, classes of status, names of tasks, levels of log lines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

# The time at which each counter began would be one more series for each.
disable_created_metrics()  # type: ignore[no-untyped-call]

SECONDS = (0.005, 0.02, 0.1, 0.5, 2, 10, 60)
METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})
_BESIDE_DJANGO = (
    ("/bytes/uploads", "bytes:uploads"),
    ("/bytes/jobs/", "bytes:jobs"),
    ("/bytes/packages/", "bytes:packages"),
    ("/bytes/", "bytes"),
    ("/static/", "static"),
    ("/presets/", "presets"),
    ("/healthz", "healthz"),
    ("/readyz", "readyz"),
    ("/metrics", "metrics"),
)

REQUESTS = Counter(
    "weei_http_requests", "Requests that were answered, by route and class of status.", ["route", "method", "status"]
)
REQUEST_SECONDS = Histogram(
    "weei_http_request_seconds", "From a request's headers to the end of its answer.", ["route", "method"],
    buckets=SECONDS,
)  # fmt: skip
SOCKETS = Gauge("weei_sockets_open", "Websockets that are open at this process.")
MESSAGES = Counter("weei_socket_messages", "Messages over websockets, from (in) and to (out) peers.", ["direction"])
UPLOADED = Counter("weei_upload_bytes", "Bytes of bodies that came to /bytes/.")
DOWNLOADED = Counter("weei_download_bytes", "Bytes that went out from /bytes/.")
SWEEPS = Counter("weei_sweeps", "Sweeps of this process, by what came of them.", ["outcome"])
SWEEP_SECONDS = Histogram("weei_sweep_seconds", "How long a sweep of this process took.", buckets=SECONDS)
LOG_LINES = Counter("weei_log_lines", "Log lines of this process, by level.", ["level"])


def route_beside_django(path: str) -> str | None:
    """The name of what Django does not answer; None for what it does."""
    return next((name for prefix, name in _BESIDE_DJANGO if path.startswith(prefix)), None)


def request_done(route: str, method: str, status: int, seconds: float) -> None:
    known = method if method in METHODS else "other"
    REQUESTS.labels(route, known, f"{status // 100}xx").inc()
    REQUEST_SECONDS.labels(route, known).observe(seconds)


@contextmanager
def sweeping() -> Iterator[None]:
    """Around a sweep."""
    began = time.perf_counter()
    try:
        yield
    except Exception:
        SWEEPS.labels("failed").inc()
        raise
    else:
        SWEEPS.labels("done").inc()
    finally:
        SWEEP_SECONDS.observe(time.perf_counter() - began)


class CountLines(logging.Filter):
    """Counts what a handler writes."""

    def filter(self, record: logging.LogRecord) -> bool:
        LOG_LINES.labels(record.levelname.lower()).inc()
        return True
