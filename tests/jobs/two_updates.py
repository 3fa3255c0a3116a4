"""The shared example of the aggregation cases: start w0, update A with 1 example, update B with 3."""

import numpy as np

from checkpoints.models import Checkpoint
from tests.jobs.world import Participant, artifact_body, floats, make_job, merge_due, start

W0 = (1, -2, 0.5, 0)
A = floats(2, -3, 0.5, 0.25)
B = floats(1.5, -1, 0.5, -0.25)
ROUND_1 = (1.625, -1.5, 0.5, -0.125)


def latest(job) -> Checkpoint:
    return Checkpoint.objects.filter(job=job).latest("round")


def state_of(job):
    return np.frombuffer(artifact_body(latest(job).state_id), "<f4")


def pair(**aggregation):
    """A job on w0 whose two participants answer A (1 example) and B (3)."""
    method = {"aggregation": aggregation} if aggregation else {}
    job = make_job(chunks=8, weights=W0, epochs=3, **method)
    members = Participant(job), Participant(job)
    start(job)
    return job, *members


def first_round(job, a, b):
    a.upload(a.assignment, weights=A, uniqueExamples=1)
    b.upload(b.assignment, weights=B, uniqueExamples=3)
    merge_due(job)
