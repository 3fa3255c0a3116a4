"""Figures on the pages, the chart's data, and the admin."""

import math

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from jobs.models import Job
from jobs.selectors.pages import progress_view, storage_used
from jobs.selectors.series import chart_data
from jobs.templatetags import weei
from peers.models import SiteOrigin
from tests.pages import factories

MISSING = [None, "", "unknown", math.nan, math.inf]


@pytest.mark.parametrize("value", MISSING)
@pytest.mark.parametrize(
    "figure", [weei.shown, weei.bytes_text, weei.duration, weei.metric, weei.speed, weei.count, weei.passes]
)
def test_missing_is_a_dash(figure, value):
    """D1, C74, C76."""
    assert figure(value) == "—"


@pytest.mark.parametrize(
    ("figure", "value", "text"),
    [
        (weei.bytes_text, 0, "0 B"),
        (weei.bytes_text, 1023, "1023 B"),
        (weei.bytes_text, 1536, "1.5 KiB"),
        (weei.bytes_text, 268_435_456, "256 MiB"),
        (weei.bytes_text, 2**51, "2048 TiB"),
        (weei.duration, 0, "0 ms"),
        (weei.duration, 31.4, "31 ms"),
        (weei.duration, 1_500, "1.5 s"),
        (weei.duration, 90_000, "1 min 30 s"),
        (weei.duration, 3_600_000, "1 h"),
        (weei.duration, 90_061_000, "1 d 1 h"),
        (weei.metric, 0.0, "0"),
        (weei.metric, 0.123456, "0.1235"),
        (weei.metric, -12.34567, "-12.35"),
        (weei.metric, 1.5e-8, "1.500e-08"),
        (weei.metric, True, "—"),
        (weei.speed, 5210.4, "5,210/s"),
        (weei.speed, 0.25, "0.2/s"),
        (weei.passes, 1.25, "1.25"),
        (weei.passes, 2.0, "2"),
        (weei.passes, 10, "10"),
    ],
)
def test_figures(figure, value, text):
    assert figure(value) == text


def test_a_state_the_page_does_not_know_is_shown_as_text():
    assert "&lt;b&gt;" in weei.badge("<b>")


def test_gaps_of_the_chart_are_null_and_zero_is_zero(job):
    factories.make_checkpoint(job, 1, validated=False, metrics_text='{"loss": 0.0}')
    data = chart_data(job).to_json()
    assert data["rounds"] == [0, 1]
    values = {(line["metric"], line["kind"]): line["values"] for line in data["series"]}
    assert values[("loss", "training")] == [None, 0.0]
    assert values[("loss", "validation")][1] is None
    assert ("accuracy", "training") not in values


@pytest.mark.parametrize(
    ("progress", "fraction"),
    [
        ({"passesDone": 0, "plannedPasses": 3, "remainingItems": 12, "totalItems": 12}, 0.0),
        ({"passesDone": 1, "plannedPasses": 2, "remainingItems": 6, "totalItems": 12}, 0.75),
        ({"passesDone": 3, "plannedPasses": 3, "remainingItems": 12, "totalItems": 12}, 1.0),
        ({"passesDone": 0, "plannedPasses": 3, "remainingItems": 14, "totalItems": 12}, 0.0),
        ({"passesDone": 4, "plannedPasses": 3, "remainingItems": 0, "totalItems": 12}, 1.0),
        ({"passesDone": 0, "plannedPasses": 3, "remainingItems": 0, "totalItems": 0}, 0.0),
    ],
)
def test_the_bar_stays_between_empty_and_full(progress, fraction):
    assert progress_view({**progress, "roundsDone": 0}).fraction == fraction


def test_a_shared_file_counts_once(owner, job):
    before = storage_used(owner)
    other = factories.make_job(owner, dataset=job.dataset)
    shared = job.artifacts.first().artifact
    other.artifacts.create(artifact=shared, kind="module")
    assert storage_used(owner) == before + other.module.bytes


def test_the_admin_lists_and_searches_every_model(job):
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    models = [model for model in admin.site._registry if model._meta.app_label in ("jobs", "peers", "checkpoints")]
    assert len(models) == 21
    for model in models:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        assert client.get(reverse(f"{name}_changelist"), {"q": "digits"}).status_code == 200, name
        # Only the list of sites is the administrators' own.
        assert client.get(reverse(f"{name}_add")).status_code == (200 if model is SiteOrigin else 403), name


def test_the_admin_cannot_change_or_delete_a_row(job):
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    page = client.get(reverse("admin:jobs_job_change", args=[job.pk]))
    assert page.status_code == 200 and b'name="_save"' not in page.content
    client.post(reverse("admin:jobs_job_change", args=[job.pk]), {"name": "changed"})
    assert client.post(reverse("admin:jobs_job_delete", args=[job.pk]), {"post": "yes"}).status_code == 403
    assert Job.objects.get(pk=job.pk).name == job.name


def test_admin_actions_call_the_services(job):
    factories.make_participant(job)
    running = factories.make_job(job.owner, name="Running", status="running")
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    data = {"action": "pause", "_selected_action": [job.pk, running.pk]}
    text = client.post(reverse("admin:jobs_job_changelist"), data, follow=True).content.decode()
    assert Job.objects.get(pk=running.pk).status == "paused"
    assert Job.objects.get(pk=job.pk).status == "ready"
    assert "Running is paused" in text and "cannot become paused" in text


def test_the_admin_revokes_links_and_never_shows_hashes(job):
    link = factories.make_invitation(job)
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="x"))
    client.post(reverse("admin:peers_invitation_changelist"), {"action": "revoke", "_selected_action": [link.pk]})
    link.refresh_from_db()
    assert link.revoked_at is not None
    assert link.token_hash not in client.get(reverse("admin:peers_invitation_change", args=[link.pk])).content.decode()


def test_the_admin_is_closed_to_coordinators(owner_client, client):
    for visitor in (owner_client, client):
        assert visitor.get(reverse("admin:index")).status_code == 302
