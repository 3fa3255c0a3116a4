"""What goes wrong, drawn from the seed. Every run has its own few kinds of fault, so that rare mixtures happen too."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.simulation import control, toy
from weei_core.model_info import ModelInfo
from weei_core.training_settings import TrainingSettings, changed, parse_settings

PEER_FAULTS = ("crash", "reload", "sleep", "slow", "leave", "late_tab", "errors", "invalid", "double")
SERVER_FAULTS = ("kill_web", "kill_worker", "outage", "lost", "redis", "doubled_task", "slow_merge", "damage")
COORDINATOR_FAULTS = ("pause", "shuffle", "settings", "finish", "skip", "pause_peer", "remove")
EXPERIENCE_FAULTS = ("idle", "limit")
# None of these ends a lease or changes who takes part, so none of them may change a single weight.
HARMLESS = frozenset(("kill_web", "kill_worker", "lost", "reload", "double", "redis", "doubled_task", "slow_merge"))

MAX_PEERS = 6
MAX_ROUNDS = 12
METHODS = (
    {"method": "fedavg"},
    {"method": "fedavgm"},
    {"method": "fedavgm", "serverLearningRate": 10.0, "momentum": 0.5},
    {"method": "fedadam", "serverLearningRate": 0.1},
)


@dataclass(frozen=True)
class Profile:
    """One run. `hot`: the chunk whose updates are too large for a step with momentum, if any. `intensity`: how often
    an upload, a training or a merge goes wrong, where the run has such faults.

    `inputs`: what an experience job plays on; with "none" there are no `records`. `devices`: how many Workers each
    runs, in order of acceptance. `slots`: the model's snapshots as `toy.model_info` takes them."""

    peers: int
    records: tuple[int, ...]
    cuts: bool
    hot: int | None
    settings: TrainingSettings
    faults: frozenset[str]
    chaos_seconds: float
    fault_every: float
    intensity: float = 0.3
    shuffled: bool = False
    inputs: str | None = None
    max_workers: int = 1
    devices: tuple[int, ...] = (1,) * MAX_PEERS
    slots: tuple[int | None, ...] = ()

    @property
    def info(self) -> ModelInfo:
        return toy.model_info(self.inputs, cuts=self.cuts, max_workers=self.max_workers, slots=self.slots)


def settings_of(epochs: int, aggregation: dict, *, factor: float, every: int) -> TrainingSettings:
    value = {
        "epochs": epochs,
        "localEpochs": 1,
        "batchSize": 1,
        "coordinatorParticipates": False,
        "seed": "7",
        "stragglerFactor": factor,
        "aggregation": aggregation,
        "validationSchedule": schedule("epoch" if every % 2 else "round", every),
    }
    return parse_settings(value, for_experience=False)


def schedule(unit: str, every: int) -> dict[str, object]:
    return {"enabled": every > 0, "unit": unit, "every": max(every, 1)}


def draw(rng: random.Random, *, harmless: bool, experience: bool) -> Profile:
    profile = _dataset_job(rng, harmless=harmless)
    return _experience_job(rng, profile, harmless=harmless) if experience else profile


def _dataset_job(rng: random.Random, *, harmless: bool) -> Profile:
    """Mostly small jobs; some with 40 chunks."""
    chunks = rng.choice((1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 40))
    epochs = rng.choice((1, 2, 2, 3)) if chunks <= 12 else 1
    kinds = sorted(HARMLESS) if harmless else [*PEER_FAULTS, *SERVER_FAULTS, *COORDINATOR_FAULTS]
    faults = frozenset(rng.sample(kinds, rng.randint(1 if harmless else 0, min(len(kinds), 9))))
    if "skip" in faults:
        faults |= {"errors"}
    return Profile(
        peers=rng.randint(1, MAX_PEERS),
        records=tuple(rng.choice((1, 2, 3, 5, 8, 13, 50)) for _ in range(chunks)),
        cuts=rng.random() < 0.6,
        hot=rng.randrange(chunks) if not harmless and rng.random() < 0.1 else None,
        settings=settings_of(
            epochs, rng.choice(METHODS), factor=0 if harmless else rng.choice((0, 2, 5)), every=rng.randint(0, 4)
        ),
        faults=faults,
        chaos_seconds=rng.uniform(20, 160),
        fault_every=rng.uniform(4, 12) if harmless else rng.uniform(1.5, 8),
        intensity=rng.uniform(0.1, 0.9),
        shuffled=rng.random() < 0.3,
    )


def _experience_job(rng: random.Random, profile: Profile, *, harmless: bool) -> Profile:
    """The same run over units: those of the records, or without any data."""
    inputs = rng.choice(("none", "dataset"))
    profile = replace(
        profile,
        inputs=inputs,
        max_workers=rng.choice((1, 2, 3, 8)),
        devices=tuple(rng.randint(1, 4) for _ in range(MAX_PEERS)),
        slots=tuple(rng.sample((None, 0, 1, 3), rng.choice((0, 0, 1, 3)))),
    )
    if inputs == "none":
        profile = replace(profile, records=(), cuts=False, shuffled=False)
    if not harmless:
        profile = replace(profile, faults=profile.faults | set(rng.sample(EXPERIENCE_FAULTS, rng.randint(0, 2))))
    patch = {
        "epochs": rng.randint(1, MAX_ROUNDS - 2),
        "validationSchedule": schedule("round", rng.randint(0, 4)),
        **_experience_settings(rng),
    }
    return replace(profile, settings=changed(profile.settings, patch, for_experience=True, info=profile.info))


