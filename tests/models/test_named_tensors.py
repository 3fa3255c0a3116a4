"""The tensors that configured modules name lie where the modules keep them."""

import json

import numpy as np
import pytest

from tests.models import mlp, text_policy, transformer
from tests.models.test_mlp_reference import unpack
from weei_core.generator.architectures import TransformerArchitecture
from weei_core.generator.configuration import configured_module, model_info, named_tensors
from weei_core.model_info import MAX_MODEL_INFO_BYTES, check_against_weights, parse_model_info


def by_name(architecture, weights):
    flat, found, at = np.frombuffer(weights, "<f4"), {}, 0
    for name, shape in architecture.tensors():
        size = int(np.prod(shape))
        found[name], at = flat[at : at + size].reshape(shape), at + size
    assert at == len(flat)
    return found


def test_a_transformers_first_weights_are_those_of_their_layers():
    """Gains are 1, biases 0, weights normal with deviation 0.02, less on what joins the residual path."""
    network = transformer.architecture(width=48, hidden=96, layers=3)
    found = by_name(network, transformer.Model(network).initial_weights())
    for name, values in found.items():
        if name.endswith(".bias"):
            assert not values.any(), name
        elif "norm" in name:
            assert (values == 1).all(), name
        else:
            joins = name.endswith(("projection.weight", "out.weight"))
            assert values.std() == pytest.approx(0.02 / (6**0.5 if joins else 1), rel=0.1), name


def test_an_mlps_tensors_are_those_that_its_reference_computes_with():
    network = mlp.architecture(inputs=3, outputs=2, hidden=[8, 5])
    weights = np.arange(network.parameter_count, dtype="<f4")
    found = by_name(network, weights.tobytes())
    for index, (weight, bias) in enumerate(unpack(network, weights)):
        assert (found[f"layers.{index}.weight"] == weight).all() and (found[f"layers.{index}.bias"] == bias).all()
    assert len(found) == 6


@pytest.mark.parametrize("of", ["mlp", "transformer", "text policy"])
def test_the_module_itself_names_them(of):
    if of == "mlp":
        network = mlp.architecture()
        module, info = mlp.wasm(network), mlp.info(network)
    elif of == "transformer":
        network = transformer.architecture()
        module, info = transformer.module_bytes(network), transformer.info(network)
    else:
        network = text_policy.architecture()
        info = text_policy.info(network)
        module = configured_module(network, info, text_policy.TOKENIZER.blob(), batch_size=8, max_chunk_bytes=0)
    assert info["tensors"] == named_tensors(network)
    assert json.dumps(info["tensors"], separators=(",", ":")).encode() in module
    check_against_weights(parse_model_info(info), network.weight_bytes)


def test_the_deepest_transformer_still_fits_a_model_info():
    deepest = TransformerArchitecture.parse(
        {"vocabSize": 65_536, "context": 16_384, "layers": 256, "heads": 1, "width": 128, "hidden": 512}
    )
    info = model_info(
        deepest, id="deep", name="Deep", max_chunk_bytes=1, max_examples_per_chunk=1, inference={}, whole_answers=True
    )
    assert len(json.dumps(info, separators=(",", ":"))) < MAX_MODEL_INFO_BYTES
    assert len(parse_model_info(info).tensors) == 4 + 12 * 256
