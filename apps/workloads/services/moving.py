"""How a workload's row moves: decided on what was read, written only if nobody moved it meanwhile.

A service reads the row, decides, and builds a `Move` outside any transaction; `Move.commit` inside one compares
(state, fencing token, history length) and sets the new values with one filtered UPDATE, and writes the history. When
another writer was first nothing is written and the service decides anew (`deciding_anew`).
"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

from django.db import OperationalError, connection, transaction
from django.db.models import F

from apps.workloads import bell, deadlines, errors, limits, statements
from apps.workloads.commands import RetryPolicy
from apps.workloads.machine import move
from apps.workloads.models import Dependency, Event, Request, Workload
from apps.workloads.states import CLAIMED_STATES, FINAL, REQUIRABLE, STARTED, State

P = ParamSpec("P")
R = TypeVar("R")

_Columns: TypeAlias = tuple[tuple[str, Any], ...]
_CLAIM_FIELDS = ("worker_id", "claimed_by", "claimed_at_ms", "heartbeat_at_ms", "lease_expires_at_ms")
_COLUMNS = frozenset(field.attname for field in Workload._meta.concrete_fields)
_RETRYABLE_SQLSTATES = ("40001", "40P01")  # serialization failure, deadlock


class Lost(Exception):
    """Another writer moved the row first; nothing was written."""


class Move:
    """One or more transitions of one row, to be written together."""

    def __init__(self, row: Workload, now_ms: int) -> None:
        self.row = row
        self.now_ms = now_ms
        self.after = statements.copied(row)
        self.events: list[Event] = []
        self._guards: dict[str, Any] = {}
        self._look_soon = False

    def step(self, event: str, actor: str, **evidence: Any) -> "Move":
        """Pass one row of the table. Raises WORKLOAD_TRANSITION_DENIED where there is none."""
        row = move(self.after.state, event)
        self.after.history_length += 1
        self.after.state = row.target
        self.after.updated_at_ms = self.now_ms
        self.events.append(
            statements.new(
                Event,
                workload_id=self.row.pk,
                namespace=self.row.namespace,
                sequence=self.after.history_length,
                event_type=row.event_type,
                from_state=row.source,
                to_state=row.target,
                actor=actor,
                at_ms=self.now_ms,
                evidence={name: value for name, value in evidence.items() if value is not None},
            )
        )
        return self

    def set(self, **values: Any) -> "Move":
        """Set columns of the row."""
        for name, value in values.items():
            setattr(self.after, name, value)
        return self

    def only_if(self, **guards: Any) -> "Move":
        """Write only if these columns still hold too (a lease that a heartbeat moves without a transition)."""
        self._guards.update(guards)
        return self

    def look_soon(self) -> "Move":
        """Have the sweep look at the row at once, whatever its deadlines say."""
        self._look_soon = True
        return self

    def _changes(self) -> dict[str, Any]:
        after = self.after
        if after.state not in CLAIMED_STATES:
            for name in _CLAIM_FIELDS:
                setattr(after, name, None)
        if after.state not in (*STARTED, State.CANCELLATION_REQUESTED):
            after.started_at_ms = None
        if after.state != State.CANCELLATION_REQUESTED:
            after.cancel_deadline_at_ms = None
        after.due_at_ms = self.now_ms if self._look_soon else deadlines.due_at_ms(after)
        return {
            name: value
            for name, value in after.__dict__.items()
            if name in _COLUMNS and value != self.row.__dict__[name]
        }

    def commit(self) -> bool:
        """Write, inside the caller's transaction. Returns False, having written nothing, when another was first."""
        return bool(commit_together([self]))

    def commit_or_lose(self) -> None:
        """Write, inside the caller's transaction. Raises Lost when another was first."""
        if not self.commit():
            raise Lost

    def sets(self) -> tuple[_Columns, _Columns]:
        """Return what is compared and what is set. For `commit_together`: equal ones share one statement."""
        row = self.row
        guards = {"state": row.state, "fencing_token": row.fencing_token, "history_length": row.history_length}
        return tuple({**guards, **self._guards}.items()), tuple(self._changes().items())


