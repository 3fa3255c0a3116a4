"""The list of jobs: what is searched for, in which order, page by page, and how far each job is."""

import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job, Round
from jobs.selectors import status
from jobs.selectors.job_list import JOBS_PER_PAGE, ListQuery, progress_of
from jobs.services.deleting import job_discard
from jobs.templatetags.weei import about_left, percent
from tests.pages import factories

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def named(text):
    return re.findall(r"<h2><a [^>]*>([^<]+)</a></h2>", text)


def listed(client, query=""):
    return named(client.get(reverse("job-list") + query).content.decode())


def jobs(owner, *names, **fields):
    return [factories.make_job(owner, name=name, **fields) for name in names]


def test_every_word_is_found_in_the_name_or_the_model(owner, owner_client):
    jobs(owner, "Night run", "Day run", "Kitchen")
    assert listed(owner_client, "?q=run+NIGHT") == ["Night run"]
    assert len(listed(owner_client, "?q=handwritten")) == 3
    page = owner_client.get(reverse("job-list") + "?q=nothing").content.decode()
    assert "No job fits" in page and "Show all 3" in page


def test_status_and_order_are_chosen(owner, owner_client):
    jobs(owner, "b", "a")
    jobs(owner, "C", status="completed")
    assert listed(owner_client) == ["C", "a", "b"]
    assert listed(owner_client, "?sort=oldest") == ["b", "a", "C"]
    assert listed(owner_client, "?sort=name") == ["a", "b", "C"]
    assert listed(owner_client, "?status=completed") == ["C"]


@pytest.mark.parametrize("wrong", ["?sort=x&status=y&page=zero", "?page=0", "?page=99999999", "?q=%00", "?page=-1"])
def test_an_address_that_asks_for_nonsense_shows_the_list(owner, owner_client, wrong):
    jobs(owner, "Only one")
    assert listed(owner_client, wrong) == ["Only one"]


def test_hundreds_of_jobs_come_in_pages_with_the_same_number_of_queries(owner, owner_client):
    def queries(address):
        owner_client.get(address)
        with CaptureQueriesContext(
            connection,
        ) as found:
            owner_client.get(address)
        return len(found)

    for index in range(2):
        made = factories.make_job(owner, name=f"job {index}")
        factories.make_checkpoint(made, 0)
        factories.make_round(made, 1, [factories.make_participant(made)])
    few = queries(reverse("job-list"))
    for index in range(2, JOBS_PER_PAGE + 5):
        made = factories.make_job(owner, name=f"job {index}")
        factories.make_checkpoint(made, 0)
        factories.make_round(made, 1, [factories.make_participant(made)])
    assert queries(reverse("job-list")) == few
    assert len(listed(owner_client)) == JOBS_PER_PAGE
    assert listed(owner_client, "?page=2&sort=oldest") == [f"job {n}" for n in range(JOBS_PER_PAGE, JOBS_PER_PAGE + 5)]
    assert len(listed(owner_client, "?page=7")) == 5


def test_a_page_keeps_what_was_asked_for():
    query = ListQuery.read({"q": " a b ", "status": "paused", "sort": "name", "page": "3"})
    assert ListQuery.read({"q": "a b", "status": "paused", "sort": "name", "page": "3"}) == query
    assert query.at(4).encoded == "q=a+b&status=paused&sort=name&page=4"
    assert ListQuery().encoded == ""


def at_work(owner, *, pause=False, experience=False):
    """In its third round, after two that took 10 and 20 seconds."""
    if experience:
        job = factories.make_job(
            owner, info=factories.CARTPOLE, settings_text=json.dumps(factories.EXPERIENCE_SETTINGS), dataset=None
        )
    else:
        job = factories.make_job(owner)
    members = [factories.make_participant(job), factories.make_participant(job)]
    now = timezone.now()
    for number, seconds in ((1, 10), (2, 20)):
        opened = now - timedelta(seconds=60 - 10 * number)
        Round.objects.create(
            job=job,
            number=number,
            state="done",
            received=2,
            settings_text=job.settings_text,
            start_weights="0" * 64,
            opened_at=opened,
            done_at=opened + timedelta(seconds=seconds),
        )
    (factories.make_units_round if experience else factories.make_round)(job, 3, members)
    Job.objects.filter(pk=job.pk).update(status="paused" if pause else "running", cursor=6 if not experience else 0)
    job.refresh_from_db()
    return job


@pytest.mark.parametrize("experience", [False, True])
def test_time_left_is_that_of_the_job_page(owner, experience):
    job, now = at_work(owner, experience=experience), timezone.now()
    told = progress_of([job], now)[job.pk]
    assert told.remaining_ms == status.progress(job, now)["remainingMs"]
    assert told.remaining_ms > 0
    assert 0 < told.fraction < 1


def test_what_cannot_be_told_is_shown_as_missing(owner, owner_client):
    paused = at_work(owner, pause=True)
    assert progress_of([paused], timezone.now())[paused.pk].remaining_ms is None
    fresh = factories.make_job(owner, status="running")
    assert progress_of([fresh], timezone.now())[fresh.pk].remaining_ms is None
    assert "time left unknown" in owner_client.get(reverse("job-list")).content.decode()
    ended = factories.make_job(owner, status="completed")
    assert progress_of([ended, factories.make_job(owner)], timezone.now()) == {}


@pytest.mark.parametrize(
    ("ms", "words"),
    [(None, "time left unknown"), (400, "about 1 s left"), (59_900, "about 1 min left"), (190_000, "about 3 min left")],
)
def test_time_left_in_words(ms, words):
    assert about_left(ms) == words


def test_a_percentage_never_says_the_end_too_early():
    assert (percent(0.9999), percent(1), percent(None)) == ("99 %", "100 %", "—")


def test_a_deleted_job_is_offered_back_and_comes_back(owner, owner_client, job, stranger_client):
    answer = owner_client.post(reverse("job-delete", args=[job.pk]), {"confirmation": job.name}, follow=True)
    page = answer.content.decode()
    restore = reverse("job-restore", args=[job.pk])
    assert named(page) == []
    # In the toast, and in the list for as long as it can be undone.
    assert page.count(f'action="{restore}"') == 2
    assert f'action="{restore}"' in owner_client.get(reverse("job-list")).content.decode()
    assert f'action="{restore}"' not in stranger_client.get(reverse("job-list")).content.decode()
    assert owner_client.get(reverse("job-detail", args=[job.pk])).status_code == 404
    assert stranger_client.post(restore).status_code == 404
    back = owner_client.post(restore, follow=True)
    assert "is back" in back.content.decode()
    assert listed(owner_client) == [job.name]


def test_what_cannot_be_undone_any_more_is_not_offered(owner, owner_client, job, settings):
    job_discard(job)
    settings.UNDO_DELETE = timedelta(0)
    assert "Undo" not in owner_client.get(reverse("job-list")).content.decode()
