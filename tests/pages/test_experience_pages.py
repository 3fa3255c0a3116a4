"""The job page of a model that makes its own data: rounds, units, evaluation, slots, and where the model is played."""

import json
import re
from html import unescape

import pytest
from django.urls import reverse

from checkpoints.models import Checkpoint
from diagnostics.live import snapshot_put
from jobs.models import Job, Slot
from tests.pages import factories

HTMX = {"HTTP_HX_REQUEST": "true"}
SHA = "ab" * 32
SLOTS = [
    {"id": "reward", "role": "reward-model", "bytes": 2048, "sha256": SHA},
    {"id": "start", "role": "reference-policy", "bytes": 456, "source": {"kind": "initial"}},
    {"id": "old", "role": "opponent", "bytes": 456, "source": {"kind": "checkpoint", "roundsAgo": 5}},
]


@pytest.fixture
def pole(owner):
    return factories.make_experience_job(owner)


def panel(client, job, name):
    return client.get(reverse("job-panel", args=[job.pk, name]), **HTMX).content.decode()


def detail(client, job):
    return client.get(reverse("job-detail", args=[job.pk])).content.decode()


def words(text):
    """What a person reads."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def over_records(owner):
    source = {**factories.CARTPOLE["workSource"], "inputs": "dataset"}
    formats = factories.MODEL_INFO["dataFormats"]
    info = {"workSource": source, "dataFormats": formats}
    return factories.make_experience_job(owner, info=info, dataset=factories.make_dataset())


def test_the_overview_counts_rounds_and_units(pole, owner_client):
    for number in range(1, 7):
        factories.make_checkpoint(pole, number, validated=False)
    members = [factories.make_participant(pole) for _ in range(2)]
    factories.make_units_round(pole, 7, members, start=384)
    text = words(panel(owner_client, pole, "overview"))
    assert "Round 7 of 30 · 64 episodes in this round · units 384–447" in text
    assert "Rounds done 6 of 30" in text and "Episodes so far 448" in text and "Episodes per round 32 each" in text
    assert "pass" not in text


def test_units_of_work_that_was_stopped_are_not_counted(pole, owner_client):
    members = [factories.make_participant(pole) for _ in range(3)]
    made = factories.make_units_round(pole, 1, members, start=0)
    Slot.objects.filter(round=made, record_start=64).update(status="stopped")
    assert "64 episodes in this round · units 0–63" in words(panel(owner_client, pole, "overview"))


@pytest.mark.parametrize(("newest", "bar"), [(0, "0.0000"), (15, "0.5000"), (30, "1.0000")])
def test_the_bar_counts_rounds(newest, bar, pole, owner_client):
    if newest:
        factories.make_checkpoint(pole, newest, validated=False)
    assert f'value="{bar}"' in panel(owner_client, pole, "overview")


def test_the_bar_of_a_continued_job_begins_empty(owner, owner_client):
    settings = json.dumps({**factories.EXPERIENCE_SETTINGS, "epochs": 500})
    job = factories.make_experience_job(owner, first_round=397, round_no=397, settings_text=settings)
    text = panel(owner_client, job, "overview")
    assert 'value="0.0000"' in text and "397 of 500, from 397" in words(text)


def test_over_records_the_rest_of_the_pass_is_shown_too(owner, owner_client):
    text = words(panel(owner_client, over_records(owner), "overview"))
    assert "Rounds done 0 of 30" in text and "Left in this pass 12 of 12" in text


def test_a_model_without_chunks_is_not_shuffled(pole, job, owner, owner_client):
    assert "Shuffle what is left" not in detail(owner_client, pole)
    assert "Shuffle what is left" in detail(owner_client, job)
    assert "Shuffle what is left" in detail(owner_client, over_records(owner))


def test_participants_progress_in_units(pole, owner_client):
    member = factories.make_participant(pole)
    slot = factories.make_units_round(pole, 1, [member], start=384, split=2).slots.first()
    snapshot = factories.make_snapshot(pole, slot)
    snapshot["performance"] = {**snapshot["performance"], "processedExamples": 12, "totalExamples": 32}
    snapshot_put(member.peer_id, snapshot)
    text = words(panel(owner_client, pole, "people"))
    assert "384–415 Training 12 of 32 episodes" in text
    assert "384–415 in 2 ranges" in text


def test_checkpoints_have_their_next_unit_and_are_evaluated(pole, owner_client):
    factories.make_checkpoint(pole, 1, validated=False, next_unit=1064, metrics_text='{"episodeReturn": 21.5}')
    page = panel(owner_client, pole, "checkpoints")
    text = words(page)
    assert "Next unit" in text and "1,064" in text and "Episode return evaluation" in text
    assert "Evaluate round 1" in text and "alidat" not in re.sub(r'hx-post="[^"]*"|id="[^"]*"', "", page)
    response = owner_client.post(reverse("job-validate", args=[pole.pk, 1]), **HTMX)
    assert "Evaluating" in response.content.decode()
    assert Checkpoint.objects.get(job=pole, round=1).validation == "due"


def test_a_model_that_evaluates_nothing_offers_no_evaluation(owner, owner_client):
    source = {**factories.CARTPOLE["workSource"], "evaluationUnits": 0}
    job = factories.make_experience_job(owner, info={"workSource": source})
    assert "Evaluate" not in panel(owner_client, job, "checkpoints")
    assert "Evaluation none: only training metrics are recorded" in words(detail(owner_client, job))


def test_a_checkpoint_page_says_evaluation_and_units(pole, owner_client):
    factories.make_checkpoint(pole, 1, next_unit=64, validation="failed", validation_error="it trapped")
    text = words(owner_client.get(reverse("job-checkpoint", args=[pole.pk, 1])).content.decode())
    assert "Next unit 64" in text and "The evaluation failed: it trapped" in text and "Evaluate again" in text
    assert "Passes done" not in text


def test_the_chart_names_direction_and_evaluation(pole, job, owner_client):
    for number in (1, 2):
        factories.make_checkpoint(pole, number, metrics_text='{"episodeReturn": 9}', validated=False)
    data = owner_client.get(reverse("job-chart", args=[pole.pk])).json()
    assert (data["check"], data["series"][0]["direction"]) == ("evaluation", "maximize")
    assert owner_client.get(reverse("job-chart", args=[job.pk])).json()["check"] == "validation"


def test_the_facts_say_where_data_and_slots_come_from(owner, owner_client):
    job = factories.make_experience_job(owner, info={"auxiliaryWeights": SLOTS})
    text = words(detail(owner_client, job))
    assert "made by the model on each device: episodes, which stay there" in text
    assert "reward reward-model , 2.0 KiB: a file of the package" in text
    assert "start reference-policy , 456 B: the job's first checkpoint" in text
    assert "old opponent , 456 B: the checkpoint of 5 rounds before" in text
    assert "20 episodes, the same for every checkpoint" in text and "up to 4 on one device" in text


def test_the_list_of_jobs_counts_rounds(pole, owner_client):
    text = words(owner_client.get(reverse("job-list")).content.decode())
    assert "30 rounds planned" in text and "Makes its own episodes" in text


def test_diagnostics_count_units(pole, owner_client):
    member = factories.make_participant(pole)
    slot = factories.make_units_round(pole, 1, [member]).slots.first()
    snapshot_put(member.peer_id, factories.make_snapshot(pole, slot))
    text = words(panel(owner_client, pole, "diagnostics"))
    assert "125 episodes" in text and "310 of 625 episodes" in text and "examples" not in text


def test_every_page_of_the_job_opens(pole, owner_client):
    for name in ("job-detail", "job-checkpoints", "job-settings", "job-delete"):
        method = owner_client.post if name == "job-settings" else owner_client.get
        assert method(reverse(name, args=[pole.pk])).status_code == 200, name


# --- Playing ---


@pytest.mark.parametrize(
    ("inference", "title"),
    [
        ({"view": "cartpole"}, "Watch it"),
        ({"view": "connect-four"}, "Play against it"),
        ({"view": "unheard-of", "inputs": []}, "Try it"),
        (None, "Try it"),
    ],
)
def test_a_model_that_answers_is_played(inference, title, owner, owner_client):
    job = factories.make_experience_job(owner, info={"inference": inference})
    factories.make_checkpoint(job, 4, validated=False)
    where = reverse("job-play", args=[job.pk])
    assert f'href="{where}"' in detail(owner_client, job) and title in detail(owner_client, job)
    assert f'href="{where}?round=4"' in panel(owner_client, job, "checkpoints")
    page = owner_client.get(where).content.decode()
    assert f"<h1>{title}</h1>" in page
    facts = json.loads(page.split('data-facts="')[1].split('"')[0].replace("&quot;", '"'))
    assert facts == {"module": {"sha256": job.module_id, "bytes": 21_000}, "inference": inference or {}}


def test_a_model_that_does_not_answer_is_not_played(owner, owner_client):
    job = factories.make_experience_job(owner, info={"capabilities": {"evaluation": True}})
    where = reverse("job-play", args=[job.pk])
    assert owner_client.get(where).status_code == 404
    assert where not in detail(owner_client, job) + panel(owner_client, job, "checkpoints")


@pytest.mark.parametrize(("query", "value", "follows"), [("", "3", True), ("?round=1", "1", False)])
def test_playing_begins_with_the_round_of_the_link(query, value, follows, pole, owner_client):
    for number in (1, 2, 3):
        factories.make_checkpoint(pole, number, validated=False)
    page = owner_client.get(reverse("job-play", args=[pole.pk]) + query).content.decode()
    assert re.search(rf'id="play-round" min="0" max="3" value="{value}"', page)
    assert bool(re.search(r'id="play-follow" checked', page)) is follows


def test_slots_are_filled_by_the_rule_with_the_weights_of_the_chosen_round(owner, owner_client):
    job = factories.make_experience_job(owner, info={"auxiliaryWeights": SLOTS}, first_round=397, round_no=397)
    for number in range(398, 405):
        factories.make_checkpoint(job, number, metrics_text='{"episodeReturn": 21.5}', validated=False)
    weights = dict(Checkpoint.objects.filter(job=job).values_list("round", "weights_id"))
    for number, old in ((397, 397), (401, 397), (404, 399)):
        answer = owner_client.get(reverse("job-play-files", args=[job.pk, number])).json()
        assert (answer["round"], answer["newest"], answer["weights"]["sha256"]) == (number, 404, weights[number])
        assert [slot["id"] for slot in answer["auxiliary"]] == ["reward", "start", "old"]
        assert [slot["sha256"] for slot in answer["auxiliary"]] == [SHA, weights[397], weights[old]]
    assert answer["metrics"] == [{"label": "Episode return", "training": 21.5, "checked": None}]
    assert owner_client.get(reverse("job-play-newest", args=[job.pk])).json()["round"] == 404


def test_a_round_that_is_not_there_is_404(pole, owner_client):
    assert owner_client.get(reverse("job-play-files", args=[pole.pk, 5])).status_code == 404


def test_nothing_of_a_round_number_in_the_address_is_markup(pole, owner_client):
    page = owner_client.get(reverse("job-play", args=[pole.pk]), {"round": '"><img src=x>'}).content.decode()
    assert "<img src=x" not in page


def test_a_hostile_label_is_text_on_every_page(owner, owner_client):
    evil = '"><img src=x onerror=window.pwn=1>'
    source = {**factories.CARTPOLE["workSource"], "unit": {"id": "e", "label": evil}}
    inference = {"view": "cartpole", "inputs": [{"id": evil, "label": evil, "type": evil}]}
    slots = [{**SLOTS[2], "id": evil, "role": evil}]
    info = {"workSource": source, "inference": inference, "auxiliaryWeights": slots}
    job = factories.make_experience_job(owner, info=info)
    factories.make_units_round(job, 1, [factories.make_participant(job)])
    names = ("job-detail", "job-checkpoints", "job-play")
    pages = [reverse(name, args=[job.pk]) for name in names]
    pages += [reverse("job-list"), reverse("job-checkpoint", args=[job.pk, 0])]
    pages += [reverse("job-continue-from", args=[job.pk, 0])]
    for where in pages:
        text = owner_client.get(where).content.decode()
        assert "<img src=x" not in text and "&lt;img src=x" in text, where


def test_the_job_itself_is_not_changed_by_looking(pole, owner_client):
    before = Job.objects.values().get(pk=pole.pk)
    owner_client.get(reverse("job-play", args=[pole.pk]))
    owner_client.get(reverse("job-play-newest", args=[pole.pk]))
    assert Job.objects.values().get(pk=pole.pk) == before
