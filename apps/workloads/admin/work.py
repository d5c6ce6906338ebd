"""Workloads in the console: lists, one workload with all that happened to it, and what a person can do to it."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.errors import ApiError
from apps.http.pages.display import words
from apps.http.pages.limits import COUNT_CAP
from apps.http.pages.readonly import PageAdmin
from apps.keys.console import acting, namespace_choice
from apps.workloads import bulk, overview, twins
from apps.workloads.by_hand import Action, act, ask_again
from apps.workloads.clock import now_ms
from apps.workloads.drawing import picture
from apps.workloads.forms import InputForm
from apps.workloads.machine import BY_MOVE
from apps.workloads.models import Attempt, RefusedWord, Workload
from apps.workloads.services import placement
from apps.workloads.states import REQUIRABLE, RESTING, Approval, BulkAction, State

ACT = "workloads.change_workload"
MAX_CAPABILITY_CHOICES = 200
MAX_SHOWN = 200
"""Attempts, events, dependencies shown of one workload, the newest."""

TAB_ORDER = (
    State.READY,
    State.AWAITING_APPROVAL,
    State.CLAIMED,
    State.RUNNING,
    State.CHECKPOINTED,
    State.CANCELLATION_REQUESTED,
    State.DEAD_LETTER,
    State.SUCCEEDED,
    State.CANCELLED,
    State.REJECTED,
)
ALWAYS_SHOWN = (State.READY, State.RUNNING, State.DEAD_LETTER, State.SUCCEEDED)


def workload_url(workload_id: str) -> str:
    """Return the address of a workload's page."""
    return reverse("admin:workloads_workload_change", args=[workload_id])


def actions_for(state: str) -> dict[str, bool]:
    """Return which actions the state machine allows a person in this state."""
    return {
        "retry": (State(state), "rearm") in BY_MOVE,
        "cancel": (State(state), "cancel") in BY_MOVE,
        "decide": (State(state), "approve") in BY_MOVE,
        "ask_to_cancel": (State(state), "request_cancellation") in BY_MOVE,
    }


