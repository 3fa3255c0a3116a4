"""What one seed does: a run with faults, and what other runs must agree with it."""

from __future__ import annotations

import random
from dataclasses import replace

from jobs.domain.progress import progress_from
from tests.simulation.export import manifest_of, origin_of, write_checkpoint
from tests.simulation.faults import draw
from tests.simulation.store import Checkpoint, Job, Round
from tests.simulation.world import JOB_SEED, World
from weei_core.training_settings import parse_settings

REPLAY = "python -m tests.simulation --seed {}"
ANOTHER_SEED = JOB_SEED + 1
EXPERIENCE = (0, 5, 8, 10, 13, 14)  # of 16 seeds; none that seeds.txt knew before there were such jobs


class SimulationFailed(AssertionError):
    """`lines` are the events up to the failure, `what` its reason."""

    def __init__(self, seed: int, what: Exception, lines: list[str]) -> None:
        self.seed, self.what, self.lines = seed, f"{type(what).__name__}: {what}", lines
        super().__init__(f"seed {seed}: {self.what}; replay: {REPLAY.format(seed)}")


def simulate(seed: int) -> list[str]:
    """Every fourth seed has only faults that may change no weight; the others may have all. Returns the log."""
    harmless = seed % 4 == 0
    profile = draw(random.Random(f"profile {seed}"), harmless=harmless, experience=seed % 16 in EXPERIENCE)
    world = World(seed, profile)
    try:
        world.run()
    except Exception as error:
        raise SimulationFailed(seed, error, world.lines) from error
    lines = [repr(profile), *world.lines, f"event log {world.digest.hexdigest()}"]
    try:
        if harmless:
            same_weights_as_undisturbed(world)
        continued_goes_on(world)
    except Exception as error:
        raise SimulationFailed(seed, error, lines) from error
    return lines


def same_weights_as_undisturbed(world: World) -> None:
    """If no lease ended, everybody took part all the time, and every checkpoint is that of a quiet run."""
    if world.lease_ended:
        return
    quiet = World(1, replace(world.profile, faults=frozenset(), chaos_seconds=0.0)).run()
    for at in world.store.rounds.values():
        everybody = [(deal, world.profile.peers) for deal in range(at.deal + 1)]
        assert at.members_at_deals == everybody, f"round {at.number} was disturbed"
    assert chain(world) == chain(quiet), "faults that lose no work changed the weights"


def chain(world: World, after: int = -1) -> list[tuple[str, int | None]]:
    """The checkpoints after a round, and the next unit of each."""
    return [
        (made.weights, made.next_unit) for number, made in sorted(world.store.checkpoints.items()) if number > after
    ]


def work(world: World, after: int) -> list[list[tuple[int, int, int, int, int]]]:
    """What was dealt in the rounds after one."""
    rounds = [at for number, at in sorted(world.store.rounds.items()) if number > after]
    return [
        [(s.item.chunk_index, s.item.record_start, s.item.record_count, s.seed, s.split) for s in at.slots]
        for at in rounds
    ]


def continued_goes_on(world: World) -> None:
    """A job that resumes from a checkpoint's file makes the checkpoints that the first job made after it. Of experience
    jobs some begin anew from one instead."""
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
    if world.server.info.is_experience and len(world.lines) % 3 == 0:
        anew = continued(world, chosen, resume=False)
        job, order = anew.store.job, list(range(len(world.server.records)))
        assert (job.order, job.cursor, job.next_unit, anew.store.requeued) == (order, 0, 0, [])
        anew.run()
        return
    resumed = continued(world, chosen, resume=True).run()
    where = f"resumed from checkpoint {chosen.round}"
    assert work(resumed, chosen.round) == work(world, chosen.round), where
    if set(world.profile.slots) <= {0}:  # others may be filled by checkpoints that the resumed job does not have
        assert chain(resumed, chosen.round) == chain(world, chosen.round), where


def waits_before_cursor(made: Checkpoint) -> bool:
    return bool(progress_from(made.progress_text).requeued)


def quiet_round(world: World, number: int, last: Checkpoint) -> bool:
    """Dealt once, to as many and in as many ranges as the last round, nothing lost, with the last settings and
    shuffle."""
    at, made, end = world.store.rounds[number], world.store.checkpoints[number - 1], world.store.rounds[last.round]
    return (
        at.members_at_deals == end.members_at_deals
        and len(at.members_at_deals) == 1
        and devices(world, at) == devices(world, end)
        and at.settings == last.settings == world.store.job.settings
        and all(slot.status == "received" and slot.attempts[-1].weight > 0 for slot in at.slots)
        and made.shuffles == last.shuffles == world.store.job.shuffles
    )


def devices(world: World, at: Round) -> tuple[int, ...]:
    """Devices that would be given the ranges of this round."""
    return world.profile.devices if world.server.info.reads_data else tuple(slot.split for slot in at.slots)


def continued(world: World, made: Checkpoint, *, resume: bool) -> World:
    """With `resume` what the file says goes on; otherwise all work begins anew, with another seed."""
    server, last = world.server, world.store.rounds[max(world.store.rounds)]
    origin = origin_of(write_checkpoint(world, made), resume=resume)
    place = origin.place(manifest_of(server.records), server.info)
    job_seed, next_unit = JOB_SEED if resume else ANOTHER_SEED, 0
    settings = world.store.job.settings
    if not server.info.is_experience:
        settings = replace(settings, epochs=settings.epochs - made.pass_no - (made.left == 0))
    elif resume:
        beginning = origin.restored_beginning(None)
        job_seed, next_unit = beginning.job_seed, beginning.next_unit
    parse_settings(
        settings.to_json(), for_experience=server.info.is_experience, info=server.info, continued_from=made.round
    )
    order = list(range(len(server.records)) if place.order is None else place.order)
    job = Job(settings, order, first_round=made.round, round_no=made.round, cursor=place.progress.cursor)
    job.next_order = None if place.later is None else list(place.later)
    job.next_unit = next_unit
    profile = replace(
        world.profile,
        peers=last.members_at_deals[0][1],
        devices=devices(world, last),
        settings=settings,
        faults=frozenset(),
        chaos_seconds=0.0,
    )
    first = replace(
        made,
        pass_no=0,
        ledger=[],
        progress_text=place.progress.to_text(),
        order=order,
        next_unit=next_unit if server.info.is_experience else None,
    )
    return World(
        made.round,
        profile,
        job=job,
        job_seed=job_seed,
        first=first,
        requeued=place.progress.requeued,
        files=world.store.files,
    )
