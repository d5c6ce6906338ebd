"""What operators do with a trigger that is defined. Each is a revision with its author and reason.

paused     keeps its cursor and catches up when resumed, by hand or at a set instant
disabled   lets changes pass: enabling starts from now, unless told otherwise
archived   deleted, but its id, cursor and keys stay; defining the id again revives it
"""

from django.db import OperationalError

from apps.keys.principal import Principal
from apps.state import stores
from apps.triggers import changing
from apps.triggers.changing import Action, Change, State
from apps.triggers.definition import NOW
from apps.triggers.errors import ReplayFailed, TriggerConflict, TriggerNotFound, TriggerStorageFailure
from apps.triggers.evaluation import position
from apps.triggers.models import Trigger
from apps.triggers.services.defining import granted, start_cursor
from feltdb_engine.errors import EngineError

BY_OPERATOR = "PAUSED_BY_OPERATOR"
CLOCK = "clock"
GRANT_CODES = "GRANT_"
"""How the reason of a trigger begins that was blocked because its authority had ended."""


def enable(
    namespace: str, trigger_id: str, *, by: Principal, now_ms: int, start_from: str = NOW, reason: str = ""
) -> Trigger:
    """Let a disabled or blocked trigger be evaluated again, from `start_from`; an active one is left alone.

    A paused one is resumed: it keeps its cursor, and so does one whose authority had ended. Where that has ended,
    the trigger's work runs under the authority of `by` from now on. Raises TRIGGER_NOT_FOUND, TRIGGER_INVALID,
    TRIGGER_UNAUTHORIZED, CONTROL_PLANE_MISMATCH, TRIGGER_STORAGE_FAILURE.
    """
    found = Trigger.objects.filter(namespace=namespace, trigger_id=trigger_id).first()
    if found is None:
        raise TriggerNotFound(trigger_id)
    grant_id = granted(found, by=by, now_ms=now_ms)
    try:
        store = stores.store(namespace)
        seen = position.at_head(store)
        with changing.turn(namespace):
            changing.meet(namespace, seen, now_ms=now_ms)
            trigger = _live_row(namespace, trigger_id)
            if trigger.state == State.ACTIVE:
                return trigger
            before = changing.snapshot(trigger)
            moved = trigger.state != State.PAUSED and not trigger.reason_code.startswith(GRANT_CODES)
            trigger.grant_id = grant_id
            changing.hold(trigger, State.ACTIVE)
            change = Change(action=Action.ENABLE, by=by, now_ms=now_ms, reason=reason)
            changing.save(trigger, before, change, cursor=start_cursor(store, start_from) if moved else None)
            return trigger
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
        only_from=State.ACTIVE,
        code=BY_OPERATOR,
        until_ms=resumes_at_ms,
    )


def resume(namespace: str, trigger_id: str, *, by: Principal, now_ms: int, reason: str = "") -> Trigger:
    """Let a paused trigger go on from its cursor. Raises CONFLICT where it is not paused, TRIGGER_NOT_FOUND."""
    change = Change(action=Action.RESUME, by=by, now_ms=now_ms, reason=reason)
    return _set(namespace, trigger_id, State.ACTIVE, change, only_from=State.PAUSED)


def resume_due(*, now_ms: int) -> int:
    """Resume every trigger whose pause is over. Returns how many."""
    due = Trigger.objects.filter(state=State.PAUSED, resumes_at_ms__lte=now_ms)
    resumed = 0
    for namespace, trigger_id in list(due.values_list("namespace", "trigger_id")):
        change = Change(action=Action.RESUME, author=CLOCK, now_ms=now_ms, reason="the pause is over")
        try:
            _set(namespace, trigger_id, State.ACTIVE, change, only_from=State.PAUSED, not_after_ms=now_ms)
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
    only_from: State | None = None,
    code: str = "",
    until_ms: int | None = None,
    not_after_ms: int | None = None,
) -> Trigger:
    try:
        with changing.turn(namespace):
            trigger = _live_row(namespace, trigger_id)
            if trigger.state == state and only_from is None:
                return trigger
            if only_from is not None and trigger.state != only_from:
                raise TriggerConflict(
                    f"trigger {trigger_id} is {trigger.state}, not {only_from.value}", state=trigger.state
                )
            if not_after_ms is not None and (trigger.resumes_at_ms or 0) > not_after_ms:
                raise TriggerConflict(f"trigger {trigger_id} was paused anew", state=trigger.state)
            before = changing.snapshot(trigger)
            changing.hold(trigger, state, code=code, reason=change.reason if code else "", until_ms=until_ms)
            changing.save(trigger, before, change)
            return trigger
    except OperationalError as error:
        raise TriggerStorageFailure(f"the trigger was not changed: {error}") from error


def _live_row(namespace: str, trigger_id: str) -> Trigger:
    trigger = changing.locked(namespace, trigger_id)
    if trigger.state == State.ARCHIVED:
        raise TriggerNotFound(trigger_id)
    return trigger
