"""Who may read metrics.

With `METRICS_TOKEN` set: whoever sends it as a bearer token, from anywhere. Without it: this machine only, and nothing
that came through a proxy, because behind one everybody comes from an address of one's own.
"""

from __future__ import annotations

import hmac
import ipaddress

from django.conf import settings

from weei_core.errors import Forbidden, Unauthorized

_OF_PROXIES = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"via"})


def check_scraper(headers: dict[bytes, bytes], address: str | None) -> None:
    """Raises `Unauthorized` or `Forbidden`."""
    if settings.METRICS_TOKEN:
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + settings.METRICS_TOKEN.encode()):
            raise Unauthorized("Send METRICS_TOKEN as a bearer token.", field="Authorization")
    elif not _is_here(address) or _OF_PROXIES & set(headers):
        raise Forbidden("Metrics are told to this machine only; set METRICS_TOKEN to read them from elsewhere.")


def _is_here(address: str | None) -> bool:
    try:
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False
