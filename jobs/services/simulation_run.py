"""One simulation from its inputs to its last checkpoint file, told step by step."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from jobs.services.modules import MAX_MEMORY_BYTES
from jobs.services.simulated_checkpoint import checkpoint_write
from jobs.services.simulating import RUN_SECONDS, Simulated, Simulation
from jobs.services.simulation_inputs import Inputs, check_inputs
from weei_core import seeds
from weei_core.abi.limits import Limits
from weei_core.advice import Advice, advise
from weei_core.errors import Invalid


@dataclass(frozen=True)
class Wish:
    """What a person asks for. `changes` go over the settings of the inputs; None takes a setting away. `passes` and
    `rounds` are two ways to say where the job ends; without `out` no file is written."""

    participants: int = 2
    device: int = 1
    passes: int | None = None
    rounds: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    shuffled: bool = False
    processes: int | None = None
    out: Path | None = None
    every: bool = False


@dataclass(frozen=True)
class Begun:
    """Told before the first round."""

    name: str
    seed: int
    participants: int
    settings: dict[str, Any]
    advice: tuple[Advice, ...]


Tell = Callable[[Begun | Simulated], None]


def simulation_run(inputs: Inputs, wish: Wish, tell: Tell) -> list[Path]:
    """The files that were written: that of the last checkpoint, or of every one."""
    written: list[Path] = []
    seed = _seed_of(inputs, wish)
    if wish.out is not None:
        wish.out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weei-simulate-", dir=wish.out)))
        simulation = stack.enter_context(
            Simulation(
                inputs.module,
                folder,
                settings=_settings_of(inputs, wish),
                job_seed=seed,
                participants=wish.participants,
                device=wish.device,
                files=inputs.files,
                chunks=inputs.chunks,
                validation=inputs.validation,
                shuffled=wish.shuffled,
                rounds=wish.rounds,
                processes=wish.processes or os.cpu_count() or 1,
                limits=_limits(inputs),
                max_parts=settings.MAX_PARTS,
                keep=False,
            )
        )
        check_inputs(inputs, simulation.info, simulation.weight_bytes)
        tell(
            Begun(
                inputs.name,
                seed,
                wish.participants,
                dict(simulation.settings.to_json()),
                _advice(inputs, simulation, wish),
            )
        )
        for made in simulation.run():
            if wish.out is not None and (wish.every or simulation.is_last(made)):
                written.append(wish.out / f"round-{made.round}.weei-checkpoint")
                checkpoint_write(written[-1], inputs, simulation, made)
            tell(made)
    return written


def _seed_of(inputs: Inputs, wish: Wish) -> int:
    """The person's, else the job's own, else that of the settings, else a random one."""
    if wish.seed is not None:
        return wish.seed
    if inputs.seed is not None:
        return inputs.seed
    given = {**inputs.settings, **wish.changes}.get("seed")
    return secrets.randbits(64) if given is None else seeds.parse_seed(given, "settings.seed")


def _settings_of(inputs: Inputs, wish: Wish) -> dict[str, Any]:
    """`passes` are the epochs of a job with data, `rounds` those of any other."""
    merged = {**inputs.settings, **wish.changes}
    makes_own_data = not inputs.chunks
    if wish.passes is not None:
        if makes_own_data:
            raise Invalid("passes are for jobs with data; say rounds for this one.", field="passes")
        merged["epochs"] = wish.passes
    if wish.rounds is not None and makes_own_data:
        merged["epochs"] = wish.rounds
    return {name: value for name, value in merged.items() if value is not None}


def _limits(inputs: Inputs) -> Limits:
    return Limits(
        memory_bytes=min(settings.MODULE_MEMORY_BYTES + inputs.slot_bytes, MAX_MEMORY_BYTES),
        run_seconds=RUN_SECONDS,
        compile_seconds=settings.MODULE_CPU_SECONDS,
    )


def _advice(inputs: Inputs, simulation: Simulation, wish: Wish) -> tuple[Advice, ...]:
    return advise(
        simulation.info,
        inputs.manifest.chunks,
        simulation.settings,
        has_validation=inputs.validation is not None,
        weight_bytes=simulation.weight_bytes,
        participants=wish.participants,
    )
