"""Defining a trigger, and changing what it says.

A definition given again replaces the old one and applies to every change not yet evaluated; the cursor stays. The same
again changes nothing. An archived id is revived by defining it: its keys stay, so no change makes work twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from django.db import IntegrityError, OperationalError

from apps.keys.grants import standing
from apps.keys.principal import EVERY_NAMESPACE, Principal
from apps.keys.scopes import EVERYTHING
from apps.state import stores
from apps.triggers import changing, limits
from apps.triggers.changing import Action, Change, State
from apps.triggers.definition import BEGINNING, NOW, Definition, of_trigger, read, write_to
from apps.triggers.errors import (
    ReplayFailed,
    TriggerConflict,
    TriggerInvalid,
    TriggerNotFound,
    TriggerStorageFailure,
    TriggerUnauthorized,
)
from apps.triggers.evaluation import position
from apps.triggers.models import Trigger
from apps.workloads.commands import BY_CHANGE, CreateWorkload, Subject
from apps.workloads.errors import WorkloadError
from apps.workloads.services import authority, prepare
from feltdb_engine import Store
from feltdb_engine.errors import EngineError
from feltdb_engine.model import Cursor

FIXED = ("application_id", "requested_by")
"""Part of the idempotency scope of a trigger's work: changed, an old change could make work a second time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Defined:
    """The trigger as it stands after a definition, and what the definition did."""

    trigger: Trigger
    created: bool
    changed: bool


def define(namespace: str, document: Any, *, by: Principal, now_ms: int, seen: int | None = None) -> Defined:
    """Define a trigger, new or again, from JSON (`apps/triggers/definition.py`).

    `seen` is the revision that the caller takes it to be at, 0 for none there: CONFLICT where it is at another and says
    something else. Raises TRIGGER_INVALID, TRIGGER_UNAUTHORIZED, CONFLICT, CONTROL_PLANE_MISMATCH or
    TRIGGER_STORAGE_FAILURE; then nothing was changed.
    """
    given = document if isinstance(document, Mapping) else {}
    known = _known(namespace, given.get("trigger_id"))
    requester = subject_of(by) if known is None else of_trigger(known).requested_by
    definition = read(document, namespace=namespace, requested_by=requester)
    return _define(namespace, definition, by=by, now_ms=now_ms, keep_state="enabled" not in given, seen=seen)


def revise(namespace: str, trigger_id: str, patch: Any, *, by: Principal, now_ms: int) -> Defined:
    """Change the named members of a trigger; null takes a member back to its default. Raises as `define`."""
    trigger = _known(namespace, trigger_id)
    if trigger is None or trigger.state == State.ARCHIVED:
        raise TriggerNotFound(trigger_id)
    if not isinstance(patch, Mapping):
        raise TriggerInvalid("a change of a trigger is an object", field="")
    if patch.get("trigger_id", trigger_id) != trigger_id:
        raise TriggerInvalid("a trigger keeps its id", field="trigger_id")
    current = of_trigger(trigger)
    merged = current.as_json() | dict(patch)
    if "not_before" in patch:
        merged.pop("not_before_at_ms", None)
    definition = read(merged, namespace=namespace, requested_by=current.requested_by)
    return _define(namespace, definition, by=by, now_ms=now_ms, keep_state="enabled" not in patch)


def _known(namespace: str, trigger_id: Any) -> Trigger | None:
    if not isinstance(trigger_id, str):
        return None
    return Trigger.objects.filter(namespace=namespace, trigger_id=trigger_id).first()


def subject_of(by: Principal) -> Subject:
    """Return in whose name a caller's triggers make work."""
    return Subject(kind=by.subject.kind.lower(), id=by.subject.id)  # type: ignore[arg-type]


