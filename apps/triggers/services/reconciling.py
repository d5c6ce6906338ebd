"""The way out of CONTROL_PLANE_MISMATCH: bringing triggers back in step with a store that was rolled back apart from
the database, or the other way round.

    store_behind     the store lost changes the database had seen. Triggers go back to the last change both know and go
                     on from there; a change that has made its work already is recognised by its content
    database_behind  the database lost what it had done. Somebody must say: evaluate those changes again (their work
                     has the ids it had, so what it wrote to the store is not written twice), or pass them over
    store_unknown    the store and the database know no change in common. Somebody must say: evaluate what the store
                     holds, or go on from its head

Where the store lost something, or is another one, it leaves its timeline first, so that what it writes from now on is
never taken for what was lost; what it wrote before under numbers of lost changes makes work under keys by content.
All of it is one transaction, with a revision for each trigger and an audit entry.
Whoever can restore the two from one moment should do that instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from django.db import OperationalError

from apps.keys.audit import services as audit
from apps.keys.principal import Principal
from apps.state import stores
from apps.triggers import changing
from apps.triggers.changing import Action, Change, State
from apps.triggers.errors import ControlPlaneMismatch, ReplayFailed, TriggerConflict, TriggerStorageFailure
from apps.triggers.evaluation import pins, position
from apps.triggers.evaluation.position import Seen
from apps.triggers.models import NamespaceMark, NamespacePosition, Trigger, TriggerReplay
from apps.triggers.services.showing import cursor_of
from apps.workloads.services import holds
from feltdb_engine import Store
from feltdb_engine.errors import EngineError
from feltdb_engine.model import Cursor

MISMATCH: Final = "CONTROL_PLANE_MISMATCH"


class Kind(StrEnum):
    """What is apart."""

    NOTHING = "nothing"
    STORE_BEHIND = "store_behind"
    DATABASE_BEHIND = "database_behind"
    STORE_UNKNOWN = "store_unknown"


class Unseen(StrEnum):
    """What to do with changes of which nobody can know whether their work was done."""

    EVALUATE = "evaluate"
    PASS_OVER = "pass-over"  # noqa: S105 - no password


@dataclass(frozen=True, kw_only=True, slots=True)
class Apart:
    """How a namespace's store and database stand to each other. Sequences are the store's.

    `common` is the last change both surely know; what lies between it and `database_seen`, as far as the store does
    not hold it any more, is lost, and the work it made stays. `unseen` counts the store's changes beyond `common`.
    """

    namespace: str
    kind: Kind
    message: str
    common: int
    database_seen: int
    head: int

    @property
    def unseen(self) -> int:
        """How many changes of the store are not known to be evaluated, or of whose work nothing is known."""
        return self.head - self.common

    @property
    def needs_a_word(self) -> bool:
        """Whether there are any with which somebody must say what to do."""
        return self.unseen > 0 and self.kind in (Kind.DATABASE_BEHIND, Kind.STORE_UNKNOWN)


def namespaces_apart() -> list[str]:
    """Return the namespaces that stand still because store and database do not belong together."""
    return list(NamespacePosition.objects.exclude(mismatch_code="").order_by("pk").values_list("pk", flat=True))


def look(namespace: str, *, now_ms: int) -> Apart:
    """Find how store and database stand to each other. Changes nothing. Raises TRIGGER_STATE_REPLAY_FAILED."""
    try:
        return _look(stores.store(namespace), namespace, now_ms)
    except EngineError as error:
        raise ReplayFailed(f"the feed could not be read: {error.message}") from error


def reconcile(namespace: str, *, by: Principal, now_ms: int, unseen: Unseen | None = None, reason: str = "") -> Apart:
    """Bring them back in step; then triggers and claims of the namespace go on. Returns what was apart.

    Raises CONFLICT where somebody must say what to do with unseen changes and `unseen` is None,
    TRIGGER_STATE_REPLAY_FAILED, TRIGGER_STORAGE_FAILURE; then nothing of the database was changed.
    """
    apart = look(namespace, now_ms=now_ms)
    if apart.needs_a_word and unseen is None:
        raise TriggerConflict(
            f"{apart.message}; say whether its {apart.unseen} changes are to be evaluated or passed over",
            kind=apart.kind,
        )
    try:
        store = stores.store(namespace)
        if apart.kind in (Kind.STORE_BEHIND, Kind.STORE_UNKNOWN):
            store.begin_timeline()
        head = store.head()
        now = position.at_head(store) or position.nothing_seen(store)
        with changing.turn(namespace):
            _bring_in_step(apart, head, now, unseen or Unseen.EVALUATE, by=by, now_ms=now_ms, reason=reason)
        row = NamespacePosition.objects.filter(pk=namespace).first()
        if row is not None:
            pins.say_seen(store, row.sequence, now_ms=now_ms)
    except EngineError as error:
        raise ReplayFailed(f"the store could not be used: {error.message}") from error
    except OperationalError as error:
        raise TriggerStorageFailure(f"nothing was changed: {error}") from error
    return apart


def _look(store: Store, namespace: str, now_ms: int) -> Apart:
    told = pins.told(store, now_ms=now_ms)
    row = NamespacePosition.objects.filter(pk=namespace).first()
    head = store.head().sequence
    if row is None:
        return _apart(namespace, Kind.NOTHING, "no trigger was ever defined here", head, head, head)
    seen = position.of_row(row)
    trouble = _trouble(seen, store)
    if trouble is None and told > seen.sequence:
        message = f"the database was put back: the store was evaluated up to {told}, and it knows of {seen.sequence}"
        return _apart(namespace, Kind.DATABASE_BEHIND, message, seen.sequence, seen.sequence, min(told, head))
    if trouble is None:
        beyond = _cursors_beyond(namespace, store)
        if beyond is None:
            return _apart(namespace, Kind.NOTHING, "store and database belong together", head, seen.sequence, head)
        trouble = beyond
    common = _last_common(namespace, store, seen)
    if common is None:
        return _apart(namespace, Kind.STORE_UNKNOWN, trouble, store.start().sequence, seen.sequence, head)
    return _apart(namespace, Kind.STORE_BEHIND, trouble, common, seen.sequence, head)


def _apart(namespace: str, kind: Kind, message: str, common: int, database_seen: int, head: int) -> Apart:
    return Apart(namespace=namespace, kind=kind, message=message, common=common, database_seen=database_seen, head=head)


def _trouble(seen: Seen, store: Store) -> str | None:
    try:
        position.check(seen, store)
    except ControlPlaneMismatch as error:
        return error.message
    return None


def _cursors_beyond(namespace: str, store: Store) -> str | None:
    """A trigger may have been put beyond what the store holds although the position is held."""
    for trigger in _all(namespace):
        try:
            if store.changes(cursor_of(trigger), limit=1).rewound_from is not None:
                return f"trigger {trigger.trigger_id} stands beyond the point where the store left its timeline"
        except EngineError as error:
            if error.code in ("CURSOR_AHEAD", "CURSOR_UNKNOWN"):
                return f"trigger {trigger.trigger_id} stands where the store has nothing: {error.message}"
    return None


def _last_common(namespace: str, store: Store, seen: Seen) -> int | None:
    """Return the sequence of the newest thing seen that the store holds with the same content; None for none."""
    if seen.sequence and _trouble(seen, store) is None:
        return seen.sequence
    for mark in NamespaceMark.objects.filter(namespace=namespace).order_by("-number").iterator():
        was = Seen(
            store_id=mark.store_id, instance_id=mark.instance_id, sequence=mark.sequence, content_hash=mark.content_hash
        )
        if mark.sequence < store.start().sequence:
            return None  # the history that could tell was compacted
        if _trouble(was, store) is None:
            return mark.sequence
    return None


def _all(namespace: str) -> Sequence[Trigger]:
    rows = Trigger.objects.select_related("cursor").filter(namespace=namespace)
    return list(rows.exclude(state=State.ARCHIVED).order_by("trigger_id"))


def _bring_in_step(
    apart: Apart, head: Cursor, now: Seen, unseen: Unseen, *, by: Principal, now_ms: int, reason: str
) -> None:
    """Inside the namespace's turn: cursors, replays, marks and position, and the holds go.

    `now` is the change at the store's `head`, or says that none is seen where history does not hold it any more.
    """
    namespace = apart.namespace
    why = (f"{reason}: " if reason else "") + f"reconciled, {apart.kind}"
    change = Change(action=Action.REBASE, by=by, now_ms=now_ms, reason=why)
    if apart.kind in (Kind.STORE_BEHIND, Kind.STORE_UNKNOWN):
        for trigger in _all(namespace):
            _to_the_store(apart, trigger, head, unseen, change)
        _forget_what_is_lost(apart, now_ms=now_ms)
        _remember(namespace, now, head, now_ms=now_ms)
    elif apart.kind is Kind.DATABASE_BEHIND and unseen is Unseen.PASS_OVER:
        for trigger in _all(namespace):
            if trigger.state != State.DISABLED and trigger.cursor.sequence < apart.head:
                _place(trigger, Cursor(instance_id=head.instance_id, sequence=apart.head), change)
        _remember(namespace, now, head, now_ms=now_ms)
    NamespacePosition.objects.filter(pk=namespace).update(mismatch_code="", mismatch="", updated_at_ms=now_ms)
    holds.release(namespace, code=MISMATCH)
    audit.record(
        by,
        "triggers.reconcile",
        target=f"{namespace}: {apart.kind}",
        namespace=namespace,
        reason=reason,
        after={"kind": apart.kind, "common": apart.common, "head": apart.head, "unseen": unseen},
        at_ms=now_ms,
    )


def _to_the_store(apart: Apart, trigger: Trigger, head: Cursor, unseen: Unseen, change: Change) -> None:
    """Put a trigger where it stands on the store's new timeline, not beyond what both know, unless told to."""
    at = head.sequence
    if unseen is Unseen.EVALUATE and trigger.state != State.DISABLED:
        at = apart.common if apart.kind is Kind.STORE_UNKNOWN else min(apart.common, trigger.cursor.sequence)
    _place(trigger, Cursor(instance_id=head.instance_id, sequence=at), change)


def _place(trigger: Trigger, cursor: Cursor, change: Change) -> None:
    before = changing.snapshot(trigger)
    if trigger.state == State.BLOCKED and trigger.reason_code in (MISMATCH, "CURSOR_UNKNOWN"):
        changing.hold(trigger, State.ACTIVE)
    changing.save(trigger, before, change, cursor=cursor)


def _forget_what_is_lost(apart: Apart, *, now_ms: int) -> None:
    lost = TriggerReplay.objects.filter(namespace=apart.namespace, ended_at_ms__isnull=True)
    if apart.kind is Kind.STORE_BEHIND:
        lost = lost.filter(to_sequence__gt=apart.common)
    lost.update(ended_at_ms=now_ms, outcome=TriggerReplay.Outcome.CANCELLED, message="its changes were lost")
    NamespaceMark.objects.filter(namespace=apart.namespace, sequence__gt=apart.common).delete()


def _remember(namespace: str, now: Seen, head: Cursor, *, now_ms: int) -> None:
    NamespacePosition.objects.filter(pk=namespace).update(
        store_id=now.store_id,
        instance_id=now.instance_id,
        sequence=now.sequence,
        content_hash=now.content_hash,
        reconciled_to=head.sequence,
        updated_at_ms=now_ms,
    )
