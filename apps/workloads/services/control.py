"""What people do to work: cancel it, arm it again."""

from django.db import transaction

from apps.workloads import errors, limits
from apps.workloads.models import Dependency, Workload
from apps.workloads.services import authority, validation
from apps.workloads.services.moving import Move, deciding_anew, load
from apps.workloads.states import ACTIVE, FINAL, Approval, State


@deciding_anew
def cancel(
    namespace: str,
    workload_id: str,
    *,
    actor: str,
    now_ms: int,
    reason: str = "",
    grace_ms: int = limits.DEFAULT_GRACE_MS,
) -> Workload:
    """Cancel work nobody holds; ask whoever holds it to give it up within `grace_ms`, after which it is cancelled.

    Asking again changes nothing and answers the same. Work that has ended is WORKLOAD_TRANSITION_DENIED.
    """
    reason = _reason(reason)
    if not 0 <= grace_ms <= limits.MAX_GRACE_MS:
        raise errors.invalid(f"must be 0 to {limits.MAX_GRACE_MS}", pointer="/grace_ms")
    row = load(namespace, workload_id)
    if row.state == State.CANCELLATION_REQUESTED:
        return row
    move = Move(row, now_ms)
    if row.state in ACTIVE:
        deadline = now_ms + grace_ms
        move.step("request_cancellation", actor, reason=reason or None, cancel_deadline_at_ms=deadline)
        move.set(cancel_deadline_at_ms=deadline)
    else:
        move.step("cancel", actor, reason=reason or None)
    with transaction.atomic():
        move.commit_or_lose()
    return move.after


@deciding_anew
def retry(namespace: str, workload_id: str, *, actor: str, now_ms: int, reason: str = "") -> Workload:
    """Arm a dead letter again: READY now, with a fresh budget of attempts and a fresh overall deadline.

    Work that nobody has approved waits for that again. History, attempts and the fencing token go on. Other states are
    WORKLOAD_TRANSITION_DENIED, and so is work that waits for what can no longer happen; work whose authority has ended
    is WORKLOAD_UNAUTHORIZED; after MAX_OPERATOR_RETRIES it is WORKLOAD_RETRY_EXHAUSTED.
    """
    reason = _reason(reason)
    row = load(namespace, workload_id)
    move = Move(row, now_ms).step(
        "rearm_for_approval" if row.approval == Approval.PENDING else "rearm",
        actor,
        retry="operator",
        operator_retry=row.operator_retry_count + 1,
        attempt_budget=row.max_attempts,
        reason=reason or None,
    )
    if row.operator_retry_count >= limits.MAX_OPERATOR_RETRIES:
        raise errors.retry_exhausted(row.operator_retry_count)
    authority.check_lane(row.lane, now_ms=now_ms)
    hopeless = unreachable(row)
    if hopeless:
        raise errors.stranded(hopeless)
    move.set(
        eligible_at_ms=now_ms,
        armed_at_ms=now_ms,
        budget_used=0,
        handback_count=0,
        operator_retry_count=row.operator_retry_count + 1,
    )
    if row.waiting_on:
        move.look_soon()  # what it waits for may end in vain between our look and our commit
    with transaction.atomic():
        move.commit_or_lose()
    return move.after


def unreachable(row: Workload) -> list[str]:
    """Return the ids of what this work waits for in vain: ended for good in another state than the required one."""
    waits = Dependency.objects.filter(child=row, met_at_ms__isnull=True, parent__state__in=FINAL)
    return list(waits.values_list("parent__workload_id", flat=True))


def _reason(reason: str) -> str:
    reason = reason.strip()[: limits.MAX_REASON_CHARS]
    validation.refuse_secret_text(reason, "/reason")
    return reason
