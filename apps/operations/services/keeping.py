"""How compaction and backups of an instance stand: what holds history, what it takes, how old the last backup is.

For the doctor, who has time (each store is asked what a compaction would do now), and for health, which asks for that
once a minute. Not here: runs that failed (`upkeep.py`).
"""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db.models import F

from apps.http.errors import ApiError
from apps.keys.models import Namespace
from apps.operations.models import UpkeepRun
from apps.operations.reasons import Reason, reason
from apps.operations.services import compacting, upkeep
from apps.operations.services.backups import restoring
from apps.operations.services.compacting import CompactionRefused
from apps.state.stores import store_of_known
from apps.triggers.models import TriggerCursor
from apps.workloads.clock import now_ms
from feltdb_engine import EngineError

MIB = 1024**2
HOUR_MS = 3_600_000
MAX_NAMESPACES = 100
MAX_TRIGGERS = 200
HELD_S = 60.0

_held: dict[str, tuple[float, tuple[Reason, ...]]] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What one store keeps. Sequences are of its history; `oldest_pin` is the name and sequence of the hindmost."""

    namespace: str
    floor: int
    head: int
    log_bytes: int
    snapshot_bytes: int
    view_bytes: int
    view_free_share: float
    oldest_pin: tuple[str, int] | None

    def line(self) -> str:
        """Return it for people."""
        text = (
            f"namespace {self.namespace}: history of {self.head - self.floor:,} operations; "
            f"log {self.log_bytes / MIB:,.1f} MiB, snapshots {self.snapshot_bytes / MIB:,.1f} MiB, "
            f"view {self.view_bytes / MIB:,.1f} MiB ({self.view_free_share:.0%} of it free)"
        )
        return text + (f"; oldest pin {self.oldest_pin[0]} at {self.oldest_pin[1]:,}" if self.oldest_pin else "")


def kept(*, silent: Collection[str] = ()) -> Iterator[Kept]:
    """Yield what each store keeps but those in `silent`; one that cannot be read is left to the checks of health."""
    for namespace in _names(silent):
        try:
            opened = store_of_known(namespace)
            seen, pins = opened.stats(), sorted((pin.sequence, pin.name) for pin in opened.pins())
        except (EngineError, ApiError):
            continue
        yield Kept(
            namespace=namespace,
            floor=seen.floor,
            head=seen.head,
            log_bytes=seen.log_disk_bytes,
            snapshot_bytes=seen.snapshot_disk_bytes,
            view_bytes=seen.view_disk_bytes,
            view_free_share=seen.view_free_share,
            oldest_pin=(pins[0][1], pins[0][0]) if pins else None,
        )


def last_backup() -> str:
    """Return for people when the last good backup was made, and where it lies."""
    rows = UpkeepRun.objects.filter(kind=UpkeepRun.Kind.BACKUP, outcome=UpkeepRun.Outcome.DONE)
    row = rows.order_by("-id").first()
    if row is None or row.ended_at_ms is None:
        return "last backup: none yet (manage.py backup create)"
    path = json.loads(row.report or "{}").get("path", "")
    return f"last backup: {(now_ms() - row.ended_at_ms) / HOUR_MS:,.1f} hours ago, {path}"


def reasons(*, silent: Collection[str] = ()) -> Iterator[Reason]:
    """Yield what is wrong with what is kept, with compactions and backups, and with a restore that was cut off.

    The stores in `silent` have just given no answer, and are not asked again: each question would wait.
    """
    yield from unfinished()
    yield from upkeep.reasons(_names())
    for namespace in _names(silent):
        yield from held(namespace)
        try:
            yield from too_far_behind(namespace, store_of_known(namespace).head().sequence)
        except (EngineError, ApiError):
            continue


def unfinished() -> Iterator[Reason]:
    """Yield that a restore was cut off: what is here is not an instance yet. Needs no database."""
    cut_off = restoring.unfinished(Path(settings.DATA_DIR))
    if cut_off:
        yield reason("RESTORE_UNFINISHED", str(settings.DATA_DIR), f"a restore of {cut_off} was begun and not ended")


def held_lately(namespace: str) -> Sequence[Reason]:
    """As `held`, of the last minute: what a probe may ask for at every scrape."""
    known = _held.get(namespace)
    if known is None or time.monotonic() - known[0] >= HELD_S:
        known = _held[namespace] = (time.monotonic(), tuple(held(namespace)))
    return known[1]


def forget() -> None:
    """Let the next look be a new one (between tests)."""
    _held.clear()


def held(namespace: str) -> Iterator[Reason]:
    """Yield who keeps history that the policy lets go."""
    try:
        seen = compacting.preview(namespace)
    except (CompactionRefused, ApiError, EngineError):
        return  # said by others: apart, at work, or not to be read
    if seen.held_by is not None and seen.held_by != "retain_from":
        kept = f"{seen.held_by} keeps history from {seen.floor:,} on that FELTDB_HISTORY_* lets go"
        yield reason("HISTORY_HELD", f"namespace {namespace}", kept)


def too_far_behind(namespace: str, head: int) -> Iterator[Reason]:
    """Yield each trigger farther behind than its max_lag: compaction no longer waits for it."""
    live = TriggerCursor.objects.filter(namespace=namespace, live=True).select_related("trigger")
    beyond = live.filter(sequence__lt=head - F("trigger__max_lag_operations"))
    for cursor in beyond.order_by("trigger__trigger_id")[:MAX_TRIGGERS]:
        lag, most = head - cursor.sequence, cursor.trigger.max_lag_operations
        text = f"it is {lag:,} operations behind; history waits for it up to {most:,}, and may go beyond"
        yield reason("TRIGGER_BEYOND_MAX_LAG", f"trigger {cursor.trigger}", text)


def _names(silent: Collection[str] = ()) -> list[str]:
    names = Namespace.objects.order_by("name").values_list("name", flat=True)[:MAX_NAMESPACES]
    return [name for name in names if name not in silent]
