"""The live parts of the job page: order of answers, polling, what buttons do, and the number of queries."""

import re

import pytest
from django.urls import reverse

from checkpoints.models import Checkpoint
from diagnostics.live import snapshot_put
from jobs.models import Job, Requeued
from jobs.services.events import job_event
from jobs.views.panels import PANELS
from peers.models import Invitation, Membership
from tests.pages import factories

HTMX = {"HTTP_HX_REQUEST": "true"}


def panel(client, job, name):
    return client.get(reverse("job-panel", args=[job.pk, name]), **HTMX).content.decode()


def post(client, job, name, data=None, **arguments):
    return client.post(reverse(name, kwargs={"job_id": job.pk, **arguments}), data or {}, **HTMX)


def lasting(text):
    """A fragment without what differs in every answer, as panels.js compares it."""
    return re.sub(r'data-marker="\d+"|name="csrfmiddlewaretoken" value="[^"]*"', "", text)


def found(pattern, text):
    match = re.search(pattern, text, re.S)
    assert match is not None, pattern
    return match


def marker(text):
    return int(found(r'data-marker="(\d+)"', text)[1])


@pytest.mark.parametrize("name", PANELS)
def test_a_later_answer_has_a_higher_marker(name, job, owner_client):
    """C77: the page drops an answer that was read before the one it shows."""
    first, second = panel(owner_client, job, name), panel(owner_client, job, name)
    assert marker(first) < marker(second)
    assert lasting(first) == lasting(second)


@pytest.mark.parametrize("name", PANELS)
def test_polls_every_five_seconds_until_the_job_is_completed(name, job, owner_client):
    """C77: the last fragment has no trigger, so polling ends."""
    assert panel(owner_client, job, name).count('hx-trigger="every 5s"') == 1
    Job.objects.filter(pk=job.pk).update(status="completed")
    assert "hx-trigger" not in panel(owner_client, job, name)


@pytest.mark.parametrize("name", PANELS)
def test_panels_hold_no_field_that_a_person_types_into(name, job, owner_client):
    """C77: typed text survives a refresh, because no refresh touches a field."""
    factories.make_participant(job)
    factories.make_invitation(job)
    factories.make_held_item(job)
    fields = re.findall(r"<(?:input|textarea|select)[^>]*>", panel(owner_client, job, name))
    assert all('type="hidden"' in field for field in fields)


def test_answers_are_never_cached(job, owner_client):
    response = owner_client.get(reverse("job-panel", args=[job.pk, "overview"]), **HTMX)
    assert "no-store" in response.headers["Cache-Control"]


@pytest.mark.parametrize(
    ("status", "buttons"),
    [
        ("ready", {"do-start"}),
        ("running", {"do-pause", "do-finish"}),
        ("paused", {"do-resume", "do-finish"}),
        ("completed", set()),
    ],
)
def test_shows_the_buttons_that_work_now(status, buttons, job, owner_client):
    Job.objects.filter(pk=job.pk).update(status=status)
    assert set(re.findall(r'id="(do-\w+)"', panel(owner_client, job, "overview"))) == buttons


def test_a_completed_job_offers_its_last_checkpoint(job, owner_client):
    factories.make_checkpoint(job, 1)
    Job.objects.filter(pk=job.pk).update(status="completed")
    text = panel(owner_client, job, "overview")
    assert f"/bytes/jobs/{job.pk}/checkpoints/1" in text
    assert reverse("job-continue-from", args=[job.pk, 1]) in text


def test_start_without_anybody_is_refused_with_a_sentence_in_the_message_place(job, owner_client):
    response = post(owner_client, job, "job-action", action="start")
    assert response.status_code == 409
    assert (response.headers["HX-Retarget"], response.headers["HX-Reswap"]) == ("#messages", "innerHTML")
    assert "Nobody can train yet" in response.content.decode()
    assert f"{reverse('help-errors')}#nobody_trains" in response.content.decode()


def test_start_pause_resume_answer_the_overview_as_it_is_then(job, owner_client):
    factories.make_participant(job)
    for action, word in (("start", "Running"), ("pause", "Paused"), ("resume", "Running")):
        response = post(owner_client, job, "job-action", action=action)
        assert response.status_code == 200
        assert word in response.content.decode()


def test_a_plain_form_comes_back_to_the_page(job, owner_client):
    factories.make_participant(job)
    response = owner_client.post(reverse("job-action", args=[job.pk, "start"]))
    assert response.headers["Location"] == reverse("job-detail", args=[job.pk])


def test_an_error_says_what_failed_and_how_to_go_on(job, owner_client):
    Job.objects.filter(pk=job.pk).update(status="paused", last_error="chunk-003 failed 3 times on Firefox: trap")
    item = factories.make_held_item(job)
    text = panel(owner_client, job, "overview")
    assert "chunk-003 failed 3 times on Firefox: trap" in text
    assert reverse("item-action", args=[job.pk, item.pk, "retry"]) in text
    assert reverse("item-action", args=[job.pk, item.pk, "skip"]) in text


