"""The records as they were at an earlier revision: what is there now, less what the log says was changed since.

No older values are kept anywhere but in the log. The first operation on a record after the revision tells whether it
was there and names the operation before it, which holds the value. So a moment costs what was written since, and holds
no read transaction between two questions: each looks at the present, and first at what was written since the last.
"""

import heapq
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import lmdb

from feltdb_engine import frame, limits, payload, view
from feltdb_engine.core import Core
from feltdb_engine.errors import (
    CursorAhead,
    DeadlineExceeded,
    EngineError,
    FeedCompacted,
    InvalidKey,
    InvalidQuery,
    ScanLimitExceeded,
    StoreRebuilding,
)
from feltdb_engine.guard import guarded
from feltdb_engine.model import CollectionInfo, Cursor, Record
from feltdb_engine.moment import Moment, record
from feltdb_engine.places import frames_after, operation_of
from feltdb_engine.planner import Access
from feltdb_engine.questions import Questions
from feltdb_engine.values import encode_key
from feltdb_engine.view import Transaction

if TYPE_CHECKING:
    from feltdb_engine.store import Store

_ROUNDS = 3  # of walking the log before the read transaction that answers is opened


class Changed:
    """What was changed after a revision: per collection and id, the operation that held before, 0 = absent then."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.reached = revision
        self._bytes = 0
        self._before: dict[bytes, dict[bytes, int]] = {}
        self._sorted: dict[bytes, list[bytes]] = {}

    def follow(self, core: Core, frames: Iterator[frame.Frame], head: int, deadline: float | None) -> None:
        """Take in what was written up to `head`, from frames of `reached` on. What was taken in before an error stays.

        Raises ScanLimitExceeded, DeadlineExceeded, FeedCompacted.
        """
        while self.reached < head:
            found = next(frames, None)
            if found is None:
                with core.view.read() as txn:
                    floor = view.floor(txn).sequence
                raise FeedCompacted("What was written since is gone.", floor=floor, head=head)
            if found.kind == frame.TRANSACTION and found.last > self.reached:
                self._take(found)
                if deadline is not None and time.monotonic() >= deadline:
                    raise DeadlineExceeded("The deadline passed while what was written since was looked at.")

    def _take(self, found: frame.Frame) -> None:
        self._bytes += len(found.payload)
        if found.last - self.revision > limits.AS_OF_MAX_OPERATIONS or self._bytes > limits.AS_OF_MAX_BYTES:
            raise ScanLimitExceeded(
                "Too much was committed since: this revision is too far back.",
                cursor=None,
                scanned=self.reached - self.revision,
            )
        head = payload.decode_transaction(found.payload, found.operations)
        for one in payload.decode_operations(found.payload, head.offset, found.operations):
            ids = self._before.setdefault(one.collection, {})
            if one.id not in ids:
                ids[one.id] = 0 if one.kind == payload.INSERT else one.previous
                self._sorted.pop(one.collection, None)
        self.reached = found.last

    def of(self, collection: bytes) -> dict[bytes, int]:
        """The operation that held at the revision, by id."""
        return self._before.get(collection, {})

    def there(self, collection: bytes) -> list[bytes]:
        """The ids among them that were there at the revision, in key order."""
        known = self._sorted.get(collection)
        if known is None:
            known = sorted(one for one, sequence in self.of(collection).items() if sequence)
            self._sorted[collection] = known
        return known


class Then(Moment):
    """The records at an earlier revision. Lives as long as the read transaction that it looks at the present with."""

    keeps_index_order = False

    def __init__(self, core: Core, txn: Transaction, changed: Changed) -> None:
        super().__init__(core.view, txn)
        self._core = core
        self._changed = changed
        self._floor = view.floor(txn)

    @property
    def sequence(self) -> int:
        return self._changed.revision

    def counted(self, collection: bytes) -> tuple[int, int]:
        live = super().counted(collection)[0]
        for record_id, before in self._changed.of(collection).items():
            live += bool(before) - (super().record(collection, record_id) is not None)
        return live, self._changed.revision

    def collections(self) -> list[CollectionInfo]:
        """The collections that had live records, in name order."""
        names = [name for name, _, _ in view.collections(self._txn)]
        counts = [(name, self.counted(name)[0]) for name in names]
        return [CollectionInfo(name=name.decode(), records=live) for name, live in counts if live]

    def record(self, collection: bytes, record_id: bytes) -> bytes | None:
        before = self._changed.of(collection).get(record_id)
        if before is None:
            return super().record(collection, record_id)
        return self._logged(before) if before else None

    def _logged(self, sequence: int) -> bytes:
        """The entry an operation made."""
        found = operation_of(self._core, self._txn, self._floor, sequence)
        if found is None or sequence <= self._floor.sequence:
            raise FeedCompacted(
                "A value that this moment needs is gone.", floor=self._floor.sequence, head=self._changed.reached
            )
        transaction, one = found
        return view.ENTRY.pack(one.version, sequence, transaction.at_ms) + one.value

    def entries(
        self, collection: bytes, after: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        before = self._changed.of(collection)
        untouched = (pair for pair in super().entries(collection, after, reverse=reverse) if pair[0] not in before)
        touched = ((one, b"") for one in _beyond(self._changed.there(collection), after, reverse=reverse))
        for record_id, entry in heapq.merge(untouched, touched, key=itemgetter(0), reverse=reverse):
            yield record_id, entry or self._logged(before[record_id])

    def candidates(self, collection: bytes, access: Access, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        before = self._changed.of(collection)
        for pair in super().candidates(collection, access, after):
            if pair[1] not in before:
                yield pair
        for record_id in self._changed.there(collection):
            yield b"", record_id


def _beyond(ids: list[bytes], after: bytes | None, *, reverse: bool) -> Sequence[bytes]:
    if reverse:
        return ids[: None if after is None else bisect_left(ids, after)][::-1]
    return ids[0 if after is None else bisect_right(ids, after) :]


class Past(Questions):
    """A revision of a store that can be asked like the store itself. Threads that share one take turns.

    Raises, beside what the questions do: FeedCompacted where what it needs is gone, ScanLimitExceeded where too much
    was written since.
    """

    def __init__(self, store: "Store", revision: int) -> None:
        """Not for callers: they use `Store.as_of` and `Store.snapshot`."""
        self._store = store
        self._changed = Changed(revision)
        self._turn = threading.Lock()

    @property
    def revision(self) -> int:
        """The sequence everything is told of."""
        return self._changed.revision

    @property
    def store_id(self) -> str:
        return self._store.store_id

    def _recover_from(self, error: StoreRebuilding | lmdb.Error) -> None:
        self._store._recover_from(error)

    def _read_error(self, error: OSError | lmdb.Error) -> EngineError:
        return self._store._read_error(error)

    @contextmanager
    def _moment(self, collections: Sequence[str], deadline: float | None) -> Iterator[Then]:
        if not self._turn.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
            raise DeadlineExceeded("The deadline passed while others asked about this revision.")
        try:
            core = self._store._core
            self._follow(core, deadline)
            with core.view.read() as txn:
                self._changed.follow(core, self._since(core, txn), view.state(txn).sequence, deadline)
                yield Then(core, txn, self._changed)
        finally:
            self._turn.release()

    def _follow(self, core: Core, deadline: float | None) -> None:
        """Come close to the present, so that the read transaction that answers is not held for long."""
        for _ in range(_ROUNDS):
            with core.view.read() as txn:
                head, frames = view.state(txn).sequence, self._since(core, txn)
            if head - self._changed.reached <= limits.AS_OF_INSIDE_OPERATIONS:
                return
            self._changed.follow(core, frames, head, deadline)

    def _since(self, core: Core, txn: Transaction) -> Iterator[frame.Frame]:
        return frames_after(core, txn, view.floor(txn), self._changed.reached)

    @guarded
    def get(self, key: str, *, deadline: float | None = None) -> Record | None:
        """The record as it was, or None. Raises InvalidKey, DeadlineExceeded."""
        return self.get_many([key], deadline=deadline)[0]

    @guarded
    def get_many(self, keys: Sequence[str], *, deadline: float | None = None) -> list[Record | None]:
        """The records as they were, in the order of the keys. Raises InvalidKey, DeadlineExceeded."""
        if len(keys) > limits.GET_MANY_MAX_KEYS:
            raise InvalidKey(f"At most {limits.GET_MANY_MAX_KEYS} keys at once.")
        encoded = [encode_key(key) for key in keys]
        with self._moment((), deadline) as moment:
            entries = [(name, one, moment.record(name, one)) for name, one in encoded]
        return [None if entry is None else record(name.decode(), one, entry) for name, one, entry in entries]

    @guarded
    def collections(self, *, deadline: float | None = None) -> list[CollectionInfo]:
        """The collections that had live records, in name order."""
        with self._moment((), deadline) as moment:
            return moment.collections()


def check_revision(core: Core, sequence: Any, head_of: Callable[[int], Cursor]) -> None:
    """That a revision can be asked about. Raises InvalidQuery, CursorAhead, FeedCompacted."""
    if type(sequence) is not int or sequence < 0:
        raise InvalidQuery("A revision is a sequence.", pointer="/as_of")
    head = head_of(sequence).sequence
    if sequence > head:
        raise CursorAhead("This revision lies beyond the head.", head=head)
    with core.view.read() as txn:
        floor = view.floor(txn)
        if sequence < floor.sequence:
            raise FeedCompacted("This revision is gone.", floor=floor.sequence, head=head)
        frames = frames_after(core, txn, floor, sequence)
    if sequence == head:
        return
    found = next((one for one in frames if one.last > sequence), None)
    if found is not None and found.base < sequence:
        raise InvalidQuery(
            f"{sequence} lies inside a transaction, which goes from {found.base} to {found.last}.", pointer="/as_of"
        )
