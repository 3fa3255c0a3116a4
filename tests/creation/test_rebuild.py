"""Checkpoints are made again from their ledgers alone, and what was changed afterwards is found."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from checkpoints.models import Checkpoint
from jobs.services.lifecycle import job_update_settings
from tests.creation.experience import echo, reference
from tests.creation.making import make, small
from tests.creation.training import Peers

pytestmark = pytest.mark.django_db


def rebuild(job, *options):
    """(exit code, lines)."""
    out = StringIO()
    try:
        call_command("rebuild", str(job.pk), *options, stdout=out)
    except SystemExit as end:
        return end.code, out.getvalue().splitlines()
    return 0, out.getvalue().splitlines()


def trained(user, trainer, method="fedavg", rounds=3):
    job = make(user, **small(3), epochs=rounds, aggregation={"method": method})
    return Peers(job, trainer, 3).start().run(rounds)


def tamper(job, round_no, change):
    """Change a ledger behind the server's back."""
    row = Checkpoint.objects.get(job=job, round=round_no)
    ledger = json.loads(row.ledger_text)
    change(ledger)
    Checkpoint.objects.filter(pk=row.pk).update(ledger_text=json.dumps(ledger))


@pytest.mark.db
@pytest.mark.parametrize("method", ["fedavg", "fedavgm", "fedadam"])
def test_makes_every_checkpoint_again(method, user, trainer):
    job = trained(user, trainer, method)
    assert rebuild(job, "--all") == (
        0,
        ["Round 0: equal (made again from its seed)"]
        + [f"Round {number}: equal (3 updates trained again)" for number in (1, 2, 3)],
    )


def test_makes_ranges_of_records_again(user, trainer):
    """More participants than chunks: every update is of a part."""
    job = Peers(make(user, **small(1)), trainer, 3).start().run()
    ledger = json.loads(Checkpoint.objects.get(job=job, round=1).ledger_text)
    assert [slot["item"] for slot in ledger["slots"]] == ["train-001@0+32", "train-001@32+31", "train-001@63+62"]
    assert rebuild(job) == (0, ["Round 1: equal (3 updates trained again)"])


def test_follows_the_methods_of_a_job_that_changes_them(user, trainer):
    """C14: a state goes on with its method and starts from zero with another."""
    job = make(user, **small(3), epochs=4, aggregation={"method": "fedavgm"})
    peers = Peers(job, trainer, 3).start()
    peers.round()
    job_update_settings(job, {"aggregation": {"method": "fedavgm", "momentum": 0.5}})
    peers.round()
    job_update_settings(job, {"aggregation": {"method": "fedadam"}})
    peers.run(3)
    steps = list(Checkpoint.objects.filter(job=job).order_by("round").values_list("aggregation_step", flat=True))
    assert steps == [0, 1, 2, 3, 1]
    assert rebuild(job, "--all")[0] == 0


def test_one_round_or_the_last(user, trainer):
    job = trained(user, trainer)
    assert rebuild(job, "--round", "2") == (0, ["Round 2: equal (3 updates trained again)"])
    code, [line] = rebuild(job, "--json")
    assert code == 0
    assert json.loads(line) == {"round": 3, "equal": True, "made": "trained", "updates": 3, "differences": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ledger: ledger["slots"][1].update(seed="1"), "train-002: the SHA-256 of the update is"),
        (lambda ledger: ledger["slots"][0].update(uniqueExamples=124), "train-001: uniqueExamples is 125"),
        (lambda ledger: ledger["slots"].pop(), "The SHA-256 of the weights is"),
        (lambda ledger: ledger["settings"].update(batchSize=31), "the SHA-256 of the update is"),
        (lambda ledger: ledger["result"].update(weights="0" * 64), "The checkpoint's weights is"),
        (lambda ledger: ledger["start"].update(state="0" * 64), "The state before is"),
        (lambda ledger: ledger["slots"][0].update(chunkSha256="0" * 64), "There is no artifact"),
        (lambda ledger: ledger.update(slots=[]), "must hold start, settings and slots"),
        (lambda ledger: ledger.update(codeVersion="0.0.1"), "The version of the code is"),
        (lambda ledger: ledger.update(schema="other"), "schema"),
    ],
)
def test_finds_a_ledger_that_was_changed(change, words, user, trainer):
    job = trained(user, trainer)
    tamper(job, 2, change)
    code, lines = rebuild(job, "--all")
    assert code == 1
    assert [line[:14] for line in lines if "DIFFERENT" not in line] == [
        "Round 0: equal",
        "Round 1: equal",
        "Round 3: equal",
    ]
    assert lines[2].startswith("Round 2: DIFFERENT")
    assert words in lines[2]


def test_finds_a_seed_that_was_changed(user):
    job = make(user, **small())
    tamper(job, 0, lambda ledger: ledger.update(initialSeed="1"))
    code, [line] = rebuild(job)
    assert code == 1
    assert "The SHA-256 of the initial weights is" in line


def test_finds_stored_bytes_that_were_changed(user, trainer):
    """S11."""
    job = trained(user, trainer, rounds=1)
    weights = Checkpoint.objects.select_related("weights").get(job=job, round=1).weights
    weights.body = bytes(weights.bytes)
    weights.save()
    code, [line] = rebuild(job)
    assert code == 1
    assert weights.sha256 in line


@pytest.mark.parametrize("job_id", ["x", "00000000-0000-0000-0000-000000000000"])
def test_says_that_there_is_no_such_job(job_id):
    with pytest.raises(CommandError, match="no job"):
        call_command("rebuild", job_id)


def test_says_that_there_is_no_such_round(user):
    with pytest.raises(CommandError, match="no checkpoint of round 9"):
        call_command("rebuild", str(make(user, **small()).pk), "--round", "9")


@pytest.mark.parametrize("model", ["aux-echo", "cartpole", "bandit"])
def test_makes_experience_jobs_again(model, user, trainer):
    """Divided ranges of units, files and snapshots in the slots, and records that are units."""
    options = echo() if model == "aux-echo" else reference(model)
    job = make(user, **options, epochs=3, workers=2, learningRate=0.01)
    Peers(job, trainer, 2, workers=2).start().run()
    code, lines = rebuild(job, "--all")
    assert (code, len(lines)) == (0, 4), lines
    assert lines[1:] == [f"Round {number}: equal (2 updates trained again)" for number in (1, 2, 3)]
