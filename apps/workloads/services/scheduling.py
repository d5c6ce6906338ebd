"""Schedules: defined by people, due by the clock, and each due time made into work once.

A due time's work has the idempotency key `schedule:{schedule}:{due time}`, and is made in the transaction that moves
the schedule on: compared and set, so that of several workers one makes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import IntegrityError, transaction

from apps.keys.audit.services import record
from apps.keys.grants import standing
from apps.keys.principal import Principal
from apps.workloads import cron, errors, limits, wanted
from apps.workloads.commands import Admission, CreateWorkload, Subject
from apps.workloads.cron import Unreadable
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Schedule
from apps.workloads.services import authority, validation
from apps.workloads.services.admission import Prepared, admit_many, prepare
from apps.workloads.services.moving import Lost, deciding_anew
from apps.workloads.states import MissedRuns, ScheduleState

PROVENANCE = "schedule:"
"""How `trigger` of scheduled work begins; the schedule's id follows."""

LATE_MS = 60_000
"""A due time older than this counts as missed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleDefinition:
    """What a schedule says. `work`: members of a request in JSON form; key and instant are the schedule's."""

    namespace: str
    schedule_id: str
    expression: str
    work: Mapping[str, Any]
    time_zone: str = "UTC"
    missed: MissedRuns = MissedRuns.ONE


@dataclass(frozen=True, kw_only=True, slots=True)
class Defined:
    """What became of a definition."""

    schedule: Schedule
    created: bool
    changed: bool


@deciding_anew
def define(definition: ScheduleDefinition, *, by: Principal, requested_by: Subject, now_ms: int) -> Defined:
    """Define a schedule, new or again; it goes on from now. The same definition by the same subject changes nothing.

    Raises SCHEDULE_INVALID, and for the work it would make WORKLOAD_INVALID, WORKLOAD_SECRET_REJECTED or
    WORKLOAD_UNAUTHORIZED.
    """
    _check(definition)
    known = Schedule.objects.filter(namespace=definition.namespace, schedule_id=definition.schedule_id).first()
    says = {
        "expression": " ".join(definition.expression.split()),
        "time_zone": definition.time_zone,
        "missed": definition.missed,
        "definition_id": definition.work["definition_id"],
        "work": dict(definition.work),
        "requester_kind": requested_by.kind,
        "requester_id": requested_by.id,
    }
    if known is not None and all(getattr(known, name) == value for name, value in says.items()):
        return Defined(schedule=known, created=False, changed=False)
    schedule = known or Schedule(
        namespace=definition.namespace,
        schedule_id=definition.schedule_id,
        state=ScheduleState.ACTIVE,
        revision=0,
        created_at_ms=now_ms,
    )
    before = {"revision": schedule.revision}
    for name, value in says.items():
        setattr(schedule, name, value)
    schedule.grant_id = _granted(schedule, by, now_ms)
    _begin(schedule, now_ms)
    try:
        with transaction.atomic():
            _write(schedule, before, now_ms, created=known is None)
            record(by, "schedule.define", target=schedule.schedule_id, namespace=schedule.namespace, at_ms=now_ms)
    except IntegrityError as error:
        if not Schedule.objects.filter(namespace=schedule.namespace, schedule_id=schedule.schedule_id).exists():
            raise
        raise Lost from error  # somebody else defined it since we looked
    return Defined(schedule=schedule, created=known is None, changed=True)


def _check(definition: ScheduleDefinition) -> None:
    try:
        validation.name(definition.schedule_id, "/schedule_id", limits.MAX_SCHEDULE_ID_CHARS)
    except WorkloadError as error:
        raise errors.schedule_invalid(error.message, pointer="/schedule_id") from error
    if len(definition.expression) > limits.MAX_EXPRESSION_CHARS:
        raise errors.schedule_invalid(f"at most {limits.MAX_EXPRESSION_CHARS} characters", pointer="/expression")
    try:
        cron.check(definition.expression, definition.time_zone)
    except Unreadable as error:
        pointer = "/time_zone" if "time zone" in str(error) else "/expression"
        raise errors.schedule_invalid(str(error), pointer=pointer) from error


