"""The life of a registered worker, as one closed table. Pure.

Every row is `(from, event, to)`; what is not a row is refused with WORKER_TRANSITION_DENIED. BUSY is never stored: it
is how a READY worker is shown whose capacity is all in use, counted from the work it holds.
"""

from enum import StrEnum
from typing import Final

from apps.workloads.errors import worker_transition_denied

HEARTBEAT_INTERVAL_MS = 10_000
HEARTBEAT_TIMEOUT_MS = 30_000
"""Milliseconds between two heartbeats, and without one after which a worker is OFFLINE."""


class Lifecycle(StrEnum):
    """Where a worker stands."""

    REGISTERED = "REGISTERED"
    READY = "READY"
    DRAINING = "DRAINING"
    OFFLINE = "OFFLINE"
    RECOVERING = "RECOVERING"


BUSY = "BUSY"
"""READY with no capacity left, as it is shown."""

LIVING = (Lifecycle.REGISTERED, Lifecycle.READY, Lifecycle.DRAINING, Lifecycle.RECOVERING)
"""States in which a worker must show life."""


class Health(StrEnum):
    """What a worker says of itself; UNHEALTHY also where it was found silent."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"
    UNKNOWN = "UNKNOWN"


L = Lifecycle
TABLE: Final = (
    (L.REGISTERED, "heartbeat", L.READY),
    (L.REGISTERED, "reconcile", L.READY),
    (L.REGISTERED, "drain", L.DRAINING),
    (L.REGISTERED, "fall_silent", L.OFFLINE),
    (L.READY, "heartbeat", L.READY),
    (L.READY, "reconcile", L.READY),
    (L.READY, "drain", L.DRAINING),
    (L.READY, "fall_silent", L.OFFLINE),
    (L.DRAINING, "heartbeat", L.DRAINING),
    (L.DRAINING, "reconcile", L.DRAINING),
    (L.DRAINING, "drain", L.DRAINING),
    (L.DRAINING, "empty", L.OFFLINE),
    (L.DRAINING, "fall_silent", L.OFFLINE),
    (L.OFFLINE, "recover", L.RECOVERING),
    (L.RECOVERING, "heartbeat", L.READY),
    (L.RECOVERING, "reconcile", L.READY),
    (L.RECOVERING, "recover", L.RECOVERING),
    (L.RECOVERING, "fall_silent", L.OFFLINE),
)
BY_EVENT: Final = {(source, event): target for source, event, target in TABLE}
EVENTS: Final = tuple(dict.fromkeys(event for _, event, _ in TABLE))


def after(lifecycle: str, event: str) -> Lifecycle:
    """Return where the event leads. Raises WORKER_TRANSITION_DENIED where there is no such row."""
    target = BY_EVENT.get((Lifecycle(lifecycle), event))
    if target is None:
        raise worker_transition_denied(lifecycle, event)
    return target
