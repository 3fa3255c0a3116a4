"""What a tus client sends, in few words."""

from __future__ import annotations

import struct

from checkpoints.bytes.app import BytesApp
from tests.checkpoints.asgi import call
from tests.checkpoints.conftest import OCTETS, TUS

UPLOADS = "/bytes/uploads"
SMALL = b"\0\0\x80?" * 64
BIG = struct.pack("<f", 0.5) * 20_000


def post(world, data: bytes, headers=None, pieces=None, app=None):
    return call(app or BytesApp(), "POST", UPLOADS, headers or world.update_headers(data), pieces or [data])


def patch(location, headers, offset, data, app=None):
    slice_headers = {**headers, **OCTETS, "Upload-Offset": str(offset)}
    return call(app or BytesApp(), "PATCH", location, slice_headers, data if isinstance(data, list) else [data])


def head(location, headers):
    return call(BytesApp(), "HEAD", location, {**TUS, **headers})


def refused(answer, status: int, code: str):
    assert answer.headers["content-type"] == "application/problem+json", answer
    assert (answer.status, answer.json["code"]) == (status, code), answer.json
    assert answer.json["title"]
    return answer


def create(world, data, headers=None):
    described = dict(headers or world.update_headers(data))
    described.pop("Content-Type")
    answer = call(BytesApp(), "POST", UPLOADS, described)
    assert (answer.status, answer.headers["upload-offset"]) == (201, "0")
    return answer.headers["location"], {name: described[name] for name in described if not name.startswith("Upload")}


def length_of(data):
    return {"Content-Length": str(len(data))}
