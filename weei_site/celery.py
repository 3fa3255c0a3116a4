"""The Celery application. Two queues: `fast` merges rounds, `slow` runs modules (prepare, evaluate) one at a time."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weei_site.settings")

app = Celery("weei")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()
