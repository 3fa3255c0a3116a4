"""A round whose updates lie in the store, and the process that merges it: by what a worker calls, as often as asked.

`python -m benchmarks.aggregation_round prepare METHOD UPDATES MIB` makes it in the database and the store that the
environment names; `… serve` merges it once for each line of its input, and answers with a line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import django
import numpy as np

FLOATS_PER_MIB = 2**18
METHODS: dict[str, dict[str, Any]] = {"fedavg": {"method": "fedavg"}, "fedadam": {"method": "fedadam"}}


def prepare(method: str, updates: int, mib: int) -> None:
    """A job with that many participants. With a method that keeps state, one round was merged before."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from jobs.models import Job
    from tests.jobs import world as typed_world

    world: Any = typed_world  # The tests' world is not typed throughout.
    rounds = 1 if method == "fedavg" else 2
    records = [100 + index for index in range(rounds * updates)]
    weights = np.zeros(mib * FLOATS_PER_MIB, "<f4")
    job: Job = world.make_job(records=records, weights=weights, aggregation=METHODS[method])
    members = [world.Participant(job) for _ in range(updates)]
    world.start(job)
    random = np.random.default_rng(1)
    for number in range(rounds):
        if number:
            world.merge_due(job)
        for member in members:
            _send(member, random.random(weights.size, "<f4") - 0.5)


def _send(member: Any, values: Any) -> None:
    """As the web process stores an update: hashed on its way into the file, and not synced."""
    from django.utils import timezone

    from checkpoints.services.artifacts import artifact_put_file
    from checkpoints.store import store
    from jobs.services.updates import update_accept
    from weei_core import js_json

    assignment = member.assignment
    count = assignment["exampleCount"]
    report = {"round": assignment["round"], "examplesProcessed": count, "uniqueExamples": count, "metrics": {}}
    with store().temporary() as path:
        values.tofile(path)
        sha256 = hashlib.sha256(values.data).hexdigest()
        artifact = artifact_put_file(path, sha256, values.nbytes, timezone.now(), durable=False)
        update_accept(
            peer=member.peer, attempt_id=member.attempt.pk, artifact=artifact, report_text=js_json.dumps(report)
        )


def serve() -> None:
    """Lines "where", "hashed" and "durable", in any order."""
    from checkpoints.services.artifacts import artifact_new_file
    from checkpoints.store import store
    from jobs.models import Round
    from jobs.services.aggregation import merge_into, merge_slots, received_slots

    at = Round.objects.select_related("job__module", "job__dataset").get(state=Round.State.CLOSING)
    slots = received_slots(at)

    def where() -> dict[str, Any]:
        """The stored updates, in merge order, with their weights."""
        paths = [str(store().local(attempt.sha256, verify=False)) for _, attempt in slots]
        return {"paths": paths, "weights": [attempt.unique_examples for _, attempt in slots]}

    def hashed() -> dict[str, Any]:
        """Into a file of the page cache, with its hash. `copy` is what was written, and the asker's to delete."""
        with artifact_new_file() as weights, artifact_new_file() as state:
            begun = time.perf_counter()
            result = merge_into(at, slots, weights.file, state.file)
            weights.file.flush()
            seconds = time.perf_counter() - begun
            copy = weights.path.with_name("merged")
            with suppress(FileNotFoundError):
                copy.unlink()
            copy.hardlink_to(weights.path)
        return {"seconds": seconds, "sha256": result.weights_sha256, "copy": str(copy)}

    def durable() -> dict[str, Any]:
        """Into named files that outlive a power failure, and their rows."""
        begun = time.perf_counter()
        merged = merge_slots(at, slots)
        seconds = time.perf_counter() - begun
        made = [artifact for artifact in (merged.weights, merged.state) if artifact is not None]
        paths = [store().local(artifact.sha256, verify=False) for artifact in made]
        total = sum(path.stat().st_size for path in paths)
        for path in paths:
            path.unlink()  # The next time is as the first.
        return {"seconds": seconds, "bytes": total}

    commands: dict[str, Callable[[], dict[str, Any]]] = {"where": where, "hashed": hashed, "durable": durable}
    for line in sys.stdin:
        before = _reset_peak()
        answer = commands[line.strip()]()
        answer["grown"] = _status("VmHWM") - before
        print(json.dumps(answer), flush=True)


def _reset_peak() -> int:
    """Let the peak count from now on; the bytes that are resident now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


if __name__ == "__main__":
    django.setup()
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        serve()
