"""Guest peers and their tokens. A token is 256 random bits; only its hash is stored."""

from __future__ import annotations

import hashlib
import secrets

from checkpoints.services.rows import only_row
from peers.models import Peer
from weei_core.errors import Unauthorized
from weei_core.log_context import note


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_of(authorization: str | None) -> str | None:
    """The token of an Authorization header, or None."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def peer_create() -> tuple[Peer, str]:
    """A new peer and its token, which is shown this once."""
    token = secrets.token_urlsafe(32)
    return Peer.objects.create(token_hash=token_hash(token)), token


def peer_for_token(token: str) -> Peer:
    """One query; raises Unauthorized for an unknown token."""
    peer = only_row(Peer.objects.filter(token_hash=token_hash(token))) if 0 < len(token) <= 200 else None
    if peer is None:
        raise Unauthorized("The peer token is not known here. Reload the page to get a new one.", field="token")
    note(peer=peer.pk)
    return peer
