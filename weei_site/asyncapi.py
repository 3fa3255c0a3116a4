"""The AsyncAPI document of the websocket, made of the protocol itself. `python -m weei_site.asyncapi` writes it anew.

docs/asyncapi.json is what is served; tests/api/test_asyncapi.py proves that it is what this module makes.
"""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from peers.schemas import PeerState
from weei_core import protocol as wire

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "asyncapi.json"
EXAMPLES = ROOT / "tests" / "golden" / "messages.json"

SUMMARIES = {
    "hello": "The first message of every connection.",
    "heartbeat": "Every 5 s. Every other message counts as one too.",
    "diagnostics": "What this device does, at each change of stage and every 2 s.",
    "watch": "Change which job a coordinator's page is told about; null ends it.",
    "welcome": "The answer to hello; a state follows at once.",
    "state": "All that concerns this peer, whenever something of it changed.",
    "job": "Look again at these parts of the watched job.",
    "live": "What changed about the devices of the watched job, once a second at most.",
    "error": "A message that was refused; the socket stays open unless a close code follows.",
}
CLOSE_CODES = {
    1003: "A binary frame",
    1008: "Too many messages or sockets, a reader that takes nothing for 30 s, or the right to watch ended",
    1009: "A message of more than 64 KiB",
    1011: "A fault of the server",
    1012: "The server restarts",
    1013: "The database is away",
    wire.CLOSE_HELLO: "Hello is missing or late",
    wire.CLOSE_REPLACED: "Another tab trains now",
    wire.CLOSE_UNAUTHORIZED: "The token is unknown",
    wire.CLOSE_PROTOCOL: "Another version of the protocol: reload",
}


def document(examples: dict[str, list[Json]]) -> Json:
    """AsyncAPI 3. `examples` is tests/golden/messages.json."""
    schemas: Json = {}
    messages: Json = {}
    names: dict[str, list[str]] = {}
    for side, union in (("client", wire.ClientMessage), ("server", wire.ServerMessage)):
        names[side] = []
        for model in typing.get_args(typing.get_args(union)[0]):
            name = typing.get_args(model.model_fields["type"].annotation)[0]
            names[side].append(name)
            schemas |= _schemas(model)
            messages[name] = {
                "name": name,
                "summary": SUMMARIES[name],
                "contentType": "application/json",
                "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
                "examples": [{"payload": example} for example in examples[side] if example["type"] == name],
            }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Weei websocket",
            "version": str(wire.PROTOCOL_VERSION),
            "description": "Small JSON messages beside the HTTP API. A message only says what may be read there again: "
            "losing, doubling or delaying any of them changes nothing but the time. docs/protocol.md has the rules.",
        },
        "defaultContentType": "application/json",
        "servers": {
            "here": {"host": "{host}", "protocol": "wss", "variables": {"host": {"description": "This server"}}},
        },
        "channels": {
            "peer": {
                "address": "/ws/peer",
                "description": "Text frames of one JSON object each, first `hello`. The handshake needs the "
                "`Origin` of the server or of a registered site.",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "x-limits": {
                    "messageBytes": wire.MAX_MESSAGE_BYTES,
                    "messagesPerSecond": wire.MAX_MESSAGES_PER_SECOND,
                    "snapshotBytes": wire.MAX_SNAPSHOT_BYTES,
                    "helloSeconds": wire.HELLO_SECONDS,
                    "heartbeatSeconds": wire.HEARTBEAT_SECONDS,
                },
                "x-close-codes": {str(code): meaning for code, meaning in sorted(CLOSE_CODES.items())},
            }
        },
        "operations": {
            "fromPeer": _operation("receive", names["client"], "What the server takes."),
            "fromServer": _operation("send", names["server"], "What the server says."),
        },
        "components": {"messages": messages, "schemas": dict(sorted(schemas.items()))},
    }


def _operation(action: str, names: list[str], summary: str) -> Json:
    channel = "#/channels/peer"
    return {
        "action": action,
        "summary": summary,
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/{name}"} for name in names],
    }


def _schemas(model: type[BaseModel]) -> Json:
    """Of the message and what it holds. The parts of a state are PeerState's."""
    made = model.model_json_schema(ref_template="#/components/schemas/{model}")
    found = {**made.pop("$defs", {}), model.__name__: made}
    if model is wire.State:
        state = PeerState.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        found |= state.pop("$defs", {})
        made["properties"] |= {name: state["properties"][name] for name in ("job", "assignment")}
    return found


def text() -> str:
    """As the file stands."""
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return json.dumps(document(examples), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(text(), encoding="utf-8")
