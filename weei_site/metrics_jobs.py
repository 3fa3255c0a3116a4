"""Metrics of the whole installation, read from the database and the broker when somebody scrapes: a dozen short
queries, at most every `KEEP_SECONDS`. Every web process says the same, so take `max` over them, not `sum`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime

import redis
from django.conf import settings
from django.db.models import Count, Min, QuerySet, Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from checkpoints.bytes.threads import healthy_connection
from checkpoints.models import Artifact, Checkpoint
from jobs.models import Attempt, Job, JobDraft, Round, Sweep
from peers.models import Membership, Peer

logger = logging.getLogger(__name__)
KEEP_SECONDS = 5.0
QUEUES = ("fast", "slow")
BROKER_SECONDS = 1.0


class Installation(Collector):
    """Metrics as they are now. What cannot be asked is missing, never zero."""

    def collect(self) -> Iterable[GaugeMetricFamily]:
        yield from _part("weei_database_up", "Whether the database answers.", _database)
        yield from _part("weei_broker_up", "Whether Redis answers.", _queues)


def _part(name: str, text: str, read: Callable[[], list[GaugeMetricFamily]]) -> Iterable[GaugeMetricFamily]:
    try:
        found = read()
    except Exception as error:
        logger.warning("%s is 0: %s", name, error)
        yield GaugeMetricFamily(name, text, 0)
        return
    yield GaugeMetricFamily(name, text, 1)
    yield from found


def _database() -> list[GaugeMetricFamily]:
    with healthy_connection():
        return [*_work(timezone.now()), *_people(timezone.now()), *_stored()]


def _work(now: datetime) -> list[GaugeMetricFamily]:
    closing = Round.objects.filter(state=Round.State.CLOSING).aggregate(oldest=Min("closing_at"), count=Count("pk"))
    swept = Sweep.objects.filter(pk=1).first()
    due = Checkpoint.objects.filter(Checkpoint.UNDER_WAY)
    families = [
        _by("weei_jobs", "Jobs by status.", "status", Job.Status.values, Job.objects.all()),
        _by("weei_drafts", "Jobs being made, by state.", "state", JobDraft.State.values, JobDraft.objects.all()),
        _one("weei_rounds_done", "Rounds with a checkpoint.", Round.objects.filter(state=Round.State.DONE).count()),
        _one("weei_rounds_closing", "Rounds that wait for their merge, or are merged.", closing["count"]),
        _one("weei_attempts_live", "Assignments at work.", Attempt.objects.filter(state=Attempt.State.LIVE).count()),
        _one("weei_validations_due", "Checkpoints whose evaluation is due or runs.", due.count()),
        _one("weei_oldest_closing_round_seconds", "Since the oldest of them closed; 0: none.",
             _age(now, closing["oldest"]) if closing["oldest"] else 0.0),
    ]  # fmt: skip
    if swept is not None:
        families.append(_one("weei_sweep_age_seconds", "Since any process swept.", _age(now, swept.ended_at)))
    return families


def _people(now: datetime) -> list[GaugeMetricFamily]:
    here = Peer.objects.filter(lease_until__gte=now)
    active = Membership.objects.filter(current=True, trains=True, peer__lease_until__gte=now)
    return [
        _one("weei_peers_connected", "Peers that were heard from within their lease.", here.count()),
        _one("weei_participants_active", "Peers that take part in a job and are connected.", active.count()),
    ]


def _stored() -> list[GaugeMetricFamily]:
    stored = Artifact.objects.aggregate(bytes=Sum("bytes"), count=Count("pk"))
    return [
        _one("weei_artifacts", "Stored artifacts.", stored["count"]),
        _one("weei_artifact_bytes", "Their bytes.", stored["bytes"] or 0),
    ]


def _queues() -> list[GaugeMetricFamily]:
    """Tasks that no worker has taken. What is due stands in the database: a flushed queue says 0 for some seconds."""
    times = {"socket_connect_timeout": BROKER_SECONDS, "socket_timeout": BROKER_SECONDS}
    family = GaugeMetricFamily("weei_queue_length", "Tasks that wait for a worker.", labels=["queue"])
    with redis.Redis.from_url(settings.QUEUE_URL, **times) as broker:
        for queue in QUEUES:
            family.add_metric([queue], int(broker.llen(queue)))
    return [family]


def _one(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value)


def _by(
    name: str, text: str, field: str, values: Iterable[str], rows: QuerySet[Job] | QuerySet[JobDraft]
) -> GaugeMetricFamily:
    """A count for each value of a field, 0 where there is none."""
    family = GaugeMetricFamily(name, text, labels=[field])
    found = dict(rows.order_by().values_list(field).annotate(Count("pk")))
    for value in values:
        family.add_metric([value], found.get(value, 0))
    return family


def _age(now: datetime, then: datetime) -> float:
    return max(0.0, (now - then).total_seconds())


class Kept:
    """The text of the metrics, made anew at most every `KEEP_SECONDS`, by one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(Installation())
        self._made: tuple[float, bytes] | None = None

    def text(self) -> bytes:
        with self._lock:
            if self._made is None or self._clock() - self._made[0] > KEEP_SECONDS:
                self._made = (self._clock(), generate_latest(self._registry))
            return self._made[1]


kept = Kept()