def _define(
    namespace: str, definition: Definition, *, by: Principal, now_ms: int, keep_state: bool, seen: int | None = None
) -> Defined:
    _check_authority(namespace, definition, by)
    grant_id = _granted(namespace, definition, by, now_ms)
    store = stores.store(namespace)
    try:
        meeting = position.meeting(store, namespace, now_ms=now_ms)
        with changing.turn(namespace):
            changing.meet(namespace, meeting, now_ms=now_ms)
            return _write(
                store, namespace, definition, grant_id, by=by, now_ms=now_ms, keep_state=keep_state, seen=seen
            )
    except EngineError as error:
        raise ReplayFailed(f"the feed could not be read: {error.message}") from error
    except IntegrityError as error:
        raise TriggerConflict(f"trigger {definition.trigger_id} was defined by another caller just now") from error
    except OperationalError as error:
        raise TriggerStorageFailure(f"the trigger was not stored: {error}") from error


def _write(
    store: Store,
    namespace: str,
    definition: Definition,
    grant_id: str,
    *,
    by: Principal,
    now_ms: int,
    keep_state: bool,
    seen: int | None,
) -> Defined:
    rows = Trigger.objects.select_for_update()
    trigger = rows.filter(namespace=namespace, trigger_id=definition.trigger_id).first()
    if trigger is None:
        return _create(store, namespace, definition, grant_id, by=by, now_ms=now_ms)
    _check_requester(trigger, definition, by)
    before = changing.snapshot(trigger)
    revived = trigger.state == State.ARCHIVED
    was_off = trigger.state in (State.ARCHIVED, State.DISABLED)
    if revived or not keep_state:
        _set_enabled(trigger, definition.enabled)
    elif keep_state:
        definition = _replaced(definition, enabled=trigger.state != State.DISABLED)
    write_to(trigger, definition)
    if changing.snapshot(trigger) != before or not _stands(trigger, now_ms):
        trigger.grant_id = grant_id
    if changing.snapshot(trigger) == before:
        return Defined(trigger=trigger, created=False, changed=False)
    if seen is not None and seen != (0 if revived else trigger.revision):
        raise _moved_on(trigger, seen)
    starts = was_off and trigger.state == State.ACTIVE
    change = Change(action=Action.REVIVE if revived else Action.REVISE, by=by, now_ms=now_ms)
    changing.save(trigger, before, change, cursor=start_cursor(store, definition.start_from) if starts else None)
    return Defined(trigger=trigger, created=revived, changed=True)


def _moved_on(trigger: Trigger, seen: int) -> TriggerConflict:
    stands = f"it is at revision {trigger.revision} and {trigger.state} now"
    if seen == 0:
        return TriggerConflict(
            f"there is a trigger {trigger.trigger_id} already; {stands}: look at it and change that one"
        )
    return TriggerConflict(f"trigger {trigger.trigger_id} has changed meanwhile; {stands}: look at it and decide again")


def _create(
    store: Store, namespace: str, definition: Definition, grant_id: str, *, by: Principal, now_ms: int
) -> Defined:
    if Trigger.objects.filter(namespace=namespace).count() >= limits.MAX_TRIGGERS_PER_NAMESPACE:
        raise TriggerInvalid(
            f"a namespace has at most {limits.MAX_TRIGGERS_PER_NAMESPACE} triggers", field="trigger_id"
        )
    trigger = Trigger(namespace=namespace, trigger_id=definition.trigger_id, created_at_ms=now_ms, grant_id=grant_id)
    write_to(trigger, definition)
    trigger.state = State.ACTIVE if definition.enabled else State.DISABLED
    change = Change(action=Action.DEFINE, by=by, now_ms=now_ms)
    changing.save(trigger, None, change, cursor=start_cursor(store, definition.start_from))
    return Defined(trigger=trigger, created=True, changed=True)


def start_cursor(store: Store, start_from: str, *, field: str = "start_from") -> Cursor:
    """Return where a trigger starts. "now" is the durable head, so it is read after the trigger's row is locked.

    Raises `TriggerInvalid`, naming `field`, for what is no cursor of the store's feed.
    """
    if start_from == NOW:
        return store.head()
    if start_from == BEGINNING:
        return store.start()
    try:
        cursor = Cursor.parse(start_from)
        store.changes(cursor, limit=1)
    except ValueError as error:
        raise TriggerInvalid(f"{field} is now, beginning, or a cursor", field=field) from error
    except EngineError as error:
        raise TriggerInvalid(f"{field}: {error.message}", field=field) from error
    return cursor


