"""What a running demo tells the person at the terminal: rounds, pauses, troubles, a full disk; each once."""

import sqlite3

import pytest
from django.db import OperationalError

from jobs.models import Job
from tests.jobs.world import make_job
from weei_site.launch import __main__ as program
from weei_site.launch import machine
from weei_site.launch.demo import Watcher, owner
from weei_site.launch.supervision import Supervision

pytestmark = pytest.mark.django_db


class Silent:
    """A supervision without troubles."""

    def troubles(self):
        return iter(())


def launched(watcher):
    running = object.__new__(program.Launch)
    running.supervision, running.watcher, running._disk_was_full = Silent(), watcher, False
    return running


def test_a_disk_that_fills_up_and_gets_better_is_told_once_each(monkeypatch):
    running = launched(None)
    told = []
    for full in (False, True, True, False, False):
        monkeypatch.setattr(machine, "disk_is_full", lambda folder, full=full: full)
        told.append(running._news())
    assert [len(lines) for lines in told] == [0, 1, 0, 1, 0]
    assert "is full: nothing new can be kept until you free some space." in told[1][0]
    assert told[3] == ["There is space on the disk again."]


def test_a_database_on_a_full_disk_does_not_end_the_run(monkeypatch):
    class Full:
        def look(self):
            raise OperationalError("database or disk is full") from sqlite3.OperationalError()

    monkeypatch.setattr(machine, "disk_is_full", lambda folder: False)
    monkeypatch.setattr("django.db.connection.close", lambda: None)
    running = launched(Full())
    assert "is full" in running._news()[0]
    assert running._news() == []


def test_a_pause_and_the_end_of_the_job_are_told_once():
    job = make_job(chunks=2)
    watcher = Watcher(job)
    Job.objects.filter(pk=job.pk).update(status="paused", last_error="Round 1 could not be merged.")
    assert list(watcher.look()) == ["The job is paused: Round 1 could not be merged."]
    assert list(watcher.look()) == []
    Job.objects.filter(pk=job.pk).update(status="completed")
    assert [line.split(".")[0] for line in watcher.look()] == ["The job is completed"]
    assert list(watcher.look()) == []


def test_a_deleted_job_has_no_news():
    job = make_job(chunks=2)
    watcher = Watcher(job)
    Job.objects.filter(pk=job.pk).delete()
    assert list(watcher.look()) == []


def test_the_owner_is_one_account_without_a_password():
    first, second = owner(), owner()
    assert first == second and first.username == "owner" and first.is_superuser
    assert not first.has_usable_password()


def test_a_process_that_does_not_stay_up_is_named_once(tmp_path, monkeypatch):
    supervision = Supervision(tmp_path, tmp_path / "log")
    states = ["RUNNING", "BACKOFF", "STARTING", "BACKOFF", "RUNNING", "FATAL"]
    told = []
    for state in states:
        monkeypatch.setattr(supervision, "_infos", lambda state=state: [{"name": "fast", "statename": state}])
        told.append(list(supervision.troubles()))
    sentence = f"Process fast does not stay up; see {tmp_path}/log/fast.log"
    assert told == [[], [sentence], [], [], [], [sentence]]
