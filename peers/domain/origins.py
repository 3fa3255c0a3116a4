"""An origin in the one form in which browsers send it: scheme, host, and the port where it is not the scheme's own."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from weei_core.errors import Invalid

DEFAULT_PORTS = {"http": 80, "https": 443}
SHOWN_CHARACTERS = 100
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def origin_of(url: str) -> str | None:
    """The origin of an address as browsers write it, or None."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if port in (None, DEFAULT_PORTS[parts.scheme]) else f":{port}")


def canonical_origin(text: str) -> str:
    """The text itself, if browsers write this origin so; raises `Invalid` that says how to write it."""
    shown = repr(text[:SHOWN_CHARACTERS])
    origin = origin_of(text)
    if origin is None or not _is_host(origin.partition("://")[2]):
        raise Invalid(
            "origin must be http:// or https://, a host (other letters than a to z in their xn-- form) and the port "
            f"where it is not the scheme's own, such as https://example.org; found {shown}.",
            field="origin",
        )
    if origin != text:
        raise Invalid(f"origin must be written as browsers do: {origin}; found {shown}.", field="origin")
    return text


def _is_host(host_and_port: str) -> bool:
    """Whether browsers would keep this host as it stands."""
    if host_and_port.startswith("["):
        return _is_ipv6(host_and_port[1:].partition("]")[0])
    host = host_and_port.partition(":")[0]
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # Whatever ends in a number is an IPv4 address to browsers, which rewrite all but its usual form.
        return _is_ipv4(host)
    return len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels)


def _is_ipv4(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def _is_ipv6(host: str) -> bool:
    try:
        address = IPv6Address(host)
    except ValueError:
        return False
    # Mapped addresses are written in two ways, by browsers and by versions of Python; zones are no part of origins.
    return address.ipv4_mapped is None and address.scope_id is None and str(address) == host