def _experience_settings(rng: random.Random) -> dict[str, object]:
    return {"experience": {"unitsPerAssignment": rng.randint(1, toy.MAX_UNITS)}, "workers": rng.randint(1, 4)}


class Nemesis:
    """Strikes again and again until the chaos ends."""

    def __init__(self, world) -> None:
        self.world = world
        kinds = sorted(world.profile.faults)
        self.strikes = [getattr(self, kind) for kind in kinds if hasattr(self, kind)]
        if self.strikes:
            self._next()

    def _next(self) -> None:
        world = self.world
        pause = world.rng.expovariate(1 / world.profile.fault_every)
        if world.now + pause < world.profile.chaos_seconds:
            world.after(pause, self._strike)

    def _strike(self) -> None:
        strike = self.world.rng.choice(self.strikes)
        self.world.log("fault", strike.__name__)
        strike()
        self._next()

    def _client(self):
        return self.world.rng.choice(self.world.clients)

    def _uniform(self, low: float, high: float) -> float:
        return self.world.rng.uniform(low, high)

    def crash(self) -> None:
        self._client().restart(self._uniform(2, 90))

    def reload(self) -> None:
        self._client().restart(0.0)

    def sleep(self) -> None:
        self._client().sleep(self._uniform(2, 150))

    def slow(self) -> None:
        client = self._client()
        client.slow = 1.0 if client.slow > 1 else self._uniform(5, 100)

    def late_tab(self) -> None:
        """A new tab takes over while the old one is about to upload."""
        client = self._client()
        work, tab = client.work, client.tab
        client.restart(0.0)
        if work is not None:
            self.world.after(self._uniform(0.1, 4), client.upload, tab, work, again=True)

    def limit(self) -> None:
        """A person allows their device more Workers or fewer, and sometimes opens the page anew for that."""
        client = self._client()
        if self.world.rng.random() < 0.5:
            client.restart(0.0)
        client.limit(self.world.rng.randint(1, 4))

    def leave(self) -> None:
        client = self._client()
        client.leave()
        if self.world.rng.random() < 0.7:
            self.world.after(self._uniform(1, 60), client.join)

    def remove(self) -> None:
        """The coordinator removes a participant, which finds out by itself."""
        client = self._client()
        if client.member is not None:
            self.world.request(self.world.server.leave, client.member, risky=True)
            if self.world.rng.random() < 0.5:
                self.world.after(self._uniform(5, 60), client.join)
            else:
                client.work = None  # its page only watches from now on

    def pause_peer(self) -> None:
        member = self._client().member
        if member is not None and member.current:
            self.world.request(self.world.server.pause_member, member, not member.paused, risky=True)

    def kill_web(self) -> None:
        self.world.kill_web()

    def kill_worker(self) -> None:
        self.world.kill_worker()

    def outage(self) -> None:
        """The whole machine sleeps."""
        for_seconds = self._uniform(5, 120)
        self.world.kill_web(for_seconds)
        self.world.kill_worker(for_seconds)

    def redis(self) -> None:
        self.world.redis_down_until = self.world.now + self._uniform(1, 20)

    def damage(self) -> None:
        """A stored update that waits for its merge is lost or changed on the disk."""
        store = self.world.store
        at = store.rounds.get(store.job.round_no)
        received = [s.attempts[-1] for s in at.slots if s.status == "received"] if at and at.state != "done" else []
        waiting = [attempt.sha for attempt in received if attempt.sha != at.start]  # no unit: the start itself
        if waiting:
            name = self.world.rng.choice(waiting)
            data = store.files.pop(name, b"")
            if data and self.world.rng.random() < 0.5:
                store.files[name] = data[::-1]

    def pause(self) -> None:
        status = self.world.store.job.status
        self.world.command(control.resume if status == "paused" else control.pause)

    def shuffle(self) -> None:
        self.world.command(control.shuffle)

    def settings(self) -> None:
        rng, experience = self.world.rng, self.world.server.info.is_experience
        epochs = max(1, self.world.store.job.settings.epochs + rng.choice((-1, 0, 0, 1)))
        method, every = rng.choice(METHODS), rng.randint(0, 4)
        patch = {
            "epochs": min(epochs, MAX_ROUNDS if experience else 3),
            "aggregation": method,
            "validationSchedule": schedule("epoch" if every % 2 and not experience else "round", every),
            **(_experience_settings(rng) if experience else {}),
        }
        self.world.command(control.change_settings, patch)

    def finish(self) -> None:
        if self.world.rng.random() < 0.15:
            self.world.command(control.finish)

    def skip(self) -> None:
        held = [row for row in self.world.store.requeued if row.held]
        if held:
            self.world.command(self.world.rng.choice((control.skip, control.skip, control.retry)), held[0])
