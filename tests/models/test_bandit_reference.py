"""The bandit module against an independent implementation in NumPy, draw by draw."""

import numpy as np
import pytest

from tests.models import bandit
from tests.models.test_digits_reference import MASK, Stream, mix


def initial(seed):
    """(15,) float32: uniform on ±0.25 from 24 random bits each, biases 0."""
    stream = Stream(seed, 0)
    drawn = [((stream.next() >> 40) - 2**23) / 2**23 for _ in range(12)]
    return np.array([np.float32(0.25) * np.float32(value) for value in drawn] + [0] * 3, "f4")


def records(content):
    """Contexts (n, 4) and best actions (n,)."""
    table = np.frombuffer(content, [("context", "<f4", 4), ("best", "<u4")], offset=16)
    return table["context"].astype("f8"), table["best"]


def policy(weights, contexts):
    """Probabilities (n, 3)."""
    logits = contexts @ weights[:12].reshape(4, 3) + weights[12:]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def uniform(seed, unit, n):
    """On [0, 1): number n of the stream of this unit."""
    return (mix((Stream(seed, unit).key + (n + 1) * Stream.STEP) & MASK) >> 40) / 2**24


def train(weights, content, seed, unit_start, epochs, batch, rate):
    """All in float64; the weights and every reward."""
    contexts, best = records(content)
    weights, rewards = weights.astype("f8"), list[int]()
    for at in range(0, len(best), batch):
        chosen = range(at, min(at + batch, len(best)))
        for n in range(epochs):
            baseline = np.mean(rewards) if rewards else 0
            probabilities = policy(weights, contexts[chosen])
            draws = [[uniform(seed, unit_start + i, n)] for i in chosen]
            actions = (np.cumsum(probabilities, axis=1)[:, :2] <= draws).sum(axis=1)
            played = (actions == best[chosen]).astype(int)
            signal = (np.eye(3)[actions] - probabilities) * (played - baseline)[:, None] / len(chosen)
            weights = weights + rate * np.concatenate([(contexts[chosen].T @ signal).ravel(), signal.sum(0)])
            rewards.extend(played)
    return weights, rewards


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_initial_weights_are_the_same_bits(seed):
    assert initial(seed).astype("<f4").tobytes() == bandit.initial_weights(seed)


# float32 rounds each operation by 2^-24 = 6e-8; measured over all chunks, the largest difference was 6.7e-7. One
# reward that differed would change a weight by 1e-3 or more.
TOLERANCE = 5e-6


@pytest.mark.parametrize(("epochs", "batch", "rate"), [(1, 71, 1), (1, 33, 0.5), (3, 8, 1), (2, 1, 0.25)])
@pytest.mark.parametrize("unit_start", [0, 2**40])
def test_trained_weights_agree_with_float64(unit_start, epochs, batch, rate):
    start, content = bandit.initial_weights(), bandit.chunk(3)
    settings = {"localEpochs": epochs, "batchSize": batch, "learningRate": rate}
    result = bandit.train(start, content, 11, unit_start, settings)
    expected, rewards = train(np.frombuffer(start, "<f4"), content, 11, unit_start, epochs, batch, rate)
    assert result["metrics"]["reward"] == pytest.approx(np.mean(rewards), abs=1e-8)
    assert np.abs(expected - np.frombuffer(start, "<f4")).max() > 1e3 * TOLERANCE  # it moved
    np.testing.assert_allclose(np.frombuffer(result["weights"], "<f4"), expected, rtol=0, atol=TOLERANCE)


def test_evaluation_counts_the_likeliest_actions():
    weights = bandit.train(bandit.initial_weights(), bandit.chunk(3))["weights"]
    contexts, best = records(bandit.validation())
    expected = (policy(np.frombuffer(weights, "<f4").astype("f8"), contexts).argmax(axis=1) == best).mean()
    assert bandit.evaluate(weights, bandit.validation())["metrics"]["reward"] == pytest.approx(expected, abs=1e-8)
