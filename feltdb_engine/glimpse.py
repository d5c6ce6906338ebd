"""A few records as they were at an earlier revision, each traced back by itself.

A look costs what was written since to the records it looks at, however much was written to others, and so reaches as
far back as the log does. `past.py` reads all that was written since, once, and then answers everything. Here nothing
is counted, no index helps, and records come in key order only; a look that runs out of time is short and goes on where
it stopped.
"""

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import lmdb

from feltdb_engine import limits, paging, payload, query, view
from feltdb_engine.answering import encode_cursor, signature_of
from feltdb_engine.core import Core
from feltdb_engine.errors import DeadlineExceeded, EngineError, FeedCompacted, StoreRebuilding
from feltdb_engine.frame import Frame
from feltdb_engine.guard import guarded
from feltdb_engine.indexes import Maintained
from feltdb_engine.model import Page, QueryResult, Record
from feltdb_engine.moment import Moment, record
from feltdb_engine.payload import LoggedOperation
from feltdb_engine.places import operation_of
from feltdb_engine.scan import Scan
from feltdb_engine.values import encode_key
from feltdb_engine.view import ENTRY, Transaction, View

if TYPE_CHECKING:
    from feltdb_engine.store import Store


class _Deleted(Moment):
    """The tombstones of a collection in key order, as `entries`."""

    def __init__(self, target: View, txn: Transaction) -> None:
        super().__init__(target, txn)
        self._records = target.tombstones


