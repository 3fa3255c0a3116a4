"""The timeline of a round: who did what when, also while it runs, with what was not recorded left open."""

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from checkpoints.models import Upload
from diagnostics.live import snapshot_put
from jobs.models import Attempt, JobEvent, Round, Slot
from jobs.selectors.timeline import round_page, round_timeline
from jobs.services.events import Phase, phases_finished
from jobs.views.panels import PANELS
from tests.pages import factories
from tests.pages.test_panels import HTMX, _queries

BEGUN = timezone.now() - timedelta(minutes=5)


def at(seconds):
    return BEGUN + timedelta(seconds=seconds)


def make_round(job, number, ends, *, state="done", training=True):
    """One received attempt for each of `ends` (seconds); the round closes at the last one and is saved 2 s later."""
    last = max(ends, default=0)
    done = {"closing_at": at(last), "done_at": at(last + 2)} if state == "done" else {}
    made = Round.objects.create(
        job=job, number=number, state=state, received=len(ends), settings_text="{}", start_weights="0" * 64,
        opened_at=BEGUN, **done,
    )  # fmt: skip
    chunks = list(job.dataset.chunks.all())
    for place, end in enumerate(ends):
        peer = factories.make_peer(f"Device {place}")
        slot = Slot.objects.create(
            round=made, deal=0, position=place, chunk=chunks[place % len(chunks)], record_count=125, peer=peer,
            status="received", seed="1", started_at=BEGUN, finished_at=at(end),
        )  # fmt: skip
        heard = {"training_at": at(end / 10), "uploading_at": at(end * 0.9)} if training else {}
        make_attempt(slot, state="received", finished_at=at(end), **heard)
    return made


def make_attempt(slot, **fields):
    return Attempt.objects.create(slot=slot, peer=slot.peer, started_at=BEGUN, deadline=at(3600), **fields)


def page(client, job, number, **query):
    return client.get(reverse("job-round", args=[job.pk, number]), query).content.decode()


def test_a_round_tells_who_did_what_when(job):
    make_round(job, 1, [10, 20, 50])
    phases_finished(job.pk, 1, [Phase("fedavg", 1500, at(51.5)), Phase("checkpoint-save", 500, at(52))])
    found = round_timeline(job, 1, timezone.now())
    assert found.total == 52_000
    assert [(lane.label, lane.item, lane.state) for lane in found.lanes] == [
        (f"Device {place}", f"chunk-00{place + 1}", "received") for place in range(3)
    ]
    first = found.lanes[0]
    assert [(bar.kind, bar.x, bar.width) for bar in first.bars] == [
        ("prepare", 0, pytest.approx(100 / 52, abs=0.01)),
        ("train", pytest.approx(100 / 52, abs=0.01), pytest.approx(800 / 52, abs=0.01)),
        ("upload", pytest.approx(900 / 52, abs=0.01), pytest.approx(100 / 52, abs=0.01)),
        ("wait", pytest.approx(1000 / 52, abs=0.01), pytest.approx(4000 / 52, abs=0.01)),
    ]
    assert (first.dealt, first.training, first.uploading, first.ended) == (0, 1000, 9000, 10_000)
    assert [step.name for step in found.steps] == ["merging", "saving the checkpoint"]
    assert (found.steps[0].start, found.steps[0].end) == (50_000, 51_500)
    assert (found.waited.alone, found.slowest) == (30, "Device 2")


def test_the_page_says_who_was_waited_for(job, owner_client):
    make_round(job, 1, [10, 20, 50])
    text = page(owner_client, job, 1)
    assert "For 30 s of the 50 s until the last update (60 %) everybody else waited for Device 2." in text
    assert "preparing from 0.0 to 1.0 s, training from 1.0 to 9.0 s, uploading from 9.0 to 10.0 s" in text


def test_what_was_not_recorded_is_a_dash_and_no_guess(job, owner_client):
    make_round(job, 1, [10], training=False)
    lane = round_timeline(job, 1, timezone.now()).lanes[0]
    assert (lane.training, lane.uploading) == (None, None)
    assert [bar.kind for bar in lane.bars] == ["work"]
    assert page(owner_client, job, 1).count('<td class="number">—</td>') >= 2


def test_attempts_that_ended_without_an_update_say_why(job, owner_client):
    made = make_round(job, 1, [10])
    slot = Slot.objects.create(
        round=made, deal=0, position=7, chunk=job.dataset.chunks.all()[7], record_count=125, status="stopped",
        peer=factories.make_peer("Phone"), seed="1", started_at=BEGUN, finished_at=at(4),
    )  # fmt: skip
    make_attempt(slot, state="expired", reason="The participant was not heard from any more.", finished_at=at(4))
    lane = round_timeline(job, 1, timezone.now()).lanes[1]
    assert (lane.label, lane.state, lane.ended) == ("Phone", "expired", 4000)
    assert [bar.kind for bar in lane.bars] == ["work"]
    assert "not heard from any more" in page(owner_client, job, 1)


