"""The Celery application. Two queues: `fast` merges rounds, `slow` runs modules (prepare, evaluate) one at a time."""

import os
from typing import Any

import kombu
from celery import Celery, signals
from celery.app.amqp import AMQP

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weei_site.settings")

RECONNECT_SECONDS = 2


class Connection(kombu.Connection):
    """Looks for a broker that is away every two seconds; kombu would wait up to thirty between two looks."""

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        options.update(interval_start=0.2, interval_step=0.5, interval_max=RECONNECT_SECONDS)
        return super().ensure_connection(*args, **options)


class QuickAMQP(AMQP):
    Connection = Connection


app = Celery("weei", amqp=QuickAMQP)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()


@signals.celeryd_init.connect(weak=False)
def _observe(**details: Any) -> None:
    """In a worker only: no other process needs its metrics and its signs of life."""
    from weei_site.metrics_worker import worker_begins

    worker_begins(**details)
