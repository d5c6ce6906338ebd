"""Schedules in the console: when each is due next, what it last made, why it stands still; pause and resume."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.errors import ApiError
from apps.http.pages.display import instant
from apps.http.pages.readonly import PageAdmin, numbered
from apps.keys.console import acting, namespace_choice
from apps.workloads import cron, limits
from apps.workloads.clock import now_ms
from apps.workloads.models import Schedule, Workload
from apps.workloads.services import scheduling
from apps.workloads.states import ScheduleState

ACT = "workloads.change_workload"
MAX_SHOWN = 20
OUTCOMES = {"pause": "lets its due times pass now", "resume": "goes on from now"}


@admin.register(Schedule)
class ScheduleAdmin(PageAdmin):
    """The schedules of one namespace."""

    change_list_template = "admin/workloads/schedule/list.html"
    list_display = ["schedule_id"]
    list_display_links = None
    ordering = ["schedule_id"]
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Schedule]:
        """Return those of the namespace the page is about."""
        rows: QuerySet[Schedule] = super().get_queryset(request)
        return rows.filter(namespace=namespace_choice(request).current)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list."""
        return super().changelist_view(request, {"title": "Schedules", **(extra_context or {})})

    def get_urls(self) -> list[URLPattern]:
        """Add what can be done with a schedule."""
        act = self.admin_site.admin_view(self.act_view)
        return [path("<int:pk>/do/<str:action>/", act, name="workloads_schedule_act"), *super().get_urls()]

    def show(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one schedule."""
        return self._page(request, self._find(object_id))

    def act_view(self, request: HttpRequest, pk: int, action: str) -> HttpResponse:
        """Pause or resume, where the schedule is still as the page showed it."""
        if not request.user.has_perm(ACT):
            raise PermissionDenied
        if action not in OUTCOMES:
            raise Http404("there is no such action")
        schedule = self._find(str(pk))
        here = reverse("admin:workloads_schedule_change", args=[schedule.pk])
        if request.method != "POST":
            return HttpResponseRedirect(here)
        if request.POST.get("seen", "") != str(schedule.revision):
            moved = (
                "Nothing was done: the schedule has changed since the page was shown. It is at revision "
                f"{schedule.revision} and {schedule.state} now; look at it and decide again."
            )
            return self._page(request, schedule, refusal=moved, status=409)
        run = scheduling.pause if action == "pause" else scheduling.resume
        reason = request.POST.get("reason", "")
        try:
            run(schedule.namespace, schedule.schedule_id, by=acting(request), now_ms=now_ms(), reason=reason)
        except ApiError as refused:
            return self._page(request, self._find(str(pk)), refusal=refused.message, status=refused.status)
        messages.success(request, f"{schedule.schedule_id} {OUTCOMES[action]}.")
        return HttpResponseRedirect(here)

    def _find(self, object_id: str) -> Schedule:
        return numbered(Schedule.objects.all(), object_id, "schedule")

    def _page(
        self, request: HttpRequest, schedule: Schedule, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        made = Workload.objects.filter(
            namespace=schedule.namespace, trigger=f"{scheduling.PROVENANCE}{schedule.schedule_id}"
        )
        action = "pause" if schedule.state == ScheduleState.ACTIVE else "resume"
        context = {
            **self.admin_site.each_context(request),
            "title": schedule.schedule_id,
            "opts": self.opts,
            "schedule": schedule,
            "upcoming": _upcoming(schedule),
            "made": list(made.order_by("-id")[:MAX_SHOWN]),
            "provenance": f"{scheduling.PROVENANCE}{schedule.schedule_id}",
            "offered": action if request.user.has_perm(ACT) else "",
            "refusal": refusal,
            "api_url": request.build_absolute_uri(f"/v1/schedules/{schedule.schedule_id}"),
        }
        return TemplateResponse(request, "admin/workloads/schedule/one.html", context, status=status)


def _upcoming(schedule: Schedule) -> list[tuple[str, str]]:
    """Return the next due times in UTC and in the schedule's own zone; none where it cannot be read any more."""
    after_ms = now_ms() if schedule.next_at_ms is None else schedule.next_at_ms - 1
    try:
        due = cron.upcoming(schedule.expression, schedule.time_zone, after_ms, limits.UPCOMING)
        zone = ZoneInfo(schedule.time_zone)
    except (cron.Unreadable, ZoneInfoNotFoundError, ValueError, OSError):
        return []
    return [(instant(at), f"{datetime.fromtimestamp(at // 1000, tz=zone):%a %Y-%m-%d %H:%M:%S %Z}") for at in due]
