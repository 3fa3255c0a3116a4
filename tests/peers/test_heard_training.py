"""A snapshot over the socket says once for each attempt that its training has begun."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from jobs.models import Attempt
from tests.jobs.world import Participant, make_job, start
from tests.peers.socket import Socket, in_loop


@pytest.mark.django_db(transaction=True)
@in_loop
async def test_a_snapshot_over_the_socket_says_that_training_has_begun():
    def working():
        job = make_job(chunks=2)
        member = Participant(job)
        start(job)
        return member

    member = await sync_to_async(working)()
    async with Socket() as socket:
        attempt = await sync_to_async(lambda: member.attempt)()
        welcome = await socket.hello(member.token, attemptId=str(attempt.pk))
        assignment = {"jobId": str(member.job.pk), "attemptId": str(attempt.pk)}
        snapshot = {"sequence": welcome["sequence"] + 1, "stage": "training", "assignment": assignment}
        await socket.say("diagnostics", snapshot=snapshot)
        async with asyncio.timeout(10):
            while not await Attempt.objects.filter(pk=attempt.pk, training_at__isnull=False).aexists():
                await asyncio.sleep(0.02)
