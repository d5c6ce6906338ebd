"""What an instance observes of itself, with the next step for an operator beside each reason.

Observations only: `clean` says what was seen at the last look, never that data is safe. `observe` is one look, shared
by whoever asks within a second; with `write=True` every store proves a forced write.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction

from apps.http.errors import ApiError
from apps.keys.models import Namespace
from apps.operations.reasons import Reason, reason
from apps.operations.services import keeping, liveness, upkeep, versions
from apps.operations.services.liveness import Life
from apps.operations.services.probing import Probed, probe
from apps.operations.statements import at_most, is_late
from apps.triggers import services as triggers
from apps.triggers.models import NamespacePosition, Trigger, TriggerCursor, TriggerQuarantine
from apps.workloads import overview as work
from apps.workloads.clock import now_ms
from feltdb_engine.model import Cursor

__all__ = ["Observation", "Reason", "observe"]

MAX_PROBED_NAMESPACES = 100
"""A look stays bounded however many namespaces there are."""

MAX_TRIGGERS_LOOKED_AT = 200
PROBE_DEADLINE_S = 4.0
"""Within the five seconds in which trouble must show; the request deadline where that is shorter."""

DATABASE_S = 2.5
"""For what is asked of the database, before the stores are probed and again after."""

LEAST_DATABASE_S = 1.0
SHARED_S = 1.0
BEHIND_MS = 30_000
WAITING_MS = 300_000

_last: dict[tuple[bool, bool], tuple[float, "Observation"]] = {}
_turns = {(write, work): threading.Lock() for write in (False, True) for work in (False, True)}


@dataclass(frozen=True, kw_only=True)
class Observation:
    """`storage` is the worst label among the namespaces; `ready` is true when nothing stands in the way of serving."""

    ready: bool
    storage: str
    durable_format: int | None
    reasons: tuple[Reason, ...]
    stores: tuple[Probed, ...] = ()
    probe_ms: int = 0

    @property
    def writes(self) -> str:
        """Return `available` unless a reason of storage stands in the way."""
        return "available" if not any(r.blocking for r in self.reasons) else "unavailable"

    @property
    def clock(self) -> str:
        """Return what is known of the host's clock."""
        return "attention-required" if self._any("CLOCK_BEHIND") else "healthy"

    @property
    def membership(self) -> str:
        """Return whether the worker processes that should be there are."""
        return "attention-required" if self._any("WORKER_LOST", "WORKER_MISSING") else "healthy"

    @property
    def healthy(self) -> bool:
        """Tell whether membership, clock and storage are all well, and writes are available."""
        well = self.membership == self.clock == "healthy"
        return well and self.storage == "clean" and self.writes == "available"

    @property
    def state(self) -> str:
        """Return the worst word that fits: recovery-required, unavailable, degraded, recovering, healthy."""
        if self._any("STORAGE_FAILED", "STORAGE_CORRUPT"):
            return "recovery-required"
        if self._any("STORAGE_REBUILDING"):
            return "recovering"
        if not self.ready:
            return "unavailable"
        return "healthy" if self.healthy else "degraded"

    def _any(self, *codes: str) -> bool:
        return any(each.code in codes for each in self.reasons)


def observe(*, write: bool = False, with_work: bool = True) -> Observation:
    """Look at the database, every store, worker processes and, `with_work`, what waits for them.

    Never raises for what it observes.
    """
    asked_at = time.monotonic()
    kind = (write, with_work)
    with _turns[kind]:
        kept = _last.get(kind)
        if kept is not None and kept[0] >= asked_at - SHARED_S:
            return kept[1]
        seen = _look(write, with_work)
        _last[kind] = (time.monotonic(), seen)
        return seen


def forget() -> None:
    """Let the next look be a new one (between tests)."""
    _last.clear()
    keeping.forget()


def _look(write: bool, with_work: bool) -> Observation:
    started = time.monotonic()
    reasons: list[Reason] = list(keeping.unfinished())
    probed: list[Probed] = []
    try:
        with at_most(DATABASE_S):
            names = _names(write)
    except (DatabaseError, InterfaceError, ApiError) as error:
        names = None
        reasons.append(_database_down(error))
    if names is not None:
        left_s = min(PROBE_DEADLINE_S, settings.REQUEST_DEADLINE_MS / 1000 * 0.8)
        probed = probe(names, deadline_s=left_s, write=write)
        reasons += [each for one in probed for each in one.reasons]
        try:
            with at_most(max(LEAST_DATABASE_S, started + PROBE_DEADLINE_S - time.monotonic())):
                reasons += _control_plane(names if with_work else [], probed)
                reasons += _kept(probed if with_work else [])
        except (DatabaseError, InterfaceError, ApiError) as error:
            reasons.append(_database_down(error))
    labels = [each.health.storage if each.health else "unavailable" for each in probed]
    bad = [label for label in labels if label not in ("clean", "recovered-incomplete-write")]
    formats = [each.health.durable_format for each in probed if each.health]
    return Observation(
        ready=not any(each.blocking for each in reasons),
        storage=next(iter([*bad, *(label for label in labels if label != "clean")]), "clean"),
        durable_format=formats[0] if formats else None,
        reasons=tuple(reasons),
        stores=tuple(probed),
        probe_ms=round((time.monotonic() - started) * 1000),
    )


