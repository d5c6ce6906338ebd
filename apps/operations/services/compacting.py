"""Compaction of the stores: by hand, and by policy in the worker, never on a request's path.

The policy is FELTDB_HISTORY_DAYS and FELTDB_HISTORY_MIB; the newest FELTDB_HISTORY_OPERATIONS, a pin, and a trigger
that has changes yet to see (up to its `max_lag_operations`) keep more. A trigger further behind is passed: counted,
audited, and stopped by its next evaluation with FEED_COMPACTED. Where control plane and store are apart nothing is let
go: reconciling needs it.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from django.conf import settings

from apps.http import measures
from apps.http.errors import ApiError
from apps.keys.audit.services import record
from apps.keys.models import Namespace
from apps.keys.principal import Principal, operator
from apps.operations.models import UpkeepRun
from apps.operations.services import upkeep
from apps.state.stores import store
from apps.triggers import services as triggers
from apps.workloads.clock import now_ms
from apps.workloads.worker_options import Step
from feltdb_engine import Retention, Store
from feltdb_engine.compaction import Compaction
from feltdb_engine.errors import CompactionRunning, EngineError

logger = logging.getLogger("feltdb.operations")

DAY_MS = 24 * 3_600_000
MIB = 1 << 20
LOOK_S = 60.0
"""Seconds between two looks of a worker at what is due."""

POLICY = operator("compaction policy")
"""Who compacts where nobody asked for it."""

Progress = Callable[[int, int], None]


class CompactionRefused(Exception):
    """Why a store was not compacted; the message is for the operator."""


def policy() -> Retention:
    """Return what the settings let go. Days of 0 keep all history; the bytes then alone let some go, unless 0 too."""
    days, mib = settings.HISTORY_DAYS, settings.HISTORY_MIB
    return Retention(age_ms=days * DAY_MS if days else None, bytes=mib * MIB if mib else None)


def preview(namespace: str, *, keep: Retention | None = None) -> Compaction:
    """Return what a compaction would do now. Raises CompactionRefused, ApiError, EngineError."""
    opened = store(namespace)
    return opened.compact(
        keep or policy(), retain_from=_retained_from(namespace, opened, keep), dry_run=True, now_ms=now_ms()
    )


def compact(
    namespace: str, *, by: Principal, keep: Retention | None = None, progress: Progress | None = None
) -> Compaction:
    """Compact a store while it serves, and note the run. Raises CompactionRefused, ApiError, EngineError."""
    opened = store(namespace)
    with upkeep.noted(UpkeepRun.Kind.COMPACTION, namespace, by=by) as running:
        try:
            running.report = done = opened.compact(
                keep or policy(),
                retain_from=_retained_from(namespace, opened, keep),
                progress=progress,
                now_ms=now_ms(),
            )
        except CompactionRunning:
            raise CompactionRefused("Another compaction of this store is at work; wait for its end.") from None
        except EngineError as error:
            measures.COMPACTIONS.labels("failed").inc()
            logger.warning("compaction failed", extra={"namespace": namespace, "code": error.code})
            raise
        _account_for(namespace, done, by)
    return done


def _account_for(namespace: str, done: Compaction, by: Principal) -> None:
    """Count, audit and log what went."""
    gone = done.floor - done.floor_before
    measures.COMPACTIONS.labels("done").inc()
    measures.COMPACTED_OPERATIONS.labels(namespace).inc(gone)
    measures.COMPACTED_BYTES.labels(namespace).inc(done.bytes_removed)
    logger.debug("store compacted", extra={"namespace": namespace, "operations": gone, "bytes": done.bytes_removed})
    record(by, "storage.compacted", target=namespace, namespace=namespace, after={"floor": done.floor})
    for trigger in triggers.standing_between(namespace, done.floor_before, done.floor):
        measures.TRIGGERS_PASSED.labels(namespace).inc()
        logger.warning("history went that a trigger had yet to see", extra={"namespace": namespace, "trigger": trigger})
        record(by, "storage.compacted_past_trigger", target=trigger, namespace=namespace, code="FEED_COMPACTED")


def _retained_from(namespace: str, opened: Store, keep: Retention | None) -> int | None:
    """Return where history is to begin at the latest: the newest so many by policy, and what triggers have yet to see.

    That is as the database has it now: pins are renewed from it more seldom.
    """
    if namespace in triggers.namespaces_apart():
        raise CompactionRefused(
            f"The store of {namespace} and the database are apart; run 'manage.py doctor --reconcile' first."
        )
    head = opened.head()
    by_policy = settings.HISTORY_OPERATIONS if keep is None else 0
    newest = max(0, head.sequence - by_policy) if by_policy else None
    wanted = [each for each in (newest, triggers.needed_from(namespace, head)) if each is not None]
    return min(wanted) if wanted else None


class Automatic:
    """Compacts each store by policy when it is due; one at a time, and again after what went wrong only when due."""

    def __init__(self, every_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._looked_at: dict[str, float] = {}

    def run(self, stop: threading.Event) -> bool:
        """Look at each namespace whose time has come; always False: it is called again after a pause."""
        for namespace in Namespace.objects.order_by("name").values_list("name", flat=True):
            if stop.is_set():
                break
            last = self._looked_at.get(namespace)
            if last is not None and self._clock() - last < self._every_s:
                continue
            self._looked_at[namespace] = self._clock()
            _compact_if_due(namespace)
        return False


def _compact_if_due(namespace: str) -> None:
    """Compact where something can go. What fails is noted with the run; what cannot be judged now is left alone."""
    try:
        seen = preview(namespace)
    except (CompactionRefused, CompactionRunning, ApiError):
        return
    except EngineError:
        return  # the store's health says what is wrong with it
    if seen.floor <= seen.floor_before and not seen.rewrite_due:
        return
    try:
        compact(namespace, by=POLICY)
    except (CompactionRefused, ApiError, EngineError):
        return  # noted, and a reason of health from now on


def step() -> Step:
    """Return the worker's background step; it does nothing where compaction is off."""
    every_min = settings.COMPACT_EVERY_MINUTES
    automatic = Automatic(every_min * 60.0) if every_min else None

    def run(stop: threading.Event) -> bool:
        return automatic is not None and automatic.run(stop)

    return Step("compaction", run, pause_s=LOOK_S)


def forgetting_all(keep: Retention) -> Retention:
    """Return the policy that lets every change go that nobody needs, and remembers transaction ids as `keep` says."""
    return replace(keep, age_ms=0)
