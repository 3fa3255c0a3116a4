from __future__ import annotations

import errno
import os
import threading
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from checkpoints.models import Artifact, JobArtifact
from checkpoints.services.artifacts import (
    INLINE_BYTES,
    NewArtifact,
    artifact_bytes,
    artifact_insert,
    artifact_new_file,
    artifact_path,
    artifact_put_bytes,
    artifact_put_file,
    artifact_reference,
    artifact_source,
    job_artifact_add,
    synced_meanwhile,
)
from checkpoints.store import store
from tests.checkpoints.conftest import sha
from weei_core.errors import Conflict, NotFound, TooLarge

pytestmark = [pytest.mark.django_db, pytest.mark.db]

SMALL = os.urandom(INLINE_BYTES)
BIG = os.urandom(INLINE_BYTES + 1)
both = pytest.mark.parametrize("data", [b"", SMALL, BIG], ids=["empty", "small", "big"])


@both
def test_bytes_come_back_in_every_way(data):
    artifact = artifact_put_bytes(data, timezone.now())
    assert artifact.sha256 == sha(data)
    assert artifact_bytes(artifact.sha256, len(data)) == data
    assert artifact_path(artifact.sha256).read_bytes() == data
    source = artifact_source(artifact.sha256)
    assert source.size == len(data)
    buffer = bytearray(min(5, len(data)))
    source.readinto(len(data) - len(buffer), memoryview(buffer))
    assert bytes(buffer) == data[len(data) - len(buffer) :]


def test_up_to_16_kib_lie_in_the_row_and_the_rest_in_the_store():
    small, big = (artifact_put_bytes(data, timezone.now()) for data in (SMALL, BIG))
    assert not store().exists(small.sha256)
    assert store().exists(big.sha256)
    assert Artifact.objects.get(pk=big.pk).body is None


@both
def test_a_file_that_is_committed_is_an_artifact(data):
    with artifact_new_file() as new:
        new.file.write(data)
        artifact = new.commit(sha(data), timezone.now())
    assert artifact.bytes == len(data)
    assert artifact_bytes(artifact.sha256, len(data)) == data
    assert not new.path.exists()


def test_a_file_that_is_not_committed_leaves_nothing():
    with artifact_new_file() as new:
        new.file.write(BIG)
    assert Artifact.objects.count() == 0
    assert not new.path.exists()


@pytest.mark.parametrize("durable", [True, False])
def test_bytes_that_the_collector_takes_away_meanwhile_are_put_again(monkeypatch, durable):
    """Between the name and the row somebody deletes the file, as the collector may until the row is written."""
    real_put = type(store()).put
    puts = []

    def put_and_lose(self, temporary, sha256, *, durable):
        real_put(self, temporary, sha256, durable=durable)
        puts.append(sha256)
        if len(puts) == 1:
            self.delete(sha256)

    monkeypatch.setattr(type(store()), "put", put_and_lose)
    with store().temporary() as path:
        path.write_bytes(BIG)
        artifact_put_file(path, sha(BIG), len(BIG), timezone.now(), durable=durable)
    assert len(puts) == 2
    assert artifact_bytes(sha(BIG), len(BIG)) == BIG


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["small", "big"])
def test_bytes_that_are_about_to_be_deleted_come_back(data):
    artifact_put_bytes(data, timezone.now())
    Artifact.objects.update(state=Artifact.State.DELETING)
    with pytest.raises(NotFound):
        artifact_source(sha(data))
    artifact_put_bytes(data, timezone.now())
    assert artifact_bytes(sha(data), len(data)) == data


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["small", "big"])
def test_damaged_bytes_are_never_read(data):
    """S11: the error names the file."""
    artifact_put_bytes(data, timezone.now())
    damaged = bytes([data[0] ^ 1]) + data[1:]
    if data is SMALL:
        Artifact.objects.update(body=damaged)
    else:
        store().local(sha(data)).write_bytes(damaged)
    for read in (artifact_source, artifact_path, lambda name: artifact_bytes(name, len(data))):
        with pytest.raises(Conflict, match=sha(data)) as refused:
            read(sha(data))
        assert refused.value.code == "corrupt_artifact"


def test_a_reader_that_hashes_itself_need_not_wait_for_the_check(monkeypatch):
    artifact_put_bytes(BIG, timezone.now())
    monkeypatch.setattr(type(store().verified), "check", lambda *_: pytest.fail("verified"))
    assert artifact_source(sha(BIG), verify=False).size == len(BIG)
    store().delete(sha(BIG))
    with pytest.raises(Conflict, match="missing"):
        artifact_source(sha(BIG), verify=False)


def test_refuses_more_bytes_at_once_than_allowed():
    artifact_put_bytes(SMALL, timezone.now())
    with pytest.raises(TooLarge, match=f"{INLINE_BYTES} bytes"):
        artifact_bytes(sha(SMALL), INLINE_BYTES - 1)


def test_a_reference_makes_young_and_needs_what_is_present():
    now = timezone.now()
    artifact_put_bytes(SMALL, now - timedelta(hours=2))
    artifact_reference(sha(SMALL), now)
    assert Artifact.objects.get().touched == now
    Artifact.objects.update(state=Artifact.State.DELETING)
    for gone in (sha(SMALL), sha(BIG)):
        with pytest.raises(Conflict, match="upload it again") as refused:
            artifact_reference(gone, now)
        assert refused.value.code == "artifact_gone"


def test_the_row_goes_with_the_transaction_that_refers_to_it():
    """A small artifact is written with its reference or not at all (C44)."""
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        artifact_insert(NewArtifact(sha(SMALL), SMALL), timezone.now())
        raise ZeroDivisionError
    assert Artifact.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_job_refers_once_per_kind(world):
    before = JobArtifact.objects.count()
    for _ in range(2):
        job_artifact_add(world.job, sha(world.validation), JobArtifact.Kind.VALIDATION, "validation.bin")
    assert JobArtifact.objects.count() == before
    job_artifact_add(world.job, sha(world.validation), JobArtifact.Kind.CHUNK, "c2.bin")
    assert JobArtifact.objects.count() == before + 1


def test_a_file_is_synced_while_it_is_written(monkeypatch):
    synced = threading.Event()
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.set())
    with artifact_new_file() as new, synced_meanwhile(new):
        assert synced.wait(10)


def test_a_write_that_failed_behind_is_an_error_of_the_writer(monkeypatch):
    """The kernel tells of it once: the sync at the end would find nothing wrong."""
    tried = threading.Event()

    def fails(descriptor):
        tried.set()
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(OSError, match="broken"), artifact_new_file() as new, synced_meanwhile(new):
        assert tried.wait(10)
