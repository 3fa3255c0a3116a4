"""docs/protocol.md names every call, every message, every close code and every error code that the code knows."""

from __future__ import annotations

import ast
import json
import re
import typing
from pathlib import Path

import pytest

from tests.test_architecture import ALL
from weei_core import protocol as wire
from weei_site.api import api

ROOT = Path(__file__).parents[1]
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
NAMES = {"round_no": "round"}


def documented(path: str) -> str:
    """`/jobs/{job_id}` as the page spells it: `/jobs/<jobId>`."""

    def name(found: re.Match[str]) -> str:
        first, *rest = NAMES.get(found[1], found[1]).split("_")
        return f"<{first}{''.join(part.capitalize() for part in rest)}>"

    return re.sub(r"\{(\w+)\}", name, path)


CALLS = [
    f"{method.upper()} {documented(path)}"
    for path, methods in api.get_openapi_schema()["paths"].items()
    for method in methods
]


def test_every_call_of_the_api_is_described_and_no_other():
    described = re.findall(r"^\| `((?:GET|POST|PATCH|PUT|DELETE) /api/v1/[^`?]*)`", PROTOCOL, re.M)
    assert sorted(described) == sorted(CALLS)


def messages(union) -> dict[str, type]:
    members = typing.get_args(typing.get_args(union)[0])
    return {typing.get_args(member.model_fields["type"].annotation)[0]: member for member in members}


@pytest.mark.parametrize(
    "side, union", [("client", wire.ClientMessage), ("server", wire.ServerMessage)], ids=["client", "server"]
)
def test_every_message_is_described_with_its_fields_and_has_an_example(side, union):
    examples = json.loads((ROOT / "tests" / "golden" / "messages.json").read_text(encoding="utf-8"))[side]
    parse = wire.parse_client_message if side == "client" else wire.parse_server_message
    seen = {type(parse(json.dumps(example))) for example in examples}
    for name, model in messages(union).items():
        row = re.search(rf"^\| `{name}` \|(.*)$", PROTOCOL, re.M)
        assert row, name
        assert model in seen, f"no example of {name}"
        if name != "state":  # Its fields are those of PeerState, below the table of calls.
            missing = [field for field in model.model_fields if field != "type" and field not in row[1]]
            assert not missing, (name, missing)


def test_the_parts_of_a_job_that_a_hint_may_name_are_described():
    from peers.watching import PARTS

    row = re.search(r"^\| `job` \|(.*)$", PROTOCOL, re.M)[1]
    assert {word for word in re.findall(r"`(\w+)`", row) if word != "what"} == PARTS


def codes() -> dict[str, str]:
    """Every code that an error is given, with a file that gives it."""
    found = {}
    for path in ALL:
        if path.relative_to(ROOT).parts[0] == "weei_cli":
            continue  # Its own codes stand in docs/command-line.md.
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") != "ValidationError":
                values = [word.value for word in node.keywords if word.arg == "code"]
            elif isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "default_code" for t in node.targets):
                values = [node.value]
            else:
                continue
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found[value.value] = str(path.relative_to(ROOT))
    return found


def test_every_error_code_is_described():
    found = codes()
    assert len(found) > 30 and "stale_attempt" in found
    assert {code: path for code, path in found.items() if f"`{code}`" not in PROTOCOL} == {}


def test_every_code_that_the_table_describes_exists():
    table = PROTOCOL[PROTOCOL.index("| code | status | meaning |") : PROTOCOL.index("## HTTP JSON for peers")]
    described = {code for row in re.findall(r"^\| (`[^|]*) \|", table, re.M) for code in re.findall(r"`(\w+)`", row)}
    assert described - set(codes()) == set()


def test_close_codes_and_limits_are_the_ones_of_the_code():
    from peers.consumers import SOCKETS_PER_PEER
    from peers.sockets import SEND_SECONDS
    from peers.watching import TICK_SECONDS, TICKS_PER_CHECK

    for code in (wire.CLOSE_HELLO, wire.CLOSE_REPLACED, wire.CLOSE_UNAUTHORIZED, wire.CLOSE_PROTOCOL):
        assert f"{code} " in PROTOCOL
    assert f"`hello` within {wire.HELLO_SECONDS} s" in PROTOCOL
    assert f"more than {wire.MAX_MESSAGES_PER_SECOND} messages a second" in PROTOCOL.lower()
    assert f"More than {wire.MAX_MESSAGE_BYTES // 1024} KiB" in PROTOCOL
    assert f"{wire.MAX_SNAPSHOT_BYTES // 1024} KiB at most" in PROTOCOL
    assert f"every {wire.HEARTBEAT_SECONDS} s" in PROTOCOL and f"every {wire.POLL_SECONDS} s" in PROTOCOL
    assert f"at most {wire.INLINE_WEIGHT_BYTES // 1024} KiB" in PROTOCOL
    assert SOCKETS_PER_PEER == 5 and "A sixth socket" in PROTOCOL
    assert f"takes nothing for {SEND_SECONDS} s" in PROTOCOL
    assert TICK_SECONDS * TICKS_PER_CHECK < 5 and "within 5 s when the right to watch ends" in PROTOCOL


def test_the_shapes_that_peers_read_are_described():
    for name in ("PeerState", "Assignment", "Invitation"):
        assert f"**{name}**" in PROTOCOL
    for name in ("attemptId", "assignmentId", "secondsLeft", "moduleSha256", "pausedByCoordinator", "waitingFor"):
        assert name in PROTOCOL
