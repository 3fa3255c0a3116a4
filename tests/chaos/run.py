"""One chaos run: jobs with fake participants and a real agent, a fault, the wait until all goes on, every invariant,
and the next fault; at the end the jobs are finished and everything is looked at once more, from the first round.

Needs Django set up for the installation (tests/chaos/__main__.py).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone

from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job
from jobs.services.lifecycle import job_finish, job_resume
from peers.models import Peer
from peers.services.invitations import invitation_create
from tests.chaos import invariants, outside
from tests.chaos.again import Trainer
from tests.chaos.installation import Installation, NotHere, wait_until_ready
from tests.chaos.nemesis import Nemesis
from tests.chaos.schedule import Fault
from tests.load.behaviour import Behaviour
from tests.load.process import SwarmProcess
from tests.stack.model_jobs import Agent, ModelJob, preset_of

T = TypeVar("T")

RECOVERY_SECONDS = 60
"""I9."""
GIVE_UP_SECONDS = 240
FIRST_ROUND_SECONDS = 120
MAY_PAUSE = ("disk-full", "outage", "link", "stop")
"""Faults that may use up a merge's tries: the job then waits for its coordinator with the reason, and resumes."""
LEASE_SLACK_SECONDS = 45
NAMES = tuple(f"I{number}" for number in range(1, 11))
BEHAVIOUR = Behaviour(
    work_seconds=0.3,
    drop_out=0.02,
    reload=0.02,
    bad=0.01,
    duplicate=0.03,
    other_bytes=0.02,
    late=0.01,
    straggle=0.01,
    straggle_factor=3,
    away_seconds=1.5,
)
DIGITS = {
    "epochs": 100_000,
    "localEpochs": 1,
    "validationSchedule": {"enabled": True, "unit": "round", "every": 2},
    "aggregation": {"method": "fedavgm", "serverLearningRate": 0.5, "momentum": 0.5},
}
CONNECT_FOUR = {
    "epochs": 100_000,
    "localEpochs": 1,
    "experience": {"unitsPerAssignment": 8},
    "validationSchedule": {"enabled": False, "unit": "round", "every": 5},
}


@dataclass
class Outcome:
    """What became of one fault. `violations` are sentences by invariant, empty where all hold."""

    fault: Fault
    at: str
    pid: int | None = None
    not_run: str = ""
    recovery_seconds: float | None = None
    expired: int = 0
    """Attempts that ended because their peer was not heard from, or took too long, meanwhile."""
    resumed: list[str] = field(default_factory=list)
    violations: dict[str, list[str]] = field(default_factory=dict)

    def line(self) -> str:
        head = f"{self.at}  {self.fault.step:>3}  {self.fault!s:<34}"
        if self.not_run:
            return f"{head}  not run: {self.not_run}"
        pid = f"pid {self.pid}" if self.pid else ""
        took = "never recovered" if self.recovery_seconds is None else f"recovered in {self.recovery_seconds:.1f} s"
        told = "; ".join(f"{name}: {' | '.join(found)}" for name, found in self.violations.items())
        took += f", {self.expired} expired" if self.expired else ""
        resumed = f"  resumed: {'; '.join(self.resumed)}" if self.resumed else ""
        return f"{head}  {pid:<11}  {took:<31}  {told or 'I1-I10 hold'}{resumed}"

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "fault": self.fault.to_json()}


