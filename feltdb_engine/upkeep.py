"""The part of `Store` that looks after a store: verify, rebuild, stats, history, backup."""

import time
from pathlib import Path

import lmdb

from feltdb_engine import backup as backups
from feltdb_engine import compaction, limits, pinning, positions, timeline, verify, view
from feltdb_engine import history as histories
from feltdb_engine import stats as statistics
from feltdb_engine.bundle import BackupInfo
from feltdb_engine.core import Core
from feltdb_engine.durability import Durability
from feltdb_engine.errors import EngineError, StoreRebuilding
from feltdb_engine.feed import Feed
from feltdb_engine.guard import guarded
from feltdb_engine.model import Cursor, Operation, Pin
from feltdb_engine.policy import Retention
from feltdb_engine.reading import Reader
from feltdb_engine.view import State, Transaction
from feltdb_engine.walk import Progress
from feltdb_engine.writer import Outcome, Writer, nothing_done


class Upkeep:
    """Methods of `Store`; it brings the open parts."""

    _core: Core
    _durability: Durability
    _writer: Writer
    _reader: Reader
    _feed: Feed

    def _recover_from(self, error: StoreRebuilding | lmdb.Error) -> None:
        raise NotImplementedError

    def _read_error(self, error: OSError | lmdb.Error) -> EngineError:
        raise NotImplementedError

    def _refuse_read_only(self) -> None:
        raise NotImplementedError

    def renew(self) -> None:
        """See `Store`."""
        raise NotImplementedError

    @guarded
    def verify(self, progress: Progress | None = None) -> verify.Verification:
        """Hold log and view against each other while serving; what is found is listed, never raised.

        `progress(done, total)` is called with bytes of the log. Needs room for another view in the temporary directory.
        """
        if self._core.damage is not None:
            return verify.verify_damaged(self._core.path, self._core.damage, self._core.files, progress)
        return verify.verify(self._core, self._writer, progress)

    def rebuild_view(self) -> None:
        """Make the view again from the log. Raises StoreRebuilding while another process holds on to the old one."""
        self._refuse_read_only()

        def act(_txn: Transaction, state: State) -> Outcome:
            positions.ask_to_renew(self._core.words)
            return nothing_done(state)

        try:
            self._writer.own(act, time.monotonic() + limits.TURN_WAIT_S)
        except (StoreRebuilding, *view.BROKEN) as error:
            self._recover_from(error)
            return
        self.renew()

    @guarded
    def pin(self, name: str, sequence: int, expires_at_ms: int | None, *, now_ms: int | None = None) -> None:
        """Keep every operation after `sequence` until a time (None = for ever); the same name again moves the pin.

        Raises InvalidPin, TooManyPins, FeedCompacted (below the floor), CursorAhead (beyond the head).
        """
        self._refuse_read_only()
        pinning.pin(self._writer, name, sequence, expires_at_ms, _now_ms(now_ms))

    @guarded
    def unpin(self, name: str) -> None:
        """Let a pin go. Raises PinNotFound."""
        self._refuse_read_only()
        pinning.unpin(self._writer, name)

    @guarded
    def pins(self, *, now_ms: int | None = None) -> list[Pin]:
        """The pins that have not expired, in name order."""
        with self._core.view.read() as txn:
            return pinning.held(txn, _now_ms(now_ms))

    @guarded
    def compact(
        self,
        policy: Retention | None = None,
        *,
        retain_from: int | None = None,
        progress: Progress | None = None,
        dry_run: bool = False,
        now_ms: int | None = None,
    ) -> compaction.Compaction:
        """Let go of the history that policy and pins let go, while serving; every operation after `retain_from` stays.

        `progress(done, total)` is called with bytes of the snapshot. Raises CompactionRunning and StorageError; what
        was reached by then stands, and the next one goes on.
        """
        self._refuse_read_only()
        return compaction.compact(
            self._core,
            self._writer,
            policy or Retention(),
            retain_from=retain_from,
            now_ms=_now_ms(now_ms),
            dry_run=dry_run,
            progress=progress,
        )

    @guarded
    def begin_timeline(self) -> Cursor:
        """Leave the timeline at its head and begin a new one; gives that place on it.

        For a store that was put back to an earlier state: what another copy of it wrote on the old timeline can then
        not be taken for what is written from now on.
        """
        self._refuse_read_only()
        timeline.begin(self._core, self._writer, time.monotonic() + limits.TURN_WAIT_S)
        return self._feed.head()

    @guarded
    def stats(self) -> statistics.Stats:
        """Sizes and counts, without a scan."""
        return statistics.stats(self._core)

    @guarded
    def history(
        self,
        collection: str,
        id: str,
        limit: int = 100,
        *,
        from_sequence: int | None = None,
        deadline: float | None = None,
    ) -> histories.History:
        """The operations of a record, newest first; `from_sequence` goes on where a page ended.

        Where the deadline passes the page is short. Raises InvalidKey, InvalidQuery, InvalidCursor, and
        DeadlineExceeded where nothing was read.
        """
        return histories.history(
            self._core, self._reader, collection, id, limit=limit, from_sequence=from_sequence, deadline=deadline
        )

    @guarded
    def transaction_at(self, sequence: int, *, deadline: float | None = None) -> tuple[Operation, ...]:
        """The operations of the transaction that holds a sequence, in order. Keyed.

        Raises InvalidQuery, CursorAhead, FeedCompacted, DeadlineExceeded.
        """
        return histories.transaction_at(
            self._core, self._reader, sequence, self._feed.head().sequence, deadline=deadline
        )

    @guarded
    def time_of(self, sequence: int) -> tuple[int, int]:
        """When the transaction that holds a sequence was committed (ms), its last sequence. Raises FeedCompacted."""
        return histories.time_of(self._core, sequence)

    @guarded
    def provenance(self, collection: str, id: str) -> Operation | None:
        """The operation a record owes its present state to (its delete, where it is gone), or None. Keyed."""
        found = histories.history(self._core, self._reader, collection, id, limit=1, from_sequence=None, deadline=None)
        return found.operations[0] if found.operations else None

    @guarded
    def backup(self, dest: str | Path, progress: Progress | None = None) -> BackupInfo:
        """Copy the store, as it is now, to a directory that does not exist yet, while it serves on.

        Raises DestinationExists, and LogCorrupt where the log is damaged.
        """
        if self._core.damage is not None:
            raise self._core.damage
        return backups.backup(self._core, self._durability, Path(dest).absolute(), progress)


def _now_ms(given: int | None) -> int:
    return time.time_ns() // 1_000_000 if given is None else given
