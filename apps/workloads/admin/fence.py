"""The fence inspector: what workers said of claims that were not theirs any more. Refused, it changed nothing."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from apps.http.pages.readonly import ReadOnlyAdmin
from apps.keys.console import namespace_choice
from apps.workloads.admin.work import workload_url
from apps.workloads.models import RefusedWord

MEANING = {
    "WORKLOAD_STALE_FENCE": "another claim had been given since",
    "WORKLOAD_CLAIM_INVALID": "nobody held a claim any more",
    "WORKLOAD_LEASE_EXPIRED": "its lease had run out",
    "WORKLOAD_UNAUTHORIZED": "the claim was made by somebody else",
}


@admin.register(RefusedWord)
class RefusedWordAdmin(ReadOnlyAdmin):
    """Refused words of one namespace, newest first."""

    change_list_template = "admin/workloads/refusedword/list.html"
    list_display = ["workload_id"]
    list_display_links = None
    ordering = ["-id"]
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[RefusedWord]:
        """Return those of the namespace the page is about."""
        rows: QuerySet[RefusedWord] = super().get_queryset(request)
        rows = rows.filter(namespace=namespace_choice(request).current)
        worker = request.GET.get("worker_id", "").strip()
        return rows.filter(worker_id=worker) if worker else rows

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list."""
        context = {"title": "Fence", "meaning": MEANING, "worker": request.GET.get("worker_id", "").strip()}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Go to the work: its page shows what was refused of it."""
        row = self.get_object(request, object_id)
        if row is None or request.method not in ("GET", "HEAD"):
            return super().change_view(request, object_id, form_url, extra_context)
        return HttpResponseRedirect(workload_url(row.workload_id))
