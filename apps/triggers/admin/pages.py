"""Pages of one trigger beside its own: dry run, why it did not fire, rebase, and the order of a replay."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.http.errors import ApiError
from apps.http.pages.acting import ActingAdmin
from apps.keys.console import acting
from apps.state import stores
from apps.triggers import services
from apps.triggers.definition import BEGINNING, NOW
from apps.triggers.limits import DRY_RUN_PAGE_S
from apps.triggers.models import Trigger, TriggerReplay
from apps.workloads.clock import now_ms
from feltdb_engine.errors import EngineError
from feltdb_engine.model import Cursor, Operation

ACT = "triggers.change_trigger"
RECENT_OPERATIONS = 2_000
"""Newest operations of the feed that are looked through for changes of the trigger's collection."""

MAX_CHANGES = 20
CURSOR = "cursor"


class TriggerPages(ActingAdmin):
    """The views; `TriggerAdmin` is one of these."""

    def pages(self) -> list[URLPattern]:
        """Return their addresses."""
        view = self.admin_site.admin_view
        return [
            path("<int:pk>/try/", view(self.try_view), name="triggers_trigger_try"),
            path("<int:pk>/why/", view(self.why_view), name="triggers_trigger_why"),
            path("<int:pk>/rebase/", view(self.rebase_view), name="triggers_trigger_rebase"),
            path("<int:pk>/replay/", view(self.replay_view), name="triggers_trigger_replay"),
            path("<int:pk>/replay/<int:number>/cancel/", view(self.replay_cancel_view), name="triggers_replay_cancel"),
        ]

    def moved_on(self, trigger: Trigger, seen: str) -> str:
        """Tell how the trigger stands, where its revision is not the one that was seen."""
        if seen == str(trigger.revision):
            return ""
        return (
            "Nothing was done: the trigger has changed since the page was shown. It is at revision "
            f"{trigger.revision} and {trigger.state} now; look at it and decide again."
        )

    def try_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Run the definition as it stands over changes there were, and show what it would have fired for."""
        trigger = self._seen(request, pk)
        choice = request.GET.get("from", "recent").strip()
        place = request.GET.get("cursor", "").strip()
        start = place if choice == CURSOR else choice
        context: dict[str, Any] = {"choice": choice, "place": place, "result": None}
        status = 200
        if "from" in request.GET:
            try:
                context["result"] = services.dry_run(
                    trigger.namespace,
                    trigger.trigger_id,
                    {},
                    by=acting(request),
                    start_from=start,
                    within_s=DRY_RUN_PAGE_S,
                )
            except ApiError as refused:
                context["refusal"], status = refused.message, refused.status
        return self._answer(request, trigger, "try", f"Dry run of {trigger.trigger_id}", context, status)

    def why_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Say why the trigger fired for a change, or why not: each check, each clause with its value, the outcome."""
        trigger = self._seen(request, pk)
        change = request.GET.get("change", "").strip()
        context: dict[str, Any] = {"change": change, "result": None, "recent": _recent(trigger)}
        status, fired = 200, False
        if change:
            try:
                context["result"] = found = services.explain(trigger.namespace, trigger.trigger_id, change)
                context["sequence"] = found["change"]["source_change_id"].rpartition(":")[2]
                fired = found["outcome"]["kind"] == "work"
            except ApiError as refused:
                context["refusal"], status = refused.message, refused.status
        title = f"Why did {trigger.trigger_id} {'' if fired else 'not '}fire?"
        return self._answer(request, trigger, "why", title, context, status)

    def rebase_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show where the trigger stands against the history that is left, and put its cursor elsewhere."""
        trigger = self._acted_on(request, pk)
        context: dict[str, Any] = {**_history(trigger), "refusal": "", "reason_given": ""}
        status = 200
        if request.method == "POST":
            context["reason_given"] = request.POST.get("reason", "")
            to = request.POST.get("to", "")
            to = request.POST.get("cursor", "").strip() if to == CURSOR else to
            if moved := self.moved_on(trigger, request.POST.get("seen", "")):
                context["refusal"], status = moved, 409
            else:
                try:
                    services.rebase(
                        trigger.namespace,
                        trigger.trigger_id,
                        by=acting(request),
                        now_ms=now_ms(),
                        to=to,
                        reason=context["reason_given"].strip(),
                    )
                except ApiError as refused:
                    context["refusal"], status = refused.message, refused.status
                else:
                    messages.success(request, f"{trigger.trigger_id} goes on from where you put it.")
                    return HttpResponseRedirect(url_of(trigger))
        trigger = self.find(str(pk))
        context |= {"seen": str(trigger.revision), "choices": (NOW, BEGINNING, CURSOR)}
        return self._answer(request, trigger, "rebase", f"Rebase {trigger.trigger_id}", context, status)

    def replay_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Order old changes to be evaluated once more."""
        trigger = self._acted_on(request, pk)
        asked = request.POST
        context: dict[str, Any] = {
            **_history(trigger),
            "start": asked.get("from", BEGINNING),
            "end": asked.get("to", NOW),
            "reason_given": asked.get("reason", ""),
            "refusal": "",
        }
        status = 200
        if request.method == "POST":
            newest = TriggerReplay.objects.filter(trigger=trigger).order_by("-number").first()
            if asked.get("seen", "") != str(newest.number if newest else 0):
                context["refusal"] = (
                    "Nothing was ordered: another replay was, since this page was shown. It is on the trigger's page."
                )
                status = 409
            else:
                try:
                    row = services.replay(
                        trigger.namespace,
                        trigger.trigger_id,
                        start_from=context["start"].strip(),
                        end_at=context["end"].strip(),
                        by=acting(request),
                        now_ms=now_ms(),
                        reason=context["reason_given"].strip(),
                    )
                except ApiError as refused:
                    context["refusal"], status = refused.message, refused.status
                else:
                    messages.success(request, f"Replay {row.number} is ordered; its progress is below.")
                    return HttpResponseRedirect(url_of(trigger) + "#replays")
        newest = TriggerReplay.objects.filter(trigger=trigger).order_by("-number").first()
        context["seen"] = newest.number if newest else 0
        return self._answer(request, trigger, "replay", f"Replay {trigger.trigger_id}", context, status)

    def replay_cancel_view(self, request: HttpRequest, pk: int, number: int) -> HttpResponse:
        """End an open replay where it stands."""
        trigger = self._acted_on(request, pk)
        if request.method == "POST":
            try:
                services.cancel_replay(
                    trigger.namespace, trigger.trigger_id, number, by=acting(request), now_ms=now_ms()
                )
            except ApiError as refused:
                return self.page_of(request, trigger, refusal=refused.message, status=refused.status)
            messages.success(request, f"Replay {number} is ended where it stood; the work it made stays.")
        return HttpResponseRedirect(url_of(trigger) + "#replays")

    def _seen(self, request: HttpRequest, pk: int) -> Trigger:
        if not self.has_view_permission(request):
            raise PermissionDenied
        trigger: Trigger = self.find(str(pk))
        return trigger

    def _acted_on(self, request: HttpRequest, pk: int) -> Trigger:
        if not request.user.has_perm(ACT):
            raise PermissionDenied
        trigger: Trigger = self.find(str(pk))
        return trigger

    def _answer(
        self, request: HttpRequest, trigger: Trigger, name: str, title: str, context: dict[str, Any], status: int
    ) -> HttpResponse:
        around = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "trigger": trigger,
            "head": services.head_of(trigger.namespace),
            **context,
        }
        return TemplateResponse(request, f"admin/triggers/trigger/{name}.html", around, status=status)


def url_of(trigger: Trigger) -> str:
    """Return the address of a trigger's page."""
    return reverse("admin:triggers_trigger_change", args=[trigger.pk])


def _history(trigger: Trigger) -> dict[str, Any]:
    """Return the oldest place the feed can be read from and how many changes before it the trigger never saw."""
    try:
        start = stores.store(trigger.namespace).start()
    except (EngineError, ApiError):
        return {"oldest": None, "lost": None}
    return {"oldest": start, "lost": max(0, start.sequence - trigger.cursor.sequence)}


def _recent(trigger: Trigger) -> list[Operation]:
    """Return the newest changes of the trigger's collection, newest first; none where the store cannot be read."""
    try:
        store = stores.store(trigger.namespace)
        head, start = store.head(), store.start()
        after = Cursor(instance_id=head.instance_id, sequence=max(start.sequence, head.sequence - RECENT_OPERATIONS))
        found = store.changes(after, limit=RECENT_OPERATIONS, collections=(trigger.source_collection,))
    except (EngineError, ApiError):
        return []
    return list(found.operations)[: -MAX_CHANGES - 1 : -1]