def _granted(schedule: Schedule, by: Principal, now_ms: int) -> str:
    """Return the grant the work will run under; refuses what could never become work."""
    prepared = prepare(_request(schedule, now_ms))
    return authority.given(prepared.command, prepared.workload_id, by=by, now_ms=now_ms).grant_id


def _begin(schedule: Schedule, now_ms: int) -> None:
    if schedule.state == ScheduleState.ACTIVE:
        schedule.next_at_ms = cron.next_at_ms(schedule.expression, schedule.time_zone, now_ms)
        schedule.failure = ""


def _write(schedule: Schedule, before: Mapping[str, Any], now_ms: int, *, created: bool = False) -> None:
    """Save under the next revision; raises Lost when another was first."""
    schedule.revision += 1
    schedule.updated_at_ms = now_ms
    if created:
        schedule.save(force_insert=True)
        return
    fields = [field.attname for field in schedule._meta.concrete_fields if not field.primary_key]
    values = {name: getattr(schedule, name) for name in fields}
    if not Schedule.objects.filter(pk=schedule.pk, **before).update(**values):
        raise Lost


@deciding_anew
def pause(namespace: str, schedule_id: str, *, by: Principal, now_ms: int, reason: str = "") -> Schedule:
    """Let due times pass. Again: the same."""
    return _set_state(namespace, schedule_id, ScheduleState.PAUSED, by, now_ms, reason)


@deciding_anew
def resume(namespace: str, schedule_id: str, *, by: Principal, now_ms: int, reason: str = "") -> Schedule:
    """Go on from now, under the authority of whoever resumes where the former has ended. Again: the same."""
    return _set_state(namespace, schedule_id, ScheduleState.ACTIVE, by, now_ms, reason)


def _set_state(
    namespace: str, schedule_id: str, state: ScheduleState, by: Principal, now_ms: int, reason: str
) -> Schedule:
    reason = reason.strip()[: limits.MAX_REASON_CHARS]
    validation.refuse_secret_text(reason, "/reason")
    schedule = find(namespace, schedule_id)
    if schedule.state == state:
        return schedule
    before = {"revision": schedule.revision}
    schedule.state, schedule.next_at_ms = state, None
    if state == ScheduleState.ACTIVE and _ended(schedule, now_ms):
        schedule.grant_id = _granted(schedule, by, now_ms)
    _begin(schedule, now_ms)
    with transaction.atomic():
        _write(schedule, before, now_ms)
        action = "schedule.resume" if state == ScheduleState.ACTIVE else "schedule.pause"
        record(by, action, target=schedule_id, namespace=namespace, reason=reason, at_ms=now_ms)
    return schedule


def delete(namespace: str, schedule_id: str, *, by: Principal, now_ms: int, reason: str = "") -> None:
    """Forget a schedule; the work it made stays."""
    validation.refuse_secret_text(reason, "/reason")
    schedule = find(namespace, schedule_id)
    with transaction.atomic():
        schedule.delete()
        record(by, "schedule.delete", target=schedule_id, namespace=namespace, reason=reason, at_ms=now_ms)


def find(namespace: str, schedule_id: str) -> Schedule:
    """Return the schedule. Raises SCHEDULE_NOT_FOUND."""
    schedule = Schedule.objects.filter(namespace=namespace, schedule_id=schedule_id).first()
    if schedule is None:
        raise errors.schedule_not_found(schedule_id)
    return schedule


def page(namespace: str, *, after_id: str = "", limit: int) -> tuple[list[Schedule], str | None]:
    """Return schedules in the order of their ids, and the id to go on after (None at the end)."""
    rows = Schedule.objects.filter(namespace=namespace, schedule_id__gt=after_id).order_by("schedule_id")
    found = list(rows[: limit + 1])
    return found[:limit], found[limit - 1].schedule_id if len(found) > limit else None


