"""Checkpoints are evaluated on schedule and on demand, beside the rounds, and a failure harms nobody."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint
from jobs.models import JobEvent
from jobs.services import evaluation
from jobs.services.evaluation import validation_request, validation_run
from tests.creation.making import digits, make, small
from tests.creation.models import counting, model, tiny
from tests.creation.training import Peers
from tests.hosts.modules.wat import LOOP, operation
from weei_core import strict_json
from weei_core.errors import Conflict, NotFound
from weei_core.jail.parent import InputFile, run_in_child

pytestmark = pytest.mark.django_db

Validation = Checkpoint.Validation
DATA = digits("data/validation.bin")


def schedule(unit, every):
    return {"enabled": True, "unit": unit, "every": every}


def evaluated(tmp_path, weights):
    """What the module says of the weights, asked apart from the server's code."""
    for name, data in (("m.wasm", digits("digits.wasm")), ("weights", weights), ("data", DATA)):
        (tmp_path / name).write_bytes(data)
    work = {"settings": '{"localEpochs":1,"batchSize":32,"learningRate":0.05}', "data": {"format": "digits-u8-v1"}}
    inputs = {"weights": InputFile(tmp_path / "weights"), "data": InputFile(tmp_path / "data")}
    outcome = run_in_child(tmp_path / "m.wasm", {"operation": "evaluate", "work": work}, inputs)
    return strict_json.loads(str(outcome["result"]))


def due(job):
    return list(
        Checkpoint.objects.filter(job=job, validation=Validation.DUE).order_by("round").values_list("round", flat=True)
    )


def run_due(job):
    for pk in list(Checkpoint.objects.filter(job=job, validation=Validation.DUE).values_list("pk", flat=True)):
        validation_run(pk)


@pytest.mark.db
def test_gives_what_the_module_says(user, trainer, tmp_path):
    job = make(user, **small(2), validation=DATA, validationSchedule=schedule("round", 1))
    Peers(job, trainer, 2).start().run()
    run_due(job)
    found = []
    for checkpoint in job.checkpoints.select_related("weights").order_by("round"):
        assert (checkpoint.validation, checkpoint.validation_error) == (Validation.DONE, "")
        found.append(json.loads(checkpoint.validation_text))
        assert found[-1] == evaluated(tmp_path, bytes(checkpoint.weights.body))
    assert found[0]["examplesProcessed"] == 297
    assert found[1]["metrics"]["loss"] < found[0]["metrics"]["loss"]
    assert JobEvent.objects.filter(job=job, event="validation.finished").count() == 2


@pytest.mark.parametrize(
    ("chosen", "rounds"),
    [
        (schedule("round", 1), [0, 1, 2, 3, 4, 5, 6]),
        (schedule("round", 4), [0, 4, 6]),
        (schedule("epoch", 1), [0, 2, 4, 6]),
        (schedule("epoch", 2), [0, 4, 6]),
        (schedule("epoch", 100), [0, 6]),
        ({"enabled": False, "unit": "round", "every": 1}, []),
        (None, []),
    ],
    ids=str,
)
def test_is_due_by_schedule_and_at_both_ends(chosen, rounds, user, trainer):
    """3 passes of 2 rounds."""
    job = make(user, **small(2), epochs=3, validation=DATA, validationSchedule=chosen)
    Peers(job, trainer, 1).start().run()
    assert due(job) == rounds


def test_is_not_due_without_a_file(user, trainer):
    job = make(user, **small(1), validationSchedule=schedule("round", 1))
    Peers(job, trainer, 1).start().run()
    assert due(job) == []
    with pytest.raises(Conflict, match="without a validation file"):
        validation_request(job)


def test_on_demand_of_the_latest_or_any(user, trainer):
    job = make(user, **small(2), validation=DATA)
    Peers(job, trainer, 1).start().run()
    assert validation_request(job).round == 2
    assert validation_request(job, 1).round == 1
    assert validation_request(job).validation == Validation.DUE
    assert due(job) == [1, 2]
    run_due(job)
    done = job.checkpoints.get(round=2).validation_text
    validation_request(job, 2)
    run_due(job)
    assert job.checkpoints.get(round=2).validation_text == done
    with pytest.raises(NotFound, match="round 9"):
        validation_request(job, 9)


def test_a_model_that_cannot_evaluate_says_so(user):
    with pytest.raises(Conflict, match="does not declare evaluation"):
        validation_request(make(user, **tiny(model())))


