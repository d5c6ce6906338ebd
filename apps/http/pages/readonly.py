"""Model admins that show and never save. What an operator can change goes through a service, on pages of its own."""

from collections.abc import Sequence
from typing import Any, TypeVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed

from apps.http.pages.limits import PAGE_ROWS
from apps.http.pages.paging import CappedPaginator

M = TypeVar("M", bound=Model)

_MAX_DIGITS = 18
"""Digits of a row's number: more is none that a database could hold."""


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

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list. What is sent to it by somebody who is offered no action there is refused, not passed over."""
        if request.method == "POST" and not self.get_actions(request):
            raise PermissionDenied
        return super().changelist_view(request, extra_context)

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


class PageAdmin(ReadOnlyAdmin):
    """A model whose rows are shown on a page of our own, which has nothing to submit: what acts has its own address."""

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one row."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        return self.show(request, object_id)

    def show(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the page of the row that the address names. Raises Http404 where there is none."""
        raise NotImplementedError


def numbered(rows: QuerySet[M], object_id: str, what: str) -> M:
    """Return the row with that number. Raises Http404, naming what there is none of, also for what is no number."""
    number = object_id.isascii() and object_id.isdigit() and len(object_id) <= _MAX_DIGITS
    row = rows.filter(pk=object_id).first() if number else None
    if row is None:
        raise Http404(f"there is no such {what}")
    return row
