"""Federated averaging of the digits model with the preset's settings reaches what its README promises."""

import json

import numpy as np
import pytest

from tests.models import digits

PRESET = json.loads(digits.FOLDER.joinpath("preset.json").read_text())
SETTINGS = {key: PRESET["settings"][key] for key in ("localEpochs", "batchSize", "learningRate")}


def run_job(participants, seed):
    """Three passes; each round every participant trains on one chunk. Validation metrics after each round."""
    weights, history = digits.initial_weights(seed), list[dict[str, float]]()
    for _ in range(PRESET["settings"]["epochs"]):
        for at in range(0, len(digits.CHUNKS), participants):
            dealt = range(at, min(at + participants, len(digits.CHUNKS)))
            round_seed = 1000 * seed + len(history)
            updates = [digits.train(weights, digits.chunk(i), 100 * round_seed + i, SETTINGS) for i in dealt]
            average = np.mean([np.frombuffer(update["weights"], "<f4") for update in updates], axis=0, dtype="f8")
            weights = average.astype("<f4").tobytes()
            history.append(digits.evaluate(weights, digits.validation())["metrics"])
    return history


@pytest.mark.parametrize("participants", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", [1, 2])
def test_three_passes_reach_95_percent(participants, seed):
    history = run_job(participants, seed)
    losses = [metrics["loss"] for metrics in history]
    assert len(history) == 36 // participants
    assert history[-1]["accuracy"] >= 0.95 and losses[-1] < 0.15
    # The loss falls visibly: by more than a third over the first pass, by a quarter and a tenth from pass to pass.
    passes = np.reshape(losses, (3, -1))
    assert passes[0, -1] < passes[0, 0] * 0.67
    assert passes[1].mean() < passes[0].mean() * 0.75 and passes[2].mean() < passes[1].mean() * 0.9
