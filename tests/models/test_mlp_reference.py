"""The module `mlp` against an independent implementation in NumPy, in doubles."""

from itertools import pairwise

import numpy as np
import pytest

from tests.models import mlp

FORMS = [
    {"activation": activation, "task": task, "optimizer": optimizer, "inputKind": kind, "hidden": hidden}
    for activation, hidden in (("relu", [9, 5]), ("gelu", [12]), ("tanh", [6, 7, 8]), ("relu", []))
    for task, optimizer, kind in (("classification", "adamw", "float32"), ("regression", "sgd", "uint8"))
] + [{"activation": "gelu", "task": "regression", "optimizer": "adamw", "inputKind": "float32", "hidden": [5]}]


def unpack(network, flat):
    at, found = 0, []
    for inputs, outputs in pairwise(network.widths):
        end = at + inputs * outputs
        found.append((flat[at:end].reshape(inputs, outputs), flat[end : end + outputs]))
        at = end + outputs
    return found


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_slope(x, step=1e-6):
    return (gelu(x + step) - gelu(x - step)) / (2 * step)


ACTIVATIONS = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "gelu": (gelu, gelu_slope),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
}


def normalized(values):
    mean, scale = np.array(mlp.statistics(values.shape[1])).T
    return (values - mean) * scale


class Reference:
    """Loss, gradient and one optimizer step over all records at once."""

    def __init__(self, network, inputs, targets):
        self.network, self.regression = network, network.task == "regression"
        self.inputs = normalized(inputs) if network.input_kind == "float32" else inputs / 255
        self.targets = normalized(targets) if self.regression else targets
        self.value, self.slope = ACTIVATIONS[network.activation]
        self.mean = self.square = np.zeros(network.parameter_count)
        self.steps = 0

    def forward(self, flat):
        kept, values = [], self.inputs
        for layer, (weight, bias) in enumerate(unpack(self.network, flat)):
            sums = values @ weight + bias
            kept.append((values, sums))
            values = sums if layer == len(self.network.hidden) else self.value(sums)
        return values, kept

    def metrics(self, flat):
        outputs, _ = self.forward(flat)
        if self.regression:
            scale = np.array(mlp.statistics(self.network.outputs))[:, 1]
            return {
                "loss": ((outputs - self.targets) ** 2).mean(),
                "mae": (abs(outputs - self.targets) / scale).mean(),
            }
        right = outputs[np.arange(len(outputs)), self.targets]
        loss = np.log(np.exp(outputs).sum(axis=1)) - right
        return {"loss": loss.mean(), "accuracy": (outputs.argmax(axis=1) == self.targets).mean()}

    def gradient(self, flat):
        outputs, kept = self.forward(flat)
        if self.regression:
            flow = 2 * (outputs - self.targets) / outputs.size
        else:
            flow = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
            flow[np.arange(len(flow)), self.targets] -= 1
            flow /= len(flow)
        parts = []
        for layer, (weight, _) in reversed(list(enumerate(unpack(self.network, flat)))):
            values, sums = kept[layer]
            if layer < len(self.network.hidden):
                flow = flow * self.slope(sums)
            parts.append(np.concatenate([(values.T @ flow).ravel(), flow.sum(axis=0)]))
            flow = flow @ weight.T
        return np.concatenate(parts[::-1])

    def step(self, flat):
        training = self.network.training
        gradient = self.gradient(flat)
        gradient *= min(1, training.clip_norm / np.linalg.norm(gradient))
        decay = np.concatenate(
            [np.concatenate([np.ones(i * o), np.zeros(o)]) for i, o in pairwise(self.network.widths)]
        )
        flat = flat * (1 - training.learning_rate * training.weight_decay * decay)
        if training.optimizer == "sgd":
            return flat - training.learning_rate * gradient
        self.steps += 1
        self.mean = training.beta1 * self.mean + (1 - training.beta1) * gradient
        self.square = training.beta2 * self.square + (1 - training.beta2) * gradient**2
        mean = self.mean / (1 - training.beta1**self.steps)
        square = self.square / (1 - training.beta2**self.steps)
        return flat - training.learning_rate * mean / (np.sqrt(square) + training.epsilon)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form.values())))
def test_trains_and_evaluates_as_numpy_does(form):
    """One batch of all records, so that the order within it makes no difference; two tiles and a part of one."""
    rates = {"learningRate": 0.02, "weightDecay": 0.1, "clipNorm": 0.5, "beta2": 0.99, "epsilon": 1e-6}
    network = mlp.architecture(inputs=5, outputs=3, **form, **rates)
    inputs, targets = mlp.sample(network, 150)
    content = mlp.chunk(network, inputs, targets)
    start = mlp.initial_weights(network)
    reference = Reference(network, inputs, targets)
    flat = np.frombuffer(start, "<f4").astype("f8")
    measured = mlp.evaluate(network, start, content)["metrics"]
    assert measured == pytest.approx(reference.metrics(flat), rel=1e-5)
    for _ in range(10):
        flat = reference.step(flat)
    result = mlp.train(network, start, content, settings={"localEpochs": 10, "batchSize": 1000})
    assert np.frombuffer(result["weights"], "<f4") == pytest.approx(flat, abs=2e-5)
    assert mlp.evaluate(network, result["weights"], content)["metrics"] == pytest.approx(
        reference.metrics(np.frombuffer(result["weights"], "<f4").astype("f8")), rel=1e-5
    )


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form.values())))
def test_predicts_as_numpy_does(form):
    network = mlp.architecture(inputs=5, outputs=3, **form)
    inputs, targets = mlp.sample(network, 4)
    start = mlp.initial_weights(network)
    outputs, _ = Reference(network, inputs, targets).forward(np.frombuffer(start, "<f4").astype("f8"))
    for row, expected in zip(inputs.tolist(), outputs, strict=True):
        answer = mlp.predict(network, start, row)["output"]
        if network.task == "regression":
            mean, scale = np.array(mlp.statistics(3)).T
            assert answer == {"values": pytest.approx(expected / scale + mean, rel=1e-4, abs=1e-6)}
            continue
        probabilities = np.exp(expected) / np.exp(expected).sum()
        assert answer["label"] == f"class {expected.argmax()}"
        assert list(answer["probabilities"]) == ["class 0", "class 1", "class 2"]
        assert list(answer["probabilities"].values()) == pytest.approx(probabilities, rel=1e-4)
