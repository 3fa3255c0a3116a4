"""What a coordinator's page hears, and nobody else. H3, H11, C70, C82."""

import asyncio
from importlib import import_module

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from diagnostics.domain.snapshot import clean_snapshot
from diagnostics.live import snapshot_put
from jobs.services.lifecycle import job_delete
from peers import relay, watching
from peers.models import Peer
from peers.outbox import job_group
from peers.services.tokens import peer_create
from tests.jobs.world import Participant, make_job, owner
from tests.peers.socket import Socket, in_loop

pytestmark = pytest.mark.django_db(transaction=True)
OTHER_JOB = "5f2c9f50-7c1b-4c0e-8f55-0c5f0b6f9d01"


class Page:
    """A browser of a signed-in person: its guest peer and its session."""

    def __init__(self, name=None):
        self.peer, self.token = peer_create()
        self.client = Client()
        if name:
            self.client.force_login(owner(name))

    @property
    def session(self):
        cookie = self.client.cookies.get(django_settings.SESSION_COOKIE_NAME)
        return import_module(django_settings.SESSION_ENGINE).SessionStore(cookie.value if cookie else None)

    def socket(self):
        return Socket(session=self.session)

    async def watch(self, socket, job):
        """Say hello and wait until the socket listens: it begins with all parts of the job."""
        await socket.say("hello", protocol=1, token=self.token, train=False, watch=str(job.pk))
        told = {}
        while not {"welcome", "state", "job"} <= set(told):
            frame = await socket.next()
            told[frame["type"]] = frame
        assert set(told["job"]["what"]) == watching.PARTS


@pytest.fixture
def job():
    return make_job(user=owner("alice"))


@pytest.fixture
def page(job):
    return Page("alice")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(watching, "TICK_SECONDS", 0.02)


def say(peer, sequence, *, job_id=None, **fields):
    assignment = {"assignment": {"jobId": str(job_id)}} if job_id else {}
    snapshot_put(peer.pk, clean_snapshot({"sequence": sequence, "stage": "waiting", **assignment, **fields}))


async def changed(job, *what):
    message = {"type": "job.changed", "job_id": str(job.pk), "what": list(what)}
    await get_channel_layer().group_send(job_group(job.pk), message)


async def quiet(socket):
    """Ticks pass and nothing is said."""
    await asyncio.sleep(0.3)
    assert socket.silent()


@pytest.mark.parametrize("name, code", [(None, "unauthorized"), ("mallory", "not_found")])
@pytest.mark.parametrize("how", ["hello", "watch"])
@in_loop
async def test_strangers_and_anonymous_hear_nothing(job, name, code, how):
    page = await sync_to_async(Page)(name)
    async with page.socket() as socket:
        if how == "hello":
            await socket.say("hello", protocol=1, token=page.token, train=True, watch=str(job.pk))
            assert (await socket.next())["type"] == "welcome"
        else:
            await socket.hello(page.token)
            await socket.say("watch", jobId=str(job.pk))
        told = {frame["type"]: frame for frame in [await socket.next() for _ in range(2 if how == "hello" else 1)]}
        assert (told["error"]["code"], told["error"]["re"]) == (code, "watch")
        await changed(job, "status")
        await quiet(socket)


@in_loop
async def test_a_participant_of_the_job_may_not_watch_it_either(job):
    member = await sync_to_async(Participant)(job)
    async with Socket() as socket:
        await socket.hello(member.token, session=1)
        await socket.say("watch", jobId=str(job.pk))
        assert (await socket.next("error"))["code"] == "unauthorized"


@in_loop
async def test_a_foreign_and_a_missing_job_answer_alike(job):
    page = await sync_to_async(Page)("mallory")
    answers = []
    async with page.socket() as socket:
        await socket.hello(page.token)
        for job_id in (str(job.pk), OTHER_JOB):
            await socket.say("watch", jobId=job_id)
            answers.append(await socket.next("error"))
    assert answers[0] == answers[1]


@in_loop
async def test_changes_of_a_moment_are_told_together(job, page):
    async with page.socket() as socket:
        await page.watch(socket, job)
        for what in ("status", "round", "status", "participants"):
            await changed(job, what)
        told = await socket.next("job")
        assert told == {"type": "job", "jobId": str(job.pk), "what": ["participants", "round", "status"]}
        await quiet(socket)


@in_loop
async def test_watching_another_job_ends_the_first(job, page):
    second = await sync_to_async(make_job)(user=job.owner)
    async with page.socket() as socket:
        await page.watch(socket, job)
        await socket.say("watch", jobId=str(second.pk))
        assert (await socket.next("job"))["jobId"] == str(second.pk)
        await changed(second, "round")
        assert (await socket.next("job"))["jobId"] == str(second.pk)
        await changed(job, "status")
        await quiet(socket)
        await socket.say("watch", jobId=None)
        await asyncio.sleep(0.1)
        await changed(second, "status")
        await quiet(socket)


