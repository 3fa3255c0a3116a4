"""The life of a model package: one row, one task at a time, and nothing half-made."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Artifact, Upload
from checkpoints.selectors.storage import held_hashes, storage_used
from checkpoints.services.artifacts import artifact_put_bytes
from checkpoints.services.collector import collect
from jobs.models import JobDraft, Package, PackageFile
from jobs.services import package_work
from jobs.services.drafts import draft_prepare
from jobs.services.fenced import LeaseLost
from jobs.services.package_work import Run, package_run, work_clean
from jobs.services.packaging import (
    package_cancel,
    package_create,
    package_delete,
    package_inspect,
    package_make,
    package_preview,
    package_start_job,
    packages_collect,
    packages_due,
    packages_renew,
)
from weei_core.dataset_manifest import ChunkEntry
from weei_core.errors import Conflict, Invalid, TooLarge
from weei_core.generator.package import MadePackage, Preview, ShownTable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_messages")]
TABLE = "height,weight,kind\n" + "".join(f"{n % 40},{n % 7},{'high' if n % 40 > 20 else 'low'}\n" for n in range(200))
State, Task, Kind = Package.State, Package.Task, PackageFile.Kind


@pytest.fixture(autouse=True)
def _store(settings, tmp_path, monkeypatch):
    settings.STORAGE_URL = f"file://{tmp_path / 'artifacts'}"
    settings.VAR_DIR = tmp_path
    monkeypatch.setattr("jobs.services.lease.SAY_SECONDS", 1000)


@pytest.fixture
def alice():
    return User.objects.create(username="alice")


def upload(owner, data, name="people.csv"):
    now = timezone.now()
    made = artifact_put_bytes(data.encode() if isinstance(data, str) else data, now)
    Upload.objects.create(
        kind="file", owner=owner, file_name=name, sha256=made.sha256, length=made.bytes, done=True, touched=now
    )
    return {"fileName": name, "sha256": made.sha256}


def begun(owner, data=TABLE, name="people.csv"):
    package = package_create(owner, upload(owner, data, name))
    return run(package)


def run(package):
    package_run(package.pk)
    package.refresh_from_db()
    return package


def request_of(package):
    return json.loads(package.request_text)


class Generator:
    """Stands where the generator does: what it is asked, and what it answers or raises."""

    def __init__(self, monkeypatch):
        self.asked, self.during, self.error = [], lambda progress: None, None
        monkeypatch.setattr(package_work, "preview", self.preview)
        monkeypatch.setattr(package_work, "make_package", self.make)

    def preview(self, request, source, progress):
        self.asked.append(("preview", request.name))
        if self.error:
            raise self.error
        table = ShownTable(("height",), (("1",),), ("high", "low"))
        return Preview((), table, True, 180, 20, 6, 900, None, 258, 1032, 5_000_000, ())

    def make(self, request, source, folder, progress=None):
        self.asked.append(("make", request.name))
        self.during(progress)
        if self.error:
            raise self.error

        def written(name, data):
            (folder / name).write_bytes(data)
            return folder / name

        chunks = tuple(written(f"chunk-{n}.bin", b"chunk %d" % n * 5000) for n in (1, 2))
        entries = tuple(ChunkEntry.model_construct(id=path.stem, example_count=90) for path in chunks)
        module, manifest = written("model.wasm", b"\0asm"), written("manifest.json", b"{}")
        validation = written("validation.bin", b"held out")
        return MadePackage(folder, module, manifest, chunks, validation, entries, {"epochs": 3}, ())


@pytest.fixture
def generator(monkeypatch):
    return Generator(monkeypatch)


def test_a_file_is_looked_at_and_previewed_with_defaults(alice, generator):
    package = begun(alice)
    assert (package.state, package.error) == (State.DONE, "")
    assert json.loads(package.found_text)["records"] == 200
    assert request_of(package)["data"] == {
        "format": "csv",
        "label": "kind",
        "task": "classification",
        "delimiter": ",",
    }
    assert json.loads(package.preview_text)["preview"]["record_count"] == 180
    assert generator.asked == [("preview", "people")]


def test_only_a_file_of_ones_own_is_taken(alice):
    source = upload(alice, TABLE)
    mallory = User.objects.create(username="mallory")
    with pytest.raises(Invalid, match="Not uploaded yet") as refused:
        package_create(mallory, source)
    assert refused.value.code == "not_uploaded"
    with pytest.raises(Invalid, match="format must be one of"):
        package_create(alice, {**source, "format": "xls"})


def test_a_file_that_is_no_table_fails_with_its_line_and_can_be_looked_at_again(alice, generator):
    package = begun(alice, 'a,b\n1,2\n3,"4\n')
    assert package.state == State.FAILED and "Line 3 is not a row of a table" in package.error
    assert package.found_text == package.request_text == ""
    package_inspect(package)
    assert run(package).state == State.FAILED


def test_a_preview_that_fails_leaves_what_was_found(alice, generator):
    generator.error = Invalid("data.label must be a column.", field="data.label")
    package = begun(alice)
    assert (package.state, package.error_field, package.preview_text) == (State.FAILED, "data.label", "")
    assert package.found_text and request_of(package)["name"] == "people"


def test_the_files_are_stored_and_a_job_is_begun_from_them(alice, generator):
    package = begun(alice)
    package_make(package, {**request_of(package), "name": "Tall people"})
    assert run(package).state == State.DONE, package.error
    files = [(file.kind, file.file_name) for file in package.files.all()]
    assert files == [
        ("module", "model.wasm"),
        ("manifest", "manifest.json"),
        ("chunk", "chunk-1.bin"),
        ("chunk", "chunk-2.bin"),
        ("validation", "validation.bin"),
    ]
    draft = package_start_job(package)
    request = json.loads(draft.request_text)
    assert (request["name"], request["settings"]) == ("Tall people", {"epochs": 3})
    assert [file["fileName"] for file in request["files"]] == ["chunk-1.bin", "chunk-2.bin"]
    assert (draft.owner, request["validation"]["fileName"]) == (alice, "validation.bin")
    assert list((package_work._work_root()).iterdir()) == []


def test_the_files_are_the_persons_own_and_count_once(alice, generator):
    package = begun(alice)
    Upload.objects.all().delete()
    assert storage_used(alice.pk) == package.source.bytes
    package_make(package, request_of(package))
    run(package)
    hashes = list(package.files.values_list("artifact_id", flat=True))
    made = sum(Artifact.objects.filter(pk__in=hashes).values_list("bytes", flat=True))
    assert storage_used(alice.pk) == package.source.bytes + made
    assert held_hashes(alice.pk, hashes) == set(hashes)
    assert held_hashes(User.objects.create(username="mallory").pk, hashes) == set()


def test_what_is_over_the_quota_is_not_kept(alice, generator, settings):
    package = begun(alice)
    settings.UPLOAD_QUOTA_BYTES = 20_000
    package_make(package, request_of(package))
    assert run(package).state == State.FAILED and package.error_code == TooLarge.default_code
    assert not PackageFile.objects.exists() and package.made_text == ""


def test_a_failure_keeps_the_files_of_before(alice, generator):
    package = begun(alice)
    package_make(package, request_of(package))
    made = run(package).made_text
    generator.error = Invalid("Line 7: x is no number.", field="data", code="bad_rows")
    package_make(package, {**request_of(package), "name": "another"})
    assert run(package).state == State.FAILED
    assert (package.made_text, package.files.count()) == (made, 5)
    assert request_of(package)["name"] == "another"


def test_one_thing_at_a_time(alice, generator):
    package = begun(alice)
    package_preview(package, request_of(package))
    for ask in (package_preview, package_make):
        with pytest.raises(Conflict, match="is being worked on"):
            ask(package, request_of(package))
    with pytest.raises(Conflict, match="Make it first"):
        package_start_job(package)


def test_what_does_not_fit_is_refused_before_anything_is_queued(alice, generator):
    package = begun(alice)
    with pytest.raises(Invalid) as refused:
        package_make(package, {**request_of(package), "training": {"batchSize": 0}})
    assert refused.value.field == "training.batchSize"
    package.refresh_from_db()
    assert package.state == State.DONE


def test_a_stop_ends_the_run_at_its_next_step(alice, generator):
    package = begun(alice)
    steps = []

    def during(progress):
        progress("read", 0, 10)
        package_cancel(package)
        steps.append("stopped")
        progress("chunks", 10, 10)
        steps.append("went on")

    generator.during = during
    package_make(package, request_of(package))
    run(package)
    assert (package.state, steps, package.files.count()) == (State.CANCELLED, ["stopped"], 0)
    package_preview(package, request_of(package))
    assert run(package).state == State.DONE


def test_a_run_from_before_a_stop_changes_nothing_of_the_next(alice, generator):
    package = begun(alice)
    package_preview(package, request_of(package))
    late = package_work._take(package.pk)
    package_cancel(package)
    package_make(package, request_of(package))
    newer = package_work._take(package.pk)
    assert (late.package.tries, newer.package.tries) == (1, 1)
    with pytest.raises(LeaseLost):
        late.finish(preview_text="late")
    late.fail(Invalid("late"))
    newer.finish()
    package.refresh_from_db()
    assert (package.state, package.error) == (State.DONE, "")


def test_beside_another_run_nothing_is_done(alice, generator):
    package = begun(alice)
    package_preview(package, request_of(package))
    assert isinstance(package_work._take(package.pk), Run)
    assert package_work._take(package.pk) is None


def test_a_worker_that_is_gone_is_followed_by_another_three_times(alice, generator, settings):
    package = begun(alice)
    package_make(package, request_of(package))
    now = timezone.now()
    assert packages_due(now) == [package.pk]
    for _ in range(settings.TASK_TRIES):
        assert package_work._take(package.pk)
        assert packages_due(now) == []
        Package.objects.update(lease_until=now - timedelta(seconds=1))
    assert packages_due(now) == [package.pk]
    assert run(package).state == State.FAILED and package.error_code == "worker_lost"


def test_a_clock_that_was_set_back_leaves_no_lease_in_the_future(alice, generator, settings):
    package = begun(alice)
    package_make(package, request_of(package))
    package_work._take(package.pk)
    Package.objects.update(lease_until=timezone.now() + timedelta(days=1))
    now = timezone.now()
    packages_renew(now)
    package.refresh_from_db()
    assert package.lease_until == now + timedelta(seconds=settings.MERGE_LEASE_SECONDS)


def test_what_nobody_asks_for_is_removed_with_its_files(alice, generator, settings):
    package = begun(alice)
    package_make(package, request_of(package))
    run(package)
    now = timezone.now()
    assert packages_collect(now) == 0
    Package.objects.update(touched=now - settings.PACKAGE_DAYS - timedelta(minutes=1))
    Package.objects.update(state=State.WORKING)
    assert packages_collect(now) == 0
    Package.objects.update(state=State.DONE)
    assert packages_collect(now) == 1
    Upload.objects.all().delete()
    Artifact.objects.update(touched=now - timedelta(hours=2))
    collect(now)
    assert not Artifact.objects.exists()


def test_files_of_a_package_are_not_collected_and_those_of_a_deleted_one_are(alice, generator):
    package = begun(alice)
    package_make(package, request_of(package))
    run(package)
    now = timezone.now()
    Upload.objects.all().delete()
    Artifact.objects.update(touched=now - timedelta(hours=2))
    collect(now)
    assert Artifact.objects.count() == 6
    package_delete(package)
    collect(now)
    assert not Artifact.objects.exists()


def test_folders_of_killed_runs_are_removed_when_they_are_old(settings):
    old = package_work._work_root() / "tmp-old"
    old.mkdir(parents=True)
    now = timezone.now()
    assert work_clean(now) == 0
    assert work_clean(now + package_work.WORK_KEPT + timedelta(minutes=1)) == 1
    assert not old.exists()


def test_a_lost_broker_loses_nothing(alice, generator, monkeypatch):
    package = package_create(alice, upload(alice, TABLE))
    assert packages_due(timezone.now()) == [package.pk]


def test_the_whole_way_from_a_table_to_a_job(alice):
    """With the generator itself, and the module in its jail."""
    package = begun(alice)
    assert package.state == State.DONE, package.error
    package_make(package, request_of(package))
    assert run(package).state == State.DONE, package.error
    draft = package_start_job(package)
    draft_prepare(draft.pk)
    draft.refresh_from_db()
    assert draft.state == JobDraft.State.DONE, draft.error
    assert draft.job.dataset.examples == 180 and draft.job.validation_file is not None


def test_bad_rows_are_named_and_nothing_is_made(alice):
    rows = TABLE.splitlines()
    rows[150] = "tall,3,high"
    package = begun(alice, "\n".join(rows) + "\n")
    assert package.found_text
    package_make(package, json.loads(package.request_text))
    run(package)
    assert package.state == State.FAILED and "151" in package.error, package.error
    assert not PackageFile.objects.exists() and list(Path(package_work._work_root()).iterdir()) == []
