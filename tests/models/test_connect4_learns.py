"""Self-play against checkpoints of some rounds ago, with the preset's settings, teaches the network to win."""

import json

import numpy as np

from tests.models import connect4
from weei_core.seeds import evaluation_seed, experience_seed, initial_weights_seed

PRESET = json.loads(connect4.FOLDER.joinpath("preset.json").read_text())["settings"]
SETTINGS = {key: PRESET[key] for key in ("localEpochs", "batchSize", "learningRate")}
UNITS = PRESET["experience"]["unitsPerAssignment"]
PARTICIPANTS = 2
ROUNDS_AGO = 3


def run_job(job_seed, rounds):
    """The weights before the first round and after each."""
    checkpoints = [connect4.initial_weights(initial_weights_seed(job_seed))]
    yield checkpoints[0]
    for start in range(rounds):
        opponent = checkpoints[max(0, start - ROUNDS_AGO)]
        firsts = [UNITS * (PARTICIPANTS * start + k) for k in range(PARTICIPANTS)]
        updates = [
            connect4.train(checkpoints[start], opponent, experience_seed(job_seed, first), first, UNITS, SETTINGS)
            for first in firsts
        ]
        average = np.mean([np.frombuffer(update["weights"], "<f4") for update in updates], axis=0, dtype="f8")
        checkpoints.append(average.astype("<f4").tobytes())
        yield checkpoints[-1]


def test_ten_rounds_beat_random_moves():
    *_, last = history = list(run_job(1, 10))
    before, after = (
        connect4.evaluate(weights, evaluation_seed(1), count=400)["metrics"] for weights in (history[0], last)
    )
    assert before["winsRandom"] < 0.6 and before["winsAlphaBeta"] < 0.1  # learned, not found
    assert after["winsRandom"] > 0.85 and after["winsAlphaBeta"] > before["winsAlphaBeta"] + 0.1
