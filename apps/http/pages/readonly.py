"""Model admins that show and never save. What an operator can change goes through a service, on pages of its own."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from apps.http.pages.limits import PAGE_ROWS
from apps.http.pages.paging import CappedPaginator


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not generic at run time
    """Nothing can be added, changed or deleted; lists are bounded; there are no bulk actions.

    `save_model` and its kin refuse as well, so that a subclass that forgets a permission still cannot write.
    """

    actions: Sequence[str] | None = None
    list_per_page = PAGE_ROWS
    list_max_show_all = 0
    show_full_result_count = False
    paginator = CappedPaginator
    empty_value_display = "none"

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        """Refuse."""
        raise TypeError(f"{type(self).__name__} does not save; call the room's service")

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        """Refuse."""
        raise TypeError(f"{type(self).__name__} does not delete; call the room's service")

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> None:
        """Refuse."""
        raise TypeError(f"{type(self).__name__} does not delete; call the room's service")
