"""What time does to work: leases run out, deadlines pass, graces end, dependencies turn out to be unreachable.

The sweep finds due rows by one partial index, decides outside any transaction, and writes in short ones. Any number of
sweeps at once are safe: each row moves once, and whoever comes second writes nothing.
"""

import time
from dataclasses import dataclass, field

from django.db import transaction

from apps.http import measures
from apps.workloads import deadlines, limits
from apps.workloads.commands import RetryPolicy, SweepReport
from apps.workloads.models import Workload
from apps.workloads.services.control import unreachable
from apps.workloads.services.fencing import attempt_id, current_claim_id, decide, end_attempt, time_out
from apps.workloads.services.moving import Move, deciding_anew
from apps.workloads.states import ACTIVE, AttemptStatus, State, WhenUnreachable

RECOVERY_ACTOR = "recovery"
CANCELLATION_ACTOR = "cancellation"
DEPENDENCY_ACTOR = "dependency"
LEASE_EXPIRED = "lease_expired"


@dataclass(frozen=True, slots=True)
class _Step:
    """One due row's move and how its open attempt ends; no move where there was nothing to do after all."""

    kind: str
    row: Workload
    move: Move | None
    error: str = ""
    status: AttemptStatus = AttemptStatus.WORKER_LOST


@dataclass(slots=True)
class _Done:
    recovered: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    stranded: list[str] = field(default_factory=list)


def sweep(*, now_ms: int, limit: int = limits.MAX_BATCH) -> SweepReport:
    """Move up to `limit` due rows of all namespaces, the longest due first. `more` tells to call again soon."""
    due = list(
        Workload.objects.filter(due_at_ms__lte=now_ms)
        .select_related("request")
        .defer("request__input", "request__authorization_snapshot")
        .order_by("due_at_ms", "pk")[:limit]
    )
    steps = [_decide(row, now_ms) for row in due]
    done = _Done()
    at = 0
    while at < len(steps):
        at = _write(steps, at, now_ms, done)
    return SweepReport(
        recovered=done.recovered,
        timed_out=done.timed_out,
        cancelled=done.cancelled,
        stranded=done.stranded,
        more=len(due) == limit,
    )


@deciding_anew
def _write(steps: list[_Step], at: int, now_ms: int, done: _Done) -> int:
    """Write steps from `at` on in one short transaction and return where the next one begins."""
    moved: list[_Step] = []
    until = time.monotonic() + limits.SWEEP_BATCH_MS / 1000
    with transaction.atomic():
        while at < len(steps):
            step = steps[at]
            at += 1
            if step.move is None:
                _look_later(step.row)
            elif step.move.commit():
                end_attempt(step.row, now_ms, step.status, error=step.error)
                moved.append(step)
            if time.monotonic() >= until:
                break
    for step in moved:
        if step.kind == "recovered":
            measures.LEASES_LOST.labels(LEASE_EXPIRED).inc()
        getattr(done, step.kind).append(step.row.workload_id)
    return at


def _look_later(row: Workload) -> None:
    """Set right a row that was marked due earlier than it is, unless it has moved or shown life meanwhile."""
    Workload.objects.filter(
        pk=row.pk, history_length=row.history_length, heartbeat_at_ms=row.heartbeat_at_ms, due_at_ms=row.due_at_ms
    ).update(due_at_ms=deadlines.due_at_ms(row))


def _decide(row: Workload, now_ms: int) -> _Step:
    policy = RetryPolicy.from_json(row.request.retry_policy)
    deadline = deadlines.passed(row, now_ms)
    if deadline is not None:
        return _Step(
            "timed_out",
            row,
            time_out(row, deadline, policy, now_ms),
            error=f"timeout: {deadline.name} deadline passed",
            status=AttemptStatus.TIMED_OUT,
        )
    lease_over = row.lease_expires_at_ms is not None and row.lease_expires_at_ms <= now_ms
    if row.state in ACTIVE and lease_over:
        return _Step(
            "recovered",
            row,
            recovered(row, policy, now_ms, LEASE_EXPIRED),
            error=f"worker_lost: {LEASE_EXPIRED}",
        )
    if row.state == State.CANCELLATION_REQUESTED:
        grace_over = row.cancel_deadline_at_ms is not None and row.cancel_deadline_at_ms <= now_ms
        if lease_over or grace_over:
            return _end_cancellation(row, now_ms, "grace_over" if grace_over else LEASE_EXPIRED)
    if row.state == State.READY and row.waiting_on:
        hopeless = unreachable(row)
        if hopeless:
            return _Step("stranded", row, _strand(row, hopeless, now_ms))
    return _Step("recovered", row, None)


def recovered(row: Workload, policy: RetryPolicy, now_ms: int, reason: str) -> Move:
    """Return the move of work whose worker is lost: tried again after the back-off, or buried."""
    move = Move(row, now_ms).only_if(lease_expires_at_ms=row.lease_expires_at_ms)
    move.step(
        "recover",
        RECOVERY_ACTOR,
        recovery_reason=reason,
        attempts_used=row.budget_used,
        attempt_budget=row.max_attempts,
        claim_id=current_claim_id(row),
        worker_id=row.worker_id,
        lease_expired_at_ms=row.lease_expires_at_ms,
        attempt_id=attempt_id(row),
    )
    move.set(last_failure=f"worker_lost: {reason}")
    if "worker_failure" not in policy.retry_on:
        decision = "worker_failure_not_retryable"
    else:
        decision = "retry" if row.budget_used < row.max_attempts else "attempt_budget_exhausted"
    return decide(move, decision, policy, actor=RECOVERY_ACTOR)


def _end_cancellation(row: Workload, now_ms: int, reason: str) -> _Step:
    move = Move(row, now_ms)
    if reason == LEASE_EXPIRED:
        move.only_if(lease_expires_at_ms=row.lease_expires_at_ms)
    move.step(
        "end_cancellation",
        CANCELLATION_ACTOR,
        recovery_reason=reason,
        claim_id=current_claim_id(row),
        worker_id=row.worker_id,
        attempt_id=attempt_id(row),
    )
    return _Step("cancelled", row, move, error=f"worker_lost: {reason} before cancellation was confirmed")


def _strand(row: Workload, hopeless: list[str], now_ms: int) -> Move:
    event = "cancel" if row.when_unreachable == WhenUnreachable.CANCEL else "bury"
    move = Move(row, now_ms)
    move.set(last_failure=f"dependency_unreachable: {', '.join(hopeless)}"[: limits.MAX_FAILURE_CHARS])
    return move.step(event, DEPENDENCY_ACTOR, reason="dependency_unreachable", dependencies=hopeless)
