"""Triggers: list, form with a dry run, one trigger with where it stands, and what an operator can do with it."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.errors import ApiError
from apps.http.pages.readonly import numbered
from apps.keys.console import acting, namespace_choice
from apps.triggers import services
from apps.triggers.admin.pages import TriggerPages, url_of
from apps.triggers.definition import BEGINNING, NOW, of_trigger
from apps.triggers.forms import TriggerForm, initial_of
from apps.triggers.limits import DRY_RUN_PAGE_S
from apps.triggers.models import Trigger, TriggerQuarantine
from apps.workloads.clock import now_ms
from apps.workloads.models import Workload
from apps.workloads.overview import capabilities_seen

ACT = "triggers.change_trigger"
DEFINE = "triggers.add_trigger"
PROVENANCE = "state_change:"
"""What stands before the trigger's id in the provenance of its work."""

MAX_SHOWN = 20
MAX_CAPABILITY_CHOICES = 200
MAX_PAUSE_MINUTES = 366 * 24 * 60


def _enable(request: HttpRequest, trigger: Trigger, reason: str) -> Trigger:
    start_from = request.POST.get("start_from", NOW)
    return services.enable(
        trigger.namespace,
        trigger.trigger_id,
        by=acting(request),
        now_ms=now_ms(),
        start_from=start_from if start_from in (NOW, BEGINNING) else NOW,
        reason=reason,
    )


def _disable(request: HttpRequest, trigger: Trigger, reason: str) -> Trigger:
    return services.disable(trigger.namespace, trigger.trigger_id, by=acting(request), now_ms=now_ms(), reason=reason)


def _pause(request: HttpRequest, trigger: Trigger, reason: str) -> Trigger:
    minutes = request.POST.get("minutes", "").strip()
    now = now_ms()
    until = None
    if minutes.isascii() and minutes.isdigit() and len(minutes) < 9:
        until = now + min(int(minutes), MAX_PAUSE_MINUTES) * 60_000
    return services.pause(
        trigger.namespace, trigger.trigger_id, by=acting(request), now_ms=now, reason=reason, resumes_at_ms=until
    )


def _resume(request: HttpRequest, trigger: Trigger, reason: str) -> Trigger:
    return services.resume(trigger.namespace, trigger.trigger_id, by=acting(request), now_ms=now_ms(), reason=reason)


def _archive(request: HttpRequest, trigger: Trigger, reason: str) -> Trigger:
    return services.archive(trigger.namespace, trigger.trigger_id, by=acting(request), now_ms=now_ms(), reason=reason)


ACTIONS: dict[str, tuple[Callable[[HttpRequest, Trigger, str], Trigger], str]] = {
    "enable": (_enable, "is evaluated again"),
    "disable": (_disable, "lets changes pass now"),
    "pause": (_pause, "is paused; it keeps its place and catches up when it is resumed"),
    "resume": (_resume, "goes on from where it stood"),
    "archive": (_archive, "is archived; defining its id again revives it"),
}
OFFERED = {
    Trigger.State.ACTIVE: ("pause", "disable", "archive"),
    Trigger.State.PAUSED: ("resume", "disable", "archive"),
    Trigger.State.DISABLED: ("enable", "archive"),
    Trigger.State.BLOCKED: ("enable", "disable", "archive"),
    Trigger.State.ARCHIVED: (),
}


