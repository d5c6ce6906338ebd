"""File locks between processes, and the writer's turn, fair among them.

A lock belongs to the open file description, so a forked child must close its copies without unlocking (`forks.py`),
and threads of one process need a lock of their own in front. No lock is ever waited for in the kernel: a stopped
process may sit on it, and the caller's deadline must hold.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from feltdb_engine import limits, positions
from feltdb_engine.errors import DeadlineExceeded, StorageWriteFailed, StoreClosed

_PAUSE_MIN_S = 0.00002
_PAUSE_MAX_S = 0.0003


class FileLock:
    """An advisory lock on a file of its own."""

    def __init__(self, path: Path) -> None:
        self._fd = -1
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        status = os.fstat(self._fd)
        self._identity = status.st_dev, status.st_ino

    def try_exclusive(self) -> bool:
        """Take or keep it alone, if that is possible now."""
        return self._try(fcntl.LOCK_EX)

    def try_shared(self) -> bool:
        """Take or keep it together with others, if that is possible now."""
        return self._try(fcntl.LOCK_SH)

    def take(self, deadline: float) -> None:
        """Take it alone, waiting until `deadline` (monotonic seconds). Raises DeadlineExceeded."""
        if not wait_until(self.try_exclusive, deadline):
            raise DeadlineExceeded("The deadline passed while another process held a lock.")

    def _try(self, how: int) -> bool:
        if self._fd < 0:
            raise StoreClosed("The store was closed.")
        try:
            fcntl.flock(self._fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Give it back; closing has done so already."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def refuse_elsewhere(self, path: str) -> None:
        """Raise StorageWriteFailed unless this very file lies at `path`: while it is open, no other can pass for it."""
        try:
            found = os.stat(path)
            if (found.st_dev, found.st_ino) == self._identity:
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        raise StorageWriteFailed(
            f"{os.path.dirname(path)} is no longer the directory that was opened: it was moved, replaced or deleted, "
            "or its lock files were. Nothing was written. Put it back, or close the store and open it anew."
        )

    def close(self) -> None:
        """Close the descriptor. In the last process that has it, that gives the lock back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    forked = close

    def __del__(self) -> None:
        self.close()


class Turn:
    """The writer's turn: one thread of one process. Whoever starves goes first, the longest waiting before others."""

    def __init__(self, path: Path, words: memoryview) -> None:
        self._thread = threading.Lock()
        self._file = FileLock(path)
        self._path = str(path)
        self._words = words

    def refuse_elsewhere(self) -> None:
        """Raise StorageWriteFailed where the directory is no longer the one that was opened."""
        self._file.refuse_elsewhere(self._path)

    def take(self, deadline: float) -> None:
        """Wait for the turn until `deadline` (monotonic seconds). Raises DeadlineExceeded."""
        if not self._thread.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DeadlineExceeded("The deadline passed while other writers had the turn.")
        try:
            if self._words[positions.STARVING] or not self._file.try_exclusive():
                self._wait(deadline)
        except BaseException:
            self._thread.release()
            raise

    def _wait(self, deadline: float) -> None:
        words = self._words
        began = time.monotonic_ns()
        starving_after = began + int(limits.TURN_STARVING_S * 1e9)
        stale = int(limits.TURN_STARVING_STALE_S * 1e9)
        pause = _PAUSE_MIN_S
        while True:
            now = time.monotonic_ns()
            eldest = words[positions.STARVING]
            if eldest and now - eldest > stale:
                eldest = 0
            if (not eldest or eldest >= began) and self._file.try_exclusive():
                if words[positions.STARVING] == began or not eldest:
                    words[positions.STARVING] = 0
                return
            if now > starving_after and (not eldest or eldest > began):
                words[positions.STARVING] = began
            if now >= deadline * 1e9:
                if words[positions.STARVING] == began:
                    words[positions.STARVING] = 0
                raise DeadlineExceeded("The deadline passed while other writers had the turn.")
            time.sleep(_PAUSE_MIN_S if eldest == began else pause)
            pause = min(pause * 1.5, _PAUSE_MAX_S)

    def give_back(self) -> None:
        """The next may write."""
        self._file.release()
        self._thread.release()

    def retire(self, timeout_s: float) -> None:
        """Let the thread that has the turn finish, and nobody of this process after it; then close."""
        finished = self._thread.acquire(timeout=timeout_s)
        self._file.close()
        if finished:
            self._thread.release()

    def close(self) -> None:
        """Close the descriptor at once."""
        self._file.close()


def wait_until(attempt: Callable[[], bool], deadline: float) -> bool:
    """Try again and again, less and less often, until it works (True) or the deadline passes (False)."""
    pause = _PAUSE_MIN_S
    while not attempt():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return True
