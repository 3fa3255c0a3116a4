"""The OpenAPI document: what ninja makes of the calls and their schemas, and what all calls have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, create_model

from peers.schemas import TrainingSettings
from weei_core.problems import CODES

Json = dict[str, Any]
PROBLEM_TYPE = "application/problem+json"
DESCRIPTION = """\
Training jobs, their participants and their checkpoints. Files go by `/bytes/` (resumable uploads, downloads with
ranges), what is told at once by the websocket `/ws/peer` ([AsyncAPI](/api/asyncapi.json)).

Lists answer one page: `limit`, and in the header `Link: <…>; rel="next"` the address of the next one. Refusals are
[RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problem details; programs decide on their `code`.
Members may be added to answers at any time; readers pass over those that they do not know.
"""
TAGS = {
    "jobs": "A coordinator's jobs.",
    "new jobs": "From uploaded files to a job.",
    "packages": "Models made of one's own data.",
    "checkpoints": "What a job has learned, round by round.",
    "exports": "Metrics as files of other programs. Weights come from `/bytes/`.",
    "participants": "Who trains for a job.",
    "invitations": "Links by which people join.",
    "peers": "What a browser or an agent that trains says.",
    "sites": "Pages of other sites.",
}
SECURITY = {
    "PersonAuth": "The session of a signed-in person. Unsafe calls need the header `X-CSRFToken` too.",
    "PeerAuth": "The token of a peer, as `Authorization: Bearer …`, or as `Weei-Peer: …` beside a person's.",
    "UserAuth": "A personal token, `weei_pat_…`, or one of another site, `weei_user_…`, as `Authorization: Bearer …`.",
}
STATUSES = {
    401: "Not known: no session, or a token that is wrong",
    403: "Known, and not allowed; or the CSRF token is missing; or a page of a site that is not registered",
    404: "There is none, or it is not yours",
    405: "Another method",
    409: "Not as things stand",
    413: "Too many bytes",
    422: "A value that is not allowed",
    429: "Too often",
    503: "Come back after `Retry-After` seconds",
    507: "No room",
}


def described(document: Json) -> Json:
    """The whole document. `document` is ninja's, and is changed."""
    components = document["components"]
    components["schemas"] |= _settings_schemas()
    components["schemas"]["Problem"] = _problem_schema()
    components["responses"] = {f"Problem{status}": _problem_response(status) for status in STATUSES}
    for name, text in SECURITY.items():
        if name in components.get("securitySchemes", {}):
            components["securitySchemes"][name]["description"] = text
    document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    document["externalDocs"] = {"description": "The websocket (AsyncAPI)", "url": "/api/asyncapi.json"}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operation["summary"] = operation["summary"].capitalize()
            operation["responses"] |= {
                status: {"$ref": f"#/components/responses/Problem{status}"}
                for status in _refusals(path, method, operation)
            }
            for parameter in operation["parameters"]:
                parameter["schema"] = _without_null(parameter["schema"])
    found: Json = _resolved(document)
    return found


def _refusals(path: str, method: str, operation: Json) -> Iterator[int]:
    secured, has_body = bool(operation.get("security")), "requestBody" in operation
    yield 403  # A page of a site that is not registered, whatever it asks.
    if secured:
        yield 401
    if "{" in path or "/invitations/" in path or (has_body and "/peer/" in path):
        yield 404
    if method != "get":
        yield 409
    if has_body:
        yield 413
    if has_body or operation["parameters"]:
        yield 422
    if path.endswith(("/peers", "/invitations/open")):
        yield 429
    yield 503
    if path.endswith(("/make", "/packages", "/jobs")) and method == "post":
        yield 507


def _problem_schema() -> Json:
    return {
        "type": "object",
        "title": "Problem",
        "description": "RFC 9457 problem details. A code may bring members of its own.",
        "required": ["type", "title", "status", "code"],
        "properties": {
            "type": {
                "type": "string",
                "description": "The page that says what to do",
                "examples": ["/help/errors#invalid"],
            },
            "title": {"type": "string", "description": "One sentence: the field, what was found, what is allowed"},
            "status": {"type": "integer"},
            "code": {"type": "string", "description": "Stable; programs decide on it", "examples": ["invalid"]},
            "field": {"type": "string", "description": "The place in the request"},
            "instance": {"type": "string", "description": "The request's id as a URN; the log's lines name it too"},
        },
    }


def _problem_response(status: int) -> Json:
    codes = {name: code for name, code in CODES.items() if code.status == status}
    words = "; ".join(f"`{name}`: {code.meaning}" for name, code in codes.items())
    waits = {"headers": {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}}
    return {
        "description": f"{STATUSES[status]}. {words}.",
        **(waits if status in (429, 503) else {}),
        "content": {
            PROBLEM_TYPE: {
                "schema": {
                    "allOf": [
                        {"$ref": "#/components/schemas/Problem"},
                        {"properties": {"status": {"const": status}, "code": {"enum": [*codes]}}},
                    ]
                }
            }
        },
    }


def _settings_schemas() -> Json:
    """Of the settings, and of a change to them: any of them, and null for an optional one."""
    kinds: dict[str, Any] = {name: field.annotation for name, field in TrainingSettings.model_fields.items()}
    fields: Any = {name: (kind | None, None) for name, kind in kinds.items()}
    patch: type[BaseModel] = create_model("TrainingSettingsPatch", **fields)
    found: Json = {}
    for model in (TrainingSettings, patch):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        found |= {**schema.pop("$defs", {}), model.__name__: {**schema, "additionalProperties": False}}
    for options in found["TrainingSettingsPatch"]["properties"].values():
        options.pop("default", None)
    return found


def _without_null(schema: Json) -> Json:
    """A parameter of an address is there or not; it is never null."""
    some = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(some) != 1:
        return schema
    return {**{key: value for key, value in schema.items() if key != "anyOf"}, **some[0]}


def _resolved(value: Any) -> Any:
    """`x-schema` stands where weei_core reads a value and this document names its schema."""
    if isinstance(value, dict):
        if "x-schema" in value:
            return {"$ref": f"#/components/schemas/{value['x-schema']}"}
        return {str(key): _resolved(item) for key, item in value.items()}
    return [_resolved(item) for item in value] if isinstance(value, list) else value