def commit_together(moves: Sequence[Move]) -> list[Move]:
    """Write, inside the caller's transaction, every move whose row nobody moved meanwhile. Returns those, in order.

    Each is judged on its own; rows compared and set alike, as those of one claim or report mostly are, share one
    UPDATE, and their history and what it means for the work that waits for them is written at once.
    """
    alike: dict[tuple[_Columns, _Columns], list[int]] = {}
    for each in moves:
        alike.setdefault(each.sets(), []).append(each.row.pk)
    hit: set[int] = set()
    for (guards, changes), ids in alike.items():
        hit |= statements.update_each(Workload, ids, dict(changes), **dict(guards))
    written = []
    for each in moves:
        if each.row.pk in hit:
            hit.remove(each.row.pk)  # of two moves of one row only the first was written
            written.append(each)
    statements.insert([event for move in written for event in move.events])
    ended = {move.row.pk: move.after.state for move in written if move.after.state in REQUIRABLE}
    woken = _settle_dependants(ended, written[0].now_ms) if ended else False
    if woken or any(move.after.state == State.READY for move in written):
        transaction.on_commit(bell.ring, robust=True)
    return written


def _settle_dependants(ended: Mapping[int, str], now_ms: int) -> bool:
    """Tell the work that waits for these: met (True), or to be looked at by the sweep because it never will be."""
    waiting = statements.fetch(Dependency, parent_id=list(ended), met_at_ms=None)
    met = [dependency for dependency in waiting if dependency.required_state == ended[dependency.parent_id]]
    if met:
        Dependency.objects.filter(pk__in=[dependency.pk for dependency in met]).update(met_at_ms=now_ms)
        children = Counter(dependency.child_id for dependency in met)
        for count in set(children.values()):
            alike = [child for child, times in children.items() if times == count]
            Workload.objects.filter(pk__in=alike).update(waiting_on=F("waiting_on") - count)
    unmet = [dependency for dependency in waiting if dependency.required_state != ended[dependency.parent_id]]
    stranded = [dependency.child_id for dependency in unmet if ended[dependency.parent_id] in FINAL]
    if stranded:
        Workload.objects.filter(pk__in=stranded, state__in=(State.READY, State.AWAITING_APPROVAL)).update(
            due_at_ms=now_ms
        )
    return bool(met)


def deciding_anew(service: Callable[P, R]) -> Callable[P, R]:
    """Run the service again when another writer was first, a bounded number of times. Then WORKLOAD_CONFLICT.

    A database that gave up one of two transactions that waited for each other is the same case; inside somebody
    else's transaction it is theirs to repeat.
    """

    @functools.wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(limits.MAX_CAS_TRIES):
            try:
                return service(*args, **kwargs)
            except Lost:
                continue
            except OperationalError as error:
                if connection.in_atomic_block or _sqlstate(error) not in _RETRYABLE_SQLSTATES:
                    raise
        raise errors.conflict("the work")

    return run


def _sqlstate(error: OperationalError) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)


def load(namespace: str, workload_id: str) -> Workload:
    """Return the row. Raises WORKLOAD_NOT_FOUND, also for work of another namespace."""
    row = statements.first(Workload, namespace=namespace, workload_id=workload_id)
    if row is None:
        raise errors.not_found(workload_id)
    return row


def policies_of(rows: Sequence[Workload]) -> dict[int, RetryPolicy]:
    """Return the retry policy of each row, by its key."""
    found = Request.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "retry_policy")
    return {pk: RetryPolicy.from_json(policy) for pk, policy in found}


def policy_of(row: Workload) -> RetryPolicy:
    """Return the row's retry policy."""
    return RetryPolicy.from_json(Request.objects.values_list("retry_policy", flat=True).get(pk=row.pk))
