"""Who may open which page: every address of the pages, for the owner, a stranger, nobody, and with the wrong method."""

from uuid import uuid4

import pytest
from django.urls import get_resolver, reverse
from django.utils import timezone

from jobs.models import Round
from jobs.urls import urlpatterns
from jobs.views.panels import PANELS
from tests.pages import factories

HTMX = {"HTTP_HX_REQUEST": "true"}
# name → (method, extra arguments of the address, does it belong to one job)
PAGES: dict[str, tuple[str, dict[str, object], bool]] = {
    "job-list": ("get", {}, False),
    "job-new": ("get", {}, False),
    "job-new-settings": ("post", {}, False),
    "job-new-fields": ("post", {}, False),
    "job-new-advice": ("post", {}, False),
    "job-continue": ("get", {}, False),
    "job-compare": ("get", {}, False),
    "job-detail": ("get", {}, True),
    "job-panel": ("get", {"name": "overview"}, True),
    "job-chart": ("get", {}, True),
    "job-log": ("get", {}, True),
    "job-manifest": ("get", {}, True),
    "job-play": ("get", {}, True),
    "job-play-newest": ("get", {}, True),
    "job-play-files": ("get", {"round_no": 0}, True),
    "job-rounds": ("get", {}, True),
    "job-round": ("get", {"round_no": 1}, True),
    "job-checkpoints": ("get", {}, True),
    "job-checkpoint": ("get", {"round_no": 0}, True),
    "job-validate": ("post", {"round_no": 0}, True),
    "job-continue-from": ("get", {"round_no": 0}, True),
    "job-action": ("post", {"action": "shuffle"}, True),
    "item-action": ("post", {"item_id": 1, "action": "retry"}, True),
    "job-settings": ("post", {}, True),
    "job-delete": ("get", {}, True),
    "job-restore": ("post", {}, True),
    "invitation-new": ("post", {}, True),
    "invitation-revoke": ("post", {"invitation_id": uuid4()}, True),
    "participant-action": ("post", {"peer_id": uuid4(), "action": "pause"}, True),
}
OF_A_JOB = [name for name, (_, _, of_a_job) in PAGES.items() if of_a_job]


@pytest.fixture
def job(job):
    """With a round that was made."""
    texts = {"settings_text": job.settings_text, "start_weights": "0" * 64}
    Round.objects.create(job=job, number=1, state="done", opened_at=timezone.now(), done_at=timezone.now(), **texts)
    return job


def address(name, job):
    _, arguments, of_a_job = PAGES[name]
    return reverse(name, kwargs={**arguments, **({"job_id": job.pk} if of_a_job else {})})


def test_lists_every_address():
    assert {pattern.name for pattern in urlpatterns} == set(PAGES)
    assert {"home", "login", "join", "train", "help-errors"} <= set(get_resolver().reverse_dict)


@pytest.mark.parametrize("name", OF_A_JOB)
def test_a_stranger_gets_404(name, job, stranger_client):
    """H3, C82: a job that is not yours does not exist, whatever you ask of it."""
    response = getattr(stranger_client, PAGES[name][0])(address(name, job))
    assert response.status_code == 404
    assert job.name not in response.content.decode()


@pytest.mark.parametrize("name", PAGES)
def test_nobody_is_sent_to_the_sign_in_page(name, job, client):
    where = address(name, job)
    response = getattr(client, PAGES[name][0])(where)
    assert response.status_code == 302
    assert response.headers["Location"] == f"{reverse('login')}?next={where}"


@pytest.mark.parametrize("name", PAGES)
def test_a_fragment_moves_the_whole_page_to_the_sign_in_page(name, job, client):
    """C77: the sign-in page is never swapped into a panel."""
    here = {"HTTP_HX_CURRENT_URL": f"http://testserver/jobs/{job.pk}/"}
    response = getattr(client, PAGES[name][0])(address(name, job), **HTMX, **here)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["HX-Redirect"] == f"{reverse('login')}?next=%2Fjobs%2F{job.pk}%2F"


def test_the_way_back_never_leads_to_another_site(job, client):
    response = client.get(address("job-panel", job), **HTMX, HTTP_HX_CURRENT_URL="http://evil.example/jobs/")
    assert response.headers["HX-Redirect"] == f"{reverse('login')}?next=%2Fjobs%2F"


@pytest.mark.parametrize("name", PAGES)
def test_refuses_the_wrong_method(name, job, owner_client):
    wrong = {"get": "put", "post": "get"}[PAGES[name][0]]
    assert getattr(owner_client, wrong)(address(name, job)).status_code == 405


@pytest.mark.parametrize("name", [name for name in PAGES if PAGES[name][0] == "get"])
def test_the_owner_sees_it(name, job, owner_client):
    assert owner_client.get(address(name, job)).status_code == 200


@pytest.mark.parametrize("name", [name for name in PAGES if PAGES[name][0] == "post"])
def test_refuses_a_post_without_a_csrf_token(name, job, owner, client):
    """H1."""
    from django.test import Client

    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    response = strict.post(address(name, job))
    assert response.status_code == 403
    assert "not allowed" in response.content.decode()


@pytest.mark.parametrize("name", PANELS)
def test_every_panel_opens(name, job, owner_client):
    response = owner_client.get(reverse("job-panel", args=[job.pk, name]), **HTMX)
    assert response.status_code == 200
    assert "<html" not in response.content.decode()


def test_unknown_panels_and_actions_are_404(job, owner_client):
    assert owner_client.get(reverse("job-panel", args=[job.pk, "secrets"])).status_code == 404
    assert owner_client.post(reverse("job-action", args=[job.pk, "explode"])).status_code == 404
    assert owner_client.post(reverse("item-action", args=[job.pk, 1, "explode"])).status_code == 404
    assert owner_client.post(reverse("participant-action", args=[job.pk, uuid4(), "explode"])).status_code == 404


def test_a_participants_pages_need_no_account(client, db):
    for where in (reverse("home"), reverse("train"), reverse("join", args=["some-token"]), reverse("help")):
        assert client.get(where).status_code == 200


def test_the_join_page_tells_nothing_about_the_link(client, job):
    """H4: right and wrong links get the same page; only the API knows, and counts."""
    from peers.services.invitations import invitation_create

    _, url = invitation_create(job)
    token = url.rstrip("/").rsplit("/", 1)[-1]
    right = client.get(reverse("join", args=[token])).content.decode()
    wrong = client.get(reverse("join", args=["wrong"])).content.decode()
    mask = lambda text: text.replace(token, "T").replace("wrong", "T").count("\n")  # noqa: E731
    assert mask(right) == mask(wrong)
    assert job.name not in right


def test_only_the_owners_jobs_are_listed(job, owner_client, stranger_client):
    factories.make_job(job.owner, name="Second job")
    assert "Second job" in owner_client.get(reverse("job-list")).content.decode()
    assert "Second job" not in stranger_client.get(reverse("job-list")).content.decode()
