"""The runs of compactions and backups: noted when they begin, how far they come, how they end, for people to see.

A run is noted in the control plane and never stands in the way of the work itself.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from apps.keys.principal import Principal
from apps.operations.models import UpkeepRun
from apps.operations.reasons import Reason, reason
from apps.workloads.clock import now_ms

KEPT = 100
"""Runs kept of one kind and subject; older ones are forgotten."""

INSTANCE = "instance"
"""The subject of a backup: all of it."""

MAX_TEXT_CHARS = 1_000
MAX_ACTOR_CHARS = 200
HOUR_MS = 3_600_000
TOLD_EVERY_S = 1.0


@dataclass(slots=True)
class Running:
    """A run at work: whoever does it puts its report here, and tells how far it has come."""

    row: UpkeepRun
    report: Any = None
    _next_at: float = 0.0

    def tell(self, done: int, total: int) -> None:
        """Note how far it is, in bytes, at most once in TOLD_EVERY_S; what cannot be noted now is told later."""
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + TOLD_EVERY_S
        with suppress(DatabaseError):
            UpkeepRun.objects.filter(pk=self.row.pk).update(done_bytes=done, total_bytes=total)


@contextmanager
def noted(kind: UpkeepRun.Kind, subject: str, *, by: Principal) -> Iterator[Running]:
    """Note a run around the work; what the work raises is noted and goes on to the caller."""
    row = UpkeepRun.objects.create(
        kind=kind, subject=subject[:MAX_TEXT_CHARS], actor=by.label[:MAX_ACTOR_CHARS], started_at_ms=now_ms()
    )
    running = Running(row)
    try:
        yield running
    except Exception as error:
        _end(row, UpkeepRun.Outcome.FAILED, message=str(error) or type(error).__name__)
        raise
    report = asdict(running.report) if is_dataclass(running.report) else running.report  # type: ignore[arg-type]
    _end(row, UpkeepRun.Outcome.DONE, report=json.dumps(report) if report is not None else "")


def _end(row: UpkeepRun, outcome: UpkeepRun.Outcome, *, message: str = "", report: str = "") -> None:
    row.ended_at_ms = max(now_ms(), row.started_at_ms)
    row.outcome, row.message, row.report = outcome, message[:MAX_TEXT_CHARS], report
    row.save(update_fields=["ended_at_ms", "outcome", "message", "report"])
    same = UpkeepRun.objects.filter(kind=row.kind, subject=row.subject)
    oldest_kept = same.values_list("pk", flat=True)[KEPT - 1 : KEPT].first()
    if oldest_kept is not None:
        same.filter(pk__lt=oldest_kept).delete()


def cut_off(message: str, **of: Any) -> None:
    """End every run (of that `kind` and `subject`) that has not ended: its process is known to be gone."""
    unended = UpkeepRun.objects.filter(ended_at_ms__isnull=True, **of)
    unended.update(ended_at_ms=now_ms(), outcome=UpkeepRun.Outcome.FAILED, message=message)


def newest(kind: UpkeepRun.Kind, *, limit: int = KEPT) -> Sequence[UpkeepRun]:
    """Return the newest runs of a kind, newest first."""
    return list(UpkeepRun.objects.filter(kind=kind)[:limit])


def last_ended(kind: UpkeepRun.Kind, subject: str) -> UpkeepRun | None:
    """Return the newest run that has ended, whichever way."""
    return UpkeepRun.objects.filter(kind=kind, subject=subject, ended_at_ms__isnull=False).first()


def last_done_ms(kind: UpkeepRun.Kind, subject: str) -> int | None:
    """Return when the newest run that succeeded ended, None where there is none."""
    done = UpkeepRun.objects.filter(kind=kind, subject=subject, outcome=UpkeepRun.Outcome.DONE)
    return done.values_list("ended_at_ms", flat=True).first()


def reasons(namespaces: Sequence[str]) -> Iterator[Reason]:
    """Yield what is wrong with compactions and backups."""
    for namespace in namespaces:
        last = last_ended(UpkeepRun.Kind.COMPACTION, namespace)
        if last is not None and last.outcome == UpkeepRun.Outcome.FAILED:
            yield reason("COMPACTION_FAILED", f"namespace {namespace}", last.message)
    last = last_ended(UpkeepRun.Kind.BACKUP, INSTANCE)
    if last is not None and last.outcome == UpkeepRun.Outcome.FAILED:
        yield reason("BACKUP_FAILED", "instance", last.message)
    hours = settings.BACKUP_MAX_AGE_HOURS
    if not hours:
        return
    done_ms = last_done_ms(UpkeepRun.Kind.BACKUP, INSTANCE)
    if done_ms is None:
        yield reason("BACKUP_OLD", "instance", f"no backup was made yet, and one is to be no older than {hours} hours")
    elif now_ms() - done_ms > hours * 3_600_000:
        yield reason(
            "BACKUP_OLD", "instance", f"the last good backup is {(now_ms() - done_ms) / 3_600_000:.0f} hours old"
        )
