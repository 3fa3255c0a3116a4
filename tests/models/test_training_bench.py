"""The benches of training compare programs that compute the same. How fast anything is, no test asks."""

import hashlib
import subprocess

import pytest

from benchmarks import training_browser, training_hosts, training_load
from benchmarks.measured import NotMeasured


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for module in (training_load, training_browser, training_hosts):
        for name, value in {"STEPS": 2, "REPEATS": 1, "WARM_UP": 0}.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


def test_the_network_is_the_one_of_the_founding_note():
    assert training_load.ARCHITECTURE.parameter_count == 574_352


def test_node_and_a_native_build_return_the_weights_of_wasmtime():
    load = training_load.load()
    weights, _ = training_load.Assignments(load.module).train(load, 2)
    expected = hashlib.sha256(weights).hexdigest()
    for rates, found in (training_hosts.in_node(), training_hosts.in_native()):
        assert found == expected
        assert len(rates) == 1 and rates[0] > 0


def test_a_peer_that_computes_something_else_is_named():
    load = training_load.load()
    module = training_load.Assignments(load.module)
    losses = [module.train(load, step)[1] for step in (1, 2)]
    training_load.check_losses("the other", losses)
    with pytest.raises(training_load.NotTheSame, match="The loss of step 2 is .* in the module and .* in the other"):
        training_load.check_losses("the other", [losses[0], 1.01 * losses[1]])


def test_without_pytorch_a_sentence_says_what_to_do(monkeypatch):
    """The figure counts as missed."""
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
    with pytest.raises(training_browser.Absent, match="PyTorch is not installed"):
        training_browser.torch_rates()
    assert NotMeasured("training_browser", "PyTorch is not installed.").missed


def test_without_tensorflow_a_sentence_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(training_browser, "HERE", tmp_path)
    with pytest.raises(training_browser.Absent, match=r"TensorFlow\.js is not installed"):
        training_browser.beside_tensorflow(1.0)
