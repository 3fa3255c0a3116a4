"""The transformer against PyTorch in float64 (golden_transformer.py), in wasmtime, Node and natively."""

import json
import subprocess

import numpy as np
import pytest

from tests.c.build import compile_program
from tests.models import golden_transformer as golden
from tests.models import transformer
from weei_core.generator.tokenizers import Tokenizer

FOUND = json.loads(golden.FILE.read_text())
START = np.array(golden.start(), "<f4").tobytes()
CHUNK = transformer.chunk_of(golden.RECORDS, vocabulary=11)


def model(**options):
    vocabulary = Tokenizer.train(["abcdefghijk"], "characters")
    return transformer.Model(transformer.architecture(**golden.SIZES, **options), vocabulary.blob())


def test_an_evaluation_agrees_with_pytorch():
    metrics = model().evaluate(START, CHUNK)["metrics"]
    assert metrics["loss"] == pytest.approx(FOUND["start"]["loss"], abs=2e-6)
    assert metrics["accuracy"] * FOUND["start"]["targets"] == pytest.approx(round(metrics["accuracy"] * 12), abs=1e-6)


# float32 rounds each operation by 2^-24 = 6e-8 of values up to 3, and some hundred of them lie on a path.
TOLERANCE = 3e-6


@pytest.mark.parametrize("name", golden.CASES)
def test_trained_weights_agree_with_pytorch(name):
    case, expected = golden.CASES[name], FOUND["cases"][name]
    result = model(**case["model"]).train(START, CHUNK, golden.SEED, **case["settings"])
    trained, weights = np.frombuffer(result["weights"], "<f4"), np.array(expected["weights"])
    moved = np.abs(weights - golden.start())
    assert moved.max() > 1000 * TOLERANCE and np.median(moved) > 20 * TOLERANCE
    np.testing.assert_allclose(trained, weights, rtol=0, atol=TOLERANCE)
    assert result["metrics"]["loss"] == pytest.approx(expected["loss"], abs=5e-6)
    if case["model"]["clipNorm"]:
        assert min(expected["norms"]) > case["model"]["clipNorm"]  # the case does clip


def test_initial_weights_are_normal_of_the_deviation_that_their_tensor_asks_for():
    sizes = {"vocabSize": 256, "context": 64, "layers": 2, "heads": 2, "width": 64, "hidden": 256}
    of = transformer.architecture(**sizes)
    tiny = transformer.Model(of)
    weights = np.frombuffer(tiny.initial_weights(5), "<f4")
    assert len(weights) == of.parameter_count
    embeddings, layer = 64 * (256 + 64), 4 * 64 * 64 + 2 * 64 * 256 + 9 * 64 + 256
    inner = weights[embeddings : embeddings + layer]
    counts = [64, 64, 64 * 192, 192, 64 * 64, 64, 64, 64, 64 * 256, 256, 256 * 64, 64]
    gain1, bias1, qkv, qkv_bias, projection, _, gain2, _, hidden, _, out, out_bias = np.split(
        inner, np.cumsum(counts)[:-1]
    )
    assert set(gain1) == set(gain2) == {1} and set(bias1) == set(qkv_bias) == set(out_bias) == {0}
    for part, deviation in [(weights[:embeddings], 0.02), (qkv, 0.02), (hidden, 0.02), (projection, 0.01), (out, 0.01)]:
        assert part.std() == pytest.approx(deviation, rel=0.05)
        assert abs(part.mean()) < 4 * deviation / len(part) ** 0.5
        assert np.mean(np.abs(part) < deviation) == pytest.approx(0.6827, abs=0.03)
    assert set(weights[-128:-64]) == {1} and set(weights[-64:]) == {0}
    assert tiny.initial_weights(5) == weights.tobytes() != tiny.initial_weights(6)


def test_the_native_build_returns_the_same_bits(tmp_path):
    """Nothing in the sources depends on the engine: gcc on this machine and WebAssembly agree bit for bit."""
    of = transformer.architecture(context=32, width=20, heads=4, hidden=50)
    model = transformer.Model(of)
    weights = model.initial_weights(7)
    text = ("Die Würde des Menschen ist unantastbar. " * 40).encode()
    files = {
        "configuration": transformer.segment(2, transformer.info(of), of.values(), b""),
        "chunk": transformer.windows(text, 32),
        "weights": weights,
    }
    for name, content in files.items():
        tmp_path.joinpath(name).write_bytes(content)
    settings = {"localEpochs": 3, "batchSize": 16}
    program = compile_program("train_transformer", tmp_path)
    command = [program, *(tmp_path / name for name in files), json.dumps(settings)]
    native = subprocess.run(command, capture_output=True, check=True).stdout
    assert native == model.train(weights, files["chunk"], seed=3, **settings)["weights"] != weights
