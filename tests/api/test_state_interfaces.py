"""Every field of the founding text's interfaces is answered by the server under its name, with its type and unit."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint
from jobs.models import Chunk, Job, Requeued, Round
from jobs.selectors.job_json import checkpoint_json, checkpoints_json, job_json
from jobs.selectors.queue_json import chunk_ids
from jobs.services import lifecycle, participants
from peers.models import Peer
from peers.services.tokens import peer_create
from tests.api.interfaces import GOLDEN, differences, fields_of
from tests.api.world import World, browser
from tests.jobs.world import (
    Participant,
    checkpoint_lists,
    make_experience_job,
    make_job,
    merge_due,
    open_link,
    owner,
    start,
)
from weei_core import strict_json

pytestmark = pytest.mark.django_db


def get(caller, path):
    response = caller.get(path)
    assert response.status_code == 200, response.content
    return strict_json.loads(response.content)


def told(job):
    job.refresh_from_db()
    return job_json(Job.objects.select_related("dataset", "module").get(pk=job.pk), timezone.now())


def expanded(job, place):
    """What weei.js makes of a place in a pass."""
    return [*place["requeued"], *chunk_ids(job, place["order"])[place["cursor"] :]]


def test_the_checker_itself_finds_what_is_wrong():
    slot = {"peerId": "p", "chunkId": "c", "status": "loading", "startedAt": 1764421200}
    assert differences(slot, "RoundSlot") == [".startedAt: 1764421200 is no epochMs"]
    assert differences({"peerId": 1, "x": 2, "status": "gone", "chunkId": "c"}, "RoundSlot") == [
        ".x: not in RoundSlot",
        ".peerId: 1 is no text",
        f".status: 'gone' is none of {GOLDEN['founding']['RoundSlot']['status']['oneOf']}",
    ]
    assert differences({"artifact": None}, {"list": "RoundSlot"}) == [": {'artifact': None} is no list"]
    assert differences({}, "ModuleFile") == [".fileName: missing", ".bytes: missing", ".sha256: missing"]


def test_every_field_of_a_job_is_there_for_its_coordinator_and_for_a_participant():
    world = World()
    Requeued.objects.create(job=world.job, position=9, chunk_index=0, record_count=1, held=True, errors=3)
    Participant(world.job).fail()
    seen = [get(world.owner, f"/api/v1/jobs/{world.job.pk}"), get(world.participant, "/api/v1/peer/job")["job"]]
    for job in seen:
        assert differences(job, "TrainingJob") == []
        assert job["slots"] and job["participants"]
    assert any("error" in slot for slot in seen[0]["slots"]), "an error of a slot is told too"
    optional = {field.rstrip("?") for field in fields_of("TrainingJob") if field.endswith("?")}
    assert optional - set(seen[0]) == set(), "the coordinator is told everything"
    assert get(world.left, "/api/v1/peer/job") == {"job": None}


def test_a_participant_sees_its_own_entries_only():
    world = World()
    other = Participant(world.job)
    job = get(world.participant, "/api/v1/peer/job")["job"]
    mine = str(world.participant.peer.pk)
    assert (job["role"], set(job["participants"]), {slot["peerId"] for slot in job["slots"]}) == (
        "participant",
        {mine},
        {mine},
    )
    assert (job["queue"], job["peers"]) == (None, []) and str(other.peer.pk) not in json.dumps(job)
    assert job["owner"] == str(world.owner.peer.pk)


@pytest.mark.parametrize("method", [None, "fedavgm", "fedadam"])
def test_every_field_of_a_checkpoint_is_there(method):
    settings = {"aggregation": {"method": method}} if method else {}
    job = make_job(chunks=3, epochs=2, validation=True, **settings)
    member = Participant(job)
    start(job)
    for _ in range(4):
        member.train()
        merge_due(job)
    latest = Checkpoint.objects.filter(job=job).latest("round")
    latest.validation, latest.validation_text = "done", '{"metrics": {"loss": 0.25}, "examplesProcessed": 8}'
    latest.save()
    page = checkpoints_json(job, before=None, limit=500)
    assert [c["artifact"]["round"] for c in page] == [4, 3, 2, 1, 0]
    for checkpoint in page:
        assert differences(checkpoint, "CheckpointSummary") == []
    assert page[0]["validationMetrics"] == {"values": {"loss": 0.25}, "examplesProcessed": 8}
    assert (page[0]["datasetEpoch"], page[0]["datasetProgress"]) == (1, pytest.approx(4 / 3))
    assert ("aggregation" in page[0]) == (method is not None)
    assert checkpoint_json(latest) == page[0]


def test_remaining_expands_to_what_an_exported_checkpoint_says(django_assert_max_num_queries):
    """With a shuffled order, a requeued chunk, and parts of a cut one."""
    job = make_job(chunks=5, records=8, epochs=1, info={"capabilities": {"recordRanges": True}})
    members = [Participant(job), Participant(job)]
    lifecycle.job_shuffle(job)
    start(job)
    members[0].fail()
    members[1].train()
    merge_due(job)
    for _ in range(6):
        for member in members:
            if member.assignment:
                member.train()
        merge_due(job)
    with django_assert_max_num_queries(3):
        page = checkpoints_json(job, before=None, limit=500)
    made = {c.round: c for c in Checkpoint.objects.filter(job=job).select_related("job__dataset", "pass_order")}
    for checkpoint in page:
        row = made[checkpoint["artifact"]["round"]]
        assert expanded(job, checkpoint["remaining"]) == checkpoint_lists(row).remaining
    assert any(checkpoint["remaining"]["requeued"] for checkpoint in page)
    assert page[0]["remaining"]["order"] is not None and page[-1]["remaining"]["order"] is None


def test_the_queue_is_what_no_round_has_taken():
    job = make_job(chunks=5, epochs=2)
    member = Participant(job)
    assert expanded(job, told(job)["queue"]) == ["c1", "c2", "c3", "c4", "c5"]
    start(job)
    assert expanded(job, told(job)["queue"]) == ["c2", "c3", "c4", "c5"]
    member.leave()
    assert expanded(job, told(job)["queue"]) == ["c1", "c2", "c3", "c4", "c5"]
    Requeued.objects.filter(job=job).update(skipped=True)
    assert expanded(job, told(job)["queue"]) == ["c2", "c3", "c4", "c5"]
    assert told(make_experience_job())["queue"] is None


def test_chunks_are_told_in_an_order_of_the_same_job_only():
    world = World()
    lifecycle.job_shuffle(world.job)
    order = told(world.job)["queue"]["order"]
    path = f"/api/v1/jobs/{world.job.pk}/chunks"
    ids = list(Chunk.objects.filter(dataset=world.job.dataset).values_list("chunk_id", flat=True))
    assert get(world.owner, path) == {"chunkIds": ids}
    assert sorted(get(world.owner, f"{path}?order={order}")["chunkIds"]) == sorted(ids)
    lifecycle.job_shuffle(world.other)
    foreign = told(world.other)["queue"]["order"]
    assert world.owner.get(f"{path}?order={foreign}").status_code == 404
    assert world.owner.get(f"{path}?order=-1").status_code == 422


def test_transitioning_and_validating_tell_what_runs_now():
    job = make_job(chunks=2, validation=True)
    member = Participant(job)
    start(job)
    assert (told(job)["transitioning"], told(job)["validating"]) == (False, [])
    member.train()
    assert Round.objects.get(job=job).state == Round.State.CLOSING and told(job)["transitioning"]
    merge_due(job)
    assert not told(job)["transitioning"]
    Checkpoint.objects.filter(job=job).update(validation="due")
    assert told(job)["validating"] == [0, 1]
    Checkpoint.objects.filter(job=job, round=0).update(validation="running")
    Checkpoint.objects.filter(job=job, round=1).update(validation="done")
    assert told(job)["validating"] == [0]


def test_a_validation_file_that_is_gone_is_unavailable():
    assert not told(make_job())["validationUnavailable"]
    job = make_job(validation=True)
    assert not told(job)["validationUnavailable"]
    Artifact.objects.filter(pk=job.validation_file_id).update(state=Artifact.State.DELETING)
    assert told(job)["validationUnavailable"]


def test_peers_are_online_guests_that_the_coordinator_knows():
    world = World()
    job = world.job
    opened, away, stranger = (peer_create()[0] for _ in range(3))
    elsewhere = make_job(user=owner("alice"))
    open_link(opened, elsewhere)
    open_link(opened, job)
    open_link(away, job)
    participants.job_open(world.other, stranger)
    now = timezone.now()
    Peer.objects.update(seen_at=now, lease_until=now + timedelta(seconds=20))
    Peer.objects.filter(pk=away.pk).update(lease_until=now - timedelta(seconds=1))
    peers = told(job)["peers"]
    known = [world.participant, world.left, world.invited]
    assert sorted(peers) == sorted(str(peer.pk) for peer in [*(caller.peer for caller in known), opened])
    for peer_id in peers:
        assert world.owner.post(f"/api/v1/jobs/{job.pk}/participants/{peer_id}/invite").status_code == 200


def test_what_is_kept_is_told_by_job_and_kind():
    world = World()
    found = get(world.owner, "/api/v1/storage")
    mine = [row for row in found["jobs"] if row["jobId"] == str(world.job.pk)]
    assert {row["kind"]: row["files"] for row in mine} == {"module": 1, "weights": 1, "chunk": 6}
    assert found["bytes"] == sum(row["bytes"] for row in found["jobs"]) and found["uploads"] == 0
    assert get(browser("nobody"), "/api/v1/storage") == {"bytes": 0, "uploads": 0, "uploadBytes": 0, "jobs": []}
