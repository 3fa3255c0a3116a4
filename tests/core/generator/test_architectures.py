"""Sizes and defaults of networks: what is read, what is refused, and what is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weei_core.errors import Invalid
from weei_core.generator.architectures import MlpArchitecture, TransformerArchitecture

MLP = {"inputs": 784, "outputs": 10, "inputKind": "uint8"}
TRANSFORMER = {"vocabSize": 300}


def test_what_is_left_out_has_a_default():
    network = MlpArchitecture.parse(MLP)
    assert (network.task, network.hidden, network.activation) == ("classification", (64,), "relu")
    assert (network.training.optimizer, network.training.learning_rate) == ("adamw", 1e-3)
    plain = MlpArchitecture.parse({**MLP, "optimizer": "sgd", "beta1": 0.5}).training
    assert (plain.learning_rate, plain.weight_decay, plain.beta1, plain.state_copies) == (0.05, 0, 0.5, 0)
    decoder = TransformerArchitecture.parse({**TRANSFORMER, "width": 32})
    assert (decoder.hidden, decoder.context, decoder.end_token, decoder.pad_token) == (128, 128, None, None)


@pytest.mark.parametrize(
    "network",
    [
        MlpArchitecture.parse({**MLP, "hidden": [3, 5], "task": "regression", "clipNorm": 0, "optimizer": "sgd"}),
        TransformerArchitecture.parse({**TRANSFORMER, "endToken": 299, "padToken": 0, "heads": 8, "beta2": 0.95}),
        TransformerArchitecture.parse(TRANSFORMER),
    ],
    ids=["mlp", "transformer with tokens", "transformer"],
)
def test_its_json_reads_back(network):
    assert type(network).parse(network.to_json()) == network


def test_values_stand_in_the_order_of_the_module():
    network = MlpArchitecture.parse({**MLP, "hidden": [30, 20], "activation": "tanh"})
    assert network.values() == [784, 10, 0, 2, 2, 0.001, 0.01, 1, 1, 0.9, 0.999, 1e-8, 1, 30, 20]
    decoder = TransformerArchitecture.parse({**TRANSFORMER, "endToken": 256, "optimizer": "sgd"})
    assert decoder.values() == [300, 128, 4, 4, 128, 512, 0.05, 0, 1, 0, 0.9, 0.999, 1e-8, 256, -1]


def test_parameters_are_counted():
    assert MlpArchitecture.parse({**MLP, "hidden": [32]}).parameter_count == 784 * 32 + 32 + 32 * 10 + 10
    assert MlpArchitecture.parse({**MLP, "hidden": []}).weight_bytes == 4 * (784 * 10 + 10)
    # GPT-2 small, with its own 12 layers of 768: 124,439,808 parameters.
    gpt2 = {"vocabSize": 50257, "context": 1024, "layers": 12, "heads": 12, "width": 768, "hidden": 3072}
    assert TransformerArchitecture.parse(gpt2).parameter_count == 124_439_808


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inputs": 0}, "architecture.inputs must be a whole number from 1 to 1048576; found 0"),
        ({"inputs": None}, "architecture.inputs must be a whole number"),
        ({"outputs": 1}, "architecture.outputs must be a whole number from 2 to 4096; found 1"),
        ({"hidden": 64}, "architecture.hidden must be a list; found 64"),
        ({"hidden": [1] * 17}, "architecture.hidden must hold at most 16 entries; found 17"),
        ({"hidden": [8, 0]}, r"architecture.hidden\[1\] must be a whole number from 1 to 1048576; found 0"),
        ({"activation": "swish"}, "architecture.activation must be one of relu, gelu, tanh"),
        ({"task": "ranking"}, "architecture.task must be one of classification, regression"),
        ({"inputKind": "int8"}, "architecture.inputKind must be one of float32, uint8"),
        ({"kind": "transformer"}, "architecture.kind must be one of mlp"),
        ({"optimizer": "lion"}, "architecture.optimizer must be one of sgd, adamw"),
        ({"learningRate": 0}, "architecture.learningRate must be a finite number from 1e-09 to 100"),
        ({"learningRate": float("nan")}, "architecture.learningRate must be a finite number"),
        ({"beta2": 1}, "architecture.beta2 must be a finite number"),
        ({"layers": 2}, 'architecture may hold kind, inputs, .*; found "layers"'),
        ({"hidden": [1_048_576, 4096], "inputs": 1}, "must fit into 4294967296 bytes"),
    ],
    ids=str,
)
def test_a_field_that_does_not_fit_is_named(changes, said):
    with pytest.raises(Invalid, match=said) as refused:
        MlpArchitecture.parse({**MLP, **changes})
    assert refused.value.field.startswith("architecture")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocabSize": 1}, "architecture.vocabSize must be a whole number from 2 to 65536; found 1"),
        ({"vocabSize": 65_537}, "architecture.vocabSize"),
        ({"context": 1}, "architecture.context must be a whole number from 2 to 16384; found 1"),
        ({"width": 10, "heads": 4}, "architecture.width must be a multiple of heads, which is 4; found 10"),
        ({"heads": 0}, "architecture.heads must be a whole number from 1"),
        ({"endToken": 300}, "architecture.endToken must be a whole number from 0 to 299; found 300"),
        ({"layers": 256, "width": 4096, "hidden": 16384}, "must fit into 4294967296 bytes .4 GiB., .* found weights"),
    ],
    ids=str,
)
def test_a_field_of_a_transformer_that_does_not_fit_is_named(changes, said):
    with pytest.raises(Invalid, match=said):
        TransformerArchitecture.parse({**TRANSFORMER, **changes})


def test_another_thing_than_an_object_is_refused():
    with pytest.raises(Invalid, match="^spec must be an object; found 3"):
        MlpArchitecture.parse(3, "spec")


@pytest.mark.parametrize("network", [MlpArchitecture.parse(MLP), TransformerArchitecture.parse(TRANSFORMER)], ids=str)
def test_a_chunk_that_leaves_no_room_in_4_gib_is_refused(network):
    assert network.memory_bytes(16, 2**20) < 2**28
    with pytest.raises(Invalid, match=r"4 GiB.*for a training on the largest chunk\. A smaller") as refused:
        network.memory_bytes(16, 2**32 - 1)
    assert refused.value.code == "too_large"


@given(
    hidden=st.lists(st.integers(1, 300), max_size=3),
    inputs=st.integers(1, 300),
    chunk=st.integers(64, 10**7),
    activation=st.sampled_from(["relu", "gelu", "tanh"]),
)
def test_more_of_anything_takes_more_memory(hidden, inputs, chunk, activation):
    form = {"inputs": inputs, "outputs": 3, "hidden": hidden, "activation": activation}
    network = MlpArchitecture.parse(form)
    needed = network.memory_bytes(1, chunk)
    assert needed == network.memory_bytes(1000, chunk) < network.memory_bytes(1, chunk + 16)
    assert needed < MlpArchitecture.parse({**form, "hidden": [*hidden, 8]}).memory_bytes(1, chunk)
    without = MlpArchitecture.parse({**form, "optimizer": "sgd"}).memory_bytes(1, chunk)
    assert needed - without == 2 * -(-network.weight_bytes // 16) * 16
