"""Whether each store really takes a write and gives a read now: a bounded read, and a forced write of nothing.

The write deletes a record that is not there: it takes the writer's turn, appends an empty frame and is forced like any
commit, and makes no operation, so that no reader of the feed sees it. Each store is probed in a thread of its own,
since a disk that hangs cannot be interrupted; a store whose last probe still hangs is not probed again.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from apps.http.errors import ApiError
from apps.operations.reasons import ENGINE_REASONS, LABEL_REASONS, Reason, reason
from apps.state.stores import store_of_known
from feltdb_engine import EngineError, Mutation
from feltdb_engine.model import Actor, Health

READ_COLLECTION = "_flow_capabilities"
WRITE_COLLECTION = "_readiness"
CLOCK_SLACK_MS = 5_000
AT_ONCE = 8
"""Stores probed at the same time."""

_hanging: dict[str, threading.Thread] = {}
_turn = threading.Lock()


@dataclass(kw_only=True, slots=True)
class Probed:
    """What one store showed. `writes` tells whether the forced write succeeded; None where none was tried."""

    namespace: str
    health: Health | None = None
    reasons: tuple[Reason, ...] = ()
    writes: bool | None = None


def probe(namespaces: Sequence[str], *, deadline_s: float, write: bool) -> list[Probed]:
    """Probe every store, none beyond the deadline (seconds from now). Never raises for what it finds."""
    until = time.monotonic() + deadline_s
    found: list[Probed] = []
    for start in range(0, len(namespaces), AT_ONCE):
        batch = [_begin(name, until, write) for name in namespaces[start : start + AT_ONCE]]
        for probed, thread in batch:
            if thread is not None:
                thread.join(max(0.0, until - time.monotonic()))
            # A thread that goes on may still write to `probed`: what is told now is a value of its own.
            found.append(_stalled(probed.namespace) if thread is None or thread.is_alive() else probed)
    return found


def _begin(namespace: str, until: float, write: bool) -> tuple[Probed, threading.Thread | None]:
    probed = Probed(namespace=namespace)
    with _turn:
        hanging = _hanging.get(namespace)
        if hanging is not None and hanging.is_alive() and write:
            return probed, None
        thread = threading.Thread(target=_look, args=(probed, until, write), name=f"probe-{namespace}", daemon=True)
        if write:
            _hanging[namespace] = thread
        thread.start()
    return probed, thread


def _look(probed: Probed, until: float, write: bool) -> None:
    where = f"namespace {probed.namespace}"
    try:
        opened = store_of_known(probed.namespace)
        probed.health = opened.health()
        probed.reasons = _told(where, probed.health)
        if not write:
            return
        opened.page(READ_COLLECTION, limit=1)
        now = time.time_ns() // 1_000_000  # a store's own clock is this host's, not the database's
        nothing = Mutation(kind="delete", collection=WRITE_COLLECTION, id="probe")
        done = opened.commit([nothing], actor=Actor(subject="system:probe"), at_ms=now, deadline=until)
        probed.writes = True
        if done.at_ms > now + CLOCK_SLACK_MS:
            behind = f"this host's clock is {(done.at_ms - now) / 1000:.0f} s behind the newest write"
            probed.reasons += (reason("CLOCK_BEHIND", where, behind),)
    except (EngineError, ApiError) as error:
        probed.writes = False
        code = ENGINE_REASONS.get(error.code, "STORAGE_UNAVAILABLE")
        if code not in [each.code for each in probed.reasons]:
            probed.reasons += (reason(code, where, error.message),)
    except Exception as error:
        probed.writes = False
        probed.reasons += (reason("STORAGE_PROBE_FAILED", where, f"{type(error).__name__}: {error}"),)


def _told(where: str, health: Health) -> tuple[Reason, ...]:
    return tuple(
        reason(LABEL_REASONS.get(code, "STORAGE_UNAVAILABLE"), where, f"the store is {code}") for code in health.reasons
    )


def _stalled(namespace: str) -> Probed:
    message = "the store did not answer a read and a forced write in time"
    where = f"namespace {namespace}"
    return Probed(namespace=namespace, reasons=(reason("STORAGE_STALLED", where, message),), writes=False)
