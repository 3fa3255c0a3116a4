"""What pages, calls and rounds ask of the database does not grow with a job's past or with its data.

`make bench` measures the times; here the questions are counted, and none may read a whole table.
"""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks import growth_rows
from benchmarks.growth import PAGES
from jobs.services.sweeping import expire, queue_due
from jobs.views.panels import PANELS
from tests.jobs.world import owner

pytestmark = [pytest.mark.django_db, pytest.mark.db]

SIZES = {"few": (10, 10), "checkpoints": (200, 10), "chunks": (10, 200)}
ADDRESSES = [*PAGES.values(), *(f"/jobs/{{job}}/panels/{name}" for name in PANELS)]

GROWING = re.compile(r"SCAN (jobs_(chunk|requeued|round|slot|attempt|jobevent)|checkpoints_\w+)\b")


@pytest.fixture
def jobs(no_messages):
    """By what they have much of."""
    made = {name: growth_rows.make(*size) for name, size in SIZES.items()}
    growth_rows.settle()
    return made


def asked(work, *arguments) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        work(*arguments)
    return [query["sql"] for query in queries.captured_queries]


def scans(queries: list[str]) -> list[str]:
    """What SQLite reads from end to end of the tables that grow. PostgreSQL would say so of every small table."""
    if connection.vendor != "sqlite":
        return []
    found = []
    with connection.cursor() as cursor:
        for sql in queries:
            if sql.startswith(("SELECT", "UPDATE", "DELETE")):
                cursor.execute("EXPLAIN QUERY PLAN " + sql.replace("%", "%%"))
                found += [row[3] for row in cursor.fetchall() if GROWING.match(row[3])]
    return found


def test_pages_and_calls_ask_the_same_of_a_job_with_much_behind_it(jobs, client):
    client.force_login(owner())
    for address in ADDRESSES:
        counts = {}
        for name, job in jobs.items():
            assert client.get(address.format(job=job)).status_code == 200
            queries = asked(client.get, address.format(job=job))
            counts[name] = len(queries)
            assert scans(queries) == [], address
        assert counts["few"] == counts["checkpoints"] == counts["chunks"], (address, counts)


def test_a_round_asks_the_same_of_a_job_with_much_behind_it(jobs):
    """From the looks of its participants to the next one's deal."""
    counts = {}
    for name, job in jobs.items():
        growth_rows.play(job)
        queries = asked(growth_rows.play, job)
        counts[name] = len(queries)
        assert scans(queries) == []
    assert counts["few"] == counts["checkpoints"] == counts["chunks"], counts


def test_a_sweep_reads_nothing_of_what_lies_behind_the_jobs(jobs):
    assert scans(asked(expire, timezone.now()) + asked(queue_due, timezone.now())) == []
