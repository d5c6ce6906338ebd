"""The closed vocabulary of durable work: states, attempt statuses, failure effects, deadlines. No behaviour."""

from enum import StrEnum


class State(StrEnum):
    """The fourteen states. CREATED, RECOVERING, FAILED and TIMED_OUT are passed through, never rested in."""

    CREATED = "CREATED"
    READY = "READY"
    CLAIMED = "CLAIMED"
    RUNNING = "RUNNING"
    CHECKPOINTED = "CHECKPOINTED"
    RECOVERING = "RECOVERING"
    CANCELLATION_REQUESTED = "CANCELLATION_REQUESTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    DEAD_LETTER = "DEAD_LETTER"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    REJECTED = "REJECTED"


ACTIVE = (State.CLAIMED, State.RUNNING, State.CHECKPOINTED)
"""A worker holds the work and may report on it."""

CLAIMED_STATES = (*ACTIVE, State.CANCELLATION_REQUESTED)
"""A worker holds a claim: exactly these states carry claim fields."""

STARTED = (State.RUNNING, State.CHECKPOINTED)
"""The current attempt has begun: exactly these states (and a cancellation request on them) carry a start instant."""

FINAL = (State.SUCCEEDED, State.CANCELLED, State.REJECTED)
"""Nothing leaves these."""

RESTING = (
    State.READY,
    *CLAIMED_STATES,
    *FINAL,
    State.DEAD_LETTER,
    State.AWAITING_APPROVAL,
)
"""The states a stored workload can be found in."""


UNDECIDED_ENDS = (State.CANCELLED, State.DEAD_LETTER)
"""Where work that nobody approved or rejected can end."""


class AttemptStatus(StrEnum):
    """What became of one claim."""

    CLAIMED = "CLAIMED"
    RUNNING = "RUNNING"
    CHECKPOINTED = "CHECKPOINTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    WORKER_LOST = "WORKER_LOST"


OPEN_ATTEMPT = (AttemptStatus.CLAIMED, AttemptStatus.RUNNING, AttemptStatus.CHECKPOINTED)
"""Statuses of an attempt that has not ended."""


class Effect(StrEnum):
    """What a failed attempt may have done to the world."""

    NONE = "none"
    UNKNOWN = "unknown"


class Approval(StrEnum):
    """Whether work needs approval, and how that stands."""

    NONE = "none"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


DECIDED = (Approval.APPROVED, Approval.REJECTED)
"""What may be decided."""

APPROVER_KINDS = ("human", "service")
"""The kinds of subject that may decide."""


class WhenUnreachable(StrEnum):
    """What happens to work whose dependency can no longer be met."""

    DEAD_LETTER = "dead_letter"
    CANCEL = "cancel"


class ScheduleState(StrEnum):
    """Whether a schedule makes work: only an active one does; a blocked one waits for somebody with authority."""

    ACTIVE = "active"
    PAUSED = "paused"
    BLOCKED = "blocked"


class MissedRuns(StrEnum):
    """What becomes of due times that passed while no worker ran: the last is made up for, all are, or none is."""

    ONE = "one"
    ALL = "all"
    NONE = "none"


REQUIRABLE = (State.SUCCEEDED, State.CANCELLED, State.REJECTED, State.DEAD_LETTER)
"""States one workload may require of another: those that stand still."""


class BulkAction(StrEnum):
    """What a person can do to many workloads at once. To discard is to cancel a dead letter for good."""

    RETRY = "retry"
    CANCEL = "cancel"
    DISCARD = "discard"


class BulkState(StrEnum):
    """How far a bulk order has come; once it is started its own workload says how it stands."""

    CHOOSING = "choosing"
    DRAFT = "draft"
    STARTED = "started"


class BulkOutcome(StrEnum):
    """What became of one workload of a bulk order."""

    PENDING = "pending"
    DONE = "done"
    REFUSED = "refused"
