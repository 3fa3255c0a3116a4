"""Reading one row."""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)


def only_row(rows: QuerySet[M]) -> M | None:
    """The row, where there can be one at most, or None. `first()` would sort by the key, and to make that part of the
    SQL costs more than all the rest of a query."""
    return next(iter(rows), None)
