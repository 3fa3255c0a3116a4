"""Presence is a lease, not a socket: a peer is connected while the server heard from it in the last 30 s."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import F

from peers.models import Peer


def lease_end(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.LEASE_SECONDS)


def is_connected(peer: Peer, now: datetime) -> bool:
    return peer.lease_until is not None and peer.lease_until >= now


def peer_seen(peer: Peer, now: datetime) -> bool:
    """Note that the peer was heard from. True when its lease had ended, so that it may be given work again."""
    was_away = not is_connected(peer, now)
    if was_away or peer.seen_at is None or now - peer.seen_at > timedelta(seconds=settings.SWEEP_SECONDS):
        Peer.objects.filter(pk=peer.pk).update(seen_at=now, lease_until=lease_end(now))
        peer.seen_at, peer.lease_until = now, lease_end(now)
    return was_away


def leases_renew(now: datetime, alive_at: datetime) -> int:
    """After a gap in the server's own life: every lease that was valid when it was last alive starts again.

    The others stay ended, also where a clock that was set back would make them look valid.
    """
    ended = Peer.objects.filter(lease_until__lt=alive_at, lease_until__gte=now, seen_at__gt=now)
    ended.update(lease_until=now - timedelta(seconds=1))
    return Peer.objects.filter(lease_until__gte=alive_at).update(lease_until=lease_end(now))


class Heartbeats:
    """Heartbeats of this process's sockets, gathered so that they cost one UPDATE every few seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[UUID] = set()

    def note(self, peer_id: UUID) -> None:
        with self._lock:
            self._seen.add(peer_id)

    def flush(self, now: datetime) -> list[UUID]:
        """Write them; returns the peers whose lease had ended meanwhile."""
        with self._lock:
            seen, self._seen = self._seen, set()
        if not seen:
            return []
        try:
            away = list(Peer.objects.filter(pk__in=seen, lease_until__lt=now).values_list("pk", flat=True))
            Peer.objects.filter(pk__in=seen).update(seen_at=now, lease_until=lease_end(now))
        except Exception:
            # The database is away; they were heard from all the same, and the next flush says so.
            with self._lock:
                self._seen |= seen
            raise
        return away


heartbeats = Heartbeats()


def session_take(peer: Peer) -> int:
    """A new tab trains: the session number goes up, and older tabs find theirs outdated."""
    Peer.objects.filter(pk=peer.pk).update(session=F("session") + 1)
    peer.refresh_from_db(fields=["session"])
    return peer.session
