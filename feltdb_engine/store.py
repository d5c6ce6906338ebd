"""`Store`: the face of the engine. It checks and encodes what callers say, and hands it to the modules that do the
work.

One per process and directory: opening the same one again gives the same store, to be closed as often.
"""

import os
import time
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import lmdb

from feltdb_engine import forks, frame, limits, opening, positions, registry, requests, timeline, values, view
from feltdb_engine.core import Core, Options
from feltdb_engine.decide import Decision
from feltdb_engine.declaring import Declarer
from feltdb_engine.durability import Durability, refusal
from feltdb_engine.errors import (
    EngineError,
    FormatUnsupported,
    ReadOnlyStore,
    StorageError,
    StoreClosed,
    StoreForked,
    StoreRebuilding,
)
from feltdb_engine.feed import Feed
from feltdb_engine.files import Files, OSFiles
from feltdb_engine.glimpse import Glimpse
from feltdb_engine.guard import guarded
from feltdb_engine.host import Host
from feltdb_engine.model import (
    Actor,
    Changes,
    CollectionInfo,
    CommitResult,
    Cursor,
    Health,
    Mutation,
    Precondition,
    Record,
)
from feltdb_engine.moment import Moment
from feltdb_engine.past import Past, check_revision
from feltdb_engine.questions import Questions
from feltdb_engine.reading import Reader
from feltdb_engine.rules import Rules
from feltdb_engine.single import SingleChanges
from feltdb_engine.transfer import Transfer
from feltdb_engine.upkeep import Upkeep
from feltdb_engine.view import StoredTransaction
from feltdb_engine.writer import Writer