@in_loop
async def test_a_refused_watch_keeps_the_one_before(job, page):
    async with page.socket() as socket:
        await page.watch(socket, job)
        await socket.say("watch", jobId=OTHER_JOB)
        assert (await socket.next("error"))["code"] == "not_found"
        await changed(job, "round")
        assert (await socket.next("job"))["what"] == ["round"]


@in_loop
async def test_live_tells_only_what_changed(job, page):
    """C70: the age is the server's own; who left is told with the last snapshot."""
    one = await sync_to_async(Participant)(job)
    two = await sync_to_async(Participant)(job)
    say(one.peer, 1)
    say(two.peer, 1)
    async with page.socket() as socket:
        await page.watch(socket, job)
        live = await socket.next("live")
        assert set(live["peers"]) == {str(one.peer.pk), str(two.peer.pk)}
        first = live["peers"][str(one.peer.pk)]
        assert first["connected"] is True and first["heldMs"] >= 0 and first["snapshot"]["sequence"] == 1
        say(two.peer, 2)
        assert set((await socket.next("live"))["peers"]) == {str(two.peer.pk)}
        await sync_to_async(Peer.objects.filter(pk=one.peer.pk).update)(lease_until=timezone.now())
        live = await socket.next("live")
        assert {key: value["connected"] for key, value in live["peers"].items()} == {str(one.peer.pk): False}
        assert live["peers"][str(one.peer.pk)]["snapshot"]["sequence"] == 1
        await quiet(socket)


@in_loop
async def test_live_comes_once_a_second_at_most(job, page, monkeypatch):
    """Counted in ticks: between two live messages lie at least a second's."""
    monkeypatch.setattr(watching, "TICK_SECONDS", 0.002)
    assert watching.TICKS_PER_LIVE * 0.25 >= 1
    one = await sync_to_async(Participant)(job)
    ticks = []
    real = watching.JobWatch._tell_what

    async def counted(self):
        ticks.append("tick")
        say(one.peer, len(ticks))
        await real(self)

    monkeypatch.setattr(watching.JobWatch, "_tell_what", counted)
    async with page.socket() as socket:
        await page.watch(socket, job)
        sequences = [(await socket.next("live"))["peers"][str(one.peer.pk)]["snapshot"]["sequence"] for _ in range(5)]
    assert all(
        later - earlier >= watching.TICKS_PER_LIVE for earlier, later in zip(sequences, sequences[1:], strict=False)
    )


@in_loop
async def test_what_a_peer_said_while_it_worked_for_another_job_is_not_relayed(job, page):
    one = await sync_to_async(Participant)(job)
    say(one.peer, 1, job_id=OTHER_JOB, error="secret")
    async with page.socket() as socket:
        await page.watch(socket, job)
        await quiet(socket)
        say(one.peer, 2, job_id=job.pk)
        assert (await socket.next("live"))["peers"][str(one.peer.pk)]["snapshot"]["sequence"] == 2


@pytest.mark.parametrize("how", ["sign out", "disabled", "password changed", "job deleted"])
@in_loop
async def test_who_loses_the_right_to_watch_is_cut_off(job, page, how):
    """H11, H19: within 5 s."""
    assert watching.TICKS_PER_CHECK * 0.25 <= 4
    ends = {
        "sign out": lambda: page.client.logout(),
        "disabled": lambda: User.objects.filter(pk=job.owner_id).update(is_active=False),
        "password changed": lambda: User.objects.filter(pk=job.owner_id).update(password="!another"),
        "job deleted": lambda: job_delete(job),
    }
    async with page.socket() as socket:
        await page.watch(socket, job)
        await sync_to_async(ends[how])()
        error = await socket.next("error")
        assert (error["code"], error["re"]) == ("not_found" if how == "job deleted" else "unauthorized", "watch")
        assert await socket.closed() == 1008


@in_loop
async def test_a_database_that_is_away_for_a_moment_ends_nothing(job, page, monkeypatch):
    from django.db import OperationalError

    failures = iter([OperationalError("away")] * 3)
    real = relay.participant_ids

    def flaky(*args):
        for failure in failures:
            raise failure
        return real(*args)

    monkeypatch.setattr(relay, "participant_ids", flaky)
    one = await sync_to_async(Participant)(job)
    say(one.peer, 1)
    async with page.socket() as socket:
        await page.watch(socket, job)
        assert (await socket.next("live"))["peers"]
