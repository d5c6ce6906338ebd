"""`/v1/triggers`. Thin: read the request, call one service function, give its result a shape."""

from collections.abc import Callable
from typing import Any

from rest_framework.response import Response

from apps.keys.permissions import require_collection
from apps.keys.views import KeyedRequest, KeyedView
from apps.state import cursors, inputs, reading
from apps.triggers import services
from apps.triggers.api import described, described_operating
from apps.triggers.limits import MAX_CURSOR_CHARS
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
        return answer(services.find(request.namespace, trigger))

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
        return answer(revised.trigger)

    @described.delete_trigger
    def delete(self, request: KeyedRequest, trigger: str) -> Response:
        """Archive the trigger."""
        services.archive(request.namespace, trigger, by=request.principal, now_ms=now_ms())
        return Response(status=204)


class StatusView(KeyedView):
    """How the namespace's triggers stand."""

    scopes = {"GET": READ}

    @described.trigger_status
    def get(self, request: KeyedRequest) -> Response:
        """Answer counts, cursors, lag, what is held up and what stands aside."""
        return Response(services.status(request.namespace, now_ms=now_ms()))


class StandingView(KeyedView):
    """How far behind one trigger is."""

    scopes = {"GET": READ}

    @described.trigger_standing
    def get(self, request: KeyedRequest, trigger: str) -> Response:
        """Answer lag in operations and milliseconds, and how much stands aside."""
        return Response(services.standing_of(services.find(request.namespace, trigger), now_ms=now_ms()))


class _PageView(KeyedView):
    """Pages of what belongs to one trigger, newest first."""

    scopes = {"GET": READ}

    def page(
        self,
        request: KeyedRequest,
        trigger: str,
        name: str,
        read: Callable[..., list[Any]],
        key: Callable[[Any], int],
        document: Callable[[Any], dict[str, Any]],
    ) -> Response:
        """Answer a page of `name`: rows that `read` finds before a `key`, each as its `document`."""
        page = inputs.page(request.query_params)
        bound_to = cursors.binding(request.namespace, name, trigger)
        before = cursors.decode_number(bound_to, page.cursor)
        found = read(request.namespace, trigger, before=before, limit=page.limit + 1)
        shown = found[: page.limit]
        last = str(key(shown[-1])) if len(found) > page.limit else None
        return Response({name: [document(row) for row in shown], "next_cursor": cursors.encode(bound_to, last)})


class QuarantineView(_PageView):
    """Changes that matched and could not become work."""

    @described.list_quarantine
    def get(self, request: KeyedRequest, trigger: str) -> Response:
        """Page through what is quarantined and not yet seen to."""
        return self.page(
            request, trigger, "quarantined", services.quarantined, lambda row: row.pk, services.quarantine_document
        )


class RevisionsView(_PageView):
    """Every change of a trigger."""

    @described.list_revisions
    def get(self, request: KeyedRequest, trigger: str) -> Response:
        """Page through the trigger's revisions."""
        return self.page(
            request, trigger, "revisions", services.revisions, lambda row: row.revision, services.revision_document
        )


class ReplaysView(_PageView):
    """Old changes evaluated once more."""

    @described_operating.list_replays
    def get(self, request: KeyedRequest, trigger: str) -> Response:
        """Page through the trigger's replays."""
        return self.page(
            request, trigger, "replays", services.replays, lambda row: row.number, services.replay_document
        )


class ExplainView(KeyedView):
    """Why a trigger did or did not fire."""

    scopes = {"GET": READ}
    also = {"GET": ("state:read",)}

    @described_operating.explain_trigger
    def get(self, request: KeyedRequest, trigger: str) -> Response:
        """Take the decision on one change apart. It shows members of the record."""
        reading.known_parameters(request.query_params, "change")
        require_collection(request.principal, services.find(request.namespace, trigger).source_collection)
        change = reading.text(request.query_params.get("change", ""), "/change", max_bytes=MAX_CURSOR_CHARS)
        return Response(services.explain(request.namespace, trigger, change))


def _define(request: KeyedRequest, body: Any) -> Response:
    _require_source(request, body)
    defined = services.define(request.namespace, body, by=request.principal, now_ms=now_ms())
    return answer(defined.trigger, status=201 if defined.created else 200)


def _require_source(request: KeyedRequest, body: Any) -> None:
    """A trigger hands records over, so the key must be allowed the collection it watches."""
    if isinstance(body, dict) and isinstance(body.get("source_collection"), str):
        require_collection(request.principal, body["source_collection"])


def answer(trigger: Trigger, *, status: int = 200) -> Response:
    """Answer a trigger as it stands now."""
    return Response(services.document(services.find(trigger.namespace, trigger.trigger_id)), status=status)
