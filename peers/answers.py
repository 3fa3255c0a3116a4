"""How calls of the HTTP API answer: JSON as the services make it, and lists by pages.

One convention for all lists: `limit`, and `cursor` as the answer before gave it in `Link: <…>; rel="next"`. A cursor
names the last row that was told, so that rows which come or go meanwhile are neither told twice nor passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Annotated, Any, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Query, Status

from weei_core import js_json
from weei_core.errors import Invalid

MAX_PAGE = 500
PAGE = 100
MAX_INT = 2**31 - 1
MAX_ID = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NUMBER = re.compile(r"[0-9]{1,15}")
_PLACE = re.compile(r"([0-9]{1,17})\.([0-9a-f]{32})")
Row = TypeVar("Row", bound=Model)

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.", examples=[100])]
Cursor = Annotated[
    str | None,
    Query(
        max_length=60,
        description='Where to go on: that of the `Link: <…>; rel="next"` of the page before. Take it as it is.',
    ),
]

NEXT_LINK = {
    "Link": {
        "description": 'The next page as `<address>; rel="next"`, relative to this one. The last page has none.',
        "schema": {"type": "string"},
    }
}
PAGED: dict[str, Any] = {"responses": {200: {"headers": NEXT_LINK}}}
"""`openapi_extra` of a call that answers a page."""


class Page(NamedTuple):
    """`body` in the shape that it has without pages; `cursor` goes on behind it, None at the end. `path` is that of the
    list where it is not the one that was asked."""

    body: Any
    cursor: str | int | None
    path: str = ""


def as_made(view: Callable[..., Any]) -> Callable[..., HttpResponse]:
    """Write what the view returns. The declared schema describes it, and tests prove it: an answer that went through it
    again would lose members that it does not name, and get nulls where members are left out."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        found = view(request, *args, **kwargs)
        status, body = (found.status_code, found.value) if isinstance(found, Status) else (200, found)
        if status == 204:
            return HttpResponse(status=204)
        page = body if isinstance(body, Page) else Page(body, None)
        response = HttpResponse(js_json.dumps(page.body), "application/json; charset=utf-8", status)
        if page.cursor is not None:
            query = request.GET.copy()
            query["cursor"] = str(page.cursor)
            response["Link"] = f'<{page.path or request.path}?{query.urlencode()}>; rel="next"'
        return response

    return answer


def number_of(cursor: str | None) -> int | None:
    """Of a list in the order of whole numbers."""
    if cursor is not None and not _NUMBER.fullmatch(cursor):
        raise _wrong(cursor)
    return None if cursor is None else int(cursor)


def id_of(cursor: str | None) -> UUID | None:
    """Of a list in the order of ids."""
    if cursor is not None and not re.fullmatch("[0-9a-f]{32}", cursor):
        raise _wrong(cursor)
    return None if cursor is None else UUID(cursor)


def by_time(
    rows: QuerySet[Row], limit: int, cursor: str | None, *, newest_first: bool = True
) -> tuple[list[Row], str | None]:
    """A page in the order of `created`, then of the id; and the cursor behind it."""
    way, sign = ("lt", "-") if newest_first else ("gt", "")
    if cursor is not None:
        at, row_id = _place(cursor)
        rows = rows.filter(Q(**{f"created__{way}": at}) | Q(**{"created": at, f"pk__{way}": row_id}))
    found = list(rows.order_by(f"{sign}created", f"{sign}pk")[: limit + 1])
    last: Any = found[limit - 1] if len(found) > limit else None
    return found[:limit], last and f"{(last.created - _EPOCH) // _MICROSECOND}.{last.pk.hex}"


def _place(cursor: str) -> tuple[datetime, UUID]:
    found = _PLACE.fullmatch(cursor)
    if found is None:
        raise _wrong(cursor)
    try:
        return _EPOCH + int(found[1]) * _MICROSECOND, UUID(found[2])
    except OverflowError:
        raise _wrong(cursor) from None


def part(items: Sequence[Any], limit: int, cursor: str | None) -> tuple[Sequence[Any], int | None]:
    """A page of what never changes its order; the cursor is a position."""
    begin = number_of(cursor) or 0
    end = begin + limit
    return items[begin:end], end if end < len(items) else None


def _wrong(cursor: str) -> Invalid:
    return Invalid(
        f'cursor must be one that a Link header with rel="next" of this list named; found {cursor[:60]!r}.',
        field="cursor",
    )