@admin.register(Trigger)
class TriggerAdmin(TriggerPages):
    """The triggers of one namespace at a time."""

    act_permission = ACT
    acts = ACTIONS

    change_list_template = "admin/triggers/trigger/list.html"
    list_display = ["trigger_id"]
    list_display_links = None
    ordering = ["trigger_id"]
    sortable_by = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A trigger is defined through the service, by whoever may."""
        return bool(request.user.has_perm(DEFINE))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trigger]:
        """Return the namespace's triggers, each with its cursor, its newest work and what is quarantined."""
        newest = Workload.objects.filter(
            namespace=OuterRef("namespace"), trigger=Concat(Value(PROVENANCE), OuterRef("trigger_id"))
        ).order_by("-id")
        open_ = TriggerQuarantine.objects.filter(trigger=OuterRef("pk"), resolved_at_ms__isnull=True)
        rows: QuerySet[Trigger] = super().get_queryset(request)
        return (
            rows.filter(namespace=namespace_choice(request).current)
            .exclude(state=Trigger.State.ARCHIVED)
            .select_related("cursor")
            .annotate(
                last_work_at_ms=Subquery(newest.values("created_at_ms")[:1]),
                last_work_id=Subquery(newest.values("workload_id")[:1]),
                quarantined_open=Subquery(
                    open_.order_by().values("trigger").annotate(count=Count("pk")).values("count")
                ),
            )
        )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list with the lag of each."""
        head = services.head_of(namespace_choice(request).current)
        context = {"title": "Triggers", "head": head, "may_define": request.user.has_perm(DEFINE)}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def get_urls(self) -> list[URLPattern]:
        """Add the form for an existing trigger and the pages beside its own."""
        edit = path("<int:pk>/edit/", self.admin_site.admin_view(self.edit_view), name="triggers_trigger_edit")
        return [edit, *self.pages(), *super().get_urls()]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask what the trigger says and define it."""
        if not request.user.has_perm(DEFINE):
            raise PermissionDenied
        return self._form(request, None)

    def edit_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Change what a trigger says: a new revision."""
        if not request.user.has_perm(ACT):
            raise PermissionDenied
        return self._form(request, self.find(str(pk)))

    def act(self, request: HttpRequest, trigger: Trigger, action: str, reason: str) -> str:
        """Do one of ACTIONS."""
        run, outcome = ACTIONS[action]
        return f"{run(request, trigger, reason).trigger_id} {outcome}."

    def after(self, action: str) -> str:
        """One that is archived stands in no list."""
        return reverse("admin:triggers_trigger_changelist") if action == "archive" else ""

    def find(self, object_id: str) -> Trigger:
        """Return the trigger. Raises Http404."""
        return numbered(Trigger.objects.select_related("cursor"), object_id, "trigger")

    def _form(self, request: HttpRequest, trigger: Trigger | None) -> HttpResponse:
        namespace = trigger.namespace if trigger else namespace_choice(request).current
        initial = initial_of(of_trigger(trigger).as_json()) if trigger else None
        form = TriggerForm(request.POST or None, initial=initial, editing=trigger is not None)
        status, tried = 200, None
        if request.method == "POST":
            status = 422
            if trigger and (moved := self.moved_on(trigger, request.POST.get("seen", ""))):
                status = 409
                form.add_error(None, moved)
            elif form.is_valid() and "try" in request.POST:
                tried, status = self._tried(request, namespace, form)
            elif form.is_valid():
                seen = trigger.revision if trigger else 0
                try:
                    defined = services.define(
                        namespace, form.document(), by=acting(request), now_ms=now_ms(), seen=seen
                    )
                except ApiError as refused:
                    form.refuse(refused)
                    status = refused.status
                else:
                    done = "is defined" if defined.created else "is changed" if defined.changed else "says that already"
                    messages.success(request, f"{defined.trigger.trigger_id} {done}.")
                    return HttpResponseRedirect(url_of(defined.trigger))
        context = {
            **self.admin_site.each_context(request),
            "title": f"Change {trigger.trigger_id}" if trigger else "Define a trigger",
            "opts": self.opts,
            "form": form,
            "tried": tried,
            "trigger": trigger,
            "namespace": namespace,
            "capabilities": capabilities_seen(namespace, limit=MAX_CAPABILITY_CHOICES),
        }
        return TemplateResponse(request, "admin/triggers/trigger/form.html", context, status=status)

    def _tried(self, request: HttpRequest, namespace: str, form: TriggerForm) -> tuple[dict[str, Any] | None, int]:
        """Run what the form says over recent changes, or on from a place, beside what is stored; nothing is stored."""
        document = form.document()
        members = {name: value for name, value in document.items() if name != "trigger_id"}
        try:
            ran = services.dry_run(
                namespace,
                document["trigger_id"],
                members,
                by=acting(request),
                start_from=request.POST["try"],
                within_s=DRY_RUN_PAGE_S,
            )
            return ran, 200
        except ApiError as refused:
            form.refuse(refused)
            return None, refused.status

    def page_of(
        self, request: HttpRequest, trigger: Trigger, *, refusal: str | None = None, status: int = 200
    ) -> HttpResponse:
        """Show the trigger's own page."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        work = Workload.objects.filter(namespace=trigger.namespace, trigger=PROVENANCE + trigger.trigger_id)
        context = {
            **self.admin_site.each_context(request),
            "title": trigger.trigger_id,
            "opts": self.opts,
            "trigger": trigger,
            "definition": of_trigger(trigger),
            "head": services.head_of(trigger.namespace),
            "quarantined": list(
                TriggerQuarantine.objects.filter(trigger=trigger, resolved_at_ms__isnull=True).order_by("-id")[
                    :MAX_SHOWN
                ]
            ),
            "replays": list(trigger.replays.order_by("-number")[:MAX_SHOWN]),
            "revisions": list(trigger.revisions.order_by("-revision")[:MAX_SHOWN]),
            "work": list(work.order_by("-id")[:MAX_SHOWN]),
            "provenance": PROVENANCE + trigger.trigger_id,
            "offered": OFFERED[Trigger.State(trigger.state)] if request.user.has_perm(ACT) else (),
            "refusal": refusal,
            "api_url": request.build_absolute_uri(f"/v1/triggers/{trigger.trigger_id}"),
        }
        return TemplateResponse(request, "admin/triggers/trigger/one.html", context, status=status)