def test_an_open_round_is_live_and_shows_what_devices_do_now(job, owner_client):
    member = factories.make_participant(job)
    made = factories.make_round(job, 1, [member])
    attempt = make_attempt(made.slots.get())
    snapshot = factories.make_snapshot(job)
    snapshot["assignment"]["attemptId"] = str(attempt.pk)
    snapshot_put(member.peer_id, snapshot)
    Upload.objects.create(
        kind="update", peer=member.peer, attempt_id=attempt.pk, sha256="0" * 64, length=5, touched=timezone.now()
    )
    found = round_timeline(job, 1, timezone.now())
    assert (found.live, found.waited) == (True, None)
    lane = found.lanes[0]
    assert (lane.state, lane.label, lane.live) == ("training", "Firefox 153 on Linux", True)
    assert lane.uploading is not None and lane.ended is None
    text = owner_client.get(reverse("job-round", args=[job.pk, 1]), **HTMX).content.decode()
    assert 'hx-trigger="every 2s"' in text and "<html" not in text
    assert "1 still expected" in text


def test_a_finished_round_is_not_polled(job, owner_client):
    make_round(job, 1, [10])
    assert "hx-trigger" not in page(owner_client, job, 1)


def test_rounds_lead_to_their_neighbours_their_checkpoint_and_its_ledger(job, owner_client):
    for number in (1, 2, 3):
        make_round(job, number, [10])
    factories.make_checkpoint(job, 2)
    text = page(owner_client, job, 2)
    for address in (
        *(reverse("job-round", args=[job.pk, n]) for n in (1, 3)),
        reverse("job-checkpoint", args=[job.pk, 2]),
    ):
        assert f'href="{address}"' in text
    assert f"/api/v1/jobs/{job.pk}/checkpoints/2/ledger" in text
    assert reverse("job-round", args=[job.pk, 0]) not in page(owner_client, job, 1)


@pytest.mark.parametrize("number", [0, 2])
def test_a_round_that_was_not_made_does_not_exist(number, job, owner_client):
    make_round(job, 1, [10])
    assert owner_client.get(reverse("job-round", args=[job.pk, number])).status_code == 404


def test_events_of_other_rounds_are_not_taken_for_this_one(job):
    make_round(job, 1, [10])
    phases_finished(job.pk, 11, [Phase("fedavg", 1, at(11))])
    assert round_timeline(job, 1, timezone.now()).steps == []


def test_a_failed_merge_says_why(job, owner_client):
    make_round(job, 1, [10])
    details = '{"round":1,"reason":"The step is not finite."}'
    JobEvent.objects.create(job=job, at=at(12), event="aggregation.failed", details_text=details)
    assert "A merge failed: The step is not finite." in page(owner_client, job, 1)


def test_many_participants_come_page_by_page(job, owner_client):
    make_round(job, 1, list(range(1, 71)))
    first, second = page(owner_client, job, 1), page(owner_client, job, 1, **{"from": 64})
    assert (first.count("lane-bars"), second.count("lane-bars")) == (64, 6)
    assert "?from=64" in first and "?from=64" not in second.replace('hx-get="', "")
    assert "waited for Peer" in first and "waited for Device 69" in second


def test_bars_stay_inside_of_their_lane(job):
    make_round(job, 1, [10, 20])
    phases_finished(job.pk, 1, [Phase("validation", 60_000, at(80))])
    found = round_timeline(job, 1, timezone.now())
    for row in (*found.lanes, *found.steps):
        assert all(bar.x >= 0 and bar.width > 0 and bar.x + bar.width <= 100.01 for bar in row.bars)


def test_the_list_has_the_newest_rounds_with_their_waiting_share(job, owner_client):
    for number in range(1, 31):
        make_round(job, number, [10, 40])
    rows = round_page(job, timezone.now()).rows
    assert [row.round.number for row in rows] == list(range(30, 5, -1))
    assert [(bar.kind, bar.width) for bar in rows[0].bars] == [
        ("work", pytest.approx(1000 / 42, abs=0.01)),
        ("wait", pytest.approx(3000 / 42, abs=0.01)),
        ("merge", pytest.approx(200 / 42, abs=0.01)),
    ]
    address = reverse("job-rounds", args=[job.pk])
    assert "?before=6" in owner_client.get(address).content.decode()
    older = owner_client.get(address, {"before": 6}).content.decode()
    assert "Round 5<" in older and "Round 6<" not in older and "?before=" not in older


def test_a_job_without_rounds_says_when_the_first_begins(job, owner_client):
    assert "The first" in owner_client.get(reverse("job-rounds", args=[job.pk])).content.decode()
    assert "The first round begins" in owner_client.get(reverse("job-panel", args=[job.pk, "rounds"])).content.decode()


def test_the_number_of_queries_does_not_grow(job, owner_client):
    """2 participants and 3 rounds against 64 and 500."""
    make_round(job, 1, [10, 20])
    addresses = [reverse("job-round", args=[job.pk, 1]), reverse("job-rounds", args=[job.pk])]
    addresses.append(reverse("job-panel", args=[job.pk, "rounds"]))
    few = [_queries(owner_client, address) for address in addresses]
    other = factories.make_job(job.owner, dataset=job.dataset)
    make_round(other, 1, list(range(1, 65)))
    rounds = [
        Round(
            job=other,
            number=n,
            state="done",
            settings_text="{}",
            start_weights="0" * 64,
            opened_at=BEGUN,
            done_at=at(9),
        )
        for n in range(2, 501)
    ]
    Round.objects.bulk_create(rounds)
    many = [_queries(owner_client, address.replace(str(job.pk), str(other.pk))) for address in addresses]
    assert many == few
    assert max(few) < 16


def test_bars_have_no_style_of_their_own(job, owner_client):
    """The policy allows none."""
    make_round(job, 1, [10, 20])
    assert "rounds" in PANELS
    assert not re.search(r"\sstyle=", page(owner_client, job, 1))
