"""C78, H6: text from outside is shown as text on every page, and no page needs inline script or style."""

import json
import re

import pytest
from django.urls import reverse

from diagnostics.live import snapshot_put
from jobs.models import Job, JobDraft
from jobs.services.events import job_event
from jobs.views.panels import PANELS
from tests.pages import factories

EVIL = '"><img src=x onerror=window.pwn=1>'


@pytest.fixture
def evil_job(owner):
    info = json.loads(json.dumps(factories.MODEL_INFO))
    info["name"] = info["version"] = EVIL
    for metric in info["metrics"]:
        metric["label"] = EVIL
    dataset = factories.make_dataset(chunk_id=EVIL[:40] + "{:03d}", file_name=EVIL + "{:03d}")
    job = factories.make_job(owner, name=EVIL, info=info, dataset=dataset, module_file_name=EVIL)
    factories.make_checkpoint(job, 0)
    factories.make_checkpoint(job, 1, validated=False, validation="failed", validation_error=EVIL)
    member = factories.make_participant(job, EVIL, load_error=EVIL)
    round_ = factories.make_round(job, 2, [member, factories.make_participant(job, EVIL)], done=1)
    round_.slots.update(error=EVIL)
    snapshot = factories.make_snapshot(job, round_.slots.first(), error=EVIL, stage=EVIL)
    for part in ("environment", "execution", "model"):
        snapshot[part] = dict.fromkeys(snapshot[part], EVIL)
    snapshot["gpu"]["adapter"] = dict.fromkeys(("vendor", "architecture", "device", "description"), EVIL)
    snapshot["assignment"]["chunkId"] = EVIL
    snapshot_put(member.peer_id, snapshot)
    factories.make_held_item(job, reason=EVIL)
    Job.objects.filter(pk=job.pk).update(last_error=EVIL, status="paused")
    job_event(job.pk, EVIL[:60], reason=EVIL)
    JobDraft.objects.create(owner=owner, state="failed", request_text="{}", error=EVIL, error_code="invalid")
    return job


def test_hostile_names_are_text_on_every_page(evil_job, owner_client):
    """The mark-up never appears; the same text, escaped, does."""
    addresses = [reverse("job-list"), reverse("job-delete", args=[evil_job.pk])]
    addresses += [reverse("job-panel", args=[evil_job.pk, name]) for name in PANELS]
    addresses += [reverse(name, args=[evil_job.pk]) for name in ("job-detail", "job-checkpoints")]
    addresses += [reverse(name, args=[evil_job.pk, 1]) for name in ("job-checkpoint", "job-continue-from")]
    other = factories.make_job(evil_job.owner, name=EVIL, dataset=evil_job.dataset)
    addresses.append(f"{reverse('job-compare')}?job={evil_job.pk}&job={other.pk}")
    addresses.append(reverse("job-round", args=[evil_job.pk, evil_job.round_no]))
    silent = []
    for address in addresses:
        text = owner_client.get(address).content.decode()
        assert "<img src=x" not in text, address
        if "&lt;img src=x" not in text:
            silent.append(address.rsplit("/", 1)[-1])
    # Links and the list of rounds show no text from outside.
    assert silent == ["rounds", "invitations"]


def test_the_chart_is_data_not_markup(evil_job, owner_client):
    response = owner_client.get(reverse("job-chart", args=[evil_job.pk]))
    assert response.headers["Content-Type"] == "application/json"
    assert response.json()["series"][0]["label"] == EVIL


def test_an_error_message_is_escaped(evil_job, owner_client):
    response = owner_client.post(
        reverse("job-delete", args=[evil_job.pk]), {"confirmation": '"><img src=x onerror=alert(1)>'}
    )
    assert "<img src=x" not in response.content.decode()


@pytest.mark.parametrize("name", ["home", "login", "help", "help-errors", "train"])
def test_pages_carry_the_policy_and_nothing_that_it_forbids(name, client, db):
    _check_policy(client.get(reverse(name)))


def test_coordinator_pages_carry_the_policy_and_nothing_that_it_forbids(evil_job, owner_client):
    for address in (reverse("job-list"), reverse("job-new"), reverse("job-detail", args=[evil_job.pk])):
        _check_policy(owner_client.get(address))


def _check_policy(response):
    policy = response.headers["Content-Security-Policy"]
    assert "script-src 'self' 'wasm-unsafe-eval'" in policy and "unsafe-inline" not in policy
    text = response.content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    without_values = re.sub(r'"[^"]*"', '""', text)
    assert not re.search(r"<[^>]+\s(?:style|on[a-z]+)=", without_values)
    assert "<style" not in text and "javascript:" not in text
