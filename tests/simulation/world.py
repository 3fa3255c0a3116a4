"""The simulated world: one clock, one source of chance, a queue of events, and processes that die."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Mapping, Sequence

from jobs.domain.queue import Item
from tests.simulation import control, merging, toy
from tests.simulation.checks import Checks, Pieces
from tests.simulation.client import LOST, Client
from tests.simulation.faults import HARMLESS, Nemesis, Profile, schedule
from tests.simulation.server import Refused, Server
from tests.simulation.store import Checkpoint, Job, Killed, Member, Requeued, Store
from weei_core.errors import Conflict as WrongStatus

SWEEP = 5.0
STEPS = 60_000
PROGRESS_SECONDS = 90.0
DRAIN_SECONDS = 40.0
JOB_SEED = 7
HOT_RANGES = 8  # of so many ranges of units one is hot
RARE = {"lost": 0.12, "kill_web": 0.02}  # these are asked for with every message
KINDS = {"kill_risky": "kill_web"}  # what takes several transactions dies between them more often


class World:
    """`job` and `first` are those of a resumed job; None makes a new one."""

    def __init__(
        self,
        seed: int,
        profile: Profile,
        *,
        job: Job | None = None,
        job_seed: int = JOB_SEED,
        first: Checkpoint | None = None,
        requeued: Sequence[Item] = (),
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.profile = profile
        self.now = 0.0
        self.events: list = []
        self.digest = hashlib.sha256()
        self.lines: list[str] = []
        self._count = 0
        self._ids = 0
        self.web_down_until = self.redis_down_until = self.worker_down_until = 0.0
        self.worker = 0
        self.lease_ended = False
        self.died_at = 0.0
        self.leases_at_death: dict[int, float] = {}
        count = len(profile.records)
        self.store = Store(job or Job(profile.settings, list(range(count))))
        self.store.requeued += [Requeued(item) for item in requeued]
        self.store.files.update(files or {})
        self.server = Server(self, self.store, list(profile.records), info=profile.info, job_seed=job_seed)
        self.sweeper = control.Sweeper(self.server)
        self._first_checkpoint(first)
        self.checks = Checks(self, self._trained_before())
        self.clients = [Client(self, number) for number in range(profile.peers)]
        self.completed_at: float | None = None

    def _first_checkpoint(self, first: Checkpoint | None) -> None:
        job = self.store.job
        name = toy.sha(toy.START)
        self.store.files[name] = toy.START
        progress = merging.progress_of(self.server).to_text()
        unit = 0 if self.server.info.is_experience else None
        made = first or Checkpoint(
            0, name, None, "", 0, progress, job.order, None, job.settings, [], {}, 0, 0, len(job.order), 0, 0, unit
        )
        self.store.checkpoints[made.round] = made

    def _trained_before(self) -> Pieces:
        """Of a resumed pass: everything before the cursor but the parts that wait."""
        job, found = self.store.job, {}
        for position in range(job.cursor):
            waiting = sorted(
                (row.item.record_start, row.item.record_count)
                for row in self.store.requeued
                if row.item.position == position
            )
            at, pieces = 0, []
            for start, count in [*waiting, (self.profile.records[job.order[position]], 0)]:
                if start > at:
                    pieces.append((at, start - at))
                at = start + count
            found[position] = pieces
        return found

    # ------------------------------------------------------------- time and chance

    def at(self, time: float, act, *args, **named) -> None:
        self._count += 1
        heapq.heappush(self.events, (time, self._count, act, args, named))

    def after(self, seconds: float, act, *args, **named) -> None:
        self.at(self.now + seconds, act, *args, **named)

    @property
    def chaos(self) -> bool:
        return self.now < self.profile.chaos_seconds

    def chance(self, kind: str) -> bool:
        happens = KINDS.get(kind, kind) in self.profile.faults and self.chaos
        return happens and self.rng.random() < RARE.get(kind, self.profile.intensity)

    def hot(self, item: Item) -> bool:
        """Its update is too large for a step of a method with momentum."""
        ranges = item.record_start // item.record_count % HOT_RANGES
        return self.profile.hot == (item.chunk_index if self.server.info.reads_data else ranges)

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def log(self, *parts: object) -> None:
        line = f"{self.now:.3f} " + " ".join(map(str, parts))
        self.lines.append(line)
        self.digest.update(line.encode() + b"\n")

    # ------------------------------------------------------------- processes and messages

    def request(self, act, *args, risky: bool = False):
        """A request to the web process: refused, or lost on the way there, inside, or on the way back."""
        if self.chance("lost"):
            return LOST
        answer = self._as_web(act, *args, risky=risky)
        return LOST if self.chance("lost") else answer

    def _as_web(self, act, *args, risky: bool = False):
        if self.now < self.web_down_until:
            return LOST
        if self.chance("kill_risky" if risky else "kill_web"):
            self.store.kill_in = self.rng.randrange(14)
        try:
            return act(*args)
        except Killed:
            self.kill_web()
            return LOST
        except Refused as refused:
            return refused
        finally:
            self.store.kill_in = None

    def command(self, act, *args) -> None:
        """The coordinator presses a button, which may be the wrong one at this moment."""

        def press():
            try:
                act(self.server, *args)
            except WrongStatus as error:
                raise Refused(error.code) from error

        self.request(press, risky=True)

    def kill_web(self, seconds: float | None = None) -> None:
        self.log("web killed")
        if self.now >= self.web_down_until:
            self.died_at = self.now
            self.leases_at_death = {member.id: member.lease_until for member in self.store.members.values()}
        down = self.rng.uniform(0.5, 6) if seconds is None else seconds
        self.web_down_until = max(self.web_down_until, self.now + down)
        self.sweeper = control.Sweeper(self.server)

    def kill_worker(self, seconds: float | None = None) -> None:
        self.log("worker killed")
        self.worker += 1
        down = self.rng.uniform(0.5, 6) if seconds is None else seconds
        self.worker_down_until = max(self.worker_down_until, self.now + down)

    def heartbeat(self, peer: int) -> None:
        if self.now >= self.web_down_until and not self.chance("lost") and peer not in self.sweeper.heard:
            self.sweeper.heard.append(peer)

    def hint(self, peer: int) -> None:
        if self.now >= self.redis_down_until and not self.chance("lost"):
            self.after(self.rng.uniform(0.01, 0.1), self.clients[peer].poll)

    def arriving(self, attempt: int) -> bool:
        """Bytes of its update came lately."""
        return any(c.work and c.work.attempt == attempt and self.now <= c.uploading_until for c in self.clients)

    def saw_active(self, active: Sequence[Member]) -> None:
        """A deal asked who is active; remember if somebody was missing."""
        self.lease_ended |= len(active) < len(self.clients)

    def first_timer(self, peer: int) -> bool:
        slots = [s for at in self.store.rounds.values() for s in at.slots]
        return not any(s.peer == peer and s.status == "received" for s in slots)

    # ------------------------------------------------------------- tasks

    def enqueue_merge(self, number: int) -> None:
        if self.now < self.redis_down_until or self.chance("lost"):
            return
        for _ in range(2 if self.chance("doubled_task") else 1):
            self.at(
                max(self.now, self.worker_down_until) + self.rng.uniform(0.01, 0.2), self._merge, number, self.worker
            )

    def _merge(self, number: int, worker: int) -> None:
        if worker != self.worker:
            return
        run = self._as_worker(merging.begin, self.server, number)
        if run is None:
            return
        took = self.rng.uniform(0.02, 0.3) if not self.chance("slow_merge") else 18.0
        for tick in range(1, int(took // 5) + 1):
            self.after(5.0 * tick, self._still_merging, run, worker)
        self.after(took, self._merge_ends, run, worker)

    def _still_merging(self, run: merging.Running, worker: int) -> None:
        if worker == self.worker:
            self.store.set(run.round, merging_at=self.now)

    def _merge_ends(self, run: merging.Running, worker: int) -> None:
        if worker == self.worker:
            self._as_worker(merging.finish, self.server, run)

    def _as_worker(self, act, *args):
        if self.chance("kill_worker"):
            self.store.kill_in = self.rng.randrange(16)
        try:
            return act(*args)
        except Killed:
            self.kill_worker()
            return None
        finally:
            self.store.kill_in = None

    def _sweep(self) -> None:
        self.after(SWEEP, self._sweep)
        if self._as_web(self.sweeper.sweep, self.now) is True:
            self.checks.swept()

    # ------------------------------------------------------------- people

    def _coordinate(self) -> None:
        """Starts the job; later, and when the chaos is over always, resumes what is paused."""
        self.after(4.0, self._coordinate)
        job = self.store.job
        if job.status == "ready":
            if self.profile.shuffled and not job.shuffles and not job.first_round:
                control.shuffle(self.server)
            everybody = all(c.member is not None and c.member.loaded for c in self.clients)
            if everybody or self.now > 12 and not self.profile.faults <= HARMLESS:
                self.command(control.start)
        elif job.status == "paused" and (not self.chaos or self.rng.random() < 0.2):
            self._go_on()

    def _go_on(self) -> None:
        """After a pause: leave out what failed too often, or try it again; merge a failed round without momentum."""
        job = self.store.job
        at, held = self.store.rounds.get(job.round_no), [row for row in self.store.requeued if row.held]
        if held and self.chance("skip"):
            self.command(control.skip, held[0])
            return
        if at is not None and at.state == "failed":
            calmer = {"aggregation": {"method": "fedavg"}, "validationSchedule": schedule("round", 0)}
            self.command(control.change_settings, calmer)
        self.command(control.resume)

    def _calm(self) -> None:
        """The faults end: nobody sleeps or is slow, nothing is lost any more, and somebody takes part."""
        self.log("calm")
        self.web_down_until = min(self.web_down_until, self.now)
        self.worker_down_until = self.redis_down_until = self.now
        for client in self.clients:
            if self.rng.random() < 0.5 and not client.takes_part or not any(c.takes_part for c in self.clients):
                client.join()
            if client.takes_part:
                self.server.pause_member(self.store.members[client.id], False)
            client.wake()
        self.checks.progressed_at = self.now

    # ------------------------------------------------------------- running

    def run(self) -> World:
        for client in self.clients:
            self.after(self.rng.uniform(0, 6 if client.id else 1), client.join)
        self.after(1.0, self._sweep)
        self.after(8.0, self._coordinate)
        if self.profile.faults:
            self.at(self.profile.chaos_seconds, self._calm)
        Nemesis(self)
        for _ in range(STEPS):
            self.now, _, act, args, named = heapq.heappop(self.events)
            act(*args, **named)
            self.checks.step()
            if self._over():
                self.checks.end()
                return self
        raise AssertionError(f"no end after {STEPS} steps")

    def _over(self) -> bool:
        if self.store.job.status == "completed":
            self.completed_at = self.now if self.completed_at is None else self.completed_at
            return self.now > self.completed_at + (DRAIN_SECONDS if self.profile.faults else 0)
        waited = self.now - max(self.checks.progressed_at, self.profile.chaos_seconds)
        assert waited <= PROGRESS_SECONDS, f"no progress for {waited:.0f} s in round {self.store.job.round_no}"
        return False
