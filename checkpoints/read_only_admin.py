"""The admin shows rows and calls services; it never writes a row itself, so that no rule of the engine is passed by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

M = TypeVar("M", bound=models.Model)
if TYPE_CHECKING:

    class _ModelAdmin(admin.ModelAdmin[M]): ...

else:  # ModelAdmin takes a type argument only in its stubs.

    class _ModelAdmin(Generic[M], admin.ModelAdmin): ...


class ReadOnlyAdmin(_ModelAdmin[M]):
    """Every field can be looked at and none changed; actions of a subclass call services. Staff with the permission to
    view may look, those with the permission to change may use the actions."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        # With a row: its page stays read-only. Without one: whether actions may be used.
        return obj is None and super().has_change_permission(request, obj)
