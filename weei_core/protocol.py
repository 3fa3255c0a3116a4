"""Names, fields and limits of what a peer and the server say to each other (docs/protocol.md).

`parse_client_message` and `parse_server_message` are the guards of the two sides; static/weei/protocol.js is the twin.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from weei_core import strict_json
from weei_core.errors import Invalid

T = TypeVar("T")

PROTOCOL_VERSION = 1
MAX_MESSAGE_BYTES = 65_536
MAX_SNAPSHOT_BYTES = 32_768
MAX_SNAPSHOT_TEXT = 300
MAX_SNAPSHOT_METRICS = 64
MAX_MESSAGES_PER_SECOND = 20
HELLO_SECONDS = 5
HEARTBEAT_SECONDS = 5
POLL_SECONDS = 10
LEASE_SECONDS = 30
INLINE_WEIGHT_BYTES = 16_384
SLICE_BYTES = 8 * 1024 * 1024

CLOSE_HELLO = 4000
CLOSE_REPLACED = 4001
CLOSE_UNAUTHORIZED = 4003
CLOSE_PROTOCOL = 4009


class Message(BaseModel):
    """One frame. Unknown fields are refused, numbers are not guessed from text."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Hello(Message):
    type: Literal["hello"]
    protocol: int
    token: Annotated[str, Field(max_length=200)]
    train: bool
    session: int | None = None
    attemptId: Annotated[UUID, Field(strict=False)] | None = None
    watch: Annotated[UUID, Field(strict=False)] | None = None
    user: Annotated[str, Field(max_length=200)] | None = None


class Heartbeat(Message):
    type: Literal["heartbeat"]


class Diagnostics(Message):
    type: Literal["diagnostics"]
    snapshot: dict[str, Any]


class Watch(Message):
    type: Literal["watch"]
    jobId: Annotated[UUID, Field(strict=False)] | None


ClientMessage = Annotated[Hello | Heartbeat | Diagnostics | Watch, Field(discriminator="type")]


class Welcome(Message):
    type: Literal["welcome"]
    protocol: int
    peerId: str
    session: int
    sequence: int
    heartbeatSeconds: float
    pollSeconds: float


class State(Message):
    """A PeerState. Its parts are read by the peer; only their presence is checked here."""

    type: Literal["state"]
    peerId: str
    session: int
    invitations: list[str]
    job: dict[str, Any] | None
    assignment: dict[str, Any] | None


class JobHint(Message):
    type: Literal["job"]
    jobId: str
    what: list[str]


class Live(Message):
    type: Literal["live"]
    jobId: str
    peers: dict[str, dict[str, Any]]


class ErrorMessage(Message):
    type: Literal["error"]
    code: str
    message: str
    re: str | None = None


ServerMessage = Annotated[Welcome | State | JobHint | Live | ErrorMessage, Field(discriminator="type")]

_client: TypeAdapter[Hello | Heartbeat | Diagnostics | Watch] = TypeAdapter(ClientMessage)
_server: TypeAdapter[Welcome | State | JobHint | Live | ErrorMessage] = TypeAdapter(ServerMessage)


def parse_client_message(text: str | bytes) -> Hello | Heartbeat | Diagnostics | Watch:
    """Read one frame of a peer; raises `Invalid` with a sentence for whatever does not fit."""
    return _parse(text, _client)


def parse_server_message(text: str | bytes) -> Welcome | State | JobHint | Live | ErrorMessage:
    """Read one frame of the server (agents)."""
    return _parse(text, _server)


def _parse(text: str | bytes, adapter: TypeAdapter[T]) -> T:
    value = strict_json.loads(text, what="message")
    if not isinstance(value, dict):
        raise Invalid("A message must be a JSON object with a type.", field="message", code="invalid_message")
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "message"
        raise Invalid(f"message.{where}: {first['msg']}.", field=where, code="invalid_message") from error
