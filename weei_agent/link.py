"""The invitation link that an agent was given."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from weei_agent.outcomes import Exit, Stop


@dataclass(frozen=True)
class Link:
    """An invitation: where, and the token that opens it (what stands behind the last "/" or "#")."""

    origin: str
    token: str


def parse_link(text: str) -> Link:
    parts = urlsplit(text.strip())
    token = parts.fragment or parts.path.rstrip("/").rpartition("/")[2]
    if parts.scheme not in ("http", "https") or not parts.hostname or not token:
        raise Stop(Exit.USAGE, f"The link must be an invitation link, http(s)://<server>/…/<token>; found {text!r}.")
    return Link(f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}", token)