def run_due(*, now_ms: int, limit: int = limits.MAX_BATCH) -> int:
    """Make the work of schedules that are due, the longest first. Returns how many workloads were made."""
    made = 0
    for schedule in Schedule.objects.filter(next_at_ms__lte=now_ms).order_by("next_at_ms", "pk")[:limit]:
        try:
            made += sum(admission.created for admission in _fire(schedule, now_ms))
        except Lost:
            continue  # another worker was first, or somebody has just changed it
    return made


def _fire(schedule: Schedule, now_ms: int) -> Sequence[Admission]:
    """Make the work of the due times that count and move the schedule on, in one transaction."""
    before = {"revision": schedule.revision, "next_at_ms": schedule.next_at_ms}
    changes: dict[str, Any] = {}
    batch: list[Prepared] = []
    ended = _ended(schedule, now_ms)
    if ended is not None:
        changes = {"state": ScheduleState.BLOCKED, "next_at_ms": None, "failure": f"{ended.code}: {ended.message}"}
    else:
        try:
            due = _counting(schedule, now_ms)
            following = due[-1] if len(due) == limits.MAX_BATCH else now_ms
            changes["next_at_ms"] = cron.next_at_ms(schedule.expression, schedule.time_zone, following)
            batch = [prepare(_request(schedule, at)) for at in due]
        except WorkloadError as refused:
            changes["failure"] = f"{refused.code}: {refused.message}"[: limits.MAX_TEXT_CHARS]
        except Unreadable as error:  # what could be read once and cannot any more: a time zone that is gone
            changes = {"state": ScheduleState.BLOCKED, "next_at_ms": None, "failure": f"SCHEDULE_INVALID: {error}"}
        if batch:
            changes |= {"last_at_ms": due[-1], "last_workload_id": batch[-1].workload_id, "failure": ""}
    try:
        with transaction.atomic():
            admissions = admit_many(batch, now_ms=now_ms)
            conflict = next((each.conflict for each in admissions if each.conflict is not None), None)
            if conflict is not None:
                changes["failure"] = f"{conflict.code}: {conflict.message}"[: limits.MAX_TEXT_CHARS]
            if not Schedule.objects.filter(pk=schedule.pk, **before).update(**changes):
                raise Lost
    except IntegrityError as error:
        raise Lost from error  # another worker makes the same work just now
    return admissions


def _ended(schedule: Schedule, now_ms: int) -> Any:
    if not schedule.grant_id:
        return None
    return standing.refusal(schedule.namespace, schedule.grant_id, now_ms=now_ms)


def _counting(schedule: Schedule, now_ms: int) -> list[int]:
    """Return the due times that make work now: all that have passed, or the last, or the last if it is not late."""
    first = schedule.next_at_ms
    if first is None:
        return []
    if schedule.missed == MissedRuns.ALL:
        return cron.due_between(schedule.expression, schedule.time_zone, first, now_ms, limits.MAX_BATCH)
    last = cron.last_between(schedule.expression, schedule.time_zone, first, now_ms)
    if last is None or (schedule.missed == MissedRuns.NONE and now_ms - last > LATE_MS):
        return []
    return [last]


def _request(schedule: Schedule, due_at_ms: int) -> CreateWorkload:
    made = CreateWorkload(
        **{
            **wanted.members(schedule.work),
            "namespace": schedule.namespace,
            "requested_by": Subject(kind=schedule.requester_kind, id=schedule.requester_id),  # type: ignore[arg-type]
            "idempotency_key": f"{PROVENANCE}{schedule.schedule_id}:{due_at_ms}",
            "trigger": f"{PROVENANCE}{schedule.schedule_id}",
            "not_before_at_ms": due_at_ms,
        }
    )
    return replace(made, grant_id=schedule.grant_id)
