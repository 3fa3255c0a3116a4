"""What one seed does: a run with faults, and what other runs must agree with it."""

from __future__ import annotations

import random
from dataclasses import replace

from jobs.domain.progress import progress_from
from tests.simulation.export import place_of, write_checkpoint
from tests.simulation.faults import Profile, draw
from tests.simulation.store import Checkpoint, Job
from tests.simulation.world import World

REPLAY = "python -m tests.simulation --seed {}"


class SimulationFailed(AssertionError):
    """`lines` are the events up to the failure."""

    def __init__(self, seed: int, what: Exception, lines: list[str]) -> None:
        super().__init__(f"seed {seed}: {type(what).__name__}: {what}; replay: {REPLAY.format(seed)}")
        self.lines = lines


def simulate(seed: int) -> list[str]:
    """Every fourth seed has only faults that may change no weight; the others may have all. Returns the log."""
    harmless = seed % 4 == 0
    profile = draw(random.Random(f"profile {seed}"), harmless=harmless)
    world = World(seed, profile)
    try:
        world.run()
    except Exception as error:
        raise SimulationFailed(seed, error, world.lines) from error
    lines = [repr(profile), *world.lines, f"event log {world.digest.hexdigest()}"]
    try:
        if harmless:
            same_weights_as_undisturbed(world)
        resumed_goes_on_alike(world)
    except Exception as error:
        raise SimulationFailed(seed, error, lines) from error
    return lines


def same_weights_as_undisturbed(world: World) -> None:
    """If no lease ended, everybody took part all the time, and every checkpoint is that of a quiet run."""
    if world.lease_ended:
        return
    quiet = World(1, replace(world.profile, faults=frozenset(), chaos_seconds=0.0)).run()
    for at in world.store.rounds.values():
        assert at.members_at_deals == [(0, world.profile.peers)], f"round {at.number} was disturbed"
    assert chain(world) == chain(quiet), "faults that lose no work changed the weights"


def chain(world: World, after: int = -1) -> list[str]:
    return [made.weights for number, made in sorted(world.store.checkpoints.items()) if number > after]


def resumed_goes_on_alike(world: World) -> None:
    """A job that resumes from a checkpoint's file makes the checkpoints that the first job made after it."""
    store = world.store
    if store.job.finishing:
        return
    made = store.checkpoints[max(store.checkpoints)]
    start = made.round
    while start > 0 and quiet_round(world, start, made):
        start -= 1
    candidates = [n for n in range(start, made.round) if n in store.checkpoints and n >= max(start, 1)]
    if not candidates or store.job.skipped:
        return  # a resumed job trains what was skipped
    candidates = [n for n in candidates if waits_before_cursor(store.checkpoints[n])] or candidates
    chosen = store.checkpoints[candidates[len(world.lines) % len(candidates)]]
    resumed = resume(world, chosen).run()
    assert chain(resumed, chosen.round) == chain(world, chosen.round), f"resumed from checkpoint {chosen.round}"


def waits_before_cursor(made: Checkpoint) -> bool:
    return bool(progress_from(made.progress_text).requeued)


def quiet_round(world: World, number: int, last: Checkpoint) -> bool:
    """Dealt once, to as many as the last round, nothing lost, with the last settings and shuffle."""
    at, made = world.store.rounds[number], world.store.checkpoints[number - 1]
    members = world.store.rounds[last.round].members_at_deals
    return (
        at.members_at_deals == members
        and len(members) == 1
        and at.settings == last.settings == world.store.job.settings
        and all(slot.status == "received" for slot in at.slots)
        and made.shuffles == last.shuffles == world.store.job.shuffles
    )


def resume(world: World, made: Checkpoint) -> World:
    header = write_checkpoint(world, made)
    place = place_of(header, world.server.records, cuts=world.profile.cuts)
    epochs = world.store.job.settings.epochs - made.pass_no - (made.left == 0)
    settings = replace(world.store.job.settings, epochs=epochs)
    count = len(made.order)
    order = list(range(count) if place.order is None else place.order)
    job = Job(settings, order, first_round=made.round, round_no=made.round, cursor=place.progress.cursor)
    job.next_order = None if place.later is None else list(place.later)
    profile = Profile(
        peers=world.store.rounds[max(world.store.rounds)].members_at_deals[0][1],
        records=world.profile.records,
        cuts=world.profile.cuts,
        hot=world.profile.hot,
        settings=settings,
        faults=frozenset(),
        chaos_seconds=0.0,
        fault_every=1.0,
    )
    first = replace(made, pass_no=0, ledger=[], progress_text=place.progress.to_text(), order=order)
    return World(made.round, profile, job=job, first=first, requeued=place.progress.requeued, files=world.store.files)
