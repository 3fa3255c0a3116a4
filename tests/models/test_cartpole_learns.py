"""Federated averaging with the preset's settings teaches the CartPole policy to balance, as its README promises."""

import json

import numpy as np

from tests.models import cartpole
from weei_core.seeds import evaluation_seed, experience_seed, initial_weights_seed

PRESET = json.loads(cartpole.FOLDER.joinpath("preset.json").read_text())["settings"]
SETTINGS = {key: PRESET[key] for key in ("localEpochs", "batchSize")}
UNITS = PRESET["experience"]["unitsPerAssignment"]
PARTICIPANTS = 2


def greedy_return(weights, job_seed):
    return cartpole.evaluate(weights, evaluation_seed(job_seed))["metrics"]["episodeReturn"]


def run_job(job_seed, rounds):
    """The greedy return before the first round and after each."""
    weights = cartpole.initial_weights(initial_weights_seed(job_seed))
    yield greedy_return(weights, job_seed)
    for round_number in range(rounds):
        starts = [UNITS * (PARTICIPANTS * round_number + k) for k in range(PARTICIPANTS)]
        updates = [cartpole.train(weights, experience_seed(job_seed, at), at, UNITS, SETTINGS) for at in starts]
        average = np.mean([np.frombuffer(update["weights"], "<f4") for update in updates], axis=0, dtype="f8")
        weights = average.astype("<f4").tobytes()
        yield greedy_return(weights, job_seed)


def test_two_participants_reach_500_and_stay_there():
    history = list(run_job(1, PRESET["epochs"]))
    assert len(history) == 31
    assert history[0] < 15 and max(history[:4]) < 400  # learned, not found
    assert 500 in history[:16]
    assert min(history[-5:]) >= 475