class Chaos:
    """A context manager: from the jobs' creation to their participants' end."""

    def __init__(self, installation: Installation, seed: int, folder: Path) -> None:
        self._at, self._seed, self._folder = installation, seed, folder
        self._stack = contextlib.ExitStack()
        self._nemesis = Nemesis(installation)
        self._logs = outside.Logs(installation.log_files())
        self._records = [folder / f"swarm-{index}.jsonl" for index in range(3)]
        self._receipts: list[invariants.Receipt] = []
        self._read = [0, 0, 0]
        self._since: dict[UUID, int] = {}
        self._looked = 0
        self._statuses: Counter[str] = Counter()
        self.swarms: list[SwarmProcess] = []
        self.unhandled: Counter[str] = Counter()

    def __enter__(self) -> Chaos:
        try:
            self._begin()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._nemesis.calm()
        self._stack.close()

    def _begin(self) -> None:
        first, urls = self._at.first, self._at.urls
        digits = ModelJob(first, *preset_of("digits"), **DIGITS, seed=str(self._seed))
        four = ModelJob(first, *preset_of("connect4"), **CONNECT_FOUR, seed=str(self._seed))
        self.jobs = {UUID(digits.id): "digits", UUID(four.id): "connect-four"}
        self._trainer = self._stack.enter_context(Trainer(self._folder))
        for index, (job, url, count) in enumerate(((digits, urls[0], 6), (digits, urls[1], 6), (four, urls[1], 4))):
            link = invitation_create(Job.objects.get(pk=job.id), uses=1000)[1]
            swarm = SwarmProcess(
                url,
                urls[0],
                count=count,
                seed=self._seed + index,
                invitation=link,
                behaviour=BEHAVIOUR,
                spread=10,
                record=self._records[index],
            )
            self.swarms.append(self._stack.enter_context(swarm))
        # Its rest keeps the rounds at about one a second, so that a run does not fill the disk.
        link = invitation_create(Job.objects.get(pk=digits.id), uses=10)[1]
        self._stack.enter_context(Agent(first, link, "real", "--rest", "0.3"))
        self._outsider = outside.Outsider(urls[0])
        for job, wanted in ((digits, 13), (four, 4)):
            wait_until_ready(job, wanted)
            job.start(wanted=wanted)
        self._real = frozenset(self._real_peers())
        began = self._marks()
        self._wait(lambda: self._advanced(began), FIRST_ROUND_SECONDS, "the first rounds")

    def _real_peers(self) -> Iterator[str]:
        for path in (self._at.first.folder / "agents").glob("peers/*/*/peer.json"):
            yield json.loads(path.read_text())["peerId"]

    # --- a fault ---

    def strike(self, fault: Fault) -> Outcome:
        time.sleep(fault.wait)
        outcome = Outcome(fault, datetime.now().strftime("%H:%M:%S"))
        before, expired = self._pids(), self._expired()
        try:
            outcome.pid = self._nemesis.strike(fault)
        except NotHere as reason:
            outcome.not_run = str(reason)
            return outcome
        self._recover(outcome)
        outcome.expired = self._expired() - expired
        hit = {fault.target} if fault.kind in ("kill", "terminate") else set()
        told = self.look()
        told["I8"] += outside.deaths(before, self._pids(), hit) + outside.too_large(self._pids())
        if fault.kind == "clock":
            told["I9"] += self._leases_in_the_future()
        if outcome.recovery_seconds is None or outcome.recovery_seconds > RECOVERY_SECONDS:
            told["I9"].append(f"the jobs went on after {outcome.recovery_seconds} s, not within {RECOVERY_SECONDS}")
        told["I9"] += [f"the job {paused}" for paused in outcome.resumed if fault.kind not in MAY_PAUSE]
        outcome.violations = {name: found for name, found in told.items() if found}
        return outcome

    def _recover(self, outcome: Outcome) -> None:
        """Until every job has a checkpoint more, every process runs, and the web processes answer."""
        ended = time.monotonic()
        marks = self._marks()

        def recovered() -> bool:
            outcome.resumed += self._resume()
            all_run = len(self._pids()) == len(Installation.PROCESSES)
            return self._advanced(marks) and all_run and all(outside.serves(url) for url in self._at.urls)

        with contextlib.suppress(TimeoutError):
            self._wait(recovered, GIVE_UP_SECONDS, "the jobs to go on")
            outcome.recovery_seconds = round(time.monotonic() - ended, 2)

    def _expired(self) -> int:
        expired = Attempt.objects.filter(slot__round__job__in=self.jobs, state=Attempt.State.EXPIRED)
        return _patiently(expired.count)

    def _resume(self) -> list[str]:
        """What a coordinator does who sees a job paused with an error."""
        told = []
        for job in _patiently(lambda: list(Job.objects.filter(pk__in=self.jobs, status=Job.Status.PAUSED))):
            told.append(f"{self.jobs[job.pk]} was paused: {job.last_error}")
            _patiently(partial(job_resume, job))
        return told

    # --- looking ---

    def look(self, *, everything: bool = False) -> dict[str, list[str]]:
        """All invariants, with an entry for each. Only what is new since the last look, or everything."""
        since = {} if everything else self._since
        new = self._receipts_read()
        receipts = self._receipts if everything else self._receipts[self._looked :]
        # What waited for its merge at the last look is looked at again.
        self._looked = max(0, len(self._receipts) - len(new))
        marks = self._marks()
        again = self._trainer.again
        told = _patiently(lambda: invariants.check(self.jobs, since, receipts, real=self._real, again=again))
        self._since = marks
        told["I7"] = self._outsider.denied(self._at.urls, self._secrets())
        statuses: Counter[str] = Counter()
        for swarm in self.swarms:
            statuses.update(swarm.told()["statuses"])
        told["I8"] = outside.bad_statuses(statuses - self._statuses)
        self._statuses = statuses
        unhandled = self._logs.unhandled()
        self.unhandled.update(unhandled)
        told["I8"] += [f"{name} wrote {n} unhandled errors" for name, n in unhandled.items() if name.startswith("web")]
        told["I9"] = []
        return {name: told[name] for name in NAMES}

    def _secrets(self) -> list[str]:
        found = []
        for made in self._latest().values():
            found.append(f"/bytes/jobs/{made.job_id}/{made.weights_id}")
            found.append(f"/bytes/jobs/{made.job_id}/{made.job.module_id}")
            found.append(f"/bytes/jobs/{made.job_id}/checkpoints/{made.round}")
        return found

    def _receipts_read(self) -> list[invariants.Receipt]:
        new = []
        for index, path in enumerate(self._records):
            with path.open("rb") as file:
                file.seek(self._read[index])
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._read[index] += len(line)
                    new.append(invariants.Receipt(**json.loads(line)))
        self._receipts += new
        return new

    def _leases_in_the_future(self) -> list[str]:
        """S12: a clock that was set leaves no lease behind that nobody could lose any more."""
        latest = timezone.now() + timedelta(seconds=LEASE_SLACK_SECONDS)
        count = _patiently(lambda: Peer.objects.filter(lease_until__gt=latest).count())
        return [f"{count} peers have a lease that ends in the future"] if count else []

    # --- the end ---

    def finish(self) -> dict[str, list[str]]:
        """The coordinator ends the jobs; then everything is looked at from the first round on."""
        for pk in self.jobs:
            _patiently(partial(_finish, pk))
        told: dict[str, list[str]] = {"I9": []}
        completed = Job.objects.filter(pk__in=self.jobs, status=Job.Status.COMPLETED)
        try:
            self._wait(lambda: completed.count() == len(self.jobs), RECOVERY_SECONDS, "the jobs to be completed")
        except TimeoutError as error:
            told["I9"].append(str(error))
        for name, found in self.look(everything=True).items():
            told.setdefault(name, []).extend(found)
        now = time.time()
        store = self._at.disk.folder / "store"
        old = outside.leftovers(store, outside.TEMPORARY_SECONDS, now)
        told["I8"] += [f"{len(old)} temporary files were left: {old[:3]}"] if old else []
        return {name: found for name, found in told.items() if found}

    def figures(self) -> dict[str, Any]:
        swarms = [swarm.told() for swarm in self.swarms]
        counted: Counter[str] = Counter()
        for told in swarms:
            counted.update({name: told[name] for name in ("accepted", "duplicates", "drops", "reconnects")})
            for kind in ("failures", "refused", "unexpected"):
                counted.update({f"{kind}: {name}": count for name, count in told[kind].items()})
        return {
            "rounds": {self.jobs[pk]: number for pk, number in self._marks().items()},
            "receipts": len(self._receipts),
            "attempts": dict(
                Counter(Attempt.objects.filter(slot__round__job__in=self.jobs).values_list("state", flat=True))
            ),
            "swarm": dict(counted),
            "unhandled errors": dict(self.unhandled),
            "resident_mib": {n: round(outside.resident_bytes(pid) / 2**20, 1) for n, pid in self._pids().items()},
            "database_mib": round(self._at.postgres.size() / 2**20, 1),
        }

    # --- helpers ---

    def _pids(self) -> dict[str, int]:
        """Of the processes that run."""
        found = {}
        for name in Installation.PROCESSES:
            with contextlib.suppress(RuntimeError):
                found[name] = self._at.pid(name)
        return found

    def _latest(self) -> dict[UUID, Checkpoint]:
        found = Checkpoint.objects.select_related("job")
        return _patiently(lambda: {pk: found.filter(job=pk).latest("round") for pk in self.jobs})

    def _marks(self) -> dict[UUID, int]:
        return {pk: made.round for pk, made in self._latest().items()}

    def _advanced(self, marks: dict[UUID, int]) -> bool:
        return all(number > marks[pk] for pk, number in self._marks().items())

    def _wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds:g} s for {what}")
            time.sleep(0.1)


def _finish(pk: UUID) -> None:
    job_finish(Job.objects.get(pk=pk))


def _patiently(ask: Callable[[], T]) -> T:
    """The checks' own connections break too when PostgreSQL is killed."""
    end = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return ask()
        except (DatabaseError, InterfaceError):
            if time.monotonic() > end:
                raise
            connections.close_all()
            time.sleep(0.2)
