"""`round_overhead`: rounds a second of a model that does no work and has 456 bytes of weights, with two local agents on
the real processes; and how long each hop of a round takes. Beside it Flower's own processes on this machine: a
SuperLink, two SuperNodes, a ServerApp with FedAvg, and a ClientApp that gives back what it got.

Flower's SuperNodes and its grid ask every three seconds, and it starts a process for each message, which is most of
what its round takes. Its simulation engine, which has neither, needs Ray and is no comparison for a round over sockets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from benchmarks.measured import Duration, Figure, Measured, NotMeasured, Rate
from benchmarks.peers import Absent, peer_python
from benchmarks.round_overhead_flower import flower_rounds
from tests.load.idle_job import WEIGHTS, IdleJob
from tests.stack.model_jobs import Agent
from tests.stack.stack import Stack

ROUNDS = 320
WARM_UP = 20
FLOWER_ROUNDS = 3
ROUNDS_A_SECOND = 20.0
TIMES_FLOWER = 3.0
MOST_SECONDS = 120

MOMENTS = """
import json
from jobs.models import Job, JobEvent, Round
job = Job.objects.get(pk=job_id)
dealt = JobEvent.objects.filter(job=job, event="round.dealt").values_list("details_text", "at")
at = {json.loads(text)["round"]: moment for text, moment in dealt}
answer = [
    [one.number, *(moment.isoformat() for moment in (at[one.number], one.closing_at, one.merging_at, one.done_at))]
    for one in Round.objects.filter(job=job).order_by("number")
]
"""


def measure() -> Iterator[Figure]:
    with Stack() as stack:
        job = IdleJob(stack, epochs=ROUNDS)
        with Agent(stack, job.link, "bench-a") as a, Agent(stack, job.link, "bench-b") as b:
            job.start(wanted=2)
            job.wait_until_completed(MOST_SECONDS)
            rounds = Rounds(stack.shell(MOMENTS, job_id=job.id), [a.events(), b.events()])
    yield Rate("round_overhead_rounds", rounds.a_second, "rounds/s", ROUNDS_A_SECOND)
    for name, ms in rounds.hops().items():
        yield Duration(f"round_overhead_{name}_p50", ms, "ms")
    try:
        python = peer_python("flwr", "Flower")
    except Absent as absent:
        yield NotMeasured("round_overhead", str(absent))
        return
    flower = flower_rounds(python, rounds=FLOWER_ROUNDS, weights=WEIGHTS)
    peer = f"Flower {flower.version}, a SuperLink and two SuperNodes"
    yield Measured("round_overhead", rounds.a_second, "rounds/s", peer, flower.a_second, TIMES_FLOWER)


class Rounds:
    """Moments of every round in milliseconds, by the one clock of this machine: those in the database, and what the
    agents said."""

    def __init__(self, rows: Sequence[Sequence[Any]], logs: Sequence[Sequence[dict[str, Any]]]) -> None:
        names = ("dealt", "closing", "merging", "done")
        self._moments: dict[int, dict[str, float]] = {
            number: dict(zip(names, map(_ms, moments), strict=True)) for number, *moments in rows
        }
        for log in logs:
            for event in log:
                if event["event"] in ("assigned", "trained", "uploaded"):
                    at = self._moments[event["round"]]
                    # The slower agent's: it is the one that the round waited for.
                    at[event["event"]] = max(at.get(event["event"], 0.0), event["at"])
                    if event["event"] == "trained":
                        at["training"] = max(at.get("training", 0.0), event["seconds"] * 1000)
        self._measured = [number for number in sorted(self._moments) if number > WARM_UP]

    @property
    def a_second(self) -> float:
        first, last = (self._moments[number]["dealt"] for number in (self._measured[0], self._measured[-1]))
        return 1000 * (len(self._measured) - 1) / (last - first)

    def hops(self) -> dict[str, float]:
        """Medians. They overlap: an upload's answer comes after the round began to close."""
        one = [self._moments[number] for number in self._measured]
        following = [(self._moments[number - 1], self._moments[number]) for number in self._measured]
        return {
            "hint_and_assignment": median(at["assigned"] - at["dealt"] for at in one),
            "weights_and_report": median(at["trained"] - at["assigned"] - at["training"] for at in one),
            "train": median(at["training"] for at in one),
            "upload": median(at["closing"] - at["trained"] for at in one),
            "queue": median(at["merging"] - at["closing"] for at in one),
            "merge": median(at["done"] - at["merging"] for at in one),
            "commit_and_deal": median(at["dealt"] - before["done"] for before, at in following),
            "round": median(at["dealt"] - before["dealt"] for before, at in following),
        }


def _ms(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000
