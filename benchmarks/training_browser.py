"""`training_browser`: tokens per second of the transformer's training in a Worker of Chromium, beside PyTorch on one
thread and beside TensorFlow.js in the same Chromium. Peers compute the same losses, or the bench ends with an error.

PyTorch is looked for where `benchmarks.peers` says; TensorFlow.js in benchmarks/node_modules. `make install-bench`
installs both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.chromium import answer_of_page
from benchmarks.measured import Figure, Measured, NotMeasured
from benchmarks.peers import Absent, peer_python
from benchmarks.training_load import REPEATS, STEPS, WARM_UP, check_losses, description, load, rate

HERE = Path(__file__).parent
TORCH_GOAL = 1.0
TENSORFLOW_GOAL = 5
TENSORFLOW_STEPS = {"wasm": 5, "cpu": 2}
"""The first of them warms up."""


def measure() -> Iterator[Figure]:
    """Each figure is a median; PyTorch is measured before and after, so that a machine that slows down shows."""
    before = _torch_or_none()
    ours = statistics.median(in_chromium()[0])
    if isinstance(before, NotMeasured):
        yield before
    else:
        version, rates = before
        value = statistics.median([*rates, *torch_rates()[1]])
        yield Measured("training_browser", ours, "tokens/s", f"PyTorch {version}, one thread", value, TORCH_GOAL)
    try:
        yield beside_tensorflow(ours)
    except Absent as absent:
        yield NotMeasured("training_browser_tensorflow", str(absent))


def in_chromium() -> tuple[list[float], str]:
    """Tokens per second of assignments in a training Worker's host, and the SHA-256 of the weights."""
    answer = answer_of_page("/benchmarks/training_worker.js", load().task, load().joined)
    return [rate(seconds) for seconds in answer["seconds"][WARM_UP:]], answer["weights"]


def _torch_or_none() -> tuple[str, list[float]] | NotMeasured:
    try:
        return torch_rates()
    except Absent as absent:
        return NotMeasured("training_browser", str(absent))


def torch_rates() -> tuple[str, list[float]]:
    """PyTorch's version and its tokens per second."""
    python = peer_python("torch", "PyTorch")
    with tempfile.TemporaryDirectory(prefix="weei-bench-") as folder:
        task, weights = Path(folder, "task.json"), Path(folder, "weights.bin")
        task.write_text(json.dumps(description()))
        weights.write_bytes(load().weights)
        program = [python, str(HERE / "training_torch.py")]
        command = [*program, str(task), str(weights), str(STEPS), str(WARM_UP + REPEATS)]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        answer = json.loads(subprocess.run(command, env=one_thread, check=True, stdout=subprocess.PIPE).stdout)
    check_losses("PyTorch", answer["losses"])
    return answer["version"], [rate(seconds) for seconds in answer["seconds"][WARM_UP:]]


def beside_tensorflow(ours: float) -> Measured:
    """TensorFlow.js on the faster of its backends without a GPU."""
    if not (HERE / "node_modules" / "@tensorflow").exists():
        raise Absent("TensorFlow.js is not installed: run `make install-bench`.")
    answers: dict[str, Any] = {}
    for backend, steps in TENSORFLOW_STEPS.items():
        task = {**description(), "backend": backend, "steps": steps}
        answers[backend] = answer_of_page("/benchmarks/training_tensorflow.js", task, load().weights)
        check_losses(f"TensorFlow.js on {backend}", answers[backend]["losses"])
    rates = {backend: rate(statistics.median(of["seconds"][1:]), 1) for backend, of in answers.items()}
    best = max(rates, key=lambda backend: rates[backend])
    peer = f"TensorFlow.js {answers[best]['version']}, backend {best}, in the same Chromium"
    return Measured("training_browser_tensorflow", ours, "tokens/s", peer, rates[best], TENSORFLOW_GOAL)
