"""What a worker says while it holds a claim: begun, still alive, cannot go on."""

from django.db import transaction

from apps.workloads import deadlines, limits, statements
from apps.workloads.commands import Fence, Heartbeat
from apps.workloads.models import Attempt, Workload
from apps.workloads.services import validation
from apps.workloads.services.fencing import attempt_id, decide, end_attempt, held
from apps.workloads.services.moving import Lost, Move, deciding_anew, policy_of
from apps.workloads.states import AttemptStatus, State


@deciding_anew
def start(fence: Fence, *, now_ms: int) -> Workload:
    """Say that the attempt has begun. A second time is WORKLOAD_TRANSITION_DENIED."""
    row = held(fence, now_ms, word="start")
    move = Move(row, now_ms).step("start", fence.worker_id).set(started_at_ms=now_ms)
    with transaction.atomic():
        move.commit_or_lose()
        changes = {"status": AttemptStatus.RUNNING, "started_at_ms": now_ms}
        statements.update(Attempt, changes, workload_id=row.pk, number=row.fencing_token)
    return move.after


@deciding_anew
def heartbeat(fence: Fence, *, extend_ms: int, now_ms: int) -> Heartbeat:
    """Move the end of the lease to `extend_ms` from now (also nearer), and learn whether to give up.

    No transition and no event: one small update.
    """
    validation.lease(extend_ms, "/extend_ms")
    row = held(fence, now_ms, word="heartbeat")
    state, token = row.state, row.fencing_token
    row.heartbeat_at_ms = now_ms
    row.lease_expires_at_ms = now_ms + extend_ms
    hit = statements.update(
        Workload,
        {
            "heartbeat_at_ms": row.heartbeat_at_ms,
            "lease_expires_at_ms": row.lease_expires_at_ms,
            "due_at_ms": deadlines.due_at_ms(row),
        },
        id=row.pk,
        state=state,
        fencing_token=token,
        history_length=row.history_length,
    )
    if not hit:
        raise Lost
    return Heartbeat(
        claim_id=fence.claim_id,
        fencing_token=token,
        last_heartbeat_at_ms=now_ms,
        expires_at_ms=row.lease_expires_at_ms,
        cancel_requested=state == State.CANCELLATION_REQUESTED,
        cancel_deadline_at_ms=row.cancel_deadline_at_ms,
    )


@deciding_anew
def hand_back(fence: Fence, *, now_ms: int, reason: str = "worker_draining") -> Workload:
    """Give the work back unfinished because the worker must stop, not because the work failed.

    It is READY again at once and the attempt does not count, at most MAX_HANDBACKS times since the work was armed;
    after that it counts like a lost lease. Work whose cancellation was asked for is WORKLOAD_TRANSITION_DENIED.
    """
    row = held(fence, now_ms, word="hand_back")
    move = Move(row, now_ms).step(
        "hand_back", fence.worker_id, recovery_reason=reason, claim_id=fence.claim_id, attempt_id=attempt_id(row)
    )
    if row.handback_count < limits.MAX_HANDBACKS:
        move.step("retry", fence.worker_id, decision="handed_back")
        move.set(eligible_at_ms=now_ms, budget_used=row.budget_used - 1, handback_count=row.handback_count + 1)
    else:
        policy = policy_of(row)
        if "worker_failure" not in policy.retry_on:
            decision = "worker_failure_not_retryable"
        else:
            decision = "retry" if row.budget_used < row.max_attempts else "attempt_budget_exhausted"
        decide(move, decision, policy, actor=fence.worker_id)
    with transaction.atomic():
        move.commit_or_lose()
        end_attempt(row, now_ms, AttemptStatus.WORKER_LOST, error=f"handed_back: {reason}")
    return move.after
