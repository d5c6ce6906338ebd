"""Triggers as people see them: definition, state, where each stands and how far behind it is."""

from typing import Any

from apps.http.errors import ApiError
from apps.state import stores
from apps.triggers.changing import State
from apps.triggers.definition import of_trigger
from apps.triggers.errors import TriggerNotFound
from apps.triggers.evaluation.batches import TriggeredWorkload
from apps.triggers.models import (
    NamespacePosition,
    Trigger,
    TriggerCursor,
    TriggerQuarantine,
    TriggerReplay,
    TriggerRevision,
)
from feltdb_engine.errors import EngineError
from feltdb_engine.model import Cursor


def find(namespace: str, trigger_id: str) -> Trigger:
    """Return the trigger. Raises TRIGGER_NOT_FOUND, also for an archived one."""
    rows = Trigger.objects.select_related("cursor").filter(namespace=namespace, trigger_id=trigger_id)
    trigger = rows.exclude(state=State.ARCHIVED).first()
    if trigger is None:
        raise TriggerNotFound(trigger_id)
    return trigger


def source_of(namespace: str, trigger_id: str) -> str | None:
    """Return the collection that the trigger of that id watches, archived or not; None where there is none."""
    rows = Trigger.objects.filter(namespace=namespace, trigger_id=trigger_id)
    return rows.values_list("source_collection", flat=True).first()


def list_triggers(namespace: str, *, after: str = "", limit: int | None = None) -> list[Trigger]:
    """Return the namespace's triggers in the order of their ids, those after `after`, at most `limit`."""
    rows = Trigger.objects.select_related("cursor").filter(namespace=namespace, trigger_id__gt=after)
    rows = rows.exclude(state=State.ARCHIVED).order_by("trigger_id")
    return list(rows if limit is None else rows[:limit])


def document(trigger: Trigger) -> dict[str, Any]:
    """Return a trigger as JSON: its definition and, beside it, its state."""
    return {
        **of_trigger(trigger).as_json(),
        "tenant_id": trigger.namespace,
        "state": trigger.state,
        "reason": {"code": trigger.reason_code, "message": trigger.reason} if trigger.reason_code else None,
        "resumes_at_ms": trigger.resumes_at_ms,
        "revision": trigger.revision,
        "cursor": str(cursor_of(trigger)),
        "created_at_ms": trigger.created_at_ms,
        "updated_at_ms": trigger.updated_at_ms,
    }


def standing_of(trigger: Trigger, *, now_ms: int) -> dict[str, Any]:
    """Return how far behind a trigger is, in operations and milliseconds (null: unknown, or it means nothing), and how
    much stands aside.
    """
    head = head_of(trigger.namespace)
    operations = lag(trigger, head)
    return {
        "lag_operations": operations,
        "lag_ms": None if operations is None else behind_ms(trigger.cursor, now_ms=now_ms, known={}),
        "quarantined": TriggerQuarantine.objects.filter(trigger=trigger, resolved_at_ms__isnull=True).count(),
        "open_replays": TriggerReplay.objects.filter(trigger=trigger, ended_at_ms__isnull=True).count(),
    }


def cursor_of(trigger: Trigger) -> Cursor:
    """Return how far the trigger has been evaluated."""
    return Cursor(instance_id=trigger.cursor.instance_id, sequence=trigger.cursor.sequence)


def status(namespace: str, *, now_ms: int) -> dict[str, Any]:
    """Return how a namespace's triggers stand: counts by state, lag in operations and milliseconds, what is
    quarantined, and why it stands still if it does.

    A store that cannot be read leaves the lag unknown (null); the rest is told all the same.
    """
    triggers = list_triggers(namespace)
    position = NamespacePosition.objects.filter(pk=namespace).first()
    head = head_of(namespace)
    quarantined = TriggerQuarantine.objects.filter(namespace=namespace, resolved_at_ms__isnull=True)
    return {
        "namespace": namespace,
        "triggers": len(triggers),
        "states": {
            state.value: sum(each.state == state for each in triggers) for state in State if state != State.ARCHIVED
        },
        "cursors": {each.trigger_id: {each.cursor.instance_id: each.cursor.sequence} for each in triggers},
        "lag_operations": {each.trigger_id: lag(each, head) for each in triggers},
        "lag_ms": _lags_ms(triggers, head, now_ms),
        "quarantined": quarantined.count(),
        "held_up": [
            {"trigger_id": each.trigger_id, "state": each.state, "code": each.reason_code, "message": each.reason}
            for each in triggers
            if each.reason_code
        ],
        "head": None if head is None else str(head),
        "mismatch": {"code": position.mismatch_code, "message": position.mismatch}
        if position is not None and position.mismatch_code
        else None,
    }


def _lags_ms(triggers: list[Trigger], head: Cursor | None, now_ms: int) -> dict[str, int | None]:
    known: dict[Cursor, int | None] = {}
    return {
        each.trigger_id: None if lag(each, head) is None else behind_ms(each.cursor, now_ms=now_ms, known=known)
        for each in triggers
    }


def head_of(namespace: str) -> Cursor | None:
    """Return the durable head of the namespace's feed, None where its store cannot be read."""
    try:
        return stores.store(namespace).head()
    except (EngineError, ApiError):
        return None


def lag(trigger: Trigger, head: Cursor | None) -> int | None:
    """Return how many operations the trigger has yet to look at; None where that is unknown or means nothing."""
    if head is None or trigger.state == State.DISABLED:
        return None
    return max(0, head.sequence - trigger.cursor.sequence)


def behind_ms(cursor: TriggerCursor, *, now_ms: int, known: dict[Cursor, int | None]) -> int | None:
    """Return how old the oldest change is that the trigger has not looked at; 0 for none, None where it is unknown.

    `known` keeps what was found for other triggers that stand at the same place.
    """
    place = Cursor(instance_id=cursor.instance_id, sequence=cursor.sequence)
    if place not in known:
        try:
            found = stores.store(cursor.namespace).changes(place, limit=1).operations
            known[place] = max(0, now_ms - found[0].at_ms) if found else 0
        except (EngineError, ApiError):
            known[place] = None
    return known[place]


def quarantine_document(row: TriggerQuarantine) -> dict[str, Any]:
    """Return a quarantined change as JSON."""
    return {
        "source_change_id": f"{row.instance_id}:{row.sequence}",
        "record_key": row.record_key,
        "change_kind": row.change_kind,
        "trigger_revision": row.trigger_revision,
        "code": row.code,
        "message": row.message,
        "at_ms": row.at_ms,
    }


def result_document(row: TriggeredWorkload) -> dict[str, Any]:
    """Return one line of the account of an evaluation as JSON."""
    return {
        "trigger_id": row.trigger_id,
        "source_change_id": row.source_change_id,
        "workload_id": row.workload_id,
        "duplicate": row.duplicate,
    }


def revisions(namespace: str, trigger_id: str, *, before: int | None, limit: int) -> list[TriggerRevision]:
    """Return the trigger's revisions, newest first. Raises TRIGGER_NOT_FOUND."""
    trigger = find(namespace, trigger_id)
    rows = TriggerRevision.objects.filter(trigger=trigger).order_by("-revision")
    return list(rows[:limit] if before is None else rows.filter(revision__lt=before)[:limit])


def revision_document(row: TriggerRevision) -> dict[str, Any]:
    """Return a revision as JSON."""
    return {
        "revision": row.revision,
        "action": row.action,
        "author": row.author,
        "reason": row.reason,
        "at_ms": row.at_ms,
        "diff": row.diff,
    }
