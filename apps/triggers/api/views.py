"""`/v1/triggers`. Thin: read the request, call one service function, give its result a shape."""

from typing import Any, ClassVar

from rest_framework.response import Response

from apps.keys.permissions import require_collection
from apps.keys.views import KeyedRequest, KeyedView
from apps.state import cursors, inputs, reading
from apps.triggers import services
from apps.triggers.api import described
from apps.triggers.definition import NOW
from apps.triggers.limits import MAX_REASON_CHARS
from apps.triggers.models import Trigger
from apps.workloads.clock import now_ms

READ, WRITE = "triggers:read", "triggers:write"


class TriggersView(KeyedView):
    """The namespace's triggers."""

    scopes = {"GET": READ, "POST": WRITE}

    @described.list_triggers
    def get(self, request: KeyedRequest) -> Response:
        """Page through the triggers in the order of their ids."""
        page = inputs.page(request.query_params)
        bound_to = cursors.binding(request.namespace, "triggers")
        after = cursors.decode(bound_to, page.cursor) or ""
        found = services.list_triggers(request.namespace, after=after, limit=page.limit + 1)
        shown = found[: page.limit]
        last = shown[-1].trigger_id if len(found) > page.limit else None
        rows = [services.document(trigger) for trigger in shown]
        return Response({"triggers": rows, "next_cursor": cursors.encode(bound_to, last)})

    @described.define_trigger
    def post(self, request: KeyedRequest) -> Response:
        """Define a trigger, new (201) or again (200)."""
        return _define(request, request.data)


class TriggerView(KeyedView):
    """One trigger."""

    scopes = {"GET": READ, "PUT": WRITE, "PATCH": WRITE, "DELETE": WRITE}

    @described.read_trigger
    def get(self, request: KeyedRequest, trigger: str) -> Response:
        """Answer the trigger: its definition, its state, where it stands."""
        return Response(services.document(services.find(request.namespace, trigger)))

    @described.put_trigger
    def put(self, request: KeyedRequest, trigger: str) -> Response:
        """Define this trigger as a whole, new (201) or again (200)."""
        body = request.data
        if isinstance(body, dict):
            if body.get("trigger_id", trigger) != trigger:
                raise reading.invalid("The trigger_id must be that of the path, or left out.", pointer="/trigger_id")
            body = {**body, "trigger_id": trigger}
        return _define(request, body)

    @described.patch_trigger
    def patch(self, request: KeyedRequest, trigger: str) -> Response:
        """Change the members named; null takes one back to its default."""
        patch = request.data
        _require_source(request, patch)
        revised = services.revise(request.namespace, trigger, patch, by=request.principal, now_ms=now_ms())
        return _answer(revised.trigger)

    @described.delete_trigger
    def delete(self, request: KeyedRequest, trigger: str) -> Response:
        """Archive the trigger."""
        services.archive(request.namespace, trigger, by=request.principal, now_ms=now_ms())
        return Response(status=204)


class _OperateView(KeyedView):
    """One thing to do with a trigger; the body is optional."""

    scopes = {"POST": WRITE}
    empty_body: ClassVar[Any] = {}

    @staticmethod
    def members(request: KeyedRequest, *allowed: str) -> dict[str, Any]:
        """Return the body's members; `reason` is always allowed."""
        members = reading.an_object(request.data, "", frozenset({"reason", *allowed}))
        if "reason" in members:
            reading.text(members["reason"], "/reason", max_bytes=MAX_REASON_CHARS)
        return members


class EnableView(_OperateView):
    """Let a trigger be evaluated again."""

    @described.enable_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Enable it, from now or where `start_from` says."""
        members = self.members(request, "start_from")
        start_from = members.get("start_from", NOW)
        enabled = services.enable(
            request.namespace,
            trigger,
            by=request.principal,
            now_ms=now_ms(),
            start_from=reading.text(start_from, "/start_from", max_bytes=128),
            reason=members.get("reason", ""),
        )
        return _answer(enabled)


class DisableView(_OperateView):
    """Let changes pass."""

    @described.disable_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Disable it."""
        reason = self.members(request).get("reason", "")
        return _answer(
            services.disable(request.namespace, trigger, by=request.principal, now_ms=now_ms(), reason=reason)
        )


class PauseView(_OperateView):
    """Hold a trigger where it stands."""

    @described.pause_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Pause it, until `resumes_at_ms` if that is given."""
        members = self.members(request, "resumes_at_ms")
        until = members.get("resumes_at_ms")
        paused = services.pause(
            request.namespace,
            trigger,
            by=request.principal,
            now_ms=now_ms(),
            reason=members.get("reason", ""),
            resumes_at_ms=None if until is None else reading.whole(until, "/resumes_at_ms", low=0, high=2**53),
        )
        return _answer(paused)


class ResumeView(_OperateView):
    """Let a paused trigger go on."""

    @described.resume_trigger
    def post(self, request: KeyedRequest, trigger: str) -> Response:
        """Resume it from where it stands."""
        reason = self.members(request).get("reason", "")
        return _answer(
            services.resume(request.namespace, trigger, by=request.principal, now_ms=now_ms(), reason=reason)
        )


class QuarantineView(KeyedView):
    """Changes that matched and could not become work."""

    scopes = {"GET": READ}

    @described.list_quarantine
    def get(self, request: KeyedRequest, trigger: str) -> Response:
        """Page through what is quarantined and not yet seen to, newest first."""
        page = inputs.page(request.query_params)
        bound_to = cursors.binding(request.namespace, "quarantine", trigger)
        before = cursors.decode(bound_to, page.cursor)
        found = services.quarantined(request.namespace, trigger, before=before, limit=page.limit + 1)
        shown = found[: page.limit]
        last = str(shown[-1].pk) if len(found) > page.limit else None
        rows = [services.quarantine_document(row) for row in shown]
        return Response({"quarantined": rows, "next_cursor": cursors.encode(bound_to, last)})


class RevisionsView(KeyedView):
    """Every change of a trigger."""

    scopes = {"GET": READ}

    @described.list_revisions
    def get(self, request: KeyedRequest, trigger: str) -> Response:
        """Page through the trigger's revisions, newest first."""
        page = inputs.page(request.query_params)
        bound_to = cursors.binding(request.namespace, "revisions", trigger)
        before = cursors.decode(bound_to, page.cursor)
        found = services.revisions(request.namespace, trigger, before=before, limit=page.limit + 1)
        shown = found[: page.limit]
        last = str(shown[-1].revision) if len(found) > page.limit else None
        rows = [services.revision_document(row) for row in shown]
        return Response({"revisions": rows, "next_cursor": cursors.encode(bound_to, last)})


def _define(request: KeyedRequest, body: Any) -> Response:
    _require_source(request, body)
    defined = services.define(request.namespace, body, by=request.principal, now_ms=now_ms())
    return _answer(defined.trigger, status=201 if defined.created else 200)


def _require_source(request: KeyedRequest, body: Any) -> None:
    """A trigger hands records over, so the key must be allowed the collection it watches."""
    if isinstance(body, dict) and isinstance(body.get("source_collection"), str):
        require_collection(request.principal, body["source_collection"])


def _answer(trigger: Trigger, *, status: int = 200) -> Response:
    return Response(services.document(services.find(trigger.namespace, trigger.trigger_id)), status=status)
