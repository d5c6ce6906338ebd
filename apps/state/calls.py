"""What every operation of this room is told about its caller. Not here: how it is found out (`api/base.py`)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from apps.state.limits import READ_MARGIN_S
from feltdb_engine import Actor


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request for an operation: where, by whom, when, until when, and under which transaction id.

    `deadline` is in `time.monotonic()` seconds, `now_ms` milliseconds since the epoch. `transaction_id` makes a
    write repeatable: the same id with the same request answers the first outcome again. `collections` are those
    the caller's key opens, None for all. `require_still_held` raises where the caller's key has ended meanwhile: an
    operation that waits asks it at each look.
    """

    namespace: str
    actor: Actor
    now_ms: int
    deadline: float
    transaction_id: str | None = None
    collections: frozenset[str] | None = None
    require_still_held: Callable[[], None] = lambda: None

    @property
    def read_until(self) -> float:
        """When a read that can be continued stops and answers what it has, so that it answers before the deadline."""
        return self.deadline - min(READ_MARGIN_S, max(0.0, self.deadline - time.monotonic()) / 10)
