"""Quarantine in the console: changes that matched a trigger and could not become work; retry one, or pass it over."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.http.pages.acting import ActingAdmin
from apps.http.pages.readonly import numbered
from apps.keys.console import acting, namespace_choice
from apps.triggers import services
from apps.triggers.models import TriggerQuarantine
from apps.workloads.clock import now_ms

ACT = "triggers.change_trigger"


@admin.register(TriggerQuarantine)
class TriggerQuarantineAdmin(ActingAdmin):
    """Changes that stand aside, of one namespace: those that wait for somebody, or all there ever were."""

    act_permission = ACT
    acts = ("retry", "skip")

    change_list_template = "admin/triggers/triggerquarantine/list.html"
    list_display = ["record_key"]
    list_display_links = None
    ordering = ["-id"]
    list_select_related = ["trigger"]
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[TriggerQuarantine]:
        """Return those of the namespace the page is about; with `?all=1` also those that were seen to."""
        rows: QuerySet[TriggerQuarantine] = super().get_queryset(request)
        rows = rows.filter(namespace=namespace_choice(request).current).select_related("trigger")
        everything = getattr(request, "all_of_it", False)
        return rows if everything else rows.filter(resolved_at_ms__isnull=True)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list."""
        asked = request.GET.copy()
        request.all_of_it = bool(asked.pop("all", None))  # type: ignore[attr-defined]
        request.GET = asked  # type: ignore[assignment] # what the list reads
        context = {"title": "Quarantine", "all_of_it": request.all_of_it}  # type: ignore[attr-defined]
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def find(self, object_id: str) -> TriggerQuarantine:
        """Return the change. Raises Http404."""
        return numbered(TriggerQuarantine.objects.select_related("trigger"), object_id, "change in quarantine")

    def act(self, request: HttpRequest, row: TriggerQuarantine, action: str, reason: str) -> str:
        """Retry the change or pass it over."""
        named = (row.namespace, row.trigger.trigger_id, f"{row.instance_id}:{row.sequence}")
        if action == "skip":
            services.skip(*named, by=acting(request), now_ms=now_ms(), reason=reason)
            return "The change is given up: it makes no work."
        made = services.retry(*named, by=acting(request), now_ms=now_ms(), reason=reason)
        return f"The change is work now: {made.workload_id}."

    def page_of(
        self, request: HttpRequest, row: TriggerQuarantine, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        """Return the page of one change that stands aside."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if refusal is not None and row.resolved_at_ms is not None:
            refusal += " It was seen to meanwhile; how it stands is below."
        context = {
            **self.admin_site.each_context(request),
            "title": row.record_key,
            "opts": self.opts,
            "row": row,
            "change_id": f"{row.instance_id}:{row.sequence}",
            "may_act": request.user.has_perm(ACT) and row.resolved_at_ms is None,
            "refusal": refusal,
        }
        return TemplateResponse(request, "admin/triggers/triggerquarantine/one.html", context, status=status)