@admin.register(Workload)
class WorkloadAdmin(PageAdmin):
    """The work of one namespace at a time."""

    change_list_template = "admin/workloads/workload/list.html"
    list_display = ["workload_id"]
    list_display_links = None
    ordering = ["-id"]
    sortable_by = ()
    search_fields = ["workload_id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workload]:
        """Return the work of the namespace the page is about."""
        return super().get_queryset(request).filter(namespace=namespace_choice(request).current)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Workload], search_term: str
    ) -> tuple[QuerySet[Workload], bool]:
        """Find by the beginning of the id, through its index."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if not term.isascii():
            return queryset.none(), False
        alike = Workload.objects.filter(workload_id__gte=term, workload_id__lt=term[:-1] + chr(ord(term[-1]) + 1))
        found = list(alike.order_by("workload_id").values_list("pk", flat=True)[: COUNT_CAP + 1])
        return queryset.filter(pk__in=found), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list with its state tabs. Filters left empty in the form are no filters."""
        asked = request.GET.copy()
        for name in [name for name, value in asked.items() if not str(value).strip()]:
            del asked[name]
        request.GET = asked  # type: ignore[assignment] # what the list reads
        namespace = namespace_choice(request).current
        counts = overview.count_by_state(namespace, cap=COUNT_CAP)
        chosen = asked.get("state", "")
        others = {name: value for name, value in asked.items() if name in ("definition_id", "trigger", "q")}
        context = {
            "title": "Workloads",
            "tabs": [
                {"state": state, "count": counts.get(state, 0), "current": state == chosen}
                for state in TAB_ORDER
                if state in ALWAYS_SHOWN or counts.get(state) or state == chosen
            ],
            "chosen": chosen if chosen in RESTING else "",
            "others": others,
            "capabilities": overview.capabilities_seen(namespace, limit=MAX_CAPABILITY_CHOICES),
            "any_work": any(counts.values()),
            "bulk_actions": _bulk_actions(chosen) if request.user.has_perm(ACT) else (),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def get_urls(self) -> list[URLPattern]:
        """Add the actions before the model's own addresses."""
        site = self.admin_site
        own = [
            path("<str:workload_id>/again/", site.admin_view(self.again_view), name="workloads_workload_again"),
            path("<str:workload_id>/retry/", site.admin_view(self.retry_view), name="workloads_workload_retry"),
            path("<str:workload_id>/cancel/", site.admin_view(self.cancel_view), name="workloads_workload_cancel"),
            path("<str:workload_id>/approve/", site.admin_view(self.approve_view), name="workloads_workload_approve"),
            path("<str:workload_id>/reject/", site.admin_view(self.reject_view), name="workloads_workload_reject"),
        ]
        return own + super().get_urls()

    def show(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one workload."""
        return self._page(request, object_id)

    def retry_view(self, request: HttpRequest, workload_id: str) -> HttpResponse:
        """Arm a dead letter again."""
        return self._act(request, workload_id, "retry")

    def cancel_view(self, request: HttpRequest, workload_id: str) -> HttpResponse:
        """Cancel, or ask whoever holds the work to give it up."""
        return self._act(request, workload_id, "cancel")

    def approve_view(self, request: HttpRequest, workload_id: str) -> HttpResponse:
        """Approve work that waits for it."""
        return self._act(request, workload_id, "approve")

    def reject_view(self, request: HttpRequest, workload_id: str) -> HttpResponse:
        """Reject work that waits for approval."""
        return self._act(request, workload_id, "reject")

    def again_view(self, request: HttpRequest, workload_id: str) -> HttpResponse:
        """Ask for the work of an ended one again, with another input: new work, once for each page that was shown."""
        if not request.user.has_perm(ACT):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseRedirect(workload_url(workload_id))
        workload = self._find(workload_id)
        if workload.state not in REQUIRABLE:
            return self._page(request, workload_id, refusal=_moved_on(workload), status=409)
        form = InputForm(request.POST)
        if not form.is_valid():
            return self._page(request, workload_id, again=form, status=422)
        wanted = form.cleaned_data
        if twin := twins.unseen(workload, wanted["seen"], wanted["key"]):
            return self._page(request, workload_id, refusal=_twin(twin), again=form.seeing(twin), status=409)
        try:
            made = ask_again(workload, wanted["input"], key=wanted["key"], by=acting(request), now_ms=now_ms())
        except ApiError as refused:
            form.add_error("input", refused.message)
            return self._page(request, workload_id, again=form, status=refused.status)
        messages.success(request, f"Asked again: this is the new work; {workload_id} stays as it is.")
        return HttpResponseRedirect(workload_url(made.workload_id))

    def _act(self, request: HttpRequest, workload_id: str, action: Action) -> HttpResponse:
        if not request.user.has_perm(ACT):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseRedirect(workload_url(workload_id))
        workload = self._find(workload_id)
        if request.POST.get("seen", "") != str(workload.history_length):
            return self._page(request, workload_id, refusal=_moved_on(workload), status=409)
        reason, seen_input = request.POST.get("reason", ""), request.POST.get("input_hash", "")
        try:
            after = act(action, workload, by=acting(request), now_ms=now_ms(), reason=reason, input_hash=seen_input)
        except ApiError as refused:
            return self._page(request, workload_id, refusal=refused.message, status=refused.status)
        messages.success(request, _outcome(after, action))
        return HttpResponseRedirect(workload_url(workload_id))

    def _find(self, workload_id: str) -> Workload:
        workload = Workload.objects.filter(workload_id=workload_id).first()
        if workload is None:
            raise Http404(f"there is no workload {workload_id}")
        return workload

    def _page(
        self,
        request: HttpRequest,
        workload_id: str,
        *,
        refusal: str | None = None,
        again: InputForm | None = None,
        status: int = 200,
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        workload = self._find(workload_id)
        # No later than the row: what happens while the page is made is all on the next one.
        events = list(workload.events.filter(sequence__lte=workload.history_length).order_by("-sequence")[:MAX_SHOWN])
        context = {
            **self.admin_site.each_context(request),
            "title": workload.workload_id,
            "opts": self.opts,
            "workload": workload,
            "asked": workload.request,
            "result": getattr(workload, "result", None) if workload.state == State.SUCCEEDED else None,
            "decision": None if workload.approval == Approval.NONE else getattr(workload, "decision", None),
            "attempts": [_with_duration(each) for each in workload.attempts.order_by("-number")[:MAX_SHOWN]],
            "events": events,
            "path": events[::-1],
            "path_cut": workload.history_length > len(events),
            "checkpoints": list(workload.checkpoints.order_by("-sequence")[:10]),
            "waits_for": list(workload.dependencies.select_related("parent")[:MAX_SHOWN]),
            "awaited_by": list(workload.dependants.select_related("child")[:MAX_SHOWN]),
            "picture": picture(workload.state, [(event.from_state, event.to_state) for event in reversed(events)]),
            "refused_words": list(
                RefusedWord.objects.filter(workload_id=workload.workload_id).order_by("-last_at_ms")[:MAX_SHOWN]
            ),
            "twins": twins.of(workload) if workload.state in REQUIRABLE else [],
            "actions": actions_for(workload.state) if request.user.has_perm(ACT) else {},
            "again": (again or InputForm.of(workload))
            if request.user.has_perm(ACT) and workload.state in REQUIRABLE
            else None,
            "takers": placement.takers(workload),
            "refusal": refusal,
            "reason_given": request.POST.get("reason", ""),
            "api_url": request.build_absolute_uri(f"/v1/workloads/{workload.workload_id}"),
        }
        return TemplateResponse(request, "admin/workloads/workload/one.html", context, status=status)


def _bulk_actions(state: str) -> list[tuple[str, str]]:
    """Return the actions that mean something for work in the state, or in any where none is chosen, and their words."""
    if not state:
        return [(BulkAction.CANCEL, "Cancel")]
    return [(action, action.capitalize()) for action, states in bulk.ACTS_IN.items() if state in states]


def _with_duration(attempt: Attempt) -> Attempt:
    ended = attempt.ended_at_ms
    attempt.took_ms = None if ended is None else ended - (attempt.started_at_ms or attempt.claimed_at_ms)  # type: ignore[attr-defined]
    return attempt


def _moved_on(workload: Workload) -> str:
    return (
        f"Nothing was done: this work has changed since the page was shown. It is {words(workload.state)} now; "
        "look at what happened below and decide again."
    )


def _twin(twin: Workload) -> str:
    return (
        f"Nothing was done: this work was asked for again meanwhile, as {twin.workload_id}, "
        f"which is {words(twin.state)} now. What you wrote is kept below, for the case that both should be done."
    )


def _outcome(workload: Workload, action: str) -> str:
    if action == "approve":
        return "Approved: the work is ready."
    if action == "reject":
        return "Rejected for good: the work never runs."
    if action == "retry":
        return f"Armed again: the work is {words(workload.state)}, with {workload.max_attempts} fresh attempts."
    if workload.state == State.CANCELLATION_REQUESTED:
        return f"Asked {workload.worker_id} to give the work up; it is cancelled at the end of its grace at the latest."
    return "The work is cancelled."
