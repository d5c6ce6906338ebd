"""Every refusal of this room, each made in one place. Codes and statuses: `apps/http/codes.py`.

WorkloadError (an ApiError)
    what is asked     invalid, secret_rejected, unauthorized, key_reused
    what is there     not_found, transition_denied, conflict, twin_lives
    claiming          not_ready, not_yet_eligible, capability_denied, attempts_exhausted
    reporting         claim_invalid, stale_fence, lease_expired, timed_out, result_conflict, result_duplicate
    deciding          approver_not_permitted, approval_not_required, approval_stale, approval_decided,
                      approval_not_actionable
    operating         retry_exhausted, stranded
    schedules         schedule_not_found, schedule_invalid
    workers           worker_not_found, worker_invalid, worker_unauthorized, worker_transition_denied, worker_busy,
                      worker_heartbeat_rejected, worker_reconciliation_denied, worker_recovery_required,
                      placement_denied
"""

from collections.abc import Sequence
from typing import Any

from apps.http.errors import ApiError


class WorkloadError(ApiError):
    """A refusal by the workloads room."""


def invalid(message: str, *, pointer: str | None = None) -> WorkloadError:
    """What was asked cannot be work; `pointer` names the member."""
    return WorkloadError("WORKLOAD_INVALID", message, details=None if pointer is None else {"pointer": pointer})


def secret_rejected(pointer: str, reason: str) -> WorkloadError:
    """Something at `pointer` looks like a secret."""
    return WorkloadError(
        "WORKLOAD_SECRET_REJECTED",
        f"{pointer or 'the value'} looks like a secret ({reason}); work must name secrets, not carry them",
        details={"pointer": pointer, "reason": reason},
    )


def unauthorized(message: str, *, grant_code: str | None = None) -> WorkloadError:
    """The grant does not let this work be made or run; `grant_code` is why the grant is refused."""
    details = None if grant_code is None else {"grant_code": grant_code}
    return WorkloadError("WORKLOAD_UNAUTHORIZED", message, details=details)


def key_reused(workload_id: str, fields: Sequence[str]) -> WorkloadError:
    """The idempotency key is known with another request; `fields` are all that differ."""
    return WorkloadError(
        "CONFLICT",
        f"this idempotency key made {workload_id} with other content: {', '.join(fields)}",
        details={
            "reason": "IDEMPOTENCY_KEY_REUSED",
            "workload_id": workload_id,
            "fields": list(fields),
            "retryable": False,
        },
    )


def not_found(workload_id: str) -> WorkloadError:
    """There is no such work in this namespace."""
    return WorkloadError("WORKLOAD_NOT_FOUND", f"there is no workload {workload_id}")


def transition_denied(state: str, event: str) -> WorkloadError:
    """The table has no such row."""
    return WorkloadError(
        "WORKLOAD_TRANSITION_DENIED",
        f"{event} is not possible while the work is {state}",
        details={"state": str(state), "event": event},
    )


def conflict(workload_id: str) -> WorkloadError:
    """Other writers moved the work again and again meanwhile."""
    return WorkloadError("WORKLOAD_CONFLICT", f"{workload_id} was changed by others meanwhile; read it and try again")


def twin_lives(workload_id: str, state: str) -> WorkloadError:
    """The same was asked for again, and that work has not ended."""
    return WorkloadError(
        "CONFLICT",
        f"its twin {workload_id}, asked for again with other input, is {str(state).replace('_', ' ').lower()}: both "
        "would do the work; cancel the twin first, or let it end",
        details={"reason": "TWIN_LIVES", "workload_id": workload_id, "state": str(state)},
    )


def not_ready(state: str, waiting_for: Sequence[str] = ()) -> WorkloadError:
    """The work cannot be claimed as it stands."""
    details: dict[str, Any] = {"state": str(state)}
    message = f"the work is {state}"
    if waiting_for:
        details["waiting_for"] = list(waiting_for)
        message = f"the work waits for {', '.join(waiting_for)}"
    return WorkloadError("WORKLOAD_NOT_READY", message, details=details)


def approval_pending() -> WorkloadError:
    """Nobody has approved the work yet."""
    return WorkloadError("WORKLOAD_APPROVAL_PENDING", "the work waits for approval")


def rejected() -> WorkloadError:
    """The work was rejected for good."""
    return WorkloadError("WORKLOAD_REJECTED", "the work was rejected")


def approval_not_required() -> WorkloadError:
    """Nobody need decide on this work."""
    return WorkloadError("WORKLOAD_APPROVAL_NOT_REQUIRED", "the work needs no approval")


def approver_not_permitted(why: str) -> WorkloadError:
    """This subject may not decide on this work."""
    return WorkloadError("WORKLOAD_APPROVER_NOT_PERMITTED", why)


def approval_stale(input_hash: str) -> WorkloadError:
    """The input that was looked at is not this work's."""
    return WorkloadError(
        "WORKLOAD_APPROVAL_STALE",
        "the decision names another input than the work has; look at the work again",
        details={"input_hash": input_hash},
    )


def approval_decided(outcome: str, decided_by: str, decided_at_ms: int) -> WorkloadError:
    """The other outcome was decided before."""
    return WorkloadError(
        "WORKLOAD_APPROVAL_DECIDED",
        f"the work was {outcome} before; a decision is for good",
        details={"outcome": outcome, "decided_by": decided_by, "decided_at_ms": decided_at_ms},
    )


def approval_not_actionable(state: str) -> WorkloadError:
    """The work does not wait for a decision now."""
    return WorkloadError(
        "WORKLOAD_APPROVAL_NOT_ACTIONABLE", f"the work is {state} and waits for no decision", details={"state": state}
    )


