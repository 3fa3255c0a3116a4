"""A simulated participant: one browser that polls, trains, uploads, and misbehaves when the world's faults say so."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation import toy
from tests.simulation.server import Refused
from tests.simulation.store import Attempt, Member

POLL = 10.0
HEARTBEAT = 7.0
LOST = object()


@dataclass
class Assignment:
    """What the server said, by value: the rows may change while the peer works. `idle`: no unit was finished."""

    attempt: int
    round: int
    task: toy.Task
    idle: bool = False


class Client:
    def __init__(self, world, number: int) -> None:
        self.world = world
        self.id = number
        self.tab = 0
        self.session: int | None = None
        self.away_until = 0.0
        self.slow = 1.0
        self.workers = 1
        self.gone = True
        self.work: Assignment | None = None
        self.uploading_until = -1.0
        world.at(world.rng.uniform(0, POLL), self.poll_loop)
        world.at(world.rng.uniform(0, HEARTBEAT), self.heartbeat_loop)

    @property
    def member(self) -> Member | None:
        return self.world.store.members.get(self.id)

    @property
    def takes_part(self) -> bool:
        """It left or was removed otherwise; a removed one goes on watching."""
        return not self.gone and self.member is not None and self.member.current

    @property
    def online(self) -> bool:
        return self.world.now >= self.away_until

    # ------------------------------------------------------------- membership

    def join(self) -> None:
        """Accept the invitation, load the model, say so; each step again until it is answered."""
        if self.world.request(self._accept) is LOST:
            self.world.after(3.0, self.join)
            return
        self.gone = False
        self.world.after(self.world.rng.uniform(0.3, 1.5), self.hello, self.tab)

    def _accept(self) -> None:
        store, server = self.world.store, self.world.server
        if self.member is None:
            store.put(store.members, self.id, Member(self.id, self.world.now))
            # Devices are told apart by who accepts first, as ranges of units are dealt.
            self.workers = self.world.profile.devices[len(store.members) - 1]
        elif not self.member.current:
            store.set(self.member, current=True, accepted_at=self.world.now)
        server.seen(self.member)

    def hello(self, tab: int) -> None:
        if tab != self.tab or self.gone or not self.online:
            return
        attempt = self.work.attempt if self.work else None
        answer = self.world.request(self.world.server.hello, self.member, self.session, attempt)
        if answer is LOST:
            self.world.after(2.0, self.hello, tab)
        elif answer is not None:
            self.session = answer
            self.poll()

    def leave(self) -> None:
        if not self.gone:
            self.gone = True
            self.work = None
            self.world.request(self.world.server.leave, self.member)

    def restart(self, away: float) -> None:
        """A reload, a crash, or a new tab: what was being trained is forgotten."""
        self.tab += 1
        self.session = None
        self.work = None
        self.away_until = self.world.now + away
        self.world.after(away + 0.5, self.hello, self.tab)

    def sleep(self, away: float) -> None:
        """Everything stands still and goes on later, sometimes with an upload before the first poll."""
        self.away_until = self.world.now + away
        self.world.after(away + 0.2, self.hello, self.tab)

    def wake(self) -> None:
        self.slow = 1.0
        if not self.online:
            self.away_until = self.world.now
            self.hello(self.tab)
        if self.work:
            self.world.after(self.world.rng.uniform(0.5, 3), self.trained, self.tab, self.work)

    def limit(self, workers: int) -> None:
        """How many Workers may run here; what was dealt before keeps its division."""
        self.workers = workers
        if self.takes_part and self.member.loaded and self.online:
            self.world.request(self.world.server.ready, self.member, workers)

    # ------------------------------------------------------------- loops

    def heartbeat_loop(self) -> None:
        self.world.after(HEARTBEAT, self.heartbeat_loop)
        if self.online and not self.gone and self.member is not None:
            self.world.heartbeat(self.id)

    def poll_loop(self) -> None:
        self.world.after(POLL, self.poll_loop)
        self.poll()

    def poll(self) -> None:
        """Mutable state is always fetched again; messages only say when."""
        if not self.online or self.gone or self.member is None:
            return
        answer = self.world.request(self._state)
        if answer is not LOST:
            self._follow(answer)

    def _state(self) -> Attempt | None:
        server, member = self.world.server, self.world.store.members[self.id]
        if server.seen(member):
            server.returned(member)
        if not member.loaded and member.current:
            server.ready(member, self.workers)
        self.world.checks.participant(member)
        return server.assignment(member)

    def _follow(self, live: Attempt | None) -> None:
        if live is None:
            if self.work and self.world.now > self.uploading_until:
                self.work = None
        elif self.work is None or self.work.attempt != live.id:
            self._begin(live)

    # ------------------------------------------------------------- work

    def _begin(self, live: Attempt) -> None:
        slot = live.slot
        at, item = slot.round, slot.item
        task = toy.Task(
            base=self.world.store.files[at.start],
            chunk=item.chunk_index if self.world.server.info.reads_data else None,
            start=item.record_start,
            count=item.record_count,
            seed=slot.seed,
            unit_start=slot.unit_start,
            split=slot.split,
            slots=self.world.server.auxiliary(at.number - 1),
            hot=self.world.hot(item),
        )
        self.world.checks.told(live, task)
        self.work = Assignment(live.id, at.number, task)
        self.world.request(self.world.server.training, live)
        took = self.world.rng.uniform(1, 5) * self.slow
        self.world.after(took, self.trained, self.tab, self.work)

    def trained(self, tab: int, work: Assignment) -> None:
        if tab != self.tab or self.work is not work:
            return
        if not self.online:
            self.world.at(self.away_until + 0.1, self.trained, tab, work)
            return
        if self.world.chance("errors"):
            attempt = self.world.store.attempts[work.attempt]
            self.world.request(self.world.server.attempt_end, attempt, "failed", "out of memory")
            self.poll()
            return
        work.idle = self.world.chance("idle")
        took = self.world.rng.uniform(0.05, 0.6) * (10 if self.world.chance("slow") else 1)
        self.uploading_until = self.world.now + took + 0.1
        self.world.after(took, self.upload, tab, work)

    def update(self, work: Assignment) -> tuple[bytes, dict]:
        body, weight = (toy.IDLE, 0) if work.idle else toy.trained(work.task)
        return body, {"round": work.round, "uniqueExamples": weight, "metrics": {"loss": toy.loss(work.task.seed)}}

    def upload(self, tab: int, work: Assignment, *, again: bool = False) -> None:
        if not again and (tab != self.tab or self.work is not work):
            return
        if not self.online:
            self.world.at(self.away_until + 0.1, self.upload, tab, work)
            return
        body, report = self.update(work)
        declared = toy.sha(body)
        spoiled = self.world.chance("invalid")
        if spoiled:
            body, declared, report = self._spoil(body, declared, report)
        answer = self.world.request(self.world.server.upload, work.attempt, body, declared, report)
        if isinstance(answer, Refused) and not spoiled:
            self.world.checks.refused(str(answer))
        if answer is LOST or isinstance(answer, Refused) and str(answer) == "wrong_hash":
            self.uploading_until = self.world.now + 3
            self.world.after(self.world.rng.uniform(0.5, 2.5), self.upload, tab, work)
        else:
            self._answered(answer, tab, work, declared)

    def _spoil(self, body: bytes, declared: str, report: dict) -> tuple[bytes, str, dict]:
        kind = self.world.rng.choice(("length", "nan", "count", "round", "hash"))
        if kind == "length":
            return body[:-4], toy.sha(body[:-4]), report
        if kind == "nan":
            bad = body[:-4] + b"\0\0\xc0\x7f"
            return bad, toy.sha(bad), report
        if kind == "count":
            return body, declared, {**report, "uniqueExamples": self.world.rng.choice((0, 10_000))}
        if kind == "round":
            return body, declared, {**report, "round": report["round"] + 1}
        return body, toy.sha(body + b"!"), report

    def _answered(self, answer, tab: int, work: Assignment, declared: str) -> None:
        if not isinstance(answer, Refused):
            self.world.checks.receipt(work.attempt, declared)
            if self.world.chance("double"):
                self.world.after(self.world.rng.uniform(0, 5), self.upload, tab, work, again=True)
        if self.work is work:
            self.work = None
            self.poll()
