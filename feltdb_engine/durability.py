"""Group commit: one force serves all that was written before it, over threads and processes.

Whoever gets the sync lock reads `written`, forces, and publishes `durable` while still holding the lock. A failed
force is final: the kernel may have marked the pages clean, so neither another force nor a look at them proves anything.
"""

import contextlib
import errno
import os
import threading
import time
from pathlib import Path

import lmdb

from feltdb_engine import limits, positions
from feltdb_engine.core import Core
from feltdb_engine.errors import (
    DeadlineExceeded,
    EngineError,
    StorageError,
    StorageFailed,
    StorageFull,
    StorageWriteFailed,
    StoreClosed,
    StoreRebuilding,
)
from feltdb_engine.files import write_whole

FAILED_NAME = "failed"
_NO_ROOM_BYTES = 1 << 16
_FULL = (errno.ENOSPC, errno.EDQUOT)
_PAUSE_S = 0.00005
_DURABLE = positions.DURABLE
_DURABLE_SEQUENCE = positions.DURABLE_SEQUENCE


class Durability:
    """Waits for, and brings about, the durability of what was written."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._words = core.words
        self._thread = threading.Lock()
        self._lax = core.durability == "os"
        self._head_word = positions.WRITTEN_SEQUENCE if self._lax else _DURABLE_SEQUENCE
        self._alone = 0  # the last sequence that this process forced for itself, unpublished
        self._alone_lock = threading.Lock()

    def head(self, wanted: int = 0, deadline: float | None = None) -> int:
        """The last sequence known to be durable. One that is written already and `wanted` is waited for.

        Raises StorageFailed, DeadlineExceeded.
        """
        self.nudge()
        known = self.published()
        if known < wanted <= self._words[positions.WRITTEN_SEQUENCE]:
            try:
                self.wait_sequence(wanted, deadline)
            except DeadlineExceeded as error:
                raise DeadlineExceeded("The deadline passed before what was asked about was on disk.") from error
            known = self.published()
        return known

    def published(self) -> int:
        """The last sequence known to be durable, as far as this process knows without asking for more."""
        return max(self._words[self._head_word], self._alone)

    def wait(self, end: int, sequence: int, deadline: float | None = None) -> None:
        """Return once the log is forced up to `end`, and the feed gives `sequence`, its last. Raises as `_wait`.

        The two words are stored one after the other: what is forced is for a moment not yet in the feed.
        """
        self.wait_position(end, deadline)
        self.wait_sequence(sequence, deadline)

    def wait_position(self, end: int, deadline: float | None = None) -> None:
        """Return once the log is forced up to `end`. Raises StorageFailed and DeadlineExceeded, both "unknown"."""
        if not self._lax and self._words[_DURABLE] < end:
            self._wait(_DURABLE, end, deadline)

    def wait_sequence(self, sequence: int, deadline: float | None = None) -> None:
        """Return once everything up to `sequence` is forced. Raises as `wait_position`."""
        if not self._lax and self._words[_DURABLE_SEQUENCE] < sequence and self._alone < sequence:
            self._wait(_DURABLE_SEQUENCE, sequence, deadline)

    def force_all(self, end: int) -> None:
        """As `wait_position`, also for a store that does not wait for the disk: a segment ends here."""
        self._wait(_DURABLE, end, None)

    def drain(self) -> None:
        """Force what is written, for those that wait for it: nobody of this process writes any more."""
        words = self._words
        with contextlib.suppress(EngineError):
            if words[positions.STATE] == positions.LIVE and self._core.damage is None:
                until = time.monotonic() + limits.TURN_WAIT_S
                self.wait_position(words[positions.WRITTEN], until)
                self.wait_sequence(words[positions.WRITTEN_SEQUENCE], until)

    def nudge(self) -> None:
        """Publish what is written where nobody is about to: its writer was killed, or forced it for itself alone."""
        words = self._words
        if words[positions.WRITTEN_SEQUENCE] > words[_DURABLE_SEQUENCE] and words[positions.STATE] == positions.LIVE:
            self._lead(0)

    def _wait(self, word: int, target: int, deadline: float | None) -> None:
        words = self._words
        patience = time.monotonic() + limits.FORCE_PATIENCE_S
        while words[word] < target:
            if words[positions.STATE] == positions.FAILED:
                raise failed("unknown")
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise DeadlineExceeded(
                    "The deadline passed before the write was known to be on disk.", committed="unknown"
                )
            try:
                if self._lead(max(0.0, min(patience, deadline or patience) - now)):
                    continue
            except StoreClosed as error:
                if words[word] >= target:
                    return
                closed = "The store was closed before the write was known to be on disk."
                raise StoreClosed(closed, committed="unknown") from error
            if now >= patience and self._force_alone(word, target):
                return
            time.sleep(_PAUSE_S)

    def _lead(self, patience_s: float) -> bool:
        """Force what is written, if nobody else is doing so. True when `durable` moved or had moved."""
        if not self._thread.acquire(timeout=patience_s):
            return False
        try:
            lock = self._core.sync_lock
            if not lock.try_exclusive():
                return False
            try:
                return self._force_written()
            finally:
                lock.release()
        finally:
            self._thread.release()

    def _force_written(self) -> bool:
        words = self._words
        if words[positions.STATE] == positions.FAILED:
            raise failed("unknown")
        sequence = words[positions.WRITTEN_SEQUENCE]  # before the position: see positions.py
        written = words[positions.WRITTEN]
        step = self._core.files.step
        if words[_DURABLE] < written:
            step("force")
            self.force(written)
            step("forced")
            words[_DURABLE] = written
            step("durable")
        elif words[_DURABLE_SEQUENCE] >= sequence:
            return False
        words[_DURABLE_SEQUENCE] = sequence  # also where a leader was killed between the two
        step("durable published")
        return True

    def _force_alone(self, word: int, target: int) -> bool:
        """Whoever holds the sync lock may be stopped: force for oneself, and leave publishing to the holder."""
        words = self._words
        source = positions.WRITTEN if word == _DURABLE else positions.WRITTEN_SEQUENCE
        if words[source] < target:
            return False
        sequence = words[positions.WRITTEN_SEQUENCE]  # before the position: see positions.py
        self.force(words[positions.WRITTEN])
        if words[positions.STATE] == positions.FAILED:
            raise failed("unknown")
        with self._alone_lock:
            self._alone = max(self._alone, sequence)
        return True

    def force(self, position: int) -> None:
        """Force the segment that ends at or holds `position`. A failure makes the store failed, for all processes."""
        try:
            self._core.log.force(position)
        except OSError as error:
            fail(self._core, f"force: {error}")
            raise failed("unknown") from error
        except StorageWriteFailed as error:
            raise StorageWriteFailed(error.message, committed="unknown") from error


def fail(core: Core, reason: str) -> None:
    """Mark the store failed: at once for the processes of this boot, and, best effort, for the next."""
    core.words[positions.STATE] = positions.FAILED
    try:
        core.turn.refuse_elsewhere()
        write_whole(core.files, core.path / FAILED_NAME, reason.encode())
    except (OSError, StorageWriteFailed):
        pass  # the disk that just failed may refuse this too; the shared word holds until the next boot


def failed(committed: str) -> StorageFailed:
    """The refusal of a failed store."""
    return StorageFailed(
        "Writing to disk failed. The store refuses writes until it is opened anew by all its processes.",
        committed="unknown" if committed == "unknown" else False,
    )


def refusal(state: int) -> EngineError:
    """Why a store in this state takes no writes."""
    if state == positions.FAILED:
        return failed("no")
    return StoreRebuilding("The store is being opened anew; ask again shortly.")


def as_storage_error(error: lmdb.Error | OSError, path: Path) -> StorageError:
    """The refusal of something on the disk of `path` that was undone, or never begun."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    if isinstance(error, lmdb.Error) and code == errno.EIO and has_no_room(path, _NO_ROOM_BYTES):
        code = errno.ENOSPC  # LMDB's name for a write that fitted in part
    if code in _FULL or isinstance(error, lmdb.MapFullError):
        return StorageFull("There is no room on the disk. Nothing was written; reads go on.")
    return StorageWriteFailed(f"The disk gave an error, and nothing was written: {error}")


def has_no_room(path: Path, size: int) -> bool:
    """Whether the disk of `path` has less than `size` bytes left."""
    state = os.statvfs(path)
    return state.f_bavail * state.f_frsize < size
