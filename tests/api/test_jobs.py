"""What coordinators call: each endpoint works for the person whose job it is."""

import hashlib
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Artifact, Checkpoint, JobArtifact, Upload
from jobs.models import Attempt, Job, JobDraft, Requeued
from peers.models import Invitation, Membership
from tests.api.world import World, assert_problem, browser
from tests.jobs.world import Participant, make_job, merge_due, owner
from weei_core import strict_json

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    return World()


@pytest.fixture
def alice(world):
    return world.owner


@pytest.fixture
def path(world):
    return f"/api/v1/jobs/{world.job.pk}"


def ok(response, status=200):
    assert response.status_code == status, response.content
    return strict_json.loads(response.content) if response.content else None


def uploaded(user, name="a.bin"):
    """A file that this person uploaded, as the API names it."""
    data = f"{name} of {user}".encode()
    sha256 = hashlib.sha256(data).hexdigest()
    Artifact.objects.create(sha256=sha256, bytes=len(data), body=data, touched=timezone.now())
    Upload.objects.create(
        owner=user, kind=Upload.Kind.FILE, length=len(data), sha256=sha256, done=True, touched=timezone.now()
    )
    return {"fileName": name, "bytes": len(data), "sha256": sha256}


def test_a_job_is_told_whole(world, alice, path):
    job = ok(alice.get(path))
    assert (job["id"], job["status"], job["role"], job["owner"]) == (
        str(world.job.pk),
        "running",
        "coordinator",
        str(alice.peer.pk),
    )
    assert job["seed"] == "7" and job["settings"]["epochs"] == 3 and job["info"]["id"] == "toy"
    assert job["progress"]["totalChunks"] == 6 and job["progress"]["plannedEpochs"] == 3
    (slot,) = job["slots"]
    assert slot["peerId"] == str(world.participant.peer.pk) and slot["status"] == "loading"
    assert set(job["participants"]) == {
        str(caller.peer.pk) for caller in (world.participant, world.invited, world.owner)
    }


def test_only_own_jobs_are_listed_newest_first(world, alice):
    second = make_job(user=owner("alice"))
    assert [job["id"] for job in ok(alice.get("/api/v1/jobs"))] == [str(second.pk), str(world.job.pk)]


def test_a_job_is_made_from_uploaded_files(alice, sent, django_capture_on_commit_callbacks):
    user = owner("alice")
    body = {
        "name": "My job",
        "module": uploaded(user, "m.wasm"),
        "manifest": uploaded(user, "manifest.json"),
        "files": [uploaded(user, "c1.bin")],
        "settings": {"epochs": 1},
    }
    with django_capture_on_commit_callbacks(execute=True):
        draft = ok(alice.post("/api/v1/jobs", body), 202)
    assert sent.tasks == [("jobs.tasks.prepare", (draft["draftId"],))]
    told = ok(alice.get(f"/api/v1/drafts/{draft['draftId']}"))
    assert (told["state"], told["jobId"], told["error"]) == ("queued", None, None)
    kept = strict_json.loads(JobDraft.objects.get().request_text)
    assert kept == {**body, "executionFiles": []}
    assert_problem(browser("mallory").get(f"/api/v1/drafts/{draft['draftId']}"), 404)


def test_files_that_were_not_uploaded_are_named(alice):
    user = owner("alice")
    missing = {"fileName": "gone.bin", "bytes": 1, "sha256": "0" * 64}
    body = {"module": uploaded(user), "manifest": missing, "settings": {}}
    problem = assert_problem(alice.post("/api/v1/jobs", body), 422, "not_uploaded")
    assert problem["files"] == ["gone.bin"]


def test_a_file_of_somebody_else_counts_as_not_uploaded(alice):
    """H3."""
    theirs = uploaded(owner("mallory"))
    body = {"module": theirs, "manifest": theirs, "settings": {}}
    assert_problem(alice.post("/api/v1/jobs", body), 422, "not_uploaded")
    assert ok(alice.post("/api/v1/artifacts/held", {"hashes": [theirs["sha256"]]})) == {"held": []}


def test_held_names_own_files_whatever_else_is_asked(alice):
    mine = uploaded(owner("alice"))["sha256"]
    hashes = [f"{n:064x}" for n in range(10_000)] + [mine]
    assert ok(alice.post("/api/v1/artifacts/held", {"hashes": hashes})) == {"held": [mine]}


def test_a_job_runs_pauses_resumes_and_finishes(world, alice, path):
    assert_problem(alice.post(f"{path}/start"), 409, "wrong_status")
    assert ok(alice.post(f"{path}/pause"))["status"] == "paused"
    assert_problem(alice.post(f"{path}/pause"), 409, "wrong_status")
    assert ok(alice.post(f"{path}/resume"))["status"] == "running"
    done = ok(alice.post(f"{path}/finish"))
    assert (done["status"], done["incomplete"]) == ("completed", True)
    assert Attempt.objects.get(pk=world.attempt).state == "left"


