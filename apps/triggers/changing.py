"""The one place where a trigger's row is changed: row, cursor, revision and account of it move together.

Every change takes the namespace's position row first, then the trigger's, then its cursor's, as evaluation does; so
nothing waits in a circle, and evaluators notice. Not here: what people may ask for (`services/`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from apps.keys.audit import services as audit
from apps.keys.principal import Principal
from apps.triggers.definition import of_trigger
from apps.triggers.errors import ControlPlaneMismatch, TriggerError, TriggerNotFound
from apps.triggers.evaluation import marks, position
from apps.triggers.evaluation.position import Meeting, Seen
from apps.triggers.limits import MAX_REASON_CHARS, MAX_TEXT_CHARS
from apps.triggers.models import SEQUENCE_NONE, NamespacePosition, Trigger, TriggerCursor, TriggerRevision
from apps.workloads.services import holds
from feltdb_engine.model import Cursor

Action = TriggerRevision.Action
State = Trigger.State
EVALUATOR = "evaluator"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Who does what to a trigger, when and why. Without `by` it is `author`, a part of this system."""

    action: TriggerRevision.Action
    now_ms: int
    by: Principal | None = None
    author: str = EVALUATOR
    reason: str = ""


@contextmanager
def turn(namespace: str) -> Iterator[None]:
    """Hold the namespace's triggers for one transaction. The position row must be there (`meet`)."""
    with transaction.atomic():
        NamespacePosition.objects.filter(pk=namespace).update(definitions=F("definitions") + 1)
        yield


def meet(namespace: str, meeting: Meeting, *, now_ms: int) -> None:
    """Remember the store of a namespace, or that it has come further; inside a transaction of the caller's.


    Raises `ControlPlaneMismatch` where another store is known.
    """
    seen = meeting.seen
    row, made = NamespacePosition.objects.get_or_create(
        namespace=namespace,
        defaults={
            "store_id": seen.store_id,
            "instance_id": seen.instance_id,
            "sequence": seen.sequence,
            "content_hash": seen.content_hash,
            "updated_at_ms": now_ms,
        },
    )
    if made:
        _mark(namespace, seen, now_ms)
        return
    if row.mismatch_code:
        raise ControlPlaneMismatch(row.mismatch)
    if row.store_id != seen.store_id:
        raise ControlPlaneMismatch("the namespace's directory holds another store than the one this database knows")
    position.check_told(position.of_row(row), meeting.told)
    moved = NamespacePosition.objects.filter(pk=namespace, sequence__lt=seen.sequence).update(
        instance_id=seen.instance_id, sequence=seen.sequence, content_hash=seen.content_hash, updated_at_ms=now_ms
    )
    if moved:
        _mark(namespace, seen, now_ms)


def _mark(namespace: str, seen: Seen, now_ms: int) -> None:
    if seen.sequence != SEQUENCE_NONE:
        marks.keep(namespace, marks.newest(namespace) + 1, seen, now_ms=now_ms)


def locked(namespace: str, trigger_id: str) -> Trigger:
    """Return the trigger, locked. Raises `TriggerNotFound`."""
    trigger = Trigger.objects.select_for_update().filter(namespace=namespace, trigger_id=trigger_id).first()
    if trigger is None:
        raise TriggerNotFound(trigger_id)
    return trigger


def snapshot(trigger: Trigger) -> dict[str, Any]:
    """Return what of a trigger its account compares: the definition, its authority, and the state with its reason."""
    return {
        **of_trigger(trigger).as_json(),
        "grant_id": trigger.grant_id,
        "state": trigger.state,
        "reason_code": trigger.reason_code,
    }


def hold(
    trigger: Trigger, state: Trigger.State, *, code: str = "", reason: str = "", until_ms: int | None = None
) -> None:
    """Set the state and what belongs to it."""
    trigger.state = state
    trigger.reason_code, trigger.reason = code, reason[:MAX_REASON_CHARS]
    trigger.resumes_at_ms = until_ms


def save(trigger: Trigger, before: dict[str, Any] | None, change: Change, *, cursor: Cursor | None = None) -> None:
    """Write a changed trigger as its next revision; `before` is None for a new one, `cursor` where it shall stand.

    Inside `turn`, with the row locked.
    """
    trigger.revision = 1 if before is None else trigger.revision + 1
    trigger.updated_at_ms = change.now_ms
    trigger.save(force_insert=before is None)
    live = trigger.state == State.ACTIVE
    values: dict[str, Any] = {"revision": trigger.revision, "live": live}
    stood = TriggerCursor.objects.filter(pk=trigger.pk).first()
    if cursor is not None:
        values |= {"instance_id": cursor.instance_id, "sequence": cursor.sequence}
    if before is None:
        TriggerCursor.objects.create(trigger=trigger, namespace=trigger.namespace, **values)
    else:
        TriggerCursor.objects.filter(pk=trigger.pk).update(**values)
    after = snapshot(trigger)
    diff = {
        name: [None if before is None else before.get(name), value]
        for name, value in after.items()
        if before is None or before.get(name) != value
    }
    if cursor is not None:
        diff["cursor"] = [None if stood is None else str(stood), str(cursor)]
    TriggerRevision.objects.create(
        trigger=trigger,
        namespace=trigger.namespace,
        revision=trigger.revision,
        action=change.action,
        author=(change.by.label if change.by else change.author)[:MAX_TEXT_CHARS],
        reason=change.reason[:MAX_REASON_CHARS],
        at_ms=change.now_ms,
        diff=diff,
        definition=after,
    )
    if change.by is not None:
        audit.record(
            change.by,
            f"trigger.{change.action.value}",
            target=trigger.trigger_id,
            namespace=trigger.namespace,
            reason=change.reason,
            before=before,
            after=after,
            at_ms=change.now_ms,
        )


def block(trigger_pk: int, *, revision: int, code: str, reason: str, now_ms: int) -> bool:
    """Stop a trigger until an operator acts, unless it was changed since `revision`. Tell whether it was stopped."""
    namespace = Trigger.objects.values_list("namespace", flat=True).get(pk=trigger_pk)
    with turn(namespace):
        trigger = (
            Trigger.objects.select_for_update().filter(pk=trigger_pk, revision=revision, state=State.ACTIVE).first()
        )
        if trigger is None:
            return False
        before = snapshot(trigger)
        hold(trigger, State.BLOCKED, code=code, reason=reason)
        save(trigger, before, Change(action=Action.BLOCK, now_ms=now_ms, reason=reason))
    return True


def note_mismatch(namespace: str, error: TriggerError, *, now_ms: int) -> None:
    """Stop the whole namespace, its triggers and its claims, until store and database are reconciled."""
    holds.hold(namespace, code=error.code, message=error.message, now_ms=now_ms)
    NamespacePosition.objects.filter(pk=namespace, mismatch_code="").update(
        mismatch_code=error.code, mismatch=error.message[:MAX_REASON_CHARS], updated_at_ms=now_ms
    )
