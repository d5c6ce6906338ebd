"""A doorbell between processes of one machine: *there may be new work, look now*.

One small mapped file in the data directory holds a number that every ring replaces by another. Waiting is comparing:
whoever sees a number other than the last one looks into the database. A ring comes after the commit it announces, so
that whoever hears it sees the work. A ring between machines or for work whose time comes is not heard: every waiter
looks by itself at a stated period too, so the bell is a matter of speed, never of correctness.
"""

import mmap
import os
import secrets
import threading
import time
from pathlib import Path

from django.conf import settings

LOOK_INTERVAL_S = 0.02
"""Seconds between two looks at the number: eight bytes of shared memory, no system call, no query."""

_SIZE = 8


class Bell:
    """The bell of one data directory, mapped into this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size < _SIZE:
                os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)

    def ring(self) -> None:
        """Wake whoever waits. A random number, since two rings must never undo each other."""
        self._map[:_SIZE] = secrets.token_bytes(_SIZE)

    def number(self) -> bytes:
        """Return the present number: remember it *before* looking for work."""
        return self._map[:_SIZE]

    def wait(self, heard: bytes, timeout_s: float, *, stop: threading.Event | None = None) -> bool:
        """Wait until the number is not `heard`, at most `timeout_s`. Returns whether it rang; `stop` ends the wait."""
        until = time.monotonic() + timeout_s
        while self.number() == heard:
            left = until - time.monotonic()
            if left <= 0 or (stop is not None and stop.is_set()):
                return False
            pause = min(LOOK_INTERVAL_S, left)
            if stop is None:
                time.sleep(pause)
            else:
                stop.wait(pause)
        return True


_bells: dict[tuple[int, Path], Bell] = {}
_lock = threading.Lock()


def bell() -> Bell:
    """Return the bell of the configured data directory, mapped once per process."""
    key = (os.getpid(), Path(settings.DATA_DIR) / "workloads.bell")
    found = _bells.get(key)
    if found is None:
        with _lock:
            found = _bells.get(key) or _bells.setdefault(key, Bell(key[1]))
    return found


def ring() -> None:
    """Ring the bell of the configured data directory."""
    bell().ring()