def test_a_job_is_started_once_somebody_can_train(world):
    mallory = world.stranger
    path = f"/api/v1/jobs/{world.other.pk}"
    assert_problem(mallory.post(f"{path}/start"), 409, "nobody_trains")


def test_a_running_job_is_not_deleted_and_a_paused_one_is(world, alice, path):
    assert_problem(alice.call("DELETE", path), 409, "wrong_status")
    ok(alice.post(f"{path}/pause"))
    assert ok(alice.call("DELETE", path), 204) is None
    assert not Job.objects.filter(pk=world.job.pk, owner__isnull=False).exists()
    assert_problem(alice.get(path), 404)
    assert_problem(alice.call("DELETE", path), 404)


def test_open_makes_this_browser_the_coordinators_and_leave_ends_that(world, path):
    tablet = browser("alice")
    assert ok(tablet.post(f"{path}/open"))["owner"] == str(tablet.peer.pk)
    assert_problem(tablet.post(f"/api/v1/jobs/{make_job(user=owner('alice')).pk}/open"), 409, "leave_first")
    assert ok(tablet.post(f"{path}/leave"))["status"] == "running"
    assert not Membership.objects.get(peer=tablet.peer).current


@pytest.mark.parametrize("call", ["open", "leave"])
def test_calls_about_this_device_need_its_token_too(alice, path, call):
    alice.token = None
    assert_problem(alice.post(f"{path}/{call}"), 401, "unauthorized")
    alice.token = "wrong"
    assert_problem(alice.post(f"{path}/{call}"), 401, "unauthorized")


def test_settings_count_from_the_next_round(alice, path):
    job = ok(alice.call("PATCH", f"{path}/settings", {"epochs": 5, "learningRate": 0.01}))
    assert (job["settings"]["epochs"], job["settings"]["learningRate"]) == (5, 0.01)


