"""Bounded questions about all work of a namespace, for people and dashboards: never a scan of the whole table.

Every count stops at `cap + 1` rows: what comes back beyond `cap` means "more".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import OuterRef, QuerySet, Subquery

from apps.workloads.models import Lane, Workload
from apps.workloads.states import RESTING, State


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The READY work that could run now and has waited longest."""

    workload_id: str
    definition_id: str
    eligible_at_ms: int


def count_by_state(namespace: str, *, cap: int) -> dict[State, int]:
    """Count the work in each resting state, in one statement."""
    table = connection.ops.quote_name(Workload._meta.db_table)
    some = f"SELECT 1 FROM {table} WHERE namespace = %s AND state = %s LIMIT %s"  # noqa: S608 - a name of our own
    one = f"SELECT %s AS state, COUNT(*) FROM ({some}) AS capped"  # noqa: S608
    parameters = [part for state in RESTING for part in (str(state), namespace, str(state), cap + 1)]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([one] * len(RESTING)), parameters)
        return {State(state): count for state, count in cursor.fetchall()}


def count_by_capability(namespace: str, states: Sequence[State], *, cap: int) -> dict[tuple[State, str], int]:
    """Count the work in each of `states` by the capability it asks for, in one statement; `cap` rows of each state."""
    table = connection.ops.quote_name(Workload._meta.db_table)
    some = f"SELECT state, definition_id FROM {table} WHERE namespace = %s AND state = %s LIMIT %s"  # noqa: S608
    one = f"SELECT state, definition_id, COUNT(*) FROM ({some}) AS capped GROUP BY state, definition_id"  # noqa: S608
    parameters = [part for state in states for part in (namespace, str(state), cap)]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([one] * len(states)), parameters)
        return {(State(state), name): count for state, name, count in cursor.fetchall()}


def dead_letters(namespace: str) -> QuerySet[Workload]:
    """Return the dead letters, newest work first; the caller slices."""
    return Workload.objects.filter(namespace=namespace, state=State.DEAD_LETTER).order_by("-id")


def longest_waiting(namespace: str, *, now_ms: int) -> Waiting | None:
    """Return the eligible READY work that has waited longest, by one look at the head of each lane."""
    ready = Workload.objects.filter(state=State.READY, waiting_on=0)
    head = ready.filter(lane=OuterRef("pk")).order_by("eligible_at_ms", "pk").values("eligible_at_ms")[:1]
    lanes = Lane.objects.filter(namespace=namespace).annotate(head_at_ms=Subquery(head))
    lane = lanes.filter(head_at_ms__lte=now_ms).order_by("head_at_ms").first()
    work = lane and ready.filter(lane=lane, eligible_at_ms__lte=now_ms).order_by("eligible_at_ms", "pk").first()
    if not work:
        return None
    return Waiting(workload_id=work.workload_id, definition_id=work.definition_id, eligible_at_ms=work.eligible_at_ms)


def capabilities_seen(namespace: str, *, limit: int) -> list[str]:
    """Return names of capabilities that work was ever asked of, in order."""
    names = Lane.objects.filter(namespace=namespace).order_by("definition_id")
    return list(names.values_list("definition_id", flat=True).distinct()[:limit])
