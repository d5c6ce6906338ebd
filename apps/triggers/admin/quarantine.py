"""Quarantine in the console: changes that matched a trigger and could not become work; retry one, or pass it over."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.errors import ApiError
from apps.http.pages.readonly import PageAdmin, numbered
from apps.keys.console import acting, namespace_choice
from apps.triggers import services
from apps.triggers.models import TriggerQuarantine
from apps.workloads.clock import now_ms

ACT = "triggers.change_trigger"


@admin.register(TriggerQuarantine)
class TriggerQuarantineAdmin(PageAdmin):
    """Changes that stand aside, of one namespace: those that wait for somebody, or all there ever were."""

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

    def get_urls(self) -> list[URLPattern]:
        """Add what can be done with one."""
        act = self.admin_site.admin_view(self.act_view)
        return [path("<int:pk>/do/<str:action>/", act, name="triggers_triggerquarantine_act"), *super().get_urls()]

    def show(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one change that stands aside."""
        return self._page(request, self._find(object_id))

    def act_view(self, request: HttpRequest, pk: int, action: str) -> HttpResponse:
        """Retry the change or pass it over; one that somebody has seen to meanwhile is explained."""
        if not request.user.has_perm(ACT):
            raise PermissionDenied
        if action not in ("retry", "skip"):
            raise Http404("there is no such action")
        row = self._find(str(pk))
        here = reverse("admin:triggers_triggerquarantine_change", args=[row.pk])
        if request.method != "POST":
            return HttpResponseRedirect(here)
        named = (row.namespace, row.trigger.trigger_id, f"{row.instance_id}:{row.sequence}")
        reason = request.POST.get("reason", "").strip()
        try:
            if action == "retry":
                made = services.retry(*named, by=acting(request), now_ms=now_ms(), reason=reason)
                done = f"The change is work now: {made.workload_id}."
            else:
                services.skip(*named, by=acting(request), now_ms=now_ms(), reason=reason)
                done = "The change is given up: it makes no work."
        except ApiError as refused:
            return self._page(request, self._find(str(pk)), refusal=refused)
        messages.success(request, done)
        return HttpResponseRedirect(here)

    def _find(self, object_id: str) -> TriggerQuarantine:
        return numbered(TriggerQuarantine.objects.select_related("trigger"), object_id, "change in quarantine")

    def _page(self, request: HttpRequest, row: TriggerQuarantine, *, refusal: ApiError | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        refused = None
        if refusal is not None:
            seen_to = " It was seen to meanwhile; how it stands is below." if row.resolved_at_ms is not None else ""
            refused = refusal.message + seen_to
        context = {
            **self.admin_site.each_context(request),
            "title": row.record_key,
            "opts": self.opts,
            "row": row,
            "change_id": f"{row.instance_id}:{row.sequence}",
            "may_act": request.user.has_perm(ACT) and row.resolved_at_ms is None,
            "refusal": refused,
        }
        # What is not there any more was there when the page was shown: that is a conflict, not a wrong address.
        status = 200 if refusal is None else 409 if refusal.status == 404 else refusal.status
        return TemplateResponse(request, "admin/triggers/triggerquarantine/one.html", context, status=status)
