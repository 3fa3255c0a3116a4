"""`manage.py simulate JOB` and `manage.py predict JOB`, beside jobs that went through the services."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from checkpoints.models import Checkpoint
from jobs.services.export import checkpoint_metadata
from jobs.services.lifecycle import job_shuffle
from tests.creation.experience import echo, reference
from tests.creation.making import SCHEDULE, digits, make, small, weights
from tests.creation.training import Peers
from weei_core.checkpoint_file import write_header

pytestmark = pytest.mark.django_db


def simulate(source, *options):
    """The objects of `--json`, one a line."""
    out = StringIO()
    call_command("simulate", str(source), *options, "--json", stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def checkpoints(lines):
    return [line["sha256"] for line in lines if line["event"] == "checkpoint"]


def made(job):
    return list(Checkpoint.objects.filter(job=job).order_by("round"))


def assert_same(job, members, folder, *options):
    """Every checkpoint's weights, and the exported file of the last one."""
    lines = simulate(job.pk, "--participants", str(members), "--out", str(folder), *options)
    rows = made(job)
    assert checkpoints(lines) == [row.weights_id for row in rows]
    assert [line["metrics"] for line in lines[2:-1]] == [json.loads(row.metrics_text) for row in rows[1:]]
    file = (folder / f"round-{rows[-1].round}.weei-checkpoint").read_bytes()
    assert lines[-1] == {"event": "finished", "files": [str(folder / f"round-{rows[-1].round}.weei-checkpoint")]}
    assert file.startswith(write_header(checkpoint_metadata(rows[-1])))


@pytest.mark.parametrize("method", ["fedavg", "fedavgm", "fedadam"])
def test_the_checkpoints_are_those_of_the_job(method, user, trainer, tmp_path):
    job = make(user, **small(5), epochs=2, aggregation={"method": method})
    assert_same(Peers(job, trainer, 2).start().run(), 2, tmp_path)


def test_chunks_are_cut_as_for_a_job_with_more_members(user, trainer, tmp_path):
    job = make(user, **small(2), epochs=2)
    assert_same(Peers(job, trainer, 7).start().run(), 7, tmp_path)


def test_the_first_shuffle_is_the_jobs(user, trainer, tmp_path):
    job = make(user, **small(5), epochs=2)
    job_shuffle(job)
    assert_same(Peers(job, trainer, 2).start().run(), 2, tmp_path, "--shuffle")


def test_experience_over_records_is_simulated(user, trainer, tmp_path):
    job = make(user, **reference("bandit"), epochs=5)
    assert_same(Peers(job, trainer, 3).start().run(), 3, tmp_path)


def test_files_and_snapshots_fill_slots(user, trainer, tmp_path):
    job = make(user, **echo(), epochs=4, learningRate=None, batchSize=1)
    assert_same(Peers(job, trainer, 2).start().run(), 2, tmp_path)


def test_a_simulation_that_ends_early_says_so_in_its_file(user, tmp_path):
    lines = simulate(make(user, **small(5), epochs=2).pk, "--rounds", "2", "--out", str(tmp_path), "--all")
    assert len(lines[-1]["files"]) == 3
    assert b'"incomplete":true' in (tmp_path / "round-2.weei-checkpoint").read_bytes()
    assert b'"incomplete":false' in (tmp_path / "round-1.weei-checkpoint").read_bytes()


def test_advice_comes_before_the_first_round(user):
    lines = simulate(make(user, **small(1)).pk, "--set", "aggregation.method=fedavgm", "--participants", "1")
    assert lines[0]["event"] == "started"
    assert "momentum-one-chunk" in [advice["code"] for advice in lines[0]["advice"]]


def test_validation_is_that_of_the_schedule(user):
    job = make(user, **small(3), validation=digits("data/validation.bin"), validationSchedule=SCHEDULE)
    assert all(line["evaluation"]["accuracy"] > 0 for line in simulate(job.pk)[1:-1])


def test_a_job_that_was_continued_is_refused(user, trainer):
    first = Peers(make(user, **small(2)), trainer, 2).start().run()
    row = made(first)[-1]
    file = write_header(checkpoint_metadata(row)) + weights(row)
    job = make(user, **small(2), checkpoint=file, mode="new")
    with pytest.raises(CommandError, match="goes on from a checkpoint file"):
        simulate(job.pk)


def ask(job, *options):
    out = StringIO()
    call_command("predict", str(job.pk), *options, stdout=out)
    return out.getvalue().rstrip("\n")


def test_a_checkpoint_is_asked(user):
    job = make(user, **reference("cartpole"), epochs=1)
    whole = json.loads(ask(job, "--input", '{"seed":"4"}', "--json"))
    assert whole["return"] == len(whole["steps"]) or whole["return"] > 0
    assert json.loads(ask(job, "--input", '{"seed":"4"}', "--round", "0")) == whole


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "The input must be given, as JSON or as a text"),
        (("--input", "[]"), "input must be an object"),
        (("--input", "{"), "input"),
        (("--input", '{"text":"a"}', "--text", "b"), "must be given once"),
        (("--input", '{"seed":4}'), "input.seed is not an unsigned 64-bit integer"),
        (("--input", "{}", "--round", "9"), "no checkpoint of round 9"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(options, sentence, user):
    with pytest.raises(CommandError, match=sentence):
        ask(make(user, **reference("cartpole"), epochs=1), *options)


def test_a_model_that_answers_nothing_says_so(user):
    with pytest.raises(CommandError, match="does not declare inference"):
        ask(make(user, **echo(), epochs=1, learningRate=None, batchSize=1), "--input", "{}")


@pytest.mark.parametrize("command", ["simulate", "predict"])
@pytest.mark.parametrize("name", ["6dfb7e8a-0a3e-4b1e-9d0a-000000000000", "nobody"])
def test_a_job_that_does_not_exist_is_named(command, name):
    with pytest.raises(CommandError, match=name):
        call_command(command, name, **({"input_text": "{}"} if command == "predict" else {}))
