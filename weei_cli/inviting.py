"""`weei invite`: links, made, listed and revoked."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from weei_cli.api import Api
from weei_cli.looking import JOBS
from weei_cli.outcomes import Exit, Failed, usage
from weei_cli.output import Printer, when

DEFAULT_DAYS = 7
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


async def invite(api: Api, printer: Printer, options: argparse.Namespace) -> Exit:
    expires = expiry(options.expires, datetime.now(UTC))
    saved = await api.job_named(options.job)
    if options.list:
        return await _list(api, printer, saved["id"])
    if options.revoke:
        return await _revoke(api, printer, saved["id"], options.revoke)
    link = await make(api, saved["id"], options.uses, expires)
    printer.data(link)
    show(printer, link)
    return Exit.DONE


async def make(api: Api, job_id: str, uses: int, expires: datetime) -> dict[str, Any]:
    body = {"uses": uses, "expiresAt": expires.isoformat()}
    link: dict[str, Any] = await api.call("POST", f"{JOBS}/{job_id}/invitations", body)
    return link


def show(printer: Printer, link: dict[str, Any]) -> None:
    """The address alone on standard output."""
    printer.say(link["url"])
    people = "one participant" if link["maxUses"] == 1 else f"{link['maxUses']} participants"
    printer.note(f"For {people}, until {when(link['expiresAt'])}. It is shown only now.")


def expiry(text: str | None, now: datetime) -> datetime:
    """A time, or how long from now."""
    if text is None:
        return now + timedelta(days=DEFAULT_DAYS)
    if found := re.fullmatch(r"([0-9]{1,5})([mhd])", text):
        return now + int(found[1]) * _UNITS[found[2]]
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise usage(f"--expires must be a time such as 2026-12-31T18:00, or 90m, 12h, 7d; found {text!r}.") from None


async def _list(api: Api, printer: Printer, job_id: str) -> Exit:
    found = [row async for row in api.pages(f"{JOBS}/{job_id}/invitations")]
    printer.data(found)
    printer.table(
        ("Id", "State", "Used", "Ends"),
        [(row["id"][:8], row["state"], f"{row['uses']} of {row['maxUses']}", when(row["expiresAt"])) for row in found],
        empty="No link was made yet.",
    )
    return Exit.DONE


async def _revoke(api: Api, printer: Printer, job_id: str, prefix: str) -> Exit:
    found = [
        row["id"] async for row in api.pages(f"{JOBS}/{job_id}/invitations") if row["id"].startswith(prefix.lower())
    ]
    if len(found) != 1:
        candidates = f"; give more of the id: {', '.join(found)}" if found else ""
        raise Failed(
            f"{len(found)} links of this job have an id that begins with {prefix!r}{candidates}.",
            code="ambiguous" if found else "not_found",
        )
    await api.call("POST", f"{JOBS}/{job_id}/invitations/{found[0]}/revoke", {})
    printer.data({"revoked": found[0]})
    printer.say(f"The link {found[0][:8]} is revoked; those who have joined stay.")
    return Exit.DONE
