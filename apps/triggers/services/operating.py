"""What operators do with a trigger that is defined. Each is a revision with its author and reason.

paused     keeps its cursor and catches up when resumed, by hand or at a set instant
blocked    stands where it is until an operator has seen to the reason: resumed it goes on, rebased it goes on elsewhere
disabled   lets changes pass: enabling starts from now, unless told otherwise
archived   deleted, but its id, cursor and keys stay; defining the id again revives it
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError

from apps.keys.principal import Principal
from apps.state import stores
from apps.triggers import changing
from apps.triggers.changing import Action, Change, State
from apps.triggers.definition import NOW
from apps.triggers.errors import ReplayFailed, TriggerConflict, TriggerNotFound, TriggerStorageFailure
from apps.triggers.evaluation import position
from apps.triggers.models import Trigger, TriggerReplay
from apps.triggers.services.defining import granted, start_cursor
from feltdb_engine import Store
from feltdb_engine.errors import EngineError

BY_OPERATOR = "PAUSED_BY_OPERATOR"
CLOCK = "clock"
GRANT_CODES = "GRANT_"
"""How the reason of a trigger begins that was blocked because its authority had ended."""


def enable(
    namespace: str, trigger_id: str, *, by: Principal, now_ms: int, start_from: str | None = None, reason: str = ""
) -> Trigger:
    """Let a trigger be evaluated again; an active one is left alone.

    A disabled one starts from `start_from`, now if that is None. A paused or blocked one keeps its cursor, so that
    nothing is passed over; a blocked one starts from `start_from` if that is given. Where its authority has ended, its
    work runs under that of `by` from now on. Raises TRIGGER_NOT_FOUND, TRIGGER_INVALID, TRIGGER_UNAUTHORIZED,
    CONTROL_PLANE_MISMATCH, TRIGGER_STORAGE_FAILURE.
    """
    found = Trigger.objects.filter(namespace=namespace, trigger_id=trigger_id).first()
    if found is None:
        raise TriggerNotFound(trigger_id)
    grant_id = granted(found, by=by, now_ms=now_ms)
    with moving(namespace, now_ms) as store:
        trigger = _live_row(namespace, trigger_id)
        if trigger.state == State.ACTIVE:
            return trigger
        before = changing.snapshot(trigger)
        if trigger.state == State.DISABLED:
            start_from = start_from or NOW
        elif trigger.state == State.PAUSED:
            start_from = None
        trigger.grant_id = grant_id
        changing.hold(trigger, State.ACTIVE)
        change = Change(action=Action.ENABLE, by=by, now_ms=now_ms, reason=reason)
        changing.save(trigger, before, change, cursor=None if start_from is None else start_cursor(store, start_from))
        return trigger


def rebase(namespace: str, trigger_id: str, *, by: Principal, now_ms: int, to: str, reason: str) -> Trigger:
    """Put a trigger's cursor at `to` (now, beginning, or a cursor), forwards or back; a blocked one goes on from there.

    Changes passed over make no work; changes gone back to find their work already there. Raises CONFLICT for a
    disabled trigger (enabling it says where to start), TRIGGER_NOT_FOUND, TRIGGER_INVALID, CONTROL_PLANE_MISMATCH,
    TRIGGER_STORAGE_FAILURE.
    """
    with moving(namespace, now_ms) as store:
        trigger = _live_row(namespace, trigger_id)
        if trigger.state == State.DISABLED:
            raise TriggerConflict(
                f"trigger {trigger_id} is disabled; enable it from where it shall start", state="disabled"
            )
        before = changing.snapshot(trigger)
        if trigger.state == State.BLOCKED:
            changing.hold(trigger, State.ACTIVE)
        change = Change(action=Action.REBASE, by=by, now_ms=now_ms, reason=reason)
        changing.save(trigger, before, change, cursor=start_cursor(store, to, field="to"))
        return trigger


@contextmanager
def moving(namespace: str, now_ms: int) -> Iterator[Store]:
    """Hold the namespace's triggers while a cursor is moved to a place in its store, which is the one known."""
    try:
        store = stores.store(namespace)
        meeting = position.meeting(store, namespace, now_ms=now_ms)
        with changing.turn(namespace):
            changing.meet(namespace, meeting, now_ms=now_ms)
            yield store
    except EngineError as error:
        raise ReplayFailed(f"the feed could not be read: {error.message}") from error
    except OperationalError as error:
        raise TriggerStorageFailure(f"the trigger was not changed: {error}") from error


def disable(namespace: str, trigger_id: str, *, by: Principal, now_ms: int, reason: str = "") -> Trigger:
    """Let changes pass from now on. Raises TRIGGER_NOT_FOUND, TRIGGER_STORAGE_FAILURE."""
    change = Change(action=Action.DISABLE, by=by, now_ms=now_ms, reason=reason)
    return _set(namespace, trigger_id, State.DISABLED, change)