class Store(Upkeep, Rules, Transfer, Questions, SingleChanges):
    """An open store. Any number of threads may use it; other processes may have it open at the same time."""

    def __init__(self, core: Core, *, read_only: bool) -> None:
        """Not for callers: they use `Store.open`."""
        self._users = 1
        self._read_only = read_only
        self._options = core.options
        self._bind(core)
        forks.watch(self)

    def _bind(self, core: Core) -> None:
        self._held: Core | None = core
        self._core = core
        self._durability = Durability(core)
        self._writer = Writer(core, self._durability)
        self._reader = Reader(core, self._durability, self._writer)
        self._declarer = Declarer(core, self._writer)
        self._feed = Feed(core, self._durability)
        self._max_payload = min(limits.TRANSACTION_MAX_BYTES, core.log.capacity // 4)

    def renew(self) -> None:
        """Let go of a view that must be made again, and open anew. Raises StoreRebuilding while others hold on to it.

        Other threads may be reading the old view: it is closed when the last of them has let go of it.
        """
        with registry.lock_of(self._options.path):
            held = self._held
            if self._users <= 0 or (held is not None and held.words[positions.STATE] == positions.LIVE):
                return
            if held is not None:
                held.open_lock.close()
                self._held = held = None
                self._shut(refusal(positions.RENEW))
            self._bind(opening.open_core(replace(self._options, create=False)))

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = True,
        durability: Literal["commit", "os"] = "commit",
        read_only: bool = False,
        segment_bytes: int = limits.SEGMENT_BYTES,
        wait_s: float = limits.OPEN_WAIT_S,
        files: Files | None = None,
        host: Host | None = None,
    ) -> "Store":
        """Open a directory, creating, recovering or rebuilding where that is needed.

        `durability="os"` answers before the disk has it: a power cut may lose the last commits, never order or
        atomicity. `segment_bytes` counts at creation only. `read_only` serves a damaged log up to its first bad place,
        and `health()` says so. Raises StoreNotFound, StoreRebuilding (after `wait_s`),
        LogCorrupt, FormatUnsupported.
        """
        if segment_bytes % 4096 or not limits.SEGMENT_MIN_BYTES <= segment_bytes <= limits.SEGMENT_MAX_BYTES:
            raise FormatUnsupported("A segment is a multiple of 4096 bytes, 64 KiB to 1 GiB.")
        options = Options(
            path=Path(os.path.realpath(path)),
            create=create and not read_only,
            durability=durability,
            segment_bytes=segment_bytes,
            wait_s=wait_s,
            files=files or OSFiles(),
            host=host or Host.current(),
            read_only=read_only,
        )
        with registry.lock_of(options.path):
            shared = registry.find(options.path)
            if shared is not None:
                shared._share(options, read_only)
                return shared
            store = cls(opening.open_core(options), read_only=read_only)
            registry.add(options.path, store)
        try:
            if not read_only:
                store._begin_timeline_where_due()
        except BaseException:
            store.close()
            raise
        return store

    def _share(self, options: Options, read_only: bool) -> None:
        """Count one more user."""
        if self._read_only != read_only or self._options.durability != options.durability:
            raise ValueError("This process has the store open with other options.")
        self._users += 1

    def refuse_elsewhere(self) -> None:
        """Raise StorageWriteFailed where the directory is no longer the one that was opened."""
        if self._held is not None:
            self._held.turn.refuse_elsewhere()

    @guarded
    def _begin_timeline_where_due(self) -> None:
        timeline.begin_where_due(self._core, self._writer, time.monotonic() + limits.TURN_WAIT_S)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go. The last process out forces the view, so that the next opening is instant."""
        with registry.lock_of(self._options.path):
            self._users -= 1
            if self._users != 0:
                return
            registry.remove(self)
            core, durability, self._held = self._held, self._durability, None
            self._shut(StoreClosed("The store was closed."))
            if core is not None:
                opening.close_core(core, durability.drain)

    def forked(self) -> None:
        """In a forked child: answer STORE_FORKED from now on, and close what could hold locks of the parent."""
        if self._users <= 0:
            return
        core, self._held = self._held, None
        self._users = 0
        self._shut(StoreForked("This store was opened by the parent process; open it anew."))
        if core is not None:
            forks.abandon(core)
            for lock in (core.turn, core.sync_lock, core.prepare_lock, core.open_lock):
                lock.close()

    def _shut(self, why: EngineError) -> None:
        shut: Any = _Shut(why)
        self._core = self._durability = self._writer = self._reader = self._feed = shut
        self._declarer = shut

    def _recover_from(self, error: StoreRebuilding | lmdb.Error) -> None:
        """Renew where the view is broken; raise what it was about where that is not possible."""
        if isinstance(error, lmdb.Error):
            positions.ask_to_renew(self._core.words)
        self.renew()

    def _read_error(self, error: OSError | lmdb.Error) -> EngineError:
        """What an error below means to who reads: another thread may have closed the store meanwhile."""
        if self._users <= 0:
            return StoreClosed("The store was closed.")
        return StorageError(f"Reading from disk failed: {error}")

    def _refuse_read_only(self) -> None:
        if self._read_only:
            raise ReadOnlyStore("The store was opened read-only.")

    @property
    def store_id(self) -> str:
        """The store's identity, the same in every copy of its directory."""
        return self._core.manifest.store_id

    @property
    @guarded
    def instance_id(self) -> str:
        """The timeline the store is on."""
        return self._feed.head().instance_id

    def get(self, key: str, *, deadline: float | None = None) -> Record | None:
        """The live record at `collection:id`, or None. Raises InvalidKey, DeadlineExceeded."""
        try:
            return self._reader.get(key, deadline)
        except (StoreRebuilding, *view.BROKEN) as error:
            self._recover_from(error)
            return self._reader.get(key, deadline)
        except (OSError, lmdb.Error) as error:
            raise self._read_error(error) from error

    @guarded
    def get_many(self, keys: Sequence[str], *, deadline: float | None = None) -> list[Record | None]:
        """The live records at these keys, in their order, of one moment. Raises InvalidKey, DeadlineExceeded."""
        return self._reader.get_many(keys, deadline)

    def _moment(self, collections: Sequence[str], deadline: float | None) -> AbstractContextManager[Moment]:
        return self._reader.now(collections, deadline)

    @guarded
    def as_of(self, sequence: int) -> Past:
        """The store at an earlier revision, the last sequence of a transaction. Reading it costs what came since.

        Raises FeedCompacted, CursorAhead, InvalidQuery.
        """
        check_revision(self._core, sequence, self._feed.head)
        return Past(self, sequence)

    @guarded
    def glimpse(self, sequence: int) -> Glimpse:
        """A few records at an earlier revision. Reading one costs what was written to it since. Raises as `as_of`."""
        check_revision(self._core, sequence, self._feed.head)
        return Glimpse(self, sequence)

    def snapshot(self) -> Past:
        """The store as it is now, for several reads of one consistent moment."""
        return Past(self, self.head().sequence)

    @guarded
    def collections(self) -> list[CollectionInfo]:
        """The collections that have live records."""
        return self._reader.collections()

    @guarded
    def commit(
        self,
        mutations: Sequence[Mutation],
        *,
        preconditions: Sequence[Precondition] = (),
        fences: Sequence[str] = (),
        transaction_id: str | None = None,
        payload_hash: bytes | None = None,
        actor: Actor = values.NOBODY,
        at_ms: int | None = None,
        deadline: float | None = None,
    ) -> CommitResult:
        """Commit all mutations or none, and answer once that is durable. `fences` are tokens of `read_basis`.

        A known `transaction_id` with the same payload gives the first outcome, `duplicate` set. `deadline` is in
        `time.monotonic()` seconds. Raises InvalidKey, InvalidValue, PreconditionFailed, RecordNotFound, FenceBroken,
        IdempotencyConflict, TransactionTooLarge, DeadlineExceeded and the storage errors, each saying whether it is
        committed.
        """
        self._refuse_read_only()
        request = requests.build(
            mutations,
            preconditions,
            fences,
            store_id=self._core.manifest.store_id,
            transaction_id=transaction_id,
            payload_hash=payload_hash,
            actor=actor,
            at_ms=time.time_ns() // 1_000_000 if at_ms is None else at_ms,
            max_payload_bytes=self._max_payload,
        )
        reader = self._reader
        outcome = self._writer.commit(request, deadline)
        reader.check_readers()
        answer = outcome.answer
        if isinstance(answer, Decision):
            return CommitResult(
                transaction_id=transaction_id,
                instance_id=outcome.state.instance.hex(),
                base_revision=outcome.state.sequence,
                revision=outcome.state.sequence + answer.operations,
                sequences=answer.sequences,
                versions=answer.versions,
                at_ms=answer.at_ms,
                duplicate=False,
            )
        try:
            return self._first_outcome(reader, str(transaction_id), answer)
        except lmdb.Error as error:
            raise StoreClosed("The store was closed before it could answer.", committed="unknown") from error

    @guarded
    def transaction(self, transaction_id: str) -> CommitResult | None:
        """The outcome of a transaction id that is remembered, `duplicate` set."""
        reader = self._reader
        known = reader.transaction(transaction_id)
        return None if known is None else self._first_outcome(reader, transaction_id, known)

    def _first_outcome(self, reader: Reader, transaction_id: str, known: StoredTransaction) -> CommitResult:
        return CommitResult(
            transaction_id=transaction_id,
            instance_id=reader.timelines()[known.timeline - 1].instance.hex(),
            base_revision=known.base,
            revision=known.base + known.operations,
            sequences=tuple(range(known.base + 1, known.base + known.operations + 1)),
            versions=known.versions,
            at_ms=known.at_ms,
            duplicate=True,
        )

    @guarded
    def changes(
        self,
        after: Cursor | None,
        *,
        limit: int = 1000,
        collections: Collection[str] | None = None,
        deadline: float | None = None,
    ) -> Changes:
        """Durable operations after a cursor (None = from the start), whole transactions, about `limit` of them.

        Where the deadline passes the page is short: its cursor goes on, `head` is still ahead. Raises FeedCompacted,
        CursorUnknown, CursorAhead.
        """
        return self._feed.changes(after, limit=limit, collections=collections, deadline=deadline)

    @guarded
    def head(self) -> Cursor:
        """The last durable operation."""
        return self._feed.head()

    @guarded
    def start(self) -> Cursor:
        """Before the oldest operation there is."""
        return self._feed.start()

    @guarded
    def wait_for_change(self, after: Cursor, timeout_s: float) -> bool:
        """True as soon as the durable head is beyond the cursor, whoever wrote; False at the time-out."""
        return self._feed.wait_for_change(after, timeout_s)

    @guarded
    def acknowledge_recovery(self) -> None:
        """An operator has seen the last recovery: health is clean again."""
        self._refuse_read_only()
        self._writer.own(
            lambda txn, state: self._writer.append_own(txn, state, frame.ACKNOWLEDGEMENT, b""),
            time.monotonic() + limits.TURN_WAIT_S,
        )

    @guarded
    def health(self) -> Health:
        """What the store observes of itself."""
        return self._reader.health(read_only=self._read_only)


class _Shut:
    """What stands in for the open parts once a store is closed: everything asked of it says why."""

    def __init__(self, why: EngineError) -> None:
        self._why = why

    def __getattr__(self, name: str) -> Any:
        raise type(self._why)(self._why.message)
