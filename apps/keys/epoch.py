"""The revocation epoch: one number, shared by every process of an instance, that moves when any key's rights shrink.

    <data>/keys.epoch    8 bytes, native unsigned; odd while a change is under way

A process may trust what it verified earlier only while the epoch is even and the same as before that verification
began. Whoever shrinks rights makes it odd, commits, and makes it even: so from the moment the change returns no
process answers from memory of the time before, and a process killed half way leaves memory unused, never stale,
until the next process opens the file or the next change ends.
"""

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from django.conf import settings

_BYTES = 8


class Epoch:
    """The mapped number of one instance. Reading it is one load; moving it takes a file lock."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size < _BYTES:
                os.ftruncate(descriptor, _BYTES)
            self._words = memoryview(mmap.mmap(descriptor, _BYTES)).cast("Q")
        finally:
            os.close(descriptor)
        self._path = path
        self._settle()

    def _settle(self) -> None:
        """Make an epoch even that a killed process left odd, unless a change is under way this moment."""
        with open(self._path, "rb") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if self._words[0] & 1:
                self._words[0] += 1

    def read(self) -> int | None:
        """Return the epoch, or None while a change is under way and nothing remembered may be used."""
        value: int = self._words[0]
        return None if value & 1 else value

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Hold the epoch odd around a change, and leave it greater than before. One change at a time, host-wide."""
        with open(self._path, "rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self._words[0] += 1 if self._words[0] % 2 == 0 else 2
            try:
                yield
            finally:
                # Also after a failure: whether the change was committed may not be known.
                self._words[0] += 1


@cache
def shared() -> Epoch:
    """Return this instance's epoch."""
    return Epoch(Path(settings.DATA_DIR) / "keys.epoch")
