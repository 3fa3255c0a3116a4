"""The digits module against an independent implementation in NumPy, and against its own sources built natively."""

import subprocess

import numpy as np
import pytest

from tests.c.build import compile_program
from tests.models import digits

MASK = 2**64 - 1
SIZES = (64 * 32, 32, 32 * 10, 10)


def mix(x):
    """SplitMix64's finalizer, in Python's unbounded integers."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


class Stream:
    STEP = 0x9E3779B97F4A7C15

    def __init__(self, seed, number):
        self.key, self.drawn = mix(seed ^ mix((number + self.STEP) & MASK)), 0

    def next(self):
        self.drawn += 1
        return mix((self.key + self.drawn * self.STEP) & MASK)

    def below(self, bound):
        while (x := self.next()) < 2**64 % bound:
            pass
        return x % bound

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]


def initial(seed):
    """(2410,) float32: Glorot uniform from 24 random bits each, biases 0."""
    stream, parts = Stream(seed, 0), []
    for size, limit in zip(SIZES, (0.25, None, 0.37796447, None), strict=True):
        drawn = [((stream.next() >> 40) - 2**23) / 2**23 if limit else 0 for _ in range(size)]
        parts.append(np.float32(limit or 0) * np.array(drawn, "f4"))
    return np.concatenate(parts)


def records(content):
    """Pixels (n, 64) scaled to 0..1, and labels (n,)."""
    table = np.frombuffer(content, "u1", offset=16).reshape(-1, 65)
    return table[:, :64] / 16.0, table[:, 64]


def unpack(weights):
    w1, b1, w2, b2 = np.split(weights, np.cumsum(SIZES)[:-1])
    return w1.reshape(64, 32), b1, w2.reshape(32, 10), b2


def forward(weights, pixels):
    """Hidden units (n, 32) and log-probabilities (n, 10)."""
    w1, b1, w2, b2 = unpack(weights)
    hidden = np.tanh(pixels @ w1 + b1)
    logits = hidden @ w2 + b2
    return hidden, logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def gradient(weights, pixels, labels):
    """(2410,): of the mean cross-entropy."""
    hidden, log_probabilities = forward(weights, pixels)
    dlogits = (np.exp(log_probabilities) - np.eye(10)[labels]) / len(labels)
    dsums = dlogits @ unpack(weights)[2].T * (1 - hidden**2)
    parts = (pixels.T @ dsums, dsums.sum(0), hidden.T @ dlogits, dlogits.sum(0))
    return np.concatenate([part.ravel() for part in parts])


def train(weights, content, seed, epochs, batch, rate):
    """All in float64; momentum 0.9."""
    pixels, labels = records(content)
    weights, velocity, order = weights.astype("f8"), np.zeros(2410), list(range(len(labels)))
    for epoch in range(1, epochs + 1):
        Stream(seed, epoch).shuffle(order)
        for at in range(0, len(order), batch):
            chosen = order[at : at + batch]
            velocity = 0.9 * velocity + gradient(weights, pixels[chosen], labels[chosen])
            weights = weights - rate * velocity
    return weights


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_initial_weights_are_the_same_bits(seed):
    assert initial(seed).astype("<f4").tobytes() == digits.initial_weights(seed)


# float32 rounds each operation by 2^-24 = 6e-8; measured over all chunks, the largest difference was 1.1e-7.
TOLERANCE = 5e-7


@pytest.mark.parametrize(("epochs", "batch", "rate"), [(1, 125, 0.1), (1, 32, 0.05), (3, 40, 0.05)])
def test_trained_weights_agree_with_float64(epochs, batch, rate):
    """One step on the whole chunk (four tiles), then a few and several, with a last batch that is not full."""
    start, content = digits.initial_weights(), digits.chunk(2)
    settings = {"localEpochs": epochs, "batchSize": batch, "learningRate": rate}
    trained = np.frombuffer(digits.train(start, content, 11, settings)["weights"], "<f4")
    expected = train(np.frombuffer(start, "<f4"), content, 11, epochs, batch, rate)
    assert np.abs(expected - np.frombuffer(start, "<f4")).max() > 1e4 * TOLERANCE  # it moved
    np.testing.assert_allclose(trained, expected, rtol=0, atol=TOLERANCE)


def test_evaluation_agrees_with_float64():
    weights = digits.train(digits.initial_weights(), digits.chunk(0))["weights"]
    pixels, labels = records(digits.validation())
    _, log_probabilities = forward(np.frombuffer(weights, "<f4").astype("f8"), pixels)
    metrics = digits.evaluate(weights, digits.validation())["metrics"]
    assert metrics["loss"] == pytest.approx(-log_probabilities[range(297), labels].mean(), abs=1e-6)
    assert metrics["accuracy"] == pytest.approx((log_probabilities.argmax(1) == labels).mean(), abs=1e-8)


def test_the_native_build_returns_the_same_bits(tmp_path):
    """Nothing in the sources depends on the engine: gcc on this machine and WebAssembly agree bit for bit."""
    program = compile_program("train_digits", tmp_path)
    native = subprocess.run([program, digits.CHUNKS[0]], capture_output=True, check=True).stdout
    assert native == digits.train(digits.initial_weights(7), digits.chunk(0), seed=3)["weights"]
