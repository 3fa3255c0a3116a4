from __future__ import annotations

import os
import threading
import time
import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from checkpoints.models import Artifact, JobArtifact, Upload
from checkpoints.services import collector
from checkpoints.services.artifacts import artifact_bytes, artifact_put_bytes, artifact_reference
from checkpoints.services.collector import collect
from checkpoints.services.uploads import Declared, upload_create, upload_keep_slice, upload_note_done
from checkpoints.store import store
from checkpoints.store.files import FileStore
from tests.checkpoints.conftest import make_world, sha

pytestmark = [pytest.mark.django_db, pytest.mark.db]

SMALL, BIG = b"small", os.urandom(20_000)
HOUR = timedelta(hours=1, seconds=1)


@pytest.fixture(params=[SMALL, BIG], ids=["row", "file"])
def old(request):
    """An artifact that nobody touched for an hour."""
    return artifact_put_bytes(request.param, timezone.now() - HOUR)


def test_what_nobody_refers_to_goes_after_an_hour(old):
    young = artifact_put_bytes(b"young", timezone.now())
    assert collect(timezone.now()).artifacts == 1
    assert list(Artifact.objects.values_list("pk", flat=True)) == [young.pk]
    assert not store().exists(old.pk)


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["row", "file"])
def test_what_a_job_refers_to_stays_in_whatever_way(data):
    """Module, chunks, weights and what else has a foreign key to artifacts; by the job's rows and by JobArtifact."""
    world = make_world(data)
    Artifact.objects.update(touched=timezone.now() - HOUR)
    before = Artifact.objects.count()
    JobArtifact.objects.exclude(kind=JobArtifact.Kind.WEIGHTS).delete()
    # The validation file had no other reference; module and chunks have rows of their own.
    assert collect(timezone.now()).artifacts == 1
    assert Artifact.objects.count() == before - 1
    assert artifact_bytes(sha(data), len(data)) == data
    world.job.rounds.all().delete()
    dataset = world.job.dataset
    world.job.delete()
    assert dataset is not None
    dataset.delete()
    collect(timezone.now())
    assert Artifact.objects.count() == 0
    assert not store().exists(sha(data))


def test_every_foreign_key_to_artifacts_is_looked_at():
    """A table that refers to artifacts counts by itself; these are the ones there are."""
    sql = str(Artifact.objects.filter(collector._unreferenced()).query)
    for table in ("jobs_chunk", "jobs_job", "checkpoints_checkpoint", "checkpoints_jobartifact", "checkpoints_upload"):
        assert table in sql
    for column in ("module_id", "validation_file_id", "weights_id", "state_id"):
        assert column in sql


def test_a_reference_made_between_search_and_mark_wins(old, monkeypatch):
    real = collector._unreferenced
    calls = []

    def late_reference():
        calls.append(1)
        if len(calls) == 2:
            artifact_reference(old.pk, timezone.now())
        return real()

    monkeypatch.setattr(collector, "_unreferenced", late_reference)
    assert collect(timezone.now()).artifacts == 0
    assert Artifact.objects.get(pk=old.pk).state == Artifact.State.PRESENT


def test_bytes_put_again_between_mark_and_delete_stay(old):
    Artifact.objects.update(state=Artifact.State.DELETING)
    data = SMALL if old.bytes == len(SMALL) else BIG
    artifact_put_bytes(data, timezone.now())
    assert collect(timezone.now()).artifacts == 0
    assert artifact_bytes(old.pk, len(data)) == data


@pytest.mark.parametrize("step", ["before the file", "after the file"])
def test_a_crash_while_deleting_is_mended_by_the_next_run(old, monkeypatch, step):
    """C44's other way round: never a row without a file that claims to be there."""
    real = type(store()).delete

    def crash(self, sha256):
        if step == "after the file":
            real(self, sha256)
        raise RuntimeError("killed")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="killed"):
        patched.setattr(type(store()), "delete", crash)
        collect(timezone.now())
    assert Artifact.objects.get().state == Artifact.State.DELETING
    assert collect(timezone.now()).artifacts == 1
    assert Artifact.objects.count() == 0
    assert not store().exists(old.pk)


