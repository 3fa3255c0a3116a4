"""How figures are written on the pages. What is not known is a dash, never a zero."""

from __future__ import annotations

import math
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

DASH = "—"
_UNITS = ("KiB", "MiB", "GiB", "TiB")


def is_missing(value: object) -> bool:
    """None, "", the wire value "unknown" and numbers that are not finite are missing data."""
    return value is None or value == "" or value == "unknown" or (isinstance(value, float) and not math.isfinite(value))


@register.filter
def shown(value: object) -> object:
    """The value as it is, or a dash."""
    return DASH if is_missing(value) else value


@register.filter
def bytes_text(value: Any) -> str:
    """1536 → "1.5 KiB"."""
    if is_missing(value):
        return DASH
    size = float(value)
    if size < 1024:
        return f"{int(size)} B"
    for unit in _UNITS:
        size /= 1024
        if size < 1024 or unit == _UNITS[-1]:
            break
    return f"{size:.0f} {unit}" if size >= 100 else f"{size:.1f} {unit}"


@register.filter
def duration(milliseconds: Any) -> str:
    """90_000 → "1 min 30 s"; under ten seconds with one decimal."""
    if is_missing(milliseconds):
        return DASH
    seconds = float(milliseconds) / 1000
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, left = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (left, "s")]
    first = next(index for index, (amount, _) in enumerate(parts) if amount)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount)


@register.filter
def about_left(milliseconds: Any) -> str:
    """How long something still takes, roughly: 190_000 → "about 3 min left"."""
    if is_missing(milliseconds):
        return "time left unknown"
    seconds = max(1, round(float(milliseconds) / 1000))
    if seconds < 60:
        return f"about {seconds} s left"
    return f"about {duration(60_000 * round(seconds / 60))} left"


@register.filter
def percent(fraction: Any) -> str:
    """Whole and rounded down, so that 100 % is the end: 0.429 → "42 %"."""
    return DASH if is_missing(fraction) else f"{math.floor(100 * float(fraction))} %"


@register.filter
def metric(value: Any) -> str:
    """Four significant digits."""
    if is_missing(value) or isinstance(value, bool):
        return DASH
    number = float(value)
    return f"{number:.4g}" if number == 0 or 1e-4 <= abs(number) < 1e6 else f"{number:.3e}"


@register.filter
def speed(value: Any) -> str:
    """Examples per second."""
    return DASH if is_missing(value) else f"{float(value):,.0f}/s" if float(value) >= 10 else f"{float(value):.1f}/s"


@register.filter
def count(value: Any) -> str:
    """Whole numbers with thousands separated."""
    return DASH if is_missing(value) else f"{int(value):,}"


@register.filter
def passes(value: Any) -> str:
    """2.0 → "2", 1.25 → "1.25"."""
    return DASH if is_missing(value) else f"{float(value):.2f}".rstrip("0").rstrip(".")


@register.filter
def short_hash(value: Any) -> str | SafeString:
    """The first twelve digits; the whole hash is the title."""
    if is_missing(value):
        return DASH
    return format_html('<code title="{}">{}…</code>', value, str(value)[:12])


@register.filter
def short_id(value: Any) -> str:
    return str(value)[:8]


@register.filter
def part_name(row: Any) -> str:
    """The item of a slot: a chunk's name, or the units of a range, its last one included."""
    slot = row.slot
    return row.item if slot.chunk_id else f"{slot.record_start:,}–{slot.record_start + slot.record_count - 1:,}"


@register.filter
def lookup(mapping: Any, key: Any) -> Any:
    """`{{ values|lookup:id }}`: an absent key is missing data."""
    return mapping.get(key) if isinstance(mapping, dict) else None


@register.simple_tag
def local_time(value: Any) -> str | SafeString:
    """A time that the page's script writes in the reader's own zone."""
    if value is None:
        return DASH
    return format_html('<time datetime="{}" data-local>{}</time>', value.isoformat(), f"{value:%Y-%m-%d %H:%M} UTC")


STATE_WORDS = {
    "invited": ("Invited", ""),
    "approved": ("Loading the model", "accent"),
    "declined": ("Declined", ""),
    "unknown": ("Not heard from yet", ""),
    "disconnected": ("Disconnected", "warn"),
    "modelLoaded": ("Ready", "good"),
    "assigned": ("Assigned", "accent"),
    "training": ("Training", "accent"),
    "updateReady": ("Uploading", "accent"),
    "resultReceived": ("Update received", "good"),
    "stopped": ("Stopped", "warn"),
    "modelLoadFailed": ("Could not load the model", "bad"),
    "left": ("Left", ""),
    "removed": ("Removed", ""),
    "loading": ("Loading", "accent"),
    "received": ("Received", "good"),
    "ready": ("Ready to start", "accent"),
    "running": ("Running", "good"),
    "paused": ("Paused", "warn"),
    "completed": ("Completed", ""),
    "queued": ("Queued", ""),
    "preparing": ("Preparing", "accent"),
    "failed": ("Failed", "bad"),
    "active": ("Open", "good"),
    "used": ("Used up", ""),
    "expired": ("Expired", ""),
    "revoked": ("Revoked", "warn"),
    "waiting": ("Waiting", ""),
    "receiving": ("Receiving", "accent"),
    "compiling": ("Compiling", "accent"),
    "uploading": ("Uploading", "accent"),
    "awaitingAggregation": ("Waiting for the merge", "accent"),
    "error": ("Error", "bad"),
    "merging": ("Merging", "accent"),
    "done": ("Done", ""),
    "replaced": ("Started again", ""),
}
_MOVING = frozenset({"training", "running", "updateReady", "uploading", "receiving", "preparing"})


def state_word(state: str) -> tuple[str, str]:
    """A wire state in words, and its tone. A state that is not known here is shown as it is."""
    return STATE_WORDS.get(state, (state, ""))


@register.simple_tag
def badge(state: str) -> SafeString:
    """A wire state in words and a colour."""
    word, tone = state_word(state)
    return format_html(
        '<span class="badge {}"><span class="dot {}" aria-hidden="true"></span>{}</span>',
        tone,
        "live" if state in _MOVING else "",
        word,
    )
