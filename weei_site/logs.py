"""How a log line looks: `LOG_FORMAT=line` for people, `json` (one object a line) for collectors.

A line names what it is about (weei_core/log_context.py), holds no secret, and is one line: what a stranger sent can
neither begin a new one nor hide one.
"""

from __future__ import annotations

import datetime
import logging
import re
from typing import Any

from pythonjsonlogger.json import JsonFormatter as LibraryFormatter

from weei_core import log_context

role = "manage"
"""Which kind of process this is: web, fast, slow; anything else is a command."""

_HIDDEN = "[hidden]"
_SECRETS = (
    # A password in a URL, a token of a request, and the addresses that are secrets (invitation and sign-in links).
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=:-]{8,}"), rf"\1 {_HIDDEN}"),
    (re.compile(r"(/(?:join|sign-in)/)[^\s/\"'<>]{8,}"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)\b(password|secret_key|secret|token|sessionid|csrftoken)(\"?'?\s*[=:]\s*\"?'?)[^\s\"',;&]{8,}"),
     rf"\1\2{_HIDDEN}"),
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Everything but tabs and line feeds that a terminal or a reader of logs might take for more than text."""


def scrubbed(text: str) -> str:
    """The text without what looks like a secret."""
    for pattern, hidden in _SECRETS:
        text = pattern.sub(hidden, text)
    return text


def visible(text: str) -> str:
    """Control characters written out; line feeds and tabs stay."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _one_line(text: str) -> str:
    return visible(text).replace("\n", "\\n")


class LineFormatter(logging.Formatter):
    """`time LEVEL logger message [job=… round=…]`; what follows of a traceback is indented, so that no line of it looks
    like the beginning of another record."""

    def format(self, record: logging.LogRecord) -> str:
        message = _one_line(scrubbed(record.getMessage()))
        fields = " ".join(f"{name}={_one_line(value)}" for name, value in log_context.current().items())
        line = f"{self.formatTime(record)} {record.levelname} {record.name} {message}{f' [{fields}]' if fields else ''}"
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        details = [text for text in (record.exc_text, record.stack_info) if text]
        return "\n    ".join([line, *(row for text in details for row in visible(scrubbed(text)).split("\n"))])


class JsonFormatter(LibraryFormatter):
    """`{"time", "level", "logger", "role", "message", …}`, then what the line is about, then its exception."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        log_data.update(
            {
                "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "level": record.levelname,
                "logger": record.name,
                "role": role,
                "message": scrubbed(record.getMessage()),
                **log_context.current(),
            }
        )
        for name in ("exc_info", "stack_info"):
            if text := message_dict.get(name):
                log_data[name] = scrubbed(str(text))