def test_skipping_an_item_drops_it_and_marks_the_job_incomplete(job, owner_client):
    Job.objects.filter(pk=job.pk).update(status="paused", last_error="chunk-003 failed")
    item = factories.make_held_item(job)
    response = post(owner_client, job, "item-action", item_id=item.pk, action="skip")
    assert "Incomplete" in response.content.decode()
    assert not Requeued.objects.filter(pk=item.pk, held=True).exists()


def test_validation_on_demand_shows_that_it_runs(job, owner_client):
    checkpoint = factories.make_checkpoint(job, 1, validated=False)
    text = post(owner_client, job, "job-validate", round_no=1).content.decode()
    assert "Validating" in text
    assert Checkpoint.objects.get(pk=checkpoint.pk).validation == "due"


def test_missing_metrics_are_dashes_never_zero(job, owner_client):
    """D1: round 0 has no training metrics and this round was not validated."""
    factories.make_checkpoint(job, 1, validated=False, metrics_text='{"loss": 0.0}')
    row = found(r'<tr>(?:(?!</tr>).)*checkpoints/1/".*?</tr>', panel(owner_client, job, "checkpoints"))[0]
    cells = re.findall(r'<td data-label="([^"]*)" class="number">([^<]*)</td>', row)
    values = dict(cells)
    assert values["Loss, training"] == "0"
    assert [values[name] for name in ("Loss, validation", "Accuracy, training", "Accuracy, validation")] == ["—"] * 3


def test_a_link_is_shown_once_with_its_code(job, owner_client):
    response = post(owner_client, job, "invitation-new", {"uses": "3", "days": "2"})
    text = response.content.decode()
    url = found(r'value="(http://[^"]+/join/[^"]+/)"', text)[1]
    assert "<svg" in text and "style=" not in text
    assert "weei:invitations" in response.headers["HX-Trigger"]
    assert "no-store" in response.headers["Cache-Control"]
    invitation = Invitation.objects.get(job=job)
    assert (invitation.max_uses, invitation.uses) == (3, 0)
    token = url.rstrip("/").rsplit("/", 1)[-1]
    assert token not in panel(owner_client, job, "invitations")
    assert token not in owner_client.get(reverse("job-detail", args=[job.pk])).content.decode()


@pytest.mark.parametrize("data", [{"uses": "0", "days": "7"}, {"uses": "x", "days": "7"}, {"uses": "1", "days": "0"}])
def test_an_impossible_link_is_refused(data, job, owner_client):
    text = post(owner_client, job, "invitation-new", data).content.decode()
    assert 'role="alert"' in text
    assert not Invitation.objects.exists()


def test_invitations_say_open_used_up_expired_and_revoked(job, owner_client):
    factories.make_invitation(job, uses=1)
    factories.make_invitation(job, uses=5)
    factories.make_invitation(job, days=-1)
    gone = factories.make_invitation(job)
    text = post(owner_client, job, "invitation-revoke", invitation_id=gone.pk).content.decode()
    for word in ("Open", "Used up", "Expired", "Revoked"):
        assert re.search(rf"</span>{word}</span>", text)
    assert text.count("Revoke</button>") == 1


def test_a_participant_is_paused_resumed_and_removed(job, owner_client):
    member = factories.make_participant(job)
    paused = post(owner_client, job, "participant-action", peer_id=member.peer_id, action="pause").content.decode()
    assert "paused by you" in paused and f"resume-{member.peer_id}" in paused
    post(owner_client, job, "participant-action", peer_id=member.peer_id, action="resume")
    assert not Membership.objects.get(pk=member.pk).paused_by_coordinator
    removed = post(owner_client, job, "participant-action", peer_id=member.peer_id, action="remove").content.decode()
    assert "Nobody has joined yet" in removed


def test_counts_each_peer_that_can_train_once(job, owner_client):
    """C79: the coordinator's device counts only if it trains; invited, declined, away and paused ones do not."""
    factories.make_participant(job)
    factories.make_participant(job)
    factories.make_participant(job, "the coordinator's", role="coordinator", trains=False)
    factories.make_participant(job, state="declined", current=False, trains=False)
    factories.make_participant(job, state="invited", current=False, trains=False)
    factories.make_participant(job, connected=False)
    factories.make_participant(job, paused_by_peer=True)
    assert "2 of 7 can train now" in panel(owner_client, job, "people")


def test_shows_the_round_with_its_parts(job, owner_client):
    """C28: a late joiner is seen, with no part of this round."""
    members = [factories.make_participant(job) for _ in range(2)]
    factories.make_round(job, 1, members, done=1)
    factories.make_participant(job, "Late joiner")
    text = panel(owner_client, job, "people")
    assert "Round 1: 2 parts" in text
    assert "chunk-001" in text and "chunk-002" in text and "Late joiner" in text


def test_diagnostics_are_stale_after_ten_seconds(job, owner_client):
    """C70, D2: fresh, old, and silent participants."""
    import time

    fresh, old = factories.make_participant(job), factories.make_participant(job)
    factories.make_participant(job)
    snapshot_put(fresh.peer_id, factories.make_snapshot(job))
    snapshot_put(old.peer_id, factories.make_snapshot(job), time.time() - 42)
    text = panel(owner_client, job, "diagnostics")
    assert text.count(">Live<") == 1
    assert "Stale, 42 s old" in text
    assert text.count(">No report yet<") == 1


