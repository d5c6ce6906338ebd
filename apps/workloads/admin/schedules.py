"""Schedules in the console: when each is due next, what it last made, why it stands still; pause and resume."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from apps.http.pages.acting import ActingAdmin
from apps.http.pages.display import instant
from apps.http.pages.readonly import numbered
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
class ScheduleAdmin(ActingAdmin):
    """The schedules of one namespace; each is paused and resumed."""

    act_permission = ACT
    acts = OUTCOMES

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

    def find(self, object_id: str) -> Schedule:
        """Return the schedule. Raises Http404."""
        return numbered(Schedule.objects.all(), object_id, "schedule")

    def moved_on(self, schedule: Schedule, seen: str) -> str:
        """Tell how the schedule stands, where its revision is not the one that was seen."""
        if seen == str(schedule.revision):
            return ""
        return (
            "Nothing was done: the schedule has changed since the page was shown. It is at revision "
            f"{schedule.revision} and {schedule.state} now; look at it and decide again."
        )

    def act(self, request: HttpRequest, schedule: Schedule, action: str, reason: str) -> str:
        """Pause or resume."""
        run = scheduling.pause if action == "pause" else scheduling.resume
        run(schedule.namespace, schedule.schedule_id, by=acting(request), now_ms=now_ms(), reason=reason)
        return f"{schedule.schedule_id} {OUTCOMES[action]}."

    def page_of(
        self, request: HttpRequest, schedule: Schedule, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        """Return the page of one schedule."""
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
