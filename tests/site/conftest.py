"""One request to the whole application, as uvicorn would make it, and a log that is read as it is written."""

import io
import logging

import pytest
from django.core.asgi import get_asgi_application

from tests.checkpoints.asgi import call
from weei_site.logs import JsonFormatter, LineFormatter
from weei_site.routing import build


@pytest.fixture
def ask():
    """`ask(path)`: the answer. `client`: the caller's address."""
    application = build(get_asgi_application())

    def asked(path, method="GET", headers=(), body=(), client="203.0.113.9"):
        async def from_there(scope, receive, send):
            await application({**scope, "client": (client, 50_000), "root_path": ""}, receive, send)

        return call(from_there, method, path, {"Host": "testserver", **dict(headers)}, body)

    return asked


@pytest.fixture
def written():
    """`written("json")` begins to listen; called again it gives the text so far."""
    handlers = []

    def listen(kind):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(JsonFormatter() if kind == "json" else LineFormatter())
        logging.getLogger().addHandler(handler)
        handlers.append(handler)
        return stream

    yield listen
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