def test_unknown_figures_are_dashes(job, owner_client):
    """D1: 'unknown' and null are missing data, never a reason and never 0."""
    member = factories.make_participant(job)
    snapshot = factories.make_snapshot(job, model="unknown", assignment=None)
    snapshot["execution"] |= {"actual": "unknown", "backend": "unknown"}
    snapshot["performance"] |= {"currentExamplesPerSecond": None, "averageExamplesPerSecond": None}
    snapshot["environment"] = dict.fromkeys(("browser", "browserVersion", "os", "logicalCores"), "unknown")
    snapshot_put(member.peer_id, snapshot)
    text = panel(owner_client, job, "diagnostics")
    assert "unknown" not in text
    assert [found(rf'data-slot="{slot}">([^<]*)<', text)[1] for slot in ("mode", "speed", "gpu", "model")] == [
        "—",
        "—",
        "no WebGPU",
        "—",
    ]


def test_says_whether_all_use_the_same_settings_and_model(job, owner_client):
    one, two = factories.make_participant(job), factories.make_participant(job)
    snapshot_put(one.peer_id, factories.make_snapshot(job))
    snapshot_put(two.peer_id, factories.make_snapshot(job))
    assert "use the same settings and the same model" in panel(owner_client, job, "diagnostics")
    other = factories.make_snapshot(job)
    other["assignment"]["batchSize"] = 64
    other["model"]["wasmSha256"] = "cd" * 32
    snapshot_put(two.peer_id, other)
    text = panel(owner_client, job, "diagnostics")
    assert "1 of 2 participants differs from the others" in text
    assert "batch size 64 instead of 16, module cdcdcdcdcdcd instead of abababababab" in text


def _fill(job, count):
    for number in range(1, count + 1):
        factories.make_checkpoint(job, number)
        member = factories.make_participant(job)
        snapshot_put(member.peer_id, factories.make_snapshot(job))
        factories.make_invitation(job)
        factories.make_held_item(job, chunk_index=number % 12 if number < 12 else number)
    factories.make_round(job, count + 1, list(Membership.objects.filter(job=job)[:8]))


def _queries(client, address):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def test_the_number_of_queries_does_not_grow(owner, owner_client):
    """3 against 30 checkpoints, participants, links, held items and jobs."""
    counts = []
    # So that the first page has the job at work both times.
    oldest_first = reverse("job-list") + "?sort=oldest"
    for size in (3, 30):
        job = factories.make_job(owner, name=f"Job of {size}")
        factories.make_checkpoint(job, 0)
        _fill(job, size)
        for number in range(size):
            extra = factories.make_job(owner, name=f"{size} {number}", dataset=job.dataset)
            factories.make_checkpoint(extra, 0)
        addresses = [reverse("job-panel", args=[job.pk, name]) for name in PANELS]
        addresses += [reverse(name, args=[job.pk]) for name in ("job-detail", "job-chart", "job-checkpoints")]
        counts.append([_queries(owner_client, address) for address in [*addresses, oldest_first]])
    assert counts[0] == counts[1]
    assert max(counts[0]) < 45


def test_older_checkpoints_are_a_page_away(job, owner_client, monkeypatch):
    monkeypatch.setattr("jobs.selectors.pages.checkpoint_page.__defaults__", (None, 3))
    for number in range(1, 6):
        factories.make_checkpoint(job, number)
    first = owner_client.get(reverse("job-checkpoints", args=[job.pk])).content.decode()
    assert "?before=3" in first and f"checkpoints/{5}/" in first
    second = owner_client.get(reverse("job-checkpoints", args=[job.pk]), {"before": "3"}).content.decode()
    assert "checkpoints/2/" in second and "checkpoints/5/" not in second and "?before=" not in second


@pytest.mark.parametrize("before", ["", "x", "-1", "9" * 40, "١"])
def test_a_page_that_cannot_be_read_is_the_newest(before, job, owner_client):
    response = owner_client.get(reverse("job-checkpoints", args=[job.pk]), {"before": before})
    assert response.status_code == 200


def test_the_history_shows_every_fact_whatever_its_name(job, owner_client):
    job_event(job.pk, "round.dealt", items=3, round=7)
    text = panel(owner_client, job, "events")
    assert "items:</span> 3" in text and "round:</span> 7" in text


def test_the_checkpoints_of_a_completed_job_are_polled_while_one_is_validated(job, owner_client):
    checkpoint = factories.make_checkpoint(job, 99, validation="running")
    Job.objects.filter(pk=job.pk).update(status="completed")
    assert "every 5s" in panel(owner_client, job, "checkpoints")
    assert "every 5s" not in panel(owner_client, job, "overview")
    Checkpoint.objects.filter(pk=checkpoint.pk).update(validation="done")
    assert "every 5s" not in panel(owner_client, job, "checkpoints")
