"""Finished work that is old enough moves from the database to the archive, where FELTDB_WORK_RETENTION_DAYS says so.

    <data>/archive/workloads/<namespace>/<year>-<month>.jsonl      a line of {"workload": ..., "history": ...} each

A line is forced to disk before its rows are deleted, so a crash in between repeats lines and loses none: `workload_id`
tells them apart. With its rows an idempotency key is forgotten too; asking again then makes new work. Kept are dead
letters, whatever is not over, and what unfinished work has waited for.
"""

import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from apps.http import strict_json
from apps.workloads import limits
from apps.workloads.api import shapes
from apps.workloads.clock import now_ms
from apps.workloads.models import Attempt, Checkpoint, Decision, Dependency, Event, Request, Result, Workload
from apps.workloads.services import reading
from apps.workloads.states import FINAL
from apps.workloads.worker_options import Step

DAY_MS = 24 * 3_600_000
_DELETED_TOGETHER = 20
"""Workloads of one deleting transaction, with all that belongs to them: SQLite has one writer."""

LOOK_S = 300.0
"""Seconds between two walks through the old work once all of it has been seen."""


class Retention:
    """Walks through old work in the order of its making, a bounded slice at a time; remembers where it stands."""

    def __init__(self, days: int, archive: Path) -> None:
        self._days = days
        self._archive = archive
        self._seen_pk = 0

    def run(self, *, now_ms: int) -> int | None:
        """Archive what is due of the next slice. Returns how many, or None at the end of the walk.

        Work made after the cutoff cannot have ended before it, so the walk ends there.
        """
        cutoff = now_ms - self._days * DAY_MS
        rows = list(
            Workload.objects.filter(pk__gt=self._seen_pk, created_at_ms__lt=cutoff).order_by("pk")[: limits.MAX_BATCH]
        )
        if not rows:
            self._seen_pk = 0
            return None
        self._seen_pk = rows[-1].pk
        due = self._unneeded([row for row in rows if row.state in FINAL and row.updated_at_ms < cutoff])
        if due and not self._move(due):
            self._seen_pk = 0
            return None
        return len(due)

    @staticmethod
    def _unneeded(rows: Sequence[Workload]) -> list[Workload]:
        needed = set(
            Dependency.objects.filter(parent__in=rows).exclude(child__state__in=FINAL).values_list("parent", flat=True)
        )
        return [row for row in rows if row.pk not in needed]

    def _move(self, rows: Sequence[Workload]) -> bool:
        """Write and force the lines, then delete the rows. Returns False where another process is at it."""
        self._archive.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._archive / ".lock", "a", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._write(rows)
            for at in range(0, len(rows), _DELETED_TOGETHER):
                _delete([row.pk for row in rows[at : at + _DELETED_TOGETHER]])
        return True

    def _write(self, rows: Sequence[Workload]) -> None:
        lines: dict[Path, list[bytes]] = defaultdict(list)
        for row in reading.whole(rows):
            details, history = reading.details_of(row), shapes.history(reading.history_of(row))
            month = datetime.fromtimestamp(row.updated_at_ms / 1000, tz=UTC).strftime("%Y-%m")
            path = self._archive / row.namespace / f"{month}.jsonl"
            lines[path].append(strict_json.dumps({"workload": shapes.workload(details), "history": history}) + b"\n")
        for path, texts in lines.items():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                text = b"".join(texts)
                while text:
                    text = text[os.write(descriptor, text) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            _force_name(path.parent)


def _force_name(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete(pks: Sequence[int]) -> None:
    with transaction.atomic():
        Dependency.objects.filter(Q(parent__in=pks) | Q(child__in=pks)).delete()
        for model in (Decision, Result, Checkpoint, Event, Attempt, Request):
            model._default_manager.filter(workload__in=pks).delete()
        Workload.objects.filter(pk__in=pks, state__in=FINAL).delete()


def archive() -> Path:
    """Return where the archive of this instance lies."""
    return Path(settings.DATA_DIR) / "archive" / "workloads"


def step() -> Step:
    """Return the worker's background step; it does nothing where work is kept for ever."""
    days = settings.WORK_RETENTION_DAYS
    retention = Retention(days, archive()) if days else None

    def run(_: threading.Event) -> bool:
        return retention is not None and retention.run(now_ms=now_ms()) is not None

    return Step("retention", run, pause_s=LOOK_S)
