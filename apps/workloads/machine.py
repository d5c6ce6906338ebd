"""The state machine of durable work, as one closed table. Documentation and diagrams are made from it.

Every row is `(from, event, guard, to)`: in state `from`, the named event leads to `to` where the guard holds. What is
not a row is refused with WORKLOAD_TRANSITION_DENIED. One event leads from one state to one other state: where a
decision has two outcomes (try again or bury), they are two events. Guards are checked by the service function that
moves the work (`services/`); here they are said in words. Two rows passed within one transaction write two events.
"""

from dataclasses import dataclass
from typing import Final

from apps.workloads.errors import transition_denied
from apps.workloads.states import State

S = State


@dataclass(frozen=True, slots=True)
class Transition:
    """One legal move."""

    source: State
    event: str
    guard: str
    target: State

    @property
    def event_type(self) -> str:
        """Return the name under which history keeps this move."""
        return EVENT_TYPES[self.target]


EVENT_TYPES: Final = {
    S.READY: "workload.ready",
    S.CLAIMED: "workload.claimed",
    S.RUNNING: "workload.started",
    S.CHECKPOINTED: "workload.checkpointed",
    S.RECOVERING: "workload.recovered",
    S.CANCELLATION_REQUESTED: "workload.cancellation_requested",
    S.SUCCEEDED: "workload.completed",
    S.FAILED: "workload.failed",
    S.CANCELLED: "workload.cancelled",
    S.TIMED_OUT: "workload.timed_out",
    S.DEAD_LETTER: "workload.dead_lettered",
    S.AWAITING_APPROVAL: "workload.awaiting_approval",
    S.REJECTED: "workload.rejected",
}

_FENCE = "claim, worker, principal and token are the current ones and the lease has not run out"
_RETRYABLE = "the kind is one to retry and budget is left"
_OTHERWISE = "not to be retried, or no budget left"
_DEADLINE = "a deadline has passed"
_LEASE_OVER = "the lease has run out, or its worker has begun anew"

TABLE: Final = tuple(
    Transition(*row)
    for row in (
        # Admission
        (S.CREATED, "admit", "no approval is needed", S.READY),
        (S.CREATED, "await_approval", "approval is needed", S.AWAITING_APPROVAL),
        (S.CREATED, "cancel", "asked for by whoever may cancel", S.CANCELLED),
        # Approval
        (S.AWAITING_APPROVAL, "approve", "decided by a permitted approver on this input", S.READY),
        (S.AWAITING_APPROVAL, "reject", "decided by a permitted approver, with a reason", S.REJECTED),
        (S.AWAITING_APPROVAL, "cancel", "asked for by whoever may cancel", S.CANCELLED),
        (S.AWAITING_APPROVAL, "time_out", _DEADLINE, S.TIMED_OUT),
        # Waiting
        (S.READY, "claim", "eligible, dependencies met, capabilities held, budget left", S.CLAIMED),
        (
            S.READY,
            "bury",
            "no budget left, dependency beyond reach, or authority ended",
            S.DEAD_LETTER,
        ),
        (S.READY, "cancel", "asked for, or a dependency can no longer be met", S.CANCELLED),
        (S.READY, "time_out", _DEADLINE, S.TIMED_OUT),
        # Claimed
        (S.CLAIMED, "start", _FENCE, S.RUNNING),
        (S.CLAIMED, "fail", _FENCE, S.FAILED),
        (S.CLAIMED, "recover", _LEASE_OVER, S.RECOVERING),
        (S.CLAIMED, "hand_back", _FENCE, S.RECOVERING),
        (S.CLAIMED, "request_cancellation", "asked for by whoever may cancel", S.CANCELLATION_REQUESTED),
        (S.CLAIMED, "time_out", _DEADLINE, S.TIMED_OUT),
        # Running, and the same after a checkpoint
        *(
            row
            for state in (S.RUNNING, S.CHECKPOINTED)
            for row in (
                (state, "checkpoint", _FENCE, S.CHECKPOINTED),
                (state, "complete", _FENCE, S.SUCCEEDED),
                (state, "fail", _FENCE, S.FAILED),
                (state, "recover", _LEASE_OVER, S.RECOVERING),
                (state, "hand_back", _FENCE, S.RECOVERING),
                (state, "request_cancellation", "asked for by whoever may cancel", S.CANCELLATION_REQUESTED),
                (state, "time_out", _DEADLINE, S.TIMED_OUT),
            )
        ),
        # Cancellation asked for
        (S.CANCELLATION_REQUESTED, "confirm_cancellation", _FENCE, S.CANCELLED),
        (S.CANCELLATION_REQUESTED, "end_cancellation", "the lease or the grace has run out", S.CANCELLED),
        # Passing through
        (S.RECOVERING, "retry", _RETRYABLE, S.READY),
        (S.RECOVERING, "bury", _OTHERWISE, S.DEAD_LETTER),
        (S.FAILED, "retry", _RETRYABLE, S.READY),
        (S.FAILED, "bury", _OTHERWISE, S.DEAD_LETTER),
        (S.FAILED, "cancel", "asked for by whoever may cancel", S.CANCELLED),
        (S.TIMED_OUT, "retry", _RETRYABLE, S.READY),
        (S.TIMED_OUT, "bury", _OTHERWISE, S.DEAD_LETTER),
        # An operator arms work again
        *(
            row
            for state in (S.FAILED, S.TIMED_OUT, S.DEAD_LETTER)
            for row in (
                (state, "rearm", "operator retries are left and no approval is missing", S.READY),
                (state, "rearm_for_approval", "operator retries are left, approval is missing", S.AWAITING_APPROVAL),
            )
        ),
        (S.DEAD_LETTER, "cancel", "asked for by whoever may cancel", S.CANCELLED),
    )
)

BY_MOVE: Final = {(row.source, row.event): row for row in TABLE}
EVENTS: Final = tuple(dict.fromkeys(row.event for row in TABLE))

if len(BY_MOVE) != len(TABLE):
    raise AssertionError("an event leads from one state to two")


def move(state: State | str, event: str) -> Transition:
    """Return the row for `event` in `state`. Raises WORKLOAD_TRANSITION_DENIED where there is none."""
    row = BY_MOVE.get((State(state), event))
    if row is None:
        raise transition_denied(State(state), event)
    return row


def targets(state: State | str) -> frozenset[State]:
    """Return every state that can follow `state`."""
    return frozenset(row.target for row in TABLE if row.source == state)
