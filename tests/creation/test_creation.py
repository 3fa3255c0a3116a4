"""A job is made from the digits model's files, through the draft and its background step."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint, JobArtifact
from jobs.models import Dataset, JobDraft
from jobs.services import drafts, fenced
from jobs.services.creating import dataset_create
from jobs.services.drafts import Run, draft_create, draft_json, draft_name, draft_prepare
from jobs.services.preparing import prepare as real_prepare
from tests.creation.making import SCHEDULE, digits, make, package, prepare, request, small, weights
from weei_core import seeds
from weei_core.jail.parent import run_in_child

pytestmark = pytest.mark.django_db


def initial_weights(seed, path):
    """What the module itself makes of a job's seed, asked for apart from the server's code."""
    module = path / "digits.wasm"
    module.write_bytes(digits("digits.wasm"))
    with (path / "weights").open("w+b") as out:
        run_in_child(
            module, {"operation": "describe", "seed": str(seeds.initial_weights_seed(seed))}, {}, {"weightsOut": out}
        )
        out.seek(0)
        return out.read()


@pytest.mark.db
@pytest.mark.parametrize("packed", [False, True], ids=["plain list", "package"])
@pytest.mark.parametrize("validated", [False, True], ids=["no validation", "validation"])
def test_makes_a_job_of_the_digits_files(user, packed, validated):
    job = make(
        user,
        manifest=digits("data/package.json") if packed else None,
        validation=digits("data/validation.bin") if validated else None,
        validationSchedule=SCHEDULE,
    )
    assert (job.name, job.model_id, job.status, job.job_seed) == ("Handwritten digits", "digits", "ready", "42")
    assert bool(job.package_text) == packed
    assert [chunk.first_example for chunk in job.dataset.chunks.all()] == list(range(0, 1500, 125))
    assert (job.dataset.count, job.dataset.examples) == (12, 1500)
    assert job.validation_format == ("digits-u8-v1" if validated else "")
    first = job.checkpoints.get()
    assert (first.round, first.remaining_items, first.dataset_progress) == (0, 12, 0)
    assert first.validation == (Checkpoint.Validation.DUE if validated else Checkpoint.Validation.NONE)
    kinds = sorted(job.artifacts.values_list("kind", flat=True).distinct())
    assert kinds == sorted(["module", "manifest", "chunk", "weights", *(["validation"] if validated else [])])
    assert job.artifacts.filter(kind=JobArtifact.Kind.CHUNK).count() == 12


def test_checkpoint_0_holds_the_modules_weights_for_the_seed(user, tmp_path):
    job = make(user, **small())
    first = job.checkpoints.get()
    assert weights(first) == initial_weights(42, tmp_path)
    ledger = json.loads(first.ledger_text)
    assert ledger["initialSeed"] == str(seeds.initial_weights_seed(42))
    assert ledger["result"] == {"weights": first.weights_id}


def test_draws_a_seed_when_none_is_given(user):
    drawn = [make(user, **small(), seed=None).job_seed for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert all(seeds.parse_seed(seed, "seed") >= 0 for seed in drawn)


def test_keeps_the_name_that_was_given(user):
    assert make(user, **small(), name="My digits").name == "My digits"
    assert draft_name(draft_create(user, request(**small()))) == "New job"


def test_tells_how_far_it_is(user, monkeypatch):
    """Live progress: the row says step, done and total while the work goes on."""
    seen = []
    write = Run.write

    def watched(self, **fields):
        write(self, **fields)
        row = draft_json(JobDraft.objects.get(pk=self.draft.pk))
        seen.append((row["state"], row["step"], row["done"], row["total"]))

    monkeypatch.setattr(Run, "write", watched)
    monkeypatch.setattr("jobs.services.modules.INSPECT_BATCH", 5)
    monkeypatch.setattr(fenced, "STEP_SECONDS", 0)
    make(user, validation=digits("data/validation.bin"))
    assert seen == [
        ("preparing", "Checking files", 0, 0),
        ("preparing", "Reading the model", 0, 0),
        *[("preparing", "Reading the data", done, 13) for done in (0, 5, 10, 13)],
        ("preparing", "Saving", 0, 0),
        ("done", "Done", 0, 0),
    ]


def test_says_that_it_is_still_at_work(user):
    """The lease is renewed, and only by the try that holds it."""
    draft = draft_create(user, request(**small()))
    JobDraft.objects.filter(pk=draft.pk).update(state="preparing", tries=2)
    Run(draft, 1).renew()
    draft.refresh_from_db()
    assert draft.lease_until is None
    Run(draft, 2).renew()
    draft.refresh_from_db()
    assert draft.lease_until is not None


def test_a_second_run_beside_the_first_does_nothing(user, monkeypatch):
    """S14, and Celery may run a task twice."""
    draft = draft_create(user, request(**small()))
    inner: list[bool] = []

    def prepare_while_another_tries(body, step):
        if not inner:
            inner.append(True)
            draft_prepare(draft.pk)
        return real_prepare(body, step)

    monkeypatch.setattr(drafts, "prepare", prepare_while_another_tries)
    draft_prepare(draft.pk)
    draft_prepare(draft.pk)
    draft.refresh_from_db()
    assert (draft.state, draft.tries) == ("done", 1)
    assert user.jobs.count() == 1
    assert Dataset.objects.count() == 1


@pytest.mark.db
def test_a_run_that_lost_its_lease_makes_no_second_job(user, monkeypatch):
    """The first worker is only slow: it wakes up when the second has made the job."""
    draft = draft_create(user, request(**small()))
    inner: list[bool] = []

    def overtaken(plan):
        if not inner:
            inner.append(True)
            JobDraft.objects.filter(pk=draft.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
            draft_prepare(draft.pk)
        return dataset_create(plan)

    monkeypatch.setattr(drafts, "dataset_create", overtaken)
    draft_prepare(draft.pk)
    draft.refresh_from_db()
    assert (draft.state, draft.tries, draft.job) == ("done", 2, user.jobs.get())
    assert Dataset.objects.get() == user.jobs.get().dataset


def lost_worker(draft):
    """What a worker that is killed leaves: a lease that ends."""
    JobDraft.objects.filter(pk=draft.pk).update(state="preparing", lease_until=timezone.now() - timedelta(seconds=1))


def test_a_draft_whose_worker_died_three_times_fails(user, monkeypatch):
    """S14: a module that kills its worker does not do so for ever."""

    class Killed(BaseException):
        pass

    def killed(body, step):
        raise Killed

    draft = draft_create(user, request(**small()))
    monkeypatch.setattr(drafts, "prepare", killed)
    for _ in range(3):
        with pytest.raises(Killed):
            draft_prepare(draft.pk)
        draft.refresh_from_db()
        assert draft.state == "preparing"
        draft_prepare(draft.pk)  # the lease still holds: nothing happens
        lost_worker(draft)
    draft_prepare(draft.pk)
    draft.refresh_from_db()
    assert (draft.state, draft.error_code, draft.job) == ("failed", "worker_lost", None)
    assert "3 tries" in draft.error
    monkeypatch.undo()
    assert make(user, **small()).status == "ready"


def test_a_draft_whose_worker_died_once_is_made_by_the_next(user):
    draft = draft_create(user, request(**small()))
    JobDraft.objects.filter(pk=draft.pk).update(tries=1)
    lost_worker(draft)
    draft_prepare(draft.pk)
    draft.refresh_from_db()
    assert draft.job == user.jobs.get()


def test_cleans_up_after_runs_that_were_killed_between_dataset_and_job(user):
    kept = make(user, **small()).dataset
    fresh, old = Dataset.objects.create(manifest_text="[]"), Dataset.objects.create(manifest_text="[]")
    Dataset.objects.filter(pk__in=[old.pk, kept.pk]).update(created=timezone.now() - timedelta(hours=2))
    made = make(user, **small())
    assert set(Dataset.objects.all()) == {kept, fresh, made.dataset}


def test_a_failed_draft_is_not_run_again(user):
    draft = prepare(user, request(**small(), batchSize=0))
    draft_prepare(draft.pk)
    draft.refresh_from_db()
    assert (draft.state, draft.tries) == ("failed", 1)


def test_takes_a_package_without_its_validation_file(user):
    assert make(user, manifest=package()).validation_file is None