@pytest.mark.parametrize(
    "patch, field",
    [
        ({"epochs": 0}, "settings.epochs"),
        ({"epochs": "5"}, "settings.epochs"),
        ({"seed": "8"}, "settings.seed"),
        ({"owner": 1}, "settings.owner"),
        ({"status": "completed"}, "settings.status"),
        ({"aggregation": {"method": "fedprox"}}, "settings.aggregation.method"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(alice, path, patch, field):
    """H14."""
    assert field in assert_problem(alice.call("PATCH", f"{path}/settings", patch), 422)["field"]


def test_what_is_left_of_the_queue_is_shuffled(world, alice, path):
    assert ok(alice.post(f"{path}/shuffle"))["shuffled"] is True


def test_a_held_item_is_tried_again_or_left_out(world, alice, path):
    for action, incomplete in (("retry-item", False), ("skip-item", True)):
        item = Requeued.objects.create(
            job=world.job, position=0, chunk_index=0, record_count=8, held=True, errors=3, last_error="NaN"
        )
        told = ok(alice.get(path))["held"]
        assert told == [{"item": item.pk, "position": 0, "errors": 3, "error": "NaN"}]
        assert ok(alice.post(f"{path}/{action}", {"item": item.pk}))["incomplete"] is incomplete
        Requeued.objects.all().delete()
        assert_problem(alice.post(f"{path}/{action}", {"item": item.pk}), 404)


def test_validation_needs_a_model_that_evaluates_and_a_file(world, alice, path):
    assert_problem(alice.post(f"{path}/validation", {}), 409, "no_evaluation")


def test_validation_is_asked_for_by_round_or_for_the_latest(alice):
    job = make_job(user=owner("alice"), capabilities={"evaluation": True})
    Job.objects.filter(pk=job.pk).update(validation_file=job.module)
    path = f"/api/v1/jobs/{job.pk}/validation"
    assert ok(alice.post(path, {}))["validation"] == "due"
    assert ok(alice.post(path, {"round": 0}))["artifact"]["round"] == 0
    assert_problem(alice.post(path, {"round": 9}), 404)


def test_links_are_made_listed_and_revoked(world, alice, path):
    made = ok(alice.post(f"{path}/invitations", {"uses": 3}), 201)
    token = made.pop("url").rstrip("/").split("/")[-1]
    assert len(token) >= 43 and made["maxUses"] == 3 and made["state"] == "open"
    listed = ok(alice.get(f"{path}/invitations"))
    assert made in listed and token not in str(listed)
    revoked = ok(alice.post(f"{path}/invitations/{made['id']}/revoke"))
    assert next(link for link in revoked if link["id"] == made["id"])["state"] == "revoked"
    ok(alice.post(f"{path}/invitations/{made['id']}/revoke"))
    assert_problem(alice.post(f"{path}/invitations/{uuid.uuid4()}/revoke"), 404)


def test_a_link_of_another_job_is_not_revoked_through_mine(world, alice, path):
    theirs = ok(world.stranger.post(f"/api/v1/jobs/{world.other.pk}/invitations"), 201)
    assert_problem(alice.post(f"{path}/invitations/{theirs['id']}/revoke"), 404)
    assert Invitation.objects.get(pk=theirs["id"]).revoked_at is None


@pytest.mark.parametrize(
    "body",
    [
        {"uses": 0},
        {"uses": 10_001},
        {"uses": 1.5},
        {"uses": "1"},
        {"uses": True},
        {"expiresAt": "2020-01-01T00:00:00Z"},
        {"expiresAt": "2999-01-01T00:00:00"},
        {"expiresAt": "tomorrow"},
        {"expiresAt": True},
        {"expiresAt": 1e300},
        {"expiresAt": "9999-12-31T23:59:59.999999-23:59"},
    ],
)
def test_odd_links_are_refused(alice, path, body):
    assert_problem(alice.post(f"{path}/invitations", body), 422)


def test_an_end_in_the_future_is_kept(alice, path):
    at = (timezone.now() + timedelta(hours=1)).replace(microsecond=0)
    made = ok(alice.post(f"{path}/invitations", {"expiresAt": at.isoformat()}), 201)
    assert made["expiresAt"] == at.timestamp() * 1000


def test_a_participant_is_paused_removed_and_invited_again(world, alice, path):
    """P13: what it worked on goes back at once."""
    peer = world.participant.peer
    person = f"{path}/participants/{peer.pk}"
    job = ok(alice.post(f"{person}/pause", {"paused": True}))
    assert job["participants"][str(peer.pk)]["paused"] is True
    assert Attempt.objects.get(pk=world.attempt).state == "left"
    ok(alice.post(f"{person}/pause", {"paused": False}))
    assert str(peer.pk) not in ok(alice.post(f"{person}/remove"))["participants"]
    assert world.participant.get("/api/v1/peer/state").json()["job"] is None
    assert ok(alice.post(f"{person}/invite"))["participants"][str(peer.pk)]["state"] == "invited"
    assert world.participant.get("/api/v1/peer/state").json()["invitations"] == [str(world.job.pk)]


def test_a_peer_that_never_opened_a_link_cannot_be_invited(alice, path):
    assert_problem(alice.post(f"{path}/participants/{browser().peer.pk}/invite"), 404)


def test_checkpoints_come_newest_first_in_pages(world, alice, path):
    first = Checkpoint.objects.get(job=world.job)
    for number in range(1, 8):
        first.pk, first.round = None, number
        first.save(force_insert=True)

    def rounds(query):
        return [c["artifact"]["round"] for c in ok(alice.get(f"{path}/checkpoints{query}"))]

    assert rounds("") == [7, 6, 5, 4, 3, 2, 1, 0]
    assert rounds("?limit=3") == [7, 6, 5] and rounds("?limit=3&before=5") == [4, 3, 2]
    assert rounds("?before=0") == []


@pytest.mark.parametrize(
    "query", ["?limit=0", "?limit=501", "?limit=x", "?before=-1", "?before=" + "9" * 30, "?limit=1e3"]
)
def test_odd_pages_are_refused(alice, path, query):
    assert_problem(alice.get(f"{path}/checkpoints{query}"), 422)


def test_a_checkpoint_tells_what_made_it(world, alice, path):
    ledger = ok(alice.get(f"{path}/checkpoints/0/ledger"))
    assert isinstance(ledger, dict)
    assert_problem(alice.get(f"{path}/checkpoints/1/ledger"), 404)
    assert_problem(alice.get(f"{path}/checkpoints/{'9' * 30}/ledger"), 422)
    assert_problem(alice.get(f"{path}/checkpoints/-1/ledger"), 422)


def test_a_finished_round_shows_in_job_and_checkpoints(world, alice, path):
    trained = Participant.__new__(Participant)
    trained.job, trained.peer = world.job, world.participant.peer
    trained.train()
    merge_due(world.job)
    latest = ok(alice.get(f"{path}/checkpoints"))[0]
    assert latest["artifact"]["round"] == 1 and latest["metrics"]["values"] == {"loss": 0.5}
    assert ok(alice.get(path))["roundsDone"] == 1
    assert JobArtifact.objects.filter(job=world.job, artifact=latest["artifact"]["sha256"]).exists()