def evaluating(body):
    """A job of a model whose evaluate has this body."""
    info = {"capabilities": {"evaluation": True, "inspection": True}}
    return tiny(model(info, **counting(8), evaluate=operation("evaluate", body)))


@pytest.mark.parametrize(
    ("body", "words"), [("unreachable", "trapped"), (LOOP, "0.5 seconds")], ids=["traps", "loops for ever"]
)
def test_a_failure_is_said_and_the_job_goes_on(body, words, user, settings):
    settings.MODULE_WALL_SECONDS = 0.5
    job = make(user, **evaluating(body), validation=b"data", validationSchedule=schedule("round", 1))
    run_due(job)
    first = job.checkpoints.get()
    assert (first.validation, first.validation_text) == (Validation.FAILED, "")
    assert words in first.validation_error
    job.refresh_from_db()
    assert (job.status, job.last_error) == ("ready", "")
    assert json.loads(JobEvent.objects.get(job=job, event="validation.failed").details_text)["round"] == 0


def test_a_number_that_is_none_is_left_out(user):
    """C76: declared metrics that are finite only."""
    said = b'{"metrics":{"loss":0.5,"secret":1},"examplesProcessed":8}'
    text = "".join(f"\\{byte:02x}" for byte in said)
    made = evaluating(f"(call $say (i32.const 3000) (i32.const {len(said)}))")
    info = {"capabilities": {"evaluation": True, "inspection": True}}
    made["module"] = model(
        info,
        **counting(8),
        evaluate=operation("evaluate", f"(call $say (i32.const 3000) (i32.const {len(said)}))"),
        said=f'(data (i32.const 3000) "{text}")',
    )
    job = make(user, **made, validation=b"data", validationSchedule=schedule("round", 1))
    run_due(job)
    assert json.loads(job.checkpoints.get().validation_text) == {"metrics": {"loss": 0.5}, "examplesProcessed": 8}


def lost_worker(row):
    Checkpoint.objects.filter(pk=row.pk).update(
        validation=Validation.RUNNING, validation_lease=timezone.now() - timedelta(seconds=1)
    )


def test_a_worker_that_died_three_times_is_a_failure(user, monkeypatch):
    """S14: evaluate, three times."""

    class Killed(BaseException):
        pass

    def killed(checkpoint):
        raise Killed

    job = make(user, **small(1), validation=DATA, validationSchedule=schedule("round", 1))
    first = job.checkpoints.get()
    monkeypatch.setattr(evaluation, "_evaluate", killed)
    for _ in range(3):
        with pytest.raises(Killed):
            validation_run(first.pk)
        validation_run(first.pk)  # the lease still holds: nothing happens
        lost_worker(first)
    validation_run(first.pk)
    first.refresh_from_db()
    assert first.validation == Validation.FAILED
    assert "too much memory" in first.validation_error
    monkeypatch.undo()
    validation_request(job)
    run_due(job)
    assert job.checkpoints.get().validation == Validation.DONE


def test_one_of_two_runs_counts(user, monkeypatch):
    """A slow worker wakes up when another has done its work."""
    job = make(user, **small(1), validation=DATA, validationSchedule=schedule("round", 1))
    first = job.checkpoints.get()
    inner: list[bool] = []
    real = evaluation._evaluate

    def overtaken(checkpoint):
        if not inner:
            inner.append(True)
            validation_run(first.pk)  # beside a live lease: nothing
            lost_worker(first)
            validation_run(first.pk)
        return real(checkpoint)

    monkeypatch.setattr(evaluation, "_evaluate", overtaken)
    validation_run(first.pk)
    first.refresh_from_db()
    assert (first.validation, first.validation_tries) == (Validation.DONE, 2)
    assert JobEvent.objects.filter(job=job, event="validation.finished").count() == 1


def test_a_job_that_is_gone_is_no_error(user, monkeypatch):
    job = make(user, **small(1), validation=DATA, validationSchedule=schedule("round", 1))
    first = job.checkpoints.get()
    real = evaluation._evaluate

    def deleted_meanwhile(checkpoint):
        text = real(checkpoint)
        Checkpoint.objects.filter(pk=first.pk).delete()
        return text

    monkeypatch.setattr(evaluation, "_evaluate", deleted_meanwhile)
    validation_run(first.pk)
    validation_run(first.pk)
    assert not JobEvent.objects.filter(job=job, event__startswith="validation").exists()
