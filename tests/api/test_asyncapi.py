"""docs/asyncapi.json is what the protocol makes of itself, and its examples are valid by it."""

from __future__ import annotations

import json

import jsonschema
import pytest
from django.test import Client

from weei_core import protocol as wire
from weei_site.asyncapi import DOCUMENT, text

DOC = json.loads(DOCUMENT.read_text(encoding="utf-8"))
EXAMPLES = [
    pytest.param(name, example["payload"], id=f"{name}-{index}")
    for name, message in DOC["components"]["messages"].items()
    for index, example in enumerate(message["examples"])
]


def test_the_document_is_the_code():
    assert DOCUMENT.read_text(encoding="utf-8") == text(), "run python -m weei_site.asyncapi"


@pytest.mark.parametrize("name, payload", EXAMPLES)
def test_every_example_is_valid(name, payload):
    schema = {**DOC["components"]["messages"][name]["payload"], "components": DOC["components"]}
    jsonschema.validate(payload, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**payload, "type": "other"}, schema)


def test_every_reference_leads_somewhere():
    def references(value):
        if isinstance(value, dict):
            yield from [value["$ref"]] if "$ref" in value else []
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                yield from references(item)

    found = set(references(DOC))
    assert len(found) > 20
    for reference in found:
        at = DOC
        for part in reference.removeprefix("#/").split("/"):
            at = at[part]


def test_messages_and_close_codes_are_all_there():
    channel = DOC["channels"]["peer"]
    assert len(channel["messages"]) == 9 and all(m["examples"] for m in DOC["components"]["messages"].values())
    own = {wire.CLOSE_HELLO, wire.CLOSE_REPLACED, wire.CLOSE_UNAUTHORIZED, wire.CLOSE_PROTOCOL}
    assert {str(code) for code in own} < set(channel["x-close-codes"])


@pytest.mark.django_db
def test_it_is_served_beside_the_page_that_names_it():
    assert json.loads(Client().get("/api/asyncapi.json").content) == DOC
    assert "/api/asyncapi.json" in Client().get("/api/docs").content.decode()
