import jsonschema  # type: ignore[import-untyped]
import pytest

from weei_core import abi_schema

SETTINGS = {"localEpochs": 1, "batchSize": 32}
DATA = {"pointer": 16, "bytes": 4, "format": "f"}
EXPERIENCE = {"seed": "18446744073709551615", "unitStart": 0, "unitCount": 32}


def accepts(operation: str, side: str, value: object) -> bool:
    schema = abi_schema.abi_schema()
    return bool(jsonschema.Draft202012Validator({**schema, **schema["operations"][operation][side]}).is_valid(value))


def test_the_written_schema_is_up_to_date():
    written = abi_schema.SCHEMA_FILE.read_text(encoding="utf-8")
    assert written == abi_schema.schema_text(), "run: python -m weei_core.abi_schema"


def test_the_schema_is_a_json_schema_without_dangling_references():
    schema = abi_schema.abi_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    text = abi_schema.schema_text()
    for name in schema["$defs"]:
        assert f'"#/$defs/{name}"' in text
    for operation in abi_schema.OPERATIONS:
        accepts(operation, "request", {})  # raises on a reference that leads nowhere
        accepts(operation, "result", {})


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        ("getModelInfo", {}),
        ("createInitialWeights", {"seed": "0"}),
        ("loadModel", {"weights": {"pointer": 0, "bytes": 2**32 - 4}}),
        ("loadAuxiliary", {"id": "reward", "weights": {"pointer": 16, "bytes": 4}}),
        ("train", {"data": DATA, "settings": SETTINGS, "round": 1, "seed": "7"}),
        ("train", {"experience": EXPERIENCE, "settings": {**SETTINGS, "learningRate": 0.00001}, "round": 1}),
        ("train", {"data": DATA, "experience": EXPERIENCE, "settings": SETTINGS, "round": 1}),
        ("evaluate", {"data": {**DATA, "recordStart": 0, "recordCount": 1}, "settings": SETTINGS}),
        ("evaluate", {"experience": EXPERIENCE, "settings": SETTINGS}),
        ("inspectData", {"data": DATA}),
        ("predict", {"input": {"text": "3+4="}}),
        ("gpuBegin", {"experience": EXPERIENCE, "settings": SETTINGS, "round": 1}),
        ("gpuNext", {}),
        ("gpuEnd", {}),
    ],
)
def test_accepts_the_requests_of_the_contract(operation, request_):
    assert accepts(operation, "request", request_)


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        ("getModelInfo", {"x": 1}),
        ("createInitialWeights", {"seed": 7}),
        ("createInitialWeights", {"seed": "007"}),
        ("loadModel", {"weights": {"pointer": 2**32, "bytes": 4}}),
        ("train", {"data": DATA, "settings": SETTINGS, "round": 0, "seed": "7"}),
        ("train", {"data": DATA, "settings": SETTINGS, "round": 1}),
        ("train", {"experience": EXPERIENCE, "settings": SETTINGS, "round": 1, "seed": "7"}),
        ("evaluate", {"data": DATA, "settings": SETTINGS, "round": 1}),
        ("evaluate", {"data": DATA, "settings": {**SETTINGS, "momentum": 0.9}}),
    ],
)
def test_refuses_other_requests(operation, request_):
    assert not accepts(operation, "request", request_)


def test_every_operation_may_answer_an_error():
    for operation in abi_schema.OPERATIONS:
        assert accepts(operation, "result", {"error": "no"})


def test_results_may_hold_more_than_the_contract_knows():
    result = {"weights": {"pointer": 16, "bytes": 4}, "metrics": {"loss": 0.5}, "examplesProcessed": 3}
    assert accepts("train", "result", {**result, "uniqueExamples": 1, "later": True})
    assert not accepts("train", "result", result)


def test_fields_stand_in_the_order_of_the_request_text():
    """Equal bits need equal text: the models are the record of the key order."""
    assert list(abi_schema.TrainOnDataRequest.model_fields) == ["data", "settings", "round", "seed"]
    assert list(abi_schema.TrainOnRecordsRequest.model_fields) == ["data", "experience", "settings", "round"]
    assert [field.alias for field in abi_schema.Data.model_fields.values()] == [
        "pointer",
        "bytes",
        "format",
        "recordStart",
        "recordCount",
    ]
