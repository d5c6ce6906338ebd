"""How a query is answered over one moment: along an index, by gathered ids, in key order, or by keeping the best.

Every way looks at records through a `Scan`: where it says no, a page with what was found, and a cursor, is the answer;
where nothing was found, a refusal with the cursor. Not here: checking what callers say (`query.py`).
"""

import base64
import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from feltdb_engine import limits, planner
from feltdb_engine.model import JSON, QueryResult, Record
from feltdb_engine.moment import Moment, record
from feltdb_engine.order import Order
from feltdb_engine.planner import Access
from feltdb_engine.scan import Scan
from feltdb_engine.values import encode_id, loads
from feltdb_engine.view import ENTRY_BYTES
from feltdb_engine.where import Test


class Question(NamedTuple):
    """A query, checked. `begin` is the position it goes on from: order values, then the id."""

    collection: str
    name: bytes
    where: Any
    matches: Test
    order: Order
    order_by: Any
    limit: int
    begin: list[Any] | None
    signature: str

    def cursor(self, position: list[Any]) -> str:
        """The opaque form of a position, bound to this query."""
        return encode_cursor(self.signature, position)

    def cursor_at(self, one: Record) -> str:
        """The cursor that goes on after a record."""
        return self.cursor(self.order.position(one.value, one.id))

    @property
    def after_id(self) -> bytes | None:
        """The id the position ends with."""
        return None if self.begin is None else encode_id(self.begin[-1])

    @property
    def unmoved(self) -> str | None:
        """The cursor the query came with."""
        return None if self.begin is None else self.cursor(self.begin)


def encode_cursor(signature: str, position: list[Any]) -> str:
    """The opaque form of a position, bound to what has that signature."""
    return base64.urlsafe_b64encode(orjson.dumps([signature, position])).decode().rstrip("=")


def answer(moment: Moment, asked: Question, scan: Scan) -> QueryResult:
    """One page. Raises ScanLimitExceeded and DeadlineExceeded."""
    access = planner.choose(moment.indexes(asked.name), asked.where, asked.order_by)
    if access is not None and access.mode == "stream" and moment.keeps_index_order:
        return _streamed(moment, asked, scan, access)
    if asked.order.fields:
        return _best(moment, asked, scan, access)
    if access is not None:
        found = _by_ids(moment, asked, scan, access)
        if found is not None:
            return found
    return _in_key_order(moment, asked, scan)


def _streamed(moment: Moment, asked: Question, scan: Scan, access: Access) -> QueryResult:
    order, begin = asked.order, asked.begin
    after = None if begin is None else order.key_of(begin)
    seek = None if begin is None else (order.values_of(begin), encode_id(begin[-1]))
    stopped = False
    last: tuple[bytes, Any] | None = None  # how far everything was looked at

    def rows() -> Iterator[tuple[bytes, bytes]]:
        nonlocal stopped, last
        for mark, members in groupby(moment.stream(access, seek), itemgetter(0)):
            group: list[tuple[Any, bytes, Any, bytes]] = []
            for _, record_id in members:
                if not scan.more():
                    stopped = True
                    return
                entry = moment.indexed(asked.name, record_id)
                value = loads(entry[ENTRY_BYTES:])
                key = order.key(value, record_id.decode())
                if after is not None and not after < key:
                    continue
                if mark is not None:
                    group.append((key, record_id, value, entry))
                    continue
                last = (record_id, value)
                if asked.matches(value):
                    yield record_id, entry
            for _, record_id, value, entry in sorted(group, key=itemgetter(0)):
                last = (record_id, value)
                if asked.matches(value):
                    yield record_id, entry

    found = [record(asked.collection, *row) for row in islice(rows(), asked.limit + 1)]
    if len(found) > asked.limit:
        return _page(found[: asked.limit], asked.cursor_at(found[asked.limit - 1]), scan, access)
    if not stopped:
        return _page(found, None, scan, access)
    cursor = asked.unmoved if last is None else asked.cursor(order.position(last[1], last[0].decode()))
    return _so_far(found, cursor, scan, access)


def _by_ids(moment: Moment, asked: Question, scan: Scan, access: Access) -> QueryResult | None:
    """None where so many would have to be sorted that reading in key order is better."""
    gathered = islice(moment.candidates(asked.name, access), limits.INDEX_SORT_MAX_IDS + 1)
    ids = [record_id for _, record_id in gathered]
    if len(ids) > limits.INDEX_SORT_MAX_IDS:
        return None
    ids.sort()
    after = asked.after_id
    start = 0 if after is None else bisect_right(ids, after)
    pairs = ((record_id, moment.indexed(asked.name, record_id)) for record_id in ids[start:])
    return _through(pairs, asked, scan, access)


def _in_key_order(moment: Moment, asked: Question, scan: Scan) -> QueryResult:
    return _through(moment.entries(asked.name, asked.after_id), asked, scan, None)


def _through(pairs: Iterator[tuple[bytes, bytes]], asked: Question, scan: Scan, access: Access | None) -> QueryResult:
    """The first that match of pairs in key order."""
    records: list[Record] = []
    last = asked.after_id
    for record_id, entry in pairs:
        if not scan.more():
            return _so_far(records, None if last is None else asked.cursor([last.decode()]), scan, access)
        if asked.matches(loads(entry[ENTRY_BYTES:])):
            if len(records) == asked.limit:
                return _page(records, asked.cursor([records[-1].id]), scan, access)
            records.append(record(asked.collection, record_id, entry))
        last = record_id
    return _page(records, None, scan, access)


def _best(moment: Moment, asked: Question, scan: Scan, access: Access | None) -> QueryResult:
    """The first ones in order, of all there are: nothing can be said before all were looked at."""
    order = asked.order
    after = None if asked.begin is None else order.key_of(asked.begin)

    def keyed() -> Iterator[tuple[Any, bytes, bytes]]:
        for record_id, entry in _all(moment, asked.name, access):
            if not scan.more():
                raise scan.error(None)
            value = loads(entry[ENTRY_BYTES:])
            if asked.matches(value):
                key = order.key(value, record_id.decode())
                if after is None or after < key:
                    yield key, record_id, entry

    best = heapq.nsmallest(asked.limit + 1, keyed(), key=itemgetter(0))
    records = [record(asked.collection, record_id, entry) for _, record_id, entry in best[: asked.limit]]
    cursor = asked.cursor_at(records[-1]) if len(best) > asked.limit else None
    return _page(records, cursor, scan, access)


def _all(moment: Moment, name: bytes, access: Access | None) -> Iterable[tuple[bytes, bytes]]:
    if access is None:
        return moment.entries(name, None)
    return ((record_id, moment.indexed(name, record_id)) for _, record_id in moment.candidates(name, access))


def _so_far(records: list[Record], cursor: str | None, scan: Scan, access: Access | None) -> QueryResult:
    """A page cut short; nothing at all is a refusal, so that nobody takes it for an end."""
    if not records:
        raise scan.error(cursor)
    return _page(records, cursor, scan, access)


def _page(records: list[Record], cursor: str | None, scan: Scan, access: Access | None) -> QueryResult:
    plan: dict[str, JSON] = {"access": "scan"}
    if access is not None:
        plan = {"access": "index", "index": access.by.definition.name}
    plan["scanned"] = scan.scanned
    return QueryResult(records=tuple(records), next_cursor=cursor, exhausted=cursor is None, plan=plan)