class Traced(Moment):
    """The records at an earlier revision. `stopped` is the last id looked at where time ran out before the end."""

    keeps_index_order = False

    def __init__(self, core: Core, txn: Transaction, revision: int, until: float) -> None:
        super().__init__(core.view, txn)
        self._core = core
        self._deleted = _Deleted(core.view, txn)
        self._revision = revision
        self._until = until
        self._floor = view.floor(txn)
        self.stopped: bytes | None = None
        if revision < self._floor.sequence:
            raise FeedCompacted("This revision is gone.", floor=self._floor.sequence, head=self.sequence)

    def indexes(self, collection: bytes) -> tuple[Maintained, ...]:
        return ()

    def record(self, collection: bytes, record_id: bytes) -> bytes | None:
        live = super().record(collection, record_id)
        return self._then(record_id, live, self._deleted.record(collection, record_id) if live is None else live)

    def entries(
        self, collection: bytes, after: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """As the present's, up to where time runs out; at least one id is looked at.

        Raises DeadlineExceeded, with its `record_id`, where the first was written too often since.
        """
        live = ((one, entry, entry) for one, entry in super().entries(collection, after, reverse=reverse))
        dead = ((one, None, entry) for one, entry in self._deleted.entries(collection, after, reverse=reverse))
        last: bytes | None = None
        for record_id, now, newest in heapq.merge(live, dead, key=itemgetter(0), reverse=reverse):
            try:
                if last is not None and time.monotonic() >= self._until:
                    raise DeadlineExceeded("The deadline passed between two records.")
                entry = self._then(record_id, now, newest)
            except DeadlineExceeded:
                if last is None:
                    raise
                self.stopped = last
                return
            last = record_id
            if entry is not None:
                yield record_id, entry

    def _then(self, record_id: bytes, live: bytes | None, newest: bytes | None) -> bytes | None:
        """The entry a record had, from the one it has and its newest, which may be a tombstone."""
        if newest is None:
            return None
        version, sequence, _ = ENTRY.unpack_from(newest)
        if sequence <= self._revision:
            return live
        if version == 1:  # the first there ever was: its tombstone would have kept the count
            return None
        while True:
            _, one = self._operation(sequence)
            if one.previous <= self._revision:
                break
            sequence = one.previous
            if time.monotonic() >= self._until:
                why = "was written too often since this revision to be traced back to it in time"
                name = record_id.decode()
                raise DeadlineExceeded(f"The record {name} {why}.", record_id=name)
        if one.kind == payload.INSERT:
            return None
        frame, was = self._operation(one.previous)
        return ENTRY.pack(was.version, one.previous, frame.at_ms) + was.value

    def _operation(self, sequence: int) -> tuple[Frame, LoggedOperation]:
        found = operation_of(self._core, self._txn, self._floor, sequence) if sequence > self._floor.sequence else None
        if found is None:
            raise FeedCompacted(
                "A value that this moment needs is gone.", floor=self._floor.sequence, head=self.sequence
            )
        return found


class Glimpse:
    """A revision of a store of which a few records are asked. Threads may share one.

    Each `deadline` is in `time.monotonic()` seconds. Raises, beside what is said: FeedCompacted where what it needs is
    gone, DeadlineExceeded where a record was written too often since to be traced back in time: with its `record_id`,
    and but for `get` the `cursor` (or `after`) that goes on behind it.
    """

    def __init__(self, store: "Store", revision: int) -> None:
        """Not for callers: they use `Store.glimpse`."""
        self._store = store
        self.revision = revision

    def _recover_from(self, error: StoreRebuilding | lmdb.Error) -> None:
        self._store._recover_from(error)

    def _read_error(self, error: OSError | lmdb.Error) -> EngineError:
        return self._store._read_error(error)

    @contextmanager
    def _moment(self, deadline: float | None) -> Iterator[Traced]:
        held = time.monotonic() + limits.READ_MAX_S
        core = self._store._core
        with core.view.read() as txn:
            yield Traced(core, txn, self.revision, held if deadline is None else min(held, deadline))

    @guarded
    def get(self, key: str, *, deadline: float | None = None) -> Record | None:
        """The record as it was, or None. Raises InvalidKey."""
        name, record_id = encode_key(key)
        with self._moment(deadline) as moment:
            entry = moment.record(name, record_id)
        return None if entry is None else record(name.decode(), record_id, entry)

    @guarded
    def page(
        self, collection: str, *, after: str | None = None, limit: int = 100, deadline: float | None = None
    ) -> Page:
        """Up to `limit` records in key order, fewer, or none, where the deadline passes; `next_after` then goes on.

        Raises InvalidKey, InvalidQuery.
        """
        with self._moment(deadline) as moment, _past_it(lambda record_id: record_id):
            found = paging.page(moment, collection, after=after, limit=limit, reverse=False, deadline=None)
        if found.next_after is None and moment.stopped is not None:
            return replace(found, next_after=moment.stopped.decode())
        return found

    @guarded
    def query(
        self,
        collection: str,
        *,
        where: Mapping[str, Any] | None = None,
        limit: int = 100,
        after: str | None = None,
        deadline: float | None = None,
    ) -> QueryResult:
        """Records that match, in key order; short, or empty, and not `exhausted` where the deadline passes.

        Raises InvalidQuery, InvalidCursor.
        """
        asked = _Asked(collection, where)
        with self._moment(deadline) as moment, _past_it(asked.cursor):
            found = query.query(
                moment,
                collection,
                where=where,
                order_by=(),
                limit=limit,
                after=after,
                select=None,
                scan=Scan(None),
            )
        return asked.going_on(found, moment)

    @guarded
    def search(
        self, collection: str, text: str, limit: int = 100, *, after: str | None = None, deadline: float | None = None
    ) -> QueryResult:
        """Records with `text` in any string of their value, whatever its case; else as `query`."""
        asked = _Asked(collection, {"search": text})
        with self._moment(deadline) as moment, _past_it(asked.cursor):
            found = query.search(moment, collection, text, limit=limit, after=after, scan=Scan(None))
        return asked.going_on(found, moment)


class _Asked(NamedTuple):
    """What ties a cursor to a query in key order."""

    collection: str
    asked: Any

    def cursor(self, record_id: str) -> str:
        return encode_cursor(signature_of(self.collection, self.asked, ()), [record_id])

    def going_on(self, found: QueryResult, moment: Traced) -> QueryResult:
        """The result; where time ran out, with the cursor that goes on after the last id looked at."""
        if not found.exhausted or moment.stopped is None:
            return found
        return replace(found, next_cursor=self.cursor(moment.stopped.decode()), exhausted=False)


@contextmanager
def _past_it(cursor: Callable[[str], str]) -> Iterator[None]:
    """Where a record cannot be traced in time, the refusal says how to go on after it."""
    try:
        yield
    except DeadlineExceeded as late:
        late.details["cursor"] = cursor(late.details["record_id"])
        raise
