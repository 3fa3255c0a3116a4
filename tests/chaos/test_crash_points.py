"""A process that ends at any boundary of saving a checkpoint, or of taking an update, leaves nothing half.

The work runs in a forked child that counts its boundaries (each statement, each commit, each file that is opened,
synced, linked, renamed or removed) and exits, as if killed, at the one that is asked for: one child for each.
"""

import hashlib
import json
import os
import sys
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import numpy as np
import pytest
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from checkpoints.models import Checkpoint
from checkpoints.services.artifacts import artifact_put_file
from checkpoints.services.collector import collect
from checkpoints.store import store
from jobs.models import Round
from jobs.services.aggregation import round_merge
from jobs.services.updates import update_accept
from tests.chaos.invariants import Receipt, check
from tests.jobs.world import Participant, make_job, start
from tests.load.updates import report_of, update_of

KILLED = 77
FLOATS = 5000
"""More than the 16 KiB that lie in a row, so that files are written."""
FILE_EVENTS = {"os.link", "os.rename", "os.remove", "os.mkdir"}


class Boundaries:
    def __init__(self, last: int) -> None:
        self._last, self.seen = last, 0

    def reach(self, name: str) -> None:
        self.seen += 1
        if self.seen == self._last:
            os.write(2, f"ends at {self.seen}: {name}\n".encode())
            os._exit(KILLED)

    @contextmanager
    def watched(self):
        folder = str(store().folder)

        def audited(event, arguments):
            in_store = bool(arguments) and str(arguments[0]).startswith(folder)
            if in_store and (event in FILE_EVENTS or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))):
                self.reach(f"{event} {Path(arguments[0]).name[:12]}")

        def statement(execute, sql, params, many, context):
            self.reach(f"before {sql[:60]}")
            done = execute(sql, params, many, context)
            self.reach(f"after {sql[:60]}")
            return done

        sys.addaudithook(audited)  # Never to be removed: for a process that ends soon.
        with ExitStack() as stack:
            stack.enter_context(connection.execute_wrapper(statement))
            for owner, name in ((os, "fsync"), (BaseDatabaseWrapper, "_commit")):
                stack.enter_context(patch.object(owner, name, self._around(getattr(owner, name), name)))
            yield

    def _around(self, call, name):
        def around(*arguments):
            self.reach(f"before {name}")
            done = call(*arguments)
            self.reach(f"after {name}")
            return done

        return around


class World:
    """A round of two updates, both files: both accepted ("merge"), or the second one on its way ("accept")."""

    def __init__(self, number: int) -> None:
        self.receipts: list[Receipt] = []
        weights = np.random.default_rng(number).standard_normal(FLOATS)
        self.job = make_job(chunks=4, epochs=2, weights=weights)
        self.members = [Participant(self.job) for _ in range(2)]
        start(self.job)
        self.told = [member.assignment for member in self.members]
        self.accept(0)

    def accept(self, index: int) -> None:
        """As a web process does when the bytes have come."""
        told = self.told[index]
        body = update_of(told["weights"]["sha256"], told["chunkId"], told["seed"], told["weights"]["bytes"])
        sha256, report = hashlib.sha256(body).hexdigest(), json.dumps(report_of(told))
        with store().temporary() as path:
            path.write_bytes(body)
            artifact = artifact_put_file(path, sha256, len(body), timezone.now(), durable=False)
            attempt = UUID(told["attemptId"])
            update_accept(peer=self.members[index].peer, attempt_id=attempt, artifact=artifact, report_text=report)
        self.receipts.append(Receipt(told["attemptId"], sha256))

    def merge(self) -> None:
        """As a worker does, told by the sweeper."""
        for pk in Round.objects.filter(job=self.job, state=Round.State.CLOSING).values_list("pk", flat=True):
            round_merge(pk)

    def holds(self) -> None:
        told = check([self.job.pk], {}, self.receipts)
        assert not any(told.values()), told


def ends_at(number: int, work) -> bool:
    """Run `work` in a child that ends at that boundary. False: it has fewer, and came to its end."""
    connections.close_all()  # A child must not share one.
    child = os.fork()
    if child == 0:
        try:
            with Boundaries(number).watched():
                work()
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED), f"the work failed with {code} at boundary {number}"
    return code == KILLED


def every_boundary(stride, prepare, work, go_on) -> int:
    number = 1
    while True:
        world = World(number)
        prepare(world)
        ended = ends_at(number, lambda world=world: work(world))
        world.holds()
        go_on(world)
        world.holds()
        made = Checkpoint.objects.filter(job=world.job).order_by("round")
        assert [one.round for one in made] == [0, 1]
        # What nobody refers to is taken, and nothing else.
        collect(timezone.now() + timedelta(hours=2))
        world.holds()
        if not ended:
            return number
        number += stride


STRIDES = [pytest.param(15, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_messages")]


@pytest.fixture
def no_messages(monkeypatch):
    monkeypatch.setattr("jobs.services.events._send", lambda task, args: None)
    monkeypatch.setattr("peers.outbox._loop.send", lambda group, message: None)


@pytest.mark.parametrize("stride", STRIDES)
def test_a_worker_that_ends_anywhere_in_a_merge_leaves_it_to_the_next(stride):
    """S1, S10; I1, I2, I6."""
    found = every_boundary(stride, lambda world: world.accept(1), World.merge, World.merge)
    assert found > 40


@pytest.mark.parametrize("stride", STRIDES)
def test_a_web_process_that_ends_anywhere_in_taking_an_update_gets_it_again(stride):
    """S5; I3, I10."""

    def sent_again(world):
        world.accept(1)
        world.merge()

    found = every_boundary(stride, lambda world: None, lambda world: world.accept(1), sent_again)
    assert found > 20