def _set_enabled(trigger: Trigger, enabled: bool) -> None:
    """A trigger held up for a reason stays so when it is defined as enabled; only `enable` and `resume` let it go."""
    if not enabled:
        changing.hold(trigger, State.DISABLED)
    elif trigger.state in (State.DISABLED, State.ARCHIVED):
        changing.hold(trigger, State.ACTIVE)


def _replaced(definition: Definition, **members: Any) -> Definition:
    values = {each.name: getattr(definition, each.name) for each in fields(definition)}
    return Definition(**(values | members))


def _check_authority(namespace: str, definition: Definition, by: Principal) -> None:
    """Who defines a trigger acts for its requester: it is them, or they run the instance or hold everything here."""
    if not by.may_enter(namespace) and EVERY_NAMESPACE not in by.namespaces:
        raise TriggerUnauthorized("the namespace is not the caller's")
    if definition.requested_by != subject_of(by) and not by.runs_the_instance and not by.has(EVERYTHING):
        raise TriggerUnauthorized(
            f"the trigger's work is requested by {definition.requested_by.kind} {definition.requested_by.id}; "
            "only they, or a key that holds every scope, may define it"
        )


def _check_requester(trigger: Trigger, definition: Definition, by: Principal) -> None:
    current = of_trigger(trigger)
    for name in FIXED:
        if getattr(current, name) != getattr(definition, name):
            raise TriggerConflict(
                f"trigger {trigger.trigger_id} keeps its {name}: it is part of what makes its work unique; "
                "archive this trigger and define another",
                field=name,
            )


def granted(trigger: Trigger, *, by: Principal, now_ms: int) -> str:
    """Return the grant the trigger's work shall run under from now on: its own while that stands, else one of `by`.

    Before the caller's transaction begins. Raises TRIGGER_UNAUTHORIZED.
    """
    if _stands(trigger, now_ms):
        return trigger.grant_id
    return _granted(trigger.namespace, of_trigger(trigger), by, now_ms)


def _stands(trigger: Trigger, now_ms: int) -> bool:
    return not trigger.grant_id or standing.refusal(trigger.namespace, trigger.grant_id, now_ms=now_ms) is None


def _granted(namespace: str, definition: Definition, by: Principal, now_ms: int) -> str:
    """Return the grant that what `by` defines will run under. Refuses what could never become work.

    The work's own rules are asked, with the definition's members. Raises TRIGGER_INVALID, TRIGGER_UNAUTHORIZED.
    """
    command = CreateWorkload(
        namespace=namespace,
        application_id=definition.application_id,
        environment=definition.environment,
        definition_id=definition.target_capability,
        definition_revision=definition.definition_revision,
        trigger=f"{BY_CHANGE}{definition.trigger_id}",
        requested_by=definition.requested_by,
        authorization_snapshot=definition.authorization_snapshot,
        capability_snapshot=frozenset(definition.capability_snapshot),
        connection_scopes=frozenset(definition.connection_scopes),
        priority=definition.priority,
        idempotency_key=f"state-trigger:{definition.trigger_id}",
        retry_policy=definition.retry_policy,
        timeouts=definition.timeouts,
        not_before_at_ms=definition.not_before_at_ms,
    )
    try:
        prepared = prepare(command)
        return authority.given(prepared.command, prepared.workload_id, by=by, now_ms=now_ms).grant_id
    except WorkloadError as error:
        if error.code == "WORKLOAD_UNAUTHORIZED":
            raise TriggerUnauthorized(error.message) from error
        pointer = str((error.details or {}).get("pointer", ""))
        field = pointer.strip("/").partition("/")[0]
        raise TriggerInvalid(f"{field or 'the work'}: {error.message}", field=field, pointer=pointer) from error