def not_yet_eligible(eligible_at_ms: int) -> WorkloadError:
    """The work's instant has not come."""
    return WorkloadError(
        "WORKLOAD_NOT_YET_ELIGIBLE",
        f"the work may not be claimed before {eligible_at_ms} (milliseconds since 1970)",
        details={"next_attempt_at_ms": eligible_at_ms},
    )


def capability_denied(missing: Sequence[str]) -> WorkloadError:
    """The worker lacks what the work needs."""
    return WorkloadError(
        "WORKLOAD_CAPABILITY_DENIED",
        f"the worker does not hold {', '.join(missing)}",
        details={"missing": list(missing)},
    )


def attempts_exhausted(used: int, budget: int) -> WorkloadError:
    """No attempt is left; the work is a dead letter now."""
    return WorkloadError(
        "WORKLOAD_ATTEMPTS_EXHAUSTED",
        f"the work has used {used} of {budget} attempts and is a dead letter",
        details={"attempts_used": used, "attempt_budget": budget},
    )


def claim_invalid() -> WorkloadError:
    """Nobody holds a claim on the work."""
    return WorkloadError("WORKLOAD_CLAIM_INVALID", "nobody holds a claim on this work any more")


def stale_fence(current: int) -> WorkloadError:
    """The claim named is not the current one."""
    return WorkloadError(
        "WORKLOAD_STALE_FENCE",
        "claim, worker and fencing token are not those of the current claim",
        details={"fencing_token": current},
    )


def lease_expired(expired_at_ms: int) -> WorkloadError:
    """The lease ran out before this report."""
    return WorkloadError("WORKLOAD_LEASE_EXPIRED", "the lease has run out", details={"expires_at_ms": expired_at_ms})


def timed_out(deadline: str, deadline_at_ms: int) -> WorkloadError:
    """A deadline of the work has passed."""
    return WorkloadError(
        "WORKLOAD_TIMED_OUT",
        f"the work's {deadline} deadline has passed",
        details={"deadline": deadline, "deadline_at_ms": deadline_at_ms},
    )


def result_conflict(result_id: str) -> WorkloadError:
    """The same work already has another report under this id."""
    return WorkloadError("WORKLOAD_RESULT_CONFLICT", f"{result_id} is already stored with another report")


def result_duplicate(result_id: str) -> WorkloadError:
    """The result id belongs to other work."""
    return WorkloadError("WORKLOAD_RESULT_DUPLICATE", f"{result_id} is the result of other work in this namespace")


def retry_exhausted(used: int) -> WorkloadError:
    """The work was armed again too often."""
    return WorkloadError(
        "WORKLOAD_RETRY_EXHAUSTED",
        f"the work was retried by operators {used} times; create new work instead",
        details={"operator_retries": used},
    )


def stranded(parents: Sequence[str]) -> WorkloadError:
    """The work waits for what can no longer happen."""
    return WorkloadError(
        "WORKLOAD_TRANSITION_DENIED",
        f"the work waits for {', '.join(parents)}, which ended otherwise; create it anew without them",
        details={"unreachable": list(parents)},
    )


def schedule_not_found(schedule_id: str) -> WorkloadError:
    """There is no such schedule in this namespace."""
    return WorkloadError("SCHEDULE_NOT_FOUND", f"there is no schedule {schedule_id}")


def schedule_invalid(message: str, *, pointer: str) -> WorkloadError:
    """What was asked cannot be a schedule."""
    return WorkloadError("SCHEDULE_INVALID", message, details={"pointer": pointer})


def worker_not_found(worker_id: str) -> WorkloadError:
    """No such worker has registered in this namespace."""
    return WorkloadError("WORKER_NOT_FOUND", f"no worker {worker_id} is registered")


def worker_invalid(message: str, *, pointer: str) -> WorkloadError:
    """What was declared cannot be a worker."""
    return WorkloadError("WORKER_INVALID", message, details={"pointer": pointer})


def worker_unauthorized(message: str, *, grant_code: str) -> WorkloadError:
    """The grant gives the worker nothing of what it declares."""
    return WorkloadError("WORKER_UNAUTHORIZED", message, details={"grant_code": grant_code})


def worker_transition_denied(lifecycle: str, event: str) -> WorkloadError:
    """The table of the worker's life has no such row."""
    return WorkloadError(
        "WORKER_TRANSITION_DENIED",
        f"{event} is not possible while the worker is {lifecycle}",
        details={"lifecycle": str(lifecycle), "event": event},
    )


def worker_busy(active: int) -> WorkloadError:
    """The worker holds work."""
    return WorkloadError("WORKER_BUSY", f"the worker holds {active} claims; drain it first", details={"active": active})


def worker_heartbeat_rejected(current: str) -> WorkloadError:
    """The heartbeat came from another incarnation."""
    return WorkloadError(
        "WORKER_HEARTBEAT_REJECTED",
        "the worker was registered anew since; whoever sent this is to stop",
        details={"incarnation_id": current},
    )


def worker_reconciliation_denied(current: str) -> WorkloadError:
    """Another incarnation asked."""
    return WorkloadError(
        "WORKER_RECONCILIATION_DENIED",
        "the worker was registered anew since; whoever sent this is to stop",
        details={"incarnation_id": current},
    )


def worker_recovery_required() -> WorkloadError:
    """The worker was found silent, or was drained."""
    return WorkloadError("WORKER_RECOVERY_REQUIRED", "the worker is OFFLINE; it must be recovered or register anew")


def placement_denied(message: str, **details: Any) -> WorkloadError:
    """The registered worker may not be given work now."""
    return WorkloadError("MESH_PLACEMENT_DENIED", message, details=details)
