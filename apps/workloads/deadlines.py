"""When a workload runs out of time, and when the sweep must next look at it. Pure.

| deadline  | starts at                                | while                            | tried again?            |
|-----------|------------------------------------------|----------------------------------|-------------------------|
| approval  | the wait for approval began              | AWAITING_APPROVAL                | never                   |
| overall   | created, or armed again by an operator   | not ended, no cancellation asked | never                   |
| queue     | eligible                                 | READY                            | never                   |
| claim     | claimed                                  | CLAIMED                          | if `timeout` is retried |
| execution | the attempt started                      | RUNNING, CHECKPOINTED            | if `timeout` is retried |
| heartbeat | the last sign of life                    | CLAIMED, RUNNING, CHECKPOINTED   | if `timeout` is retried |

The order is that of the report: of several that have passed, the first named is reported.
"""

from typing import NamedTuple, Protocol

from apps.workloads.states import ACTIVE, STARTED, State

RETRYABLE = frozenset({"claim", "execution", "heartbeat"})

_WHILE: tuple[tuple[str, tuple[State, ...], str], ...] = (
    ("approval", (State.AWAITING_APPROVAL,), "updated_at_ms"),
    ("overall", (State.READY, State.AWAITING_APPROVAL, *ACTIVE), "armed_at_ms"),
    ("queue", (State.READY,), "eligible_at_ms"),
    ("claim", (State.CLAIMED,), "claimed_at_ms"),
    ("execution", STARTED, "started_at_ms"),
    ("heartbeat", ACTIVE, "heartbeat_at_ms"),
)


class Timed(Protocol):
    """What deadlines are computed from: a workload's row, or the row it is about to become."""

    state: str
    timeouts: dict[str, int] | None
    updated_at_ms: int
    armed_at_ms: int
    eligible_at_ms: int
    claimed_at_ms: int | None
    started_at_ms: int | None
    heartbeat_at_ms: int | None
    lease_expires_at_ms: int | None
    cancel_deadline_at_ms: int | None


class Deadline(NamedTuple):
    """A deadline's name and its instant."""

    name: str
    at_ms: int


def running(row: Timed) -> list[Deadline]:
    """Return the deadlines that count in the row's state, in the order of the table."""
    if not row.timeouts:
        return []
    found = []
    for name, states, start in _WHILE:
        length = row.timeouts.get(f"{name}_ms")
        if length is not None and row.state in states:
            found.append(Deadline(name, getattr(row, start) + length))
    return found


def passed(row: Timed, now_ms: int) -> Deadline | None:
    """Return the first deadline of the table that has passed; at its own instant it has."""
    return next((deadline for deadline in running(row) if deadline.at_ms <= now_ms), None)


def due_at_ms(row: Timed) -> int | None:
    """Return when the sweep must look: the earliest deadline, end of lease or end of grace; None for never."""
    instants = [deadline.at_ms for deadline in running(row)]
    instants += [at for at in (row.lease_expires_at_ms, row.cancel_deadline_at_ms) if at is not None]
    return min(instants, default=None)
