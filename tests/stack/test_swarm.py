"""Fifty fake participants, of which many drop out or answer badly: the job completes, and nothing is lost or double."""

import json

from tests.load.behaviour import Behaviour
from tests.load.idle_job import IdleJob
from tests.load.process import SwarmProcess

PARTICIPANTS = 50
CHUNKS = 100
PASSES = 2
FAULTS = {"drop_out": 0.05, "reload": 0.05, "bad": 0.1, "duplicate": 0.05, "other_bytes": 0.05, "late": 0.05}
BEHAVIOUR = Behaviour(work_seconds=0.02, away_seconds=0.5, download=True, **FAULTS)
REFUSED = {"non_finite", "wrong_size", "hash_mismatch", "invalid_report", "already_received", "stale_attempt"}

VIOLATIONS = """
from uuid import UUID
from tests.chaos.invariants import Receipt, check
answer = check([UUID(job_id)], {}, [Receipt(**one) for one in receipts])
"""


def test_fifty_participants_with_faults_leave_every_item_trained_once_and_bits_that_can_be_made_again(stack, tmp_path):
    """P4, P5, U1, U2, U3, U5, U6, U8; I1–I6, I10."""
    job = IdleJob(stack, chunks=CHUNKS, epochs=PASSES)
    record = tmp_path / "accepted.jsonl"
    link = job.link_for(PARTICIPANTS)
    with SwarmProcess(
        stack.url, count=PARTICIPANTS, seed=1, invitation=link, behaviour=BEHAVIOUR, record=record
    ) as swarm:
        swarm.until(lambda told: told["ready"] == PARTICIPANTS, 60)
        job.start(PARTICIPANTS)
        facts = job.wait_until_completed(120)
        told = swarm.stop()
    assert told["unexpected"] == {}, told
    assert told["drops"] == 0 and told["errors"] == {}, told
    assert set(told["refused"]) <= REFUSED and {"already_received", "stale_attempt"} <= set(told["refused"]), told
    assert set(told["failures"]) >= set(FAULTS), "the seed no longer makes every fault; choose another"
    assert len(facts["trained"]) == CHUNKS * PASSES == len({tuple(item) for item in facts["trained"]})
    receipts = [json.loads(line) for line in record.read_text().splitlines()]
    assert len({one["attempt"] for one in receipts}) == told["accepted"] == CHUNKS * PASSES
    found = stack.shell(VIOLATIONS, job_id=job.id, receipts=receipts)
    assert {name for name, sentences in found.items() if sentences} == set(), found
