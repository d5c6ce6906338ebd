"""One at a time on this instance: a lock on a file of the data directory, which a killed process gives back too.

So whoever asks knows whether somebody is at work, whatever is noted of them.
"""

import time
from pathlib import Path

from django.conf import settings

from apps.http.errors import ApiError
from feltdb_engine.errors import DeadlineExceeded
from feltdb_engine.locks import FileLock

BACKUP = "backup"
VERIFICATION = "verification"
RESTORE = "restore"

PATIENCE_S = 0.5
"""Longer than anybody who merely looks holds the lock."""


def take(what: str) -> FileLock:
    """Take the turn; closing it gives it back. Raises ApiError CONFLICT where somebody has it."""
    lock = FileLock(_path(what))
    try:
        lock.take(time.monotonic() + PATIENCE_S)
    except DeadlineExceeded:
        lock.close()
        raise ApiError("CONFLICT", f"Another {what} is at work; wait for its end.") from None
    return lock


def taken(what: str) -> bool:
    """Tell whether somebody is at work now."""
    if not _path(what).exists():
        return False
    lock = FileLock(_path(what))
    try:
        return not lock.try_shared()
    finally:
        lock.close()


def _path(what: str) -> Path:
    return Path(settings.DATA_DIR) / f"{what}.lock"
