"""The configuration of a base module: its bytes, its ModelInfo, and what is refused."""

import json
import struct

import pytest

from weei_core.abi.module import compile_module, make_engine, memory_maximum_pages
from weei_core.errors import Invalid
from weei_core.generator.architectures import MlpArchitecture, TransformerArchitecture
from weei_core.generator.configuration import configured_module, mlp_blob, model_info, segment
from weei_core.generator.wasm_edit import config_section
from weei_core.model_info import parse_model_info

IRIS = MlpArchitecture.parse({"inputs": 2, "outputs": 3, "hidden": [4]})
PRICES = MlpArchitecture.parse({"inputs": 2, "outputs": 1, "hidden": [4], "task": "regression"})
DECODER = TransformerArchitecture.parse({"vocabSize": 256, "width": 8, "heads": 2, "layers": 1, "context": 8})
CLASSES = ["setosa", "versicolor", "virginica"]
STATISTICS = [(1.5, 2.0), (-3.0, 0.25)]


def info(architecture, **changes):
    given = {"id": "x", "name": "X", "max_chunk_bytes": 1000, "max_examples_per_chunk": 50, "inference": {"input": {}}}
    return model_info(architecture, **{**given, **changes})


def iris(**changes):
    options = {"batch_size": 4, "max_chunk_bytes": 1000, **changes}
    return configured_module(IRIS, info(IRIS), mlp_blob(IRIS, classes=CLASSES, input_statistics=STATISTICS), **options)


def test_the_segment_is_laid_out_as_the_module_reads_it():
    written = segment(2, {"a": "é"}, [1, -0.5, 1e300], b"blob")
    head = struct.unpack("<4s11I", written[:48])
    assert head == (b"WCFG", 1, len(written), 2, 48, 10, 64, 3, 88, 4, 0, 0)
    assert written[48:58] == '{"a":"é"}'.encode() and written[88:] == b"blob"
    assert struct.unpack("<3d", written[64:88]) == (1, -0.5, 1e300)


def test_names_and_statistics_are_laid_out_as_the_module_reads_them():
    written = mlp_blob(IRIS, classes=CLASSES, input_statistics=STATISTICS)
    names = b"".join(struct.pack("<I", len(name)) + name.encode() for name in CLASSES)
    assert written == struct.pack("<I", 3) + names + struct.pack("<4f", 1.5, 2, -3, 0.25)
    values = mlp_blob(PRICES, input_statistics=STATISTICS, output_statistics=[(5, 6)])
    assert values == struct.pack("<6f", 1.5, 2, -3, 0.25, 5, 6)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"classes": CLASSES[:2]}, "classes must have 3 entries for this architecture; found 2"),
        ({"classes": [*CLASSES[:2], "setosa"]}, 'classes must be names that differ; found "setosa" twice'),
        ({"classes": [*CLASSES[:2], ""]}, r"classes\[2\] must be 1 to 200 bytes"),
        ({"classes": [*CLASSES[:2], "a\nb"]}, r"classes\[2\] must be .* without control characters"),
        ({"classes": [*CLASSES[:2], "\ud800"]}, r"classes\[2\] must be"),
        ({"classes": ["é" * 101, *CLASSES[:2]]}, r"classes\[0\] must be 1 to 200 bytes"),
        ({"input_statistics": STATISTICS[:1]}, "inputStatistics must have 2 entries"),
        ({"input_statistics": [(0, 1), (0, 0)]}, r"inputStatistics\[1\] must be a mean and a positive scale"),
        ({"input_statistics": [(0, 1e-60), (0, 1)]}, r"inputStatistics\[0\] must be a mean and a positive scale"),
        ({"input_statistics": [(float("nan"), 1), (0, 1)]}, r"inputStatistics\[0\] must be"),
        ({"input_statistics": [(1e39, 1), (0, 1)]}, r"inputStatistics\[0\] must be"),
        ({"output_statistics": [(0, 1)]}, "outputStatistics must have 0 entries"),
    ],
)
def test_names_and_statistics_of_another_network_are_refused(changes, said):
    with pytest.raises(Invalid, match=said):
        mlp_blob(IRIS, **{"classes": CLASSES, "input_statistics": STATISTICS, **changes})


@pytest.mark.parametrize(
    ("architecture", "format_id", "metrics"),
    [(IRIS, "weei-rows", ["loss", "accuracy"]), (PRICES, "weei-rows", ["loss", "mae"])]
    + [(DECODER, "weei-tokens", ["loss", "accuracy"])],
)
def test_model_info_fits_the_schema(architecture, format_id, metrics):
    made = info(architecture)
    read = parse_model_info(made)
    assert [one.id for one in read.data_formats] == [format_id] and [one.id for one in read.metrics] == metrics
    assert (read.max_workers, read.max_chunk_bytes, read.max_examples_per_chunk) == (1, 1000, 50)
    assert read.aggregation.average_only == () and read.capabilities.record_ranges and read.capabilities.inspection
    assert list(made)[:5] == ["id", "version", "name", "abiVersion", "weightFormat"]


def test_whole_answers_are_a_metric_of_text_only():
    assert [metric["id"] for metric in info(DECODER, whole_answers=True)["metrics"]] == ["loss", "accuracy", "exact"]
    assert info(IRIS, whole_answers=True) == info(IRIS)


def test_a_configured_module_is_a_module_of_the_abi_and_tells_people_what_it_is():
    made = iris()
    assert made == iris()
    module = compile_module(make_engine(), made)
    assert memory_maximum_pages(module) == -(-IRIS.memory_bytes(4, 1000) // 65536)
    told = json.loads(config_section(made))
    assert told == {"info": info(IRIS), "architecture": IRIS.to_json(), "tokenizer": None}
    assert memory_maximum_pages(compile_module(make_engine(), iris(max_chunk_bytes=2**24))) > 65 + 256


def test_an_info_that_is_no_model_info_is_refused():
    with pytest.raises(Invalid, match="modelInfo.name"):
        configured_module(IRIS, {**info(IRIS), "name": ""}, b"", batch_size=1, max_chunk_bytes=1000)


def test_a_vocabulary_that_does_not_fit_between_stack_and_data_is_refused():
    with pytest.raises(Invalid, match="configuration must be 1 to 4128768 bytes long"):
        configured_module(DECODER, info(DECODER), bytes(2**22), batch_size=1, max_chunk_bytes=1000)


@pytest.mark.parametrize("blob", [b"", b"\3" + bytes(20)])
def test_a_vocabulary_without_a_kind_is_refused(blob):
    with pytest.raises(Invalid, match="vocabulary must begin with its kind"):
        configured_module(DECODER, info(DECODER), blob, batch_size=1, max_chunk_bytes=1000)


def test_a_chunk_over_4_gib_is_refused():
    with pytest.raises(Invalid, match="4 GiB"):
        iris(max_chunk_bytes=2**32)