def pause(
    namespace: str,
    trigger_id: str,
    *,
    by: Principal,
    now_ms: int,
    reason: str,
    resumes_at_ms: int | None = None,
) -> Trigger:
    """Hold an active trigger where it stands, until it is resumed or `resumes_at_ms`.

    Raises CONFLICT where it is not active, TRIGGER_NOT_FOUND, TRIGGER_STORAGE_FAILURE.
    """
    change = Change(action=Action.PAUSE, by=by, now_ms=now_ms, reason=reason)
    return _set(
        namespace,
        trigger_id,
        State.PAUSED,
        change,
        only_from=(State.ACTIVE,),
        code=BY_OPERATOR,
        until_ms=resumes_at_ms,
    )


def resume(namespace: str, trigger_id: str, *, by: Principal, now_ms: int, reason: str = "") -> Trigger:
    """Let a paused or blocked trigger go on from its cursor. Raises CONFLICT where it is neither, TRIGGER_NOT_FOUND.

    What blocked it may block it again: then it stands where it stood. One whose authority has ended is refused: it is
    enabled, by somebody whose authority it is to have.
    """
    change = Change(action=Action.RESUME, by=by, now_ms=now_ms, reason=reason)
    return _set(namespace, trigger_id, State.ACTIVE, change, only_from=(State.PAUSED, State.BLOCKED))


def resume_due(*, now_ms: int) -> int:
    """Resume every trigger whose pause is over. Returns how many."""
    due = Trigger.objects.filter(state=State.PAUSED, resumes_at_ms__lte=now_ms)
    resumed = 0
    for namespace, trigger_id in list(due.values_list("namespace", "trigger_id")):
        change = Change(action=Action.RESUME, author=CLOCK, now_ms=now_ms, reason="the pause is over")
        try:
            _set(namespace, trigger_id, State.ACTIVE, change, only_from=(State.PAUSED,), not_after_ms=now_ms)
        except (TriggerConflict, TriggerNotFound):
            continue  # somebody else was first
        resumed += 1
    return resumed


def archive(namespace: str, trigger_id: str, *, by: Principal, now_ms: int, reason: str = "") -> Trigger:
    """Delete a trigger: it is evaluated and listed no more. Raises TRIGGER_NOT_FOUND, TRIGGER_STORAGE_FAILURE."""
    change = Change(action=Action.ARCHIVE, by=by, now_ms=now_ms, reason=reason)
    return _set(namespace, trigger_id, State.ARCHIVED, change)


def _set(
    namespace: str,
    trigger_id: str,
    state: State,
    change: Change,
    *,
    only_from: tuple[State, ...] | None = None,
    code: str = "",
    until_ms: int | None = None,
    not_after_ms: int | None = None,
) -> Trigger:
    try:
        with changing.turn(namespace):
            trigger = _live_row(namespace, trigger_id)
            if trigger.state == state and only_from is None:
                return trigger
            if only_from is not None and trigger.state not in only_from:
                wanted = " or ".join(each.value for each in only_from)
                raise TriggerConflict(f"trigger {trigger_id} is {trigger.state}, not {wanted}", state=trigger.state)
            if not_after_ms is not None and (trigger.resumes_at_ms or 0) > not_after_ms:
                raise TriggerConflict(f"trigger {trigger_id} was paused anew", state=trigger.state)
            if state == State.ACTIVE and trigger.reason_code.startswith(GRANT_CODES):
                raise TriggerConflict(
                    f"the authority of trigger {trigger_id} has ended; enabling it puts it under that of whoever does",
                    reason=trigger.reason_code,
                )
            before = changing.snapshot(trigger)
            changing.hold(trigger, state, code=code, reason=change.reason if code else "", until_ms=until_ms)
            changing.save(trigger, before, change)
            if state == State.ARCHIVED:
                _end_replays(trigger, now_ms=change.now_ms)
            return trigger
    except OperationalError as error:
        raise TriggerStorageFailure(f"the trigger was not changed: {error}") from error


def _end_replays(trigger: Trigger, *, now_ms: int) -> None:
    TriggerReplay.objects.filter(trigger=trigger, ended_at_ms__isnull=True).update(
        ended_at_ms=now_ms, outcome=TriggerReplay.Outcome.CANCELLED, message="the trigger was archived"
    )


def _live_row(namespace: str, trigger_id: str) -> Trigger:
    trigger = changing.locked(namespace, trigger_id)
    if trigger.state == State.ARCHIVED:
        raise TriggerNotFound(trigger_id)
    return trigger