def test_a_file_without_a_row_goes_when_it_is_old(monkeypatch):
    """S10: left by a crash between name and row."""
    monkeypatch.setattr(collector, "FOLDERS_PER_RUN", 256)
    for data, age in ((BIG, 4000), (BIG + b"x", 10)):
        with store().temporary() as path:
            path.write_bytes(data)
            store().put(path, sha(data))
        written = time.time() - age
        os.utime(store().local(sha(data)), (written, written))
    kept = artifact_put_bytes(BIG + b"with a row", timezone.now())
    os.utime(store().local(kept.pk), (1, 1))
    assert collect(timezone.now()).artifacts == 1
    assert not store().exists(sha(BIG))
    assert store().exists(sha(BIG + b"x"))
    assert store().exists(kept.pk)


def test_uploads_that_nobody_goes_on_with_go_with_their_slices(django_user_model):
    owner = django_user_model.objects.create_user("owner")
    now = timezone.now()
    made = {}
    for name, age in (("old", timedelta(hours=25)), ("young", timedelta(hours=23))):
        made[name] = upload_create(Declared("file", 10, "a" * 64, "x"), owner_id=owner.pk, now=now - age)
        with store().temporary() as path:
            path.write_bytes(b"12345")
            upload_keep_slice(made[name], path)
    assert collect(now).uploads == 1
    assert list(Upload.objects.all()) == [made["young"]]
    assert list(store().uploads()) == [made["young"].pk]


def test_updates_wait_ten_minutes():
    world = make_world(b"1234")
    now = timezone.now()
    declared = Declared("update", 4, "a" * 64, attempt_id=uuid.uuid4())
    upload_create(declared, peer_id=world.peer.pk, now=now - timedelta(minutes=9))
    assert collect(now).uploads == 0
    assert collect(now + timedelta(minutes=2)).uploads == 1


def test_slices_without_a_row_go():
    with store().temporary() as path:
        store().put_slice(uuid.uuid4(), 0, path)
    collect(timezone.now())
    assert list(store().uploads()) == []


def test_a_file_that_waits_for_its_job_stays_for_a_day(old, django_user_model):
    owner = django_user_model.objects.create_user("owner")
    now = timezone.now()
    upload_note_done(Declared("file", old.bytes, old.pk, "x"), owner_id=owner.pk, now=now)
    assert collect(now).artifacts == 0
    assert collect(now + timedelta(hours=25)).artifacts == 1


def test_a_temporary_file_of_a_dead_process_goes_after_ten_minutes():
    """S5."""
    with store().temporary() as path:
        assert collect(timezone.now()).temporary == 0
        os.utime(path, (time.time() - 601,) * 2)
        assert collect(timezone.now()).temporary == 1
        assert not path.exists()


def test_deletes_only_under_the_lock_of_the_row(old, monkeypatch):
    """Whoever puts the same bytes waits for the row, so the file may only go inside the transaction."""
    monkeypatch.setattr(type(store()), "delete", lambda self, sha256: _check_in_transaction())
    collect(timezone.now())


def _check_in_transaction():
    assert connection.in_atomic_block


@pytest.mark.django_db(transaction=True)
def test_bytes_put_while_the_collector_deletes_them_are_there_afterwards(monkeypatch):
    """Two connections: the put has named its file before the collector deletes it, and must notice."""
    artifact_put_bytes(BIG, timezone.now() - HOUR)
    named, deleted = threading.Event(), threading.Event()
    real_put, real_delete = FileStore.put, FileStore.delete

    def put(self, temporary, sha256, *, durable):
        real_put(self, temporary, sha256, durable=durable)
        if not named.is_set():
            named.set()
            assert deleted.wait(10)

    def delete(self, sha256):
        assert named.wait(10)
        real_delete(self, sha256)
        deleted.set()

    def put_again():
        try:
            artifact_put_bytes(BIG, timezone.now())
        finally:
            connection.close()

    monkeypatch.setattr(FileStore, "put", put)
    monkeypatch.setattr(FileStore, "delete", delete)
    putting = threading.Thread(target=put_again)
    putting.start()
    assert collect(timezone.now()).artifacts == 1
    putting.join(20)
    assert artifact_bytes(sha(BIG), len(BIG)) == BIG
