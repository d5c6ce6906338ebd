"""A row's page with things that can be done to it: one order of checks for all of them.

May this person do it, is there such an action and such a row, is the row still as the page showed it; then it is done
once, and what refuses it is told on the same page beside how the row stands now.
"""

from collections.abc import Collection
from typing import Any, ClassVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from apps.http.errors import ApiError
from apps.http.pages.readonly import PageAdmin

CONFLICT = 409
NOT_FOUND = 404


class ActingAdmin(PageAdmin):
    """Answers `<number>/do/<action>/`, under the name `<app>_<model>_act`."""

    act_permission: ClassVar[str]
    acts: ClassVar[Collection[str]]
    """The actions there are."""

    def get_urls(self) -> list[URLPattern]:
        """Add what can be done."""
        act = self.admin_site.admin_view(self.act_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_act"
        return [path("<int:pk>/do/<str:action>/", act, name=name), *super().get_urls()]

    def show(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one row."""
        return self.page_of(request, self.find(object_id))

    def act_view(self, request: HttpRequest, pk: int, action: str) -> HttpResponse:
        """Do one of `acts`; whoever merely opens the address is sent to the row's page."""
        if not request.user.has_perm(self.act_permission):
            raise PermissionDenied
        if action not in self.acts:
            raise Http404("there is no such action")
        leads_to = self.after(action)
        try:
            row = self.find(str(pk))
        except Http404 as gone:
            if request.method != "POST" or not leads_to:
                raise
            messages.warning(request, f"Nothing was done: {gone}. Somebody was faster, or it was pressed twice.")
            return HttpResponseRedirect(leads_to)
        here = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[pk])
        if request.method != "POST":
            return HttpResponseRedirect(here)
        if moved := self.moved_on(row, request.POST.get("seen", "")):
            return self.page_of(request, row, refusal=moved, status=CONFLICT)
        try:
            done = self.act(request, row, action, request.POST.get("reason", "").strip())
        except ApiError as refused:
            # What is not there any more was there when the page was shown: a conflict, not a wrong address.
            status = CONFLICT if refused.status == NOT_FOUND else refused.status
            return self.page_of(request, self.find(str(pk)), refusal=refused.message, status=status)
        messages.success(request, done)
        return HttpResponseRedirect(leads_to or here)

    def find(self, object_id: str) -> Any:
        """Return the row as it is now. Raises Http404."""
        raise NotImplementedError

    def moved_on(self, row: Any, seen: str) -> str:
        """Return how the row stands now where that is not what the page showed (its field `seen`), else nothing."""
        return ""

    def act(self, request: HttpRequest, row: Any, action: str, reason: str) -> str:
        """Do it and return what was done, for the person. Raises ApiError."""
        raise NotImplementedError

    def after(self, action: str) -> str:
        """Return where to go once it is done, where that is not the row's own page."""
        return ""

    def page_of(self, request: HttpRequest, row: Any, *, refusal: str | None = None, status: int = 200) -> HttpResponse:
        """Return the page of the row, and on it why an action was not done."""
        raise NotImplementedError
