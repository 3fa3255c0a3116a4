"""Lists go page by page, and rows that come or go meanwhile are neither told twice nor left out."""

from __future__ import annotations

import re

import pytest

from checkpoints.models import Checkpoint
from jobs.models import Job, JobDraft, JobEvent, Package
from tests.api.world import World, assert_problem, link_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    return World()


def pages(caller, path, between=lambda: None):
    found = []
    while path:
        response = caller.get(path)
        assert response.status_code == 200, response.content
        found.append(response.json())
        link = response.headers.get("Link", "")
        path = re.fullmatch(r'<(/api/v1/[^>]+)>; rel="next"', link)[1] if link else None
        between()
    return found


def flat(found):
    return [row for page in found for row in page]


def copies(row, count):
    for _ in range(count):
        row.pk, row._state.adding = type(row)._meta.pk.get_default(), True
        row.save(force_insert=True)


def test_a_list_is_read_whole_while_rows_are_added(world):
    draft = JobDraft.objects.create(owner=world.job.owner, request_text="{}")
    copies(draft, 6)
    before = {str(pk) for pk in JobDraft.objects.values_list("pk", flat=True)}
    found = pages(world.owner, "/api/v1/drafts?limit=2", lambda: copies(draft, 1))
    ids = [row["draftId"] for row in flat(found)]
    assert [len(page) for page in found] == [2, 2, 2, 1]
    assert set(ids) == before and len(ids) == len(before)


def test_rows_of_one_moment_are_told_once_each(world):
    for _ in range(5):
        link_of(world.job)
    world.job.invitations.update(created=world.job.created)
    path = f"/api/v1/jobs/{world.job.pk}/invitations"
    ids = [row["id"] for row in flat(pages(world.owner, f"{path}?limit=2"))]
    assert ids == [row["id"] for row in world.owner.get(path).json()] and len(ids) == len(set(ids)) == 8


def test_a_row_that_goes_takes_no_other_with_it(world):
    draft = JobDraft.objects.create(owner=world.job.owner, request_text="{}")
    copies(draft, 3)
    first = world.owner.get("/api/v1/drafts?limit=2")
    told = [row["draftId"] for row in first.json()]
    JobDraft.objects.filter(pk=told[-1]).delete()
    rest = flat(pages(world.owner, re.match("<(.*)>", first["Link"])[1]))
    assert len(rest) == 2 and not {row["draftId"] for row in rest} & set(told)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_every_page_size_tells_the_same(world, size):
    job = world.job
    start = Checkpoint.objects.get(job=job, round=0)
    for number in range(1, 4):
        start.pk, start.round, start._state.adding = None, number, True
        start.save(force_insert=True)
    Package.objects.create(owner=job.owner, source=job.module, source_name="a.csv", touched=job.created)
    assert JobEvent.objects.filter(job=job).count() > 2
    path = f"/api/v1/jobs/{job.pk}"
    for name in ("/checkpoints", "/participants", "/invitations"):
        whole = world.owner.get(path + name).json()
        assert flat(pages(world.owner, f"{path}{name}?limit={size}")) == whole and whole
    newest_first = [page[::-1] for page in pages(world.owner, f"{path}/log?limit={size}")]
    assert flat(newest_first)[::-1] == world.owner.get(f"{path}/log").json()
    chunks = pages(world.owner, f"{path}/chunks?limit={size}")
    assert [i for page in chunks for i in page["chunkIds"]] == world.owner.get(f"{path}/chunks").json()["chunkIds"]
    for whole in ("/api/v1/jobs", "/api/v1/packages", "/api/v1/presets"):
        assert flat(pages(world.owner, f"{whole}?limit={size}")) == world.owner.get(whole).json()
    mine = [
        row["artifact"]["round"] for row in flat(pages(world.participant, f"/api/v1/peer/job/checkpoints?limit={size}"))
    ]
    assert mine == [3, 2, 1, 0]


@pytest.mark.parametrize("cursor", ["x", "1.2", "-1", "9" * 16, "1." + "0" * 31, "0" * 61])
def test_a_cursor_that_no_link_named_is_refused(world, cursor):
    for path in ("/api/v1/jobs", f"/api/v1/jobs/{world.job.pk}/participants", f"/api/v1/jobs/{world.job.pk}/log"):
        assert assert_problem(world.owner.get(f"{path}?cursor={cursor}"), 422, "invalid")["field"] == "cursor"


def test_the_page_after_a_revocation_is_one_of_the_list(world):
    for _ in range(120):
        link_of(world.job)
    first = world.job.invitations.first().pk
    response = world.owner.post(f"/api/v1/jobs/{world.job.pk}/invitations/{first}/revoke")
    assert len(response.json()) == 100 and f"</api/v1/jobs/{world.job.pk}/invitations?cursor=" in response["Link"]


def test_jobs_of_others_are_on_no_page(world):
    assert Job.objects.count() > 1
    assert [row["id"] for row in world.owner.get("/api/v1/jobs").json()] == [str(world.job.pk)]
