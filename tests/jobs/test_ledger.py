"""Round 8: the ledger of a checkpoint holds everything that made it; whoever has it can rebuild the bytes."""

import json

import pytest

from checkpoints.models import Checkpoint
from jobs.services import lifecycle
from tests.jobs.world import (
    Participant,
    artifact_body,
    assert_invariants,
    hello,
    make_job,
    merge_due,
    run_to_end,
    start,
)
from weei_core.aggregation import WeightedSource, merge, parse_aggregation
from weei_core.weights import BytesSource

pytestmark = [pytest.mark.django_db, pytest.mark.db]


def ledger_of(job, round_no):
    return json.loads(Checkpoint.objects.get(job=job, round=round_no).ledger_text)


def rebuilt(ledger, folder):
    """The checkpoint from its ledger and the artifacts that it names; both are written to `folder`."""
    before, method = ledger["start"]["state"], parse_aggregation(ledger["settings"]["aggregation"])
    with (folder / "weights").open("w+b") as weights, (folder / "state").open("w+b") as state:
        return merge(
            start=BytesSource(artifact_body(ledger["start"]["weights"])),
            updates=[
                WeightedSource(
                    BytesSource(artifact_body(slot["sha256"])),
                    slot["uniqueExamples"],
                    (slot["position"], slot.get("recordStart", 0)),
                )
                for slot in ledger["slots"]
            ],
            state=BytesSource(artifact_body(before)) if before else None,
            step=ledger["start"]["step"] + 1 if before else 1,
            method=method,
            weights_out=weights,
            state_out=state,
        )


def test_every_checkpoint_can_be_rebuilt_from_its_ledger(settings, tmp_path):
    settings.KEEP_UPDATES = True
    job = make_job(
        chunks=5, epochs=2, aggregation={"method": "fedavgm", "momentum": 0.9}, capabilities={"recordRanges": True}
    )
    members = [Participant(job) for _ in range(3)]
    lifecycle.job_shuffle(job)
    start(job)
    run_to_end(job, members)
    checkpoints = Checkpoint.objects.filter(job=job, round__gt=0)
    assert len(checkpoints) == 4
    for checkpoint in checkpoints:
        ledger = json.loads(checkpoint.ledger_text)
        result = rebuilt(ledger, tmp_path)
        assert result.weights_sha256 == checkpoint.weights_id == ledger["result"]["weights"]
        assert result.state_sha256 == checkpoint.state_id == ledger["result"]["state"]
        assert result.step == checkpoint.aggregation_step == ledger["result"]["step"]
    assert_invariants(job)


def test_a_ledger_names_everything_by_value_or_hash():
    job = make_job(chunks=3, seed="11")
    a, b = Participant(job), Participant(job)
    start(job)
    chunk, seed = a.assignment["data"]["sha256"], a.assignment["seed"]
    attempt = a.attempt.pk
    a.train(metrics={"loss": 0.25})
    failed = b.attempt.pk
    b.fail("it trapped")
    merge_due(job)
    ledger = ledger_of(job, 1)
    first = Checkpoint.objects.get(job=job, round=0)
    assert (ledger["round"], ledger["module"], ledger["codeVersion"]) == (1, job.module_id, "0.1.0")
    assert ledger["start"] == {"weights": first.weights_id, "state": None, "step": 0}
    assert ledger["settings"] == json.loads(job.settings_text)
    (slot,) = ledger["slots"]
    assert slot.pop("sha256")
    assert slot == {
        "item": "c1",
        "position": 0,
        "chunkId": "c1",
        "chunkSha256": chunk,
        "format": "toy",
        "recordCount": 8,
        "seed": seed,
        "split": 1,
        "backend": "cpu-wasm",
        "peer": str(a.peer.pk),
        "attempt": str(attempt),
        "uniqueExamples": 8,
        "metrics": {"loss": 0.25},
    }
    (refused,) = ledger["discarded"]
    assert (refused["item"], refused["attempt"], refused["state"], refused["reason"]) == (
        "c2",
        str(failed),
        "failed",
        "it trapped",
    )


def test_every_try_of_a_round_is_in_its_ledger():
    """I10: replaced, lost, failed, and of earlier deals of the same round."""
    job = make_job(chunks=2)
    a = Participant(job)
    start(job)
    hello(a.peer)
    a.fail()
    a.leave()
    b = Participant(job)
    b.train()
    merge_due(job)
    states = [slot["state"] for slot in ledger_of(job, 1)["discarded"]]
    assert states == ["replaced", "failed", "left"]
    assert_invariants(job)