def _kept(probed: list[Probed]) -> Iterator[Reason]:
    """What holds history, and whom it no longer waits for; of the stores that answer."""
    for each in probed:
        if each.health is not None:
            yield from keeping.held_lately(each.namespace)
            yield from keeping.too_far_behind(each.namespace, each.health.head)


def _names(write: bool) -> list[str]:
    """Return the namespaces; with `write`, also see that the database's one writer's turn can be had (SQLite)."""
    with transaction.atomic() if write and connection.vendor == "sqlite" else nullcontext():
        return list(Namespace.objects.order_by("name").values_list("name", flat=True)[:MAX_PROBED_NAMESPACES])


def _database_down(error: Exception) -> Reason:
    if is_late(error):
        return reason("DATABASE_STALLED", "control plane", "the database did not answer in time")
    return reason("DATABASE_UNAVAILABLE", "control plane", f"the database did not answer ({type(error).__name__})")


def database_of_another_version() -> Iterator[Reason]:
    """Yield what is wrong where code and database are of two versions."""
    missing, unknown = versions.apart()
    if missing:
        text = f"{len(missing)} migrations are missing: {versions.shown(missing)}"
        yield reason("DATABASE_BEHIND", "control plane", text)
    if unknown:
        text = f"{len(unknown)} migrations are of a newer version: {versions.shown(unknown)}"
        yield reason("DATABASE_AHEAD", "control plane", text)


def _control_plane(names: list[str], probed: list[Probed]) -> Iterator[Reason]:
    yield from database_of_another_version()
    now = now_ms()
    workers = liveness.standings(now=now)
    for each in workers:
        if each.life is not Life.ALIVE:
            name = f"worker {each.process.worker_id}"
            yield reason("WORKER_LOST", name, f"{each.life.value}; last seen {each.silent_ms / 1000:.0f} s ago")
    anyone = any(each.life is Life.ALIVE for each in workers)
    waits_for_a_worker = False
    for name in names:
        waiting = work.longest_waiting(name, now_ms=now)
        waited_ms = 0 if waiting is None else now - waiting.eligible_at_ms
        waits_for_a_worker |= waited_ms > BEHIND_MS
        if waiting is not None and waited_ms > WAITING_MS and anyone:
            text = f"{waiting.workload_id} ({waiting.definition_id}) has waited {waited_ms / 1000:.0f} s"
            yield reason("WORK_WAITING", f"namespace {name}", text)
    if not names:
        return
    yield from upkeep.reasons(names)
    yield from _triggers(names, {each.namespace for each in probed if each.health}, now)
    if not anyone and (waits_for_a_worker or TriggerCursor.objects.filter(live=True).exists()):
        yield reason("WORKER_MISSING", "workers", "work or active triggers are there, and no worker process is alive")


def _triggers(names: list[str], readable: set[str], now: int) -> Iterator[Reason]:
    for position in NamespacePosition.objects.filter(namespace__in=names).exclude(mismatch_code=""):
        yield reason("TRIGGERS_APART", f"namespace {position.namespace}", position.mismatch)
    blocked = Trigger.objects.filter(state=Trigger.State.BLOCKED).order_by("namespace", "trigger_id")
    for trigger in blocked[:MAX_TRIGGERS_LOOKED_AT]:
        yield reason("TRIGGER_BLOCKED", f"trigger {trigger}", f"{trigger.reason_code}: {trigger.reason}")
    open_ones = TriggerQuarantine.objects.filter(resolved_at_ms__isnull=True).order_by("namespace", "id")
    for namespace in sorted(set(open_ones.values_list("namespace", flat=True)[:MAX_TRIGGERS_LOOKED_AT])):
        yield reason("TRIGGER_QUARANTINE", f"namespace {namespace}", "changes that matched wait in quarantine")
    known: dict[Cursor, int | None] = {}
    live = TriggerCursor.objects.filter(live=True, namespace__in=readable).select_related("trigger")
    for cursor in live.order_by("namespace", "trigger__trigger_id")[:MAX_TRIGGERS_LOOKED_AT]:
        behind_ms = triggers.behind_ms(cursor, now_ms=now, known=known)
        if behind_ms is not None and behind_ms > BEHIND_MS:
            text = f"it has not looked at changes that are {behind_ms / 1000:.0f} s old"
            yield reason("TRIGGER_BEHIND", f"trigger {cursor.trigger}", text)
