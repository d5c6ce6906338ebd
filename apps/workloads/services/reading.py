"""What can be read of work: one, a page, its history, its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q

from apps.workloads import errors, limits
from apps.workloads.models import Attempt, Checkpoint, Decision, Dependency, Event, Result, Workload
from apps.workloads.services.moving import load
from apps.workloads.states import RESTING

FILTERS = ("state", "definition_id", "application_id", "trigger")


@dataclass(frozen=True, kw_only=True, slots=True)
class Details:
    """One workload with everything that belongs to it."""

    workload: Workload
    attempts: list[Attempt]
    dependencies: list[Dependency]
    decision: Decision | None
    result: Result | None


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What happened to one workload: the newest MAX_HISTORY of each kind, oldest first."""

    workload_id: str
    events: list[Event]
    attempts: list[Attempt]
    checkpoints: list[Checkpoint]


def get(namespace: str, workload_id: str) -> Details:
    """Return one workload. Raises WORKLOAD_NOT_FOUND."""
    rows = Workload.objects.select_related("request", "lane")
    row = rows.filter(namespace=namespace, workload_id=workload_id).first()
    if row is None:
        raise errors.not_found(workload_id)
    return Details(
        workload=row,
        attempts=_newest(Attempt.objects.filter(workload=row), "number"),
        dependencies=list(Dependency.objects.filter(child=row).select_related("parent").order_by("pk")),
        decision=Decision.objects.filter(workload=row).first(),
        result=Result.objects.filter(workload=row).select_related("attempt").first(),
    )


def whole(rows: Sequence[Workload]) -> list[Workload]:
    """Return the rows again with everything that belongs to them read along, for `details_of` and `history_of`."""
    found = Workload.objects.filter(pk__in=[row.pk for row in rows]).select_related("request", "decision", "result")
    return list(found.prefetch_related("attempts", "events", "checkpoints", "dependencies__parent").order_by("pk"))


def details_of(row: Workload) -> Details:
    """Return one workload of `whole`. Asks no database."""
    attempts = _attempts(row)
    result = getattr(row, "result", None)
    if result is not None:
        result.attempt = attempts[result.attempt_id]
    return Details(
        workload=row,
        attempts=sorted(attempts.values(), key=lambda attempt: attempt.number),
        dependencies=sorted(row.dependencies.all(), key=lambda dependency: dependency.pk),
        decision=getattr(row, "decision", None),
        result=result,
    )


def history_of(row: Workload) -> History:
    """Return all that happened to one workload of `whole`. Asks no database."""
    attempts = _attempts(row)
    checkpoints = sorted(row.checkpoints.all(), key=lambda each: each.sequence)
    for each in checkpoints:
        each.attempt = attempts[each.attempt_id]
    return History(
        workload_id=row.workload_id,
        events=sorted(row.events.all(), key=lambda event: event.sequence),
        attempts=sorted(attempts.values(), key=lambda attempt: attempt.number),
        checkpoints=checkpoints,
    )


def _attempts(row: Workload) -> dict[int, Attempt]:
    return {attempt.pk: attempt for attempt in row.attempts.all()}


def page(
    namespace: str, *, filters: Mapping[str, str] | None = None, after: int | None = None, limit: int
) -> tuple[list[Workload], int | None]:
    """Return a page, newest first, and where to go on from (None at the end). Filters: those of FILTERS."""
    wanted = Workload.objects.filter(namespace=namespace, **(filters or {}))
    if after is not None:
        wanted = wanted.filter(pk__lt=after)
    rows = list(wanted.select_related("request").defer("request__input").order_by("-pk")[: limit + 1])
    more = len(rows) > limit
    return rows[:limit], rows[limit - 1].pk if more else None


def history(namespace: str, workload_id: str) -> History:
    """Return what happened to one workload. Raises WORKLOAD_NOT_FOUND."""
    row = load(namespace, workload_id)
    return History(
        workload_id=workload_id,
        events=_newest(Event.objects.filter(workload=row), "sequence"),
        attempts=_newest(Attempt.objects.filter(workload=row), "number"),
        checkpoints=_newest(Checkpoint.objects.filter(workload=row).select_related("attempt"), "sequence"),
    )


def result(namespace: str, workload_id: str) -> tuple[Workload, Result | None]:
    """Return the work and its result, None where there is none (yet). Raises WORKLOAD_NOT_FOUND."""
    row = load(namespace, workload_id)
    return row, Result.objects.filter(workload=row).select_related("attempt").first()


def counts(namespace: str | None = None) -> dict[str, int]:
    """Return how many workloads rest in each state."""
    rows = Workload.objects.filter(Q() if namespace is None else Q(namespace=namespace))
    found = dict(rows.values_list("state").annotate(count=Count("pk")))
    return {state.value: found.get(state.value, 0) for state in RESTING}


def _newest(rows: Any, order: str) -> list[Any]:
    return list(rows.order_by(f"-{order}")[: limits.MAX_HISTORY])[::-1]
