"""What a page says after a command, and the theme that it comes in."""

import json

import pytest
from django.urls import reverse

from jobs.models import Job
from tests.pages import factories

pytestmark = pytest.mark.django_db
HTMX = {"HTTP_HX_REQUEST": "true"}


def toasts(page):
    return page.split('id="toasts"')[1].split("</body>")[0]


@pytest.fixture
def running(job):
    factories.make_round(job, 1, [factories.make_participant(job)])
    return job


def test_a_part_of_the_page_comes_with_the_sentence(running, owner_client):
    answer = owner_client.post(reverse("job-action", args=[running.pk, "pause"]), **HTMX)
    told = json.loads(answer.headers["HX-Trigger"])
    assert told == {"weei:toast": {"text": "The job is paused. Work under way may finish."}}


def test_a_plain_form_says_it_on_the_next_page_once(running, owner_client):
    page = owner_client.post(reverse("job-action", args=[running.pk, "pause"]), follow=True).content.decode()
    assert "The job is paused." in toasts(page)
    assert "The job is paused." not in owner_client.get(reverse("job-list")).content.decode()


def test_a_refused_command_says_nothing_was_done(job, owner_client):
    Job.objects.filter(pk=job.pk).update(status="completed")
    answer = owner_client.post(reverse("job-action", args=[job.pk, "pause"]), **HTMX)
    assert answer.status_code == 409
    assert "HX-Trigger" not in answer.headers


@pytest.mark.parametrize(
    ("action", "sentence"),
    [("pause", "is paused"), ("resume", "goes on"), ("remove", "is removed")],
)
def test_what_becomes_of_a_participant_is_said(running, owner_client, action, sentence):
    peer = running.memberships.get().peer_id
    answer = owner_client.post(reverse("participant-action", args=[running.pk, peer, action]), **HTMX)
    assert sentence in json.loads(answer.headers["HX-Trigger"])["weei:toast"]["text"]


def test_a_hostile_name_is_text_in_a_toast(owner, owner_client):
    evil = factories.make_job(owner, name="<img src=x onerror=alert(1)>")
    page = owner_client.post(reverse("job-delete", args=[evil.pk]), {"confirmation": evil.name}, follow=True)
    assert "&lt;img src=x" in toasts(page.content.decode())
    assert "<img src=x" not in page.content.decode()


@pytest.mark.parametrize(
    ("cookie", "media", "pressed"),
    [
        (None, "(prefers-color-scheme: dark)", "auto"),
        ("dark", "all", "dark"),
        ("light", "not all", "light"),
        ('"><script>', "(prefers-color-scheme: dark)", "auto"),
    ],
)
def test_the_first_answer_has_the_chosen_theme(client, cookie, media, pressed):
    if cookie:
        client.cookies["weei_theme"] = cookie
    page = client.get(reverse("login")).content.decode()
    assert f'id="dark" media="{media}"' in page
    assert f'data-theme-choice="{pressed}" aria-pressed="true"' in page
    assert page.count('aria-pressed="true"') == 1
    assert "<script>" not in page.replace("<script src", "")


def test_questions_name_what_is_lost(running, owner_client):
    page = owner_client.get(reverse("job-detail", args=[running.pk])).content.decode()
    member = running.memberships.get()
    assert f'hx-confirm="Finish “{running.name}” now?' in page
    assert f'hx-confirm="Remove {member.peer.label} ({str(member.peer_id)[:8]})?' in page


@pytest.mark.parametrize(("state", "asks"), [("due", True), ("running", True), ("done", False), ("failed", False)])
def test_a_checkpoint_shows_a_validation_that_ends_by_itself(running, owner_client, state, asks):
    row = factories.make_checkpoint(running, 9, validation=state)
    page = owner_client.get(reverse("job-checkpoint", args=[running.pk, row.round])).content.decode()
    assert ('hx-trigger="every 2s" hx-select="#quality"' in page) is asks
    assert ("its result appears here" in page) is asks
