"""Who may speak for a claim, and what happens to work whose time is up. Used by every report of a worker."""

from typing import Any

from django.db import transaction

from apps.workloads import backoff, deadlines, errors, identity, statements
from apps.workloads.commands import Fence, RetryPolicy
from apps.workloads.deadlines import Deadline
from apps.workloads.models import Attempt, Workload
from apps.workloads.services import refused
from apps.workloads.services.moving import Move, load, policy_of
from apps.workloads.states import CLAIMED_STATES, AttemptStatus

DEADLINE_ACTOR = "deadline"


def check_fence(row: Workload, fence: Fence, now_ms: int) -> None:
    """Refuse whoever does not hold the current claim.

    In this order: WORKLOAD_CLAIM_INVALID (nobody holds one), WORKLOAD_STALE_FENCE (another one is current),
    WORKLOAD_UNAUTHORIZED (somebody else made it), WORKLOAD_LEASE_EXPIRED (at the very instant it ends, too).
    """
    if row.worker_id is None or row.lease_expires_at_ms is None:
        raise errors.claim_invalid()
    current = (row.worker_id, row.fencing_token, identity.claim_id(row.workload_id, row.fencing_token, row.worker_id))
    if (fence.worker_id, fence.fencing_token, fence.claim_id) != current:
        raise errors.stale_fence(row.fencing_token)
    if fence.principal != row.claimed_by:
        raise errors.unauthorized("the claim was made by somebody else")
    if row.lease_expires_at_ms <= now_ms:
        raise errors.lease_expired(row.lease_expires_at_ms)


def held(fence: Fence, now_ms: int, *, word: str) -> Workload:
    """Return the row whose claim is the fence's, having timed it out first where a deadline has passed.

    `word` is what the worker says; where the fence refuses it, that is kept for people to see.
    """
    row = in_time(load(fence.namespace, fence.workload_id), now_ms)
    require_fence(row, fence, now_ms, word=word)
    return row


def require_fence(row: Workload, fence: Fence, now_ms: int, *, word: str) -> None:
    """Check the fence as `check_fence` does, and keep the word that it refuses."""
    try:
        check_fence(row, fence, now_ms)
    except errors.WorkloadError as refusal:
        refused.keep(row, fence, word=word, code=refusal.code, now_ms=now_ms)
        raise


def in_time(row: Workload, now_ms: int) -> Workload:
    """Return the row where no deadline has passed; else time it out and raise WORKLOAD_TIMED_OUT.

    So an answer never depends on whether the sweep has run.
    """
    deadline = deadlines.passed(row, now_ms)
    if deadline is None:
        return row
    with transaction.atomic():
        time_out(row, deadline, policy_of(row), now_ms).commit_or_lose()
        end_attempt(row, now_ms, AttemptStatus.TIMED_OUT, error=f"timeout: {deadline.name} deadline passed")
    raise errors.timed_out(*deadline)


def time_out(row: Workload, deadline: Deadline, policy: RetryPolicy, now_ms: int) -> Move:
    """Return the move of work whose deadline has passed: tried again later, or buried."""
    claimed = row.worker_id is not None
    move = Move(row, now_ms).step(
        "time_out",
        DEADLINE_ACTOR,
        deadline=deadline.name,
        deadline_at_ms=deadline.at_ms,
        claim_id=current_claim_id(row),
        worker_id=row.worker_id,
    )
    move.set(last_failure=f"timeout: {deadline.name} deadline passed")
    if claimed:
        # A sign of life moves the row without a transition: whoever gave one meanwhile has not timed out.
        move.only_if(heartbeat_at_ms=row.heartbeat_at_ms)
    if deadline.name not in deadlines.RETRYABLE:
        decision = "deadline_not_retryable"
    elif "timeout" not in policy.retry_on:
        decision = "timeout_not_retryable"
    else:
        decision = "retry" if row.budget_used < row.max_attempts else "attempt_budget_exhausted"
    return decide(move, decision, policy, actor=DEADLINE_ACTOR)


def decide(move: Move, decision: str, policy: RetryPolicy, *, actor: str, least_delay_ms: int = 0) -> Move:
    """Add the second step of failed, lost or timed-out work: READY after the back-off, or DEAD_LETTER."""
    if decision != "retry":
        return move.step("bury", actor, decision=decision)
    delay_ms = max(backoff.delay_ms(policy, move.row.budget_used), least_delay_ms)
    move.step("retry", actor, decision=decision, delay_ms=delay_ms)
    return move.set(eligible_at_ms=move.now_ms + delay_ms, retry_count=move.row.retry_count + 1)


def current_claim_id(row: Workload) -> str | None:
    """Return the id of the claim the row carries, or None."""
    if row.worker_id is None:
        return None
    return identity.claim_id(row.workload_id, row.fencing_token, row.worker_id)


def attempt_id(row: Workload, number: int | None = None) -> str:
    """Return the name of an attempt, by default the last one."""
    return f"attempt_{row.workload_id}_{row.attempt_count if number is None else number}"


def end_attempt(row: Workload, now_ms: int, status: AttemptStatus, **values: Any) -> None:
    """Close the attempt of the claim the row carries, if it carries one."""
    if row.state in CLAIMED_STATES:
        changes = {"status": status, "ended_at_ms": now_ms, **values}
        statements.update(Attempt, changes, workload_id=row.pk, number=row.fencing_token)
