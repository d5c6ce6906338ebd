"""How a query is answered over one moment: along an index, by gathered ids, in key order, or by keeping the best.

Every way looks at records through a `Scan`: where it says no, a page with what was found, and a cursor, is the answer;
where nothing was found, a refusal with the cursor. Not here: checking what callers say (`query.py`).
"""

import base64
import hashlib
import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from feltdb_engine import limits, planner
from feltdb_engine.model import JSON, QueryResult, Record
from feltdb_engine.moment import Moment, decoded, values, with_value
from feltdb_engine.order import Order, OrderBy
from feltdb_engine.planner import Access
from feltdb_engine.scan import Scan
from feltdb_engine.values import encode_id
from feltdb_engine.where import Test


class Question(NamedTuple):
    """A query, checked. `begin` is the position it goes on from: order values, then the id."""

    collection: str
    name: bytes
    where: Mapping[str, Any] | None
    matches: Test
    order: Order
    order_by: OrderBy
    limit: int
    begin: list[Any] | None

    @property
    def signature(self) -> str:
        """What ties its cursors to it."""
        return signature_of(self.collection, self.where, self.order_by)

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


def signature_of(collection: str, asked: Any, order_by: OrderBy) -> str:
    """What ties a cursor to its query."""
    text = orjson.dumps([collection, asked, [list(one) for one in order_by]], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def encode_cursor(signature: str, position: list[Any]) -> str:
    """The opaque form of a position, bound to what has that signature."""
    return base64.urlsafe_b64encode(orjson.dumps([signature, position])).decode().rstrip("=")


def answer(moment: Moment, asked: Question, scan: Scan) -> QueryResult:
    """One page. Raises ScanLimitExceeded and DeadlineExceeded."""
    access = planner.choose(moment.indexes(asked.name), asked.where, asked.order_by)
    if access is not None and access.mode == "stream" and moment.keeps_index_order:
        if access.ordered:
            return _streamed(moment, asked, scan, access)
        after = asked.after_id  # every component is fixed: its entries lie in the order of their ids
        places = moment.candidates(asked.name, access, b"" if after is None else access.fixed + after)
        return _through(moment.indexed_all(asked.name, places), asked, scan, access)
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
    matches, limit = asked.matches, asked.limit
    records: list[Record] = []
    last: tuple[bytes, Any] | None = None  # how far everything was looked at
    marked: bytes | None = None
    group: list[tuple[Any, bytes, bytes, Any]] = []  # shares its mark, and is still to be sorted

    def take(rows: Iterable[tuple[Any, bytes, bytes, Any]]) -> None:
        nonlocal last
        for _, record_id, entry, value in rows:
            last = (record_id, value)
            if matches(value):
                records.append(with_value(asked.collection, record_id, entry, value))

    for mark, record_id, entry, value in _looked_up(moment, asked.name, moment.stream(access, seek)):
        if group and mark != marked:
            take(sorted(group, key=itemgetter(0)))
            group.clear()
        if len(records) > limit:
            break
        if not scan.more():
            cursor = asked.unmoved if last is None else asked.cursor(order.position(last[1], last[0].decode()))
            return _so_far(records, cursor, scan, access)
        if mark is None and after is None:
            last = (record_id, value)
            if matches(value):
                records.append(with_value(asked.collection, record_id, entry, value))
            continue
        key = order.key(value, record_id.decode())
        if after is not None and not after < key:
            continue
        if mark is None:
            take(((key, record_id, entry, value),))
        else:
            marked = mark
            group.append((key, record_id, entry, value))
    take(sorted(group, key=itemgetter(0)))
    if len(records) > limit:
        return _page(records[:limit], asked.cursor_at(records[limit - 1]), scan, access)
    return _page(records, None, scan, access)


def _looked_up(
    moment: Moment, name: bytes, marked: Iterator[tuple[bytes | None, bytes]]
) -> Iterator[tuple[bytes | None, bytes, bytes, Any]]:
    """Mark, id, entry and value of what an index names, decoded some at a time."""
    while chunk := list(islice(marked, limits.READ_CHUNK_RECORDS)):
        entries = [entry for _, entry in moment.indexed_all(name, iter(chunk))]
        for (mark, record_id), entry, value in zip(chunk, entries, values(entries), strict=True):
            yield mark, record_id, entry, value


def _by_ids(moment: Moment, asked: Question, scan: Scan, access: Access) -> QueryResult | None:
    """None where so many would have to be sorted that reading in key order is better."""
    gathered = islice(moment.candidates(asked.name, access), limits.INDEX_SORT_MAX_IDS + 1)
    ids = [record_id for _, record_id in gathered]
    if len(ids) > limits.INDEX_SORT_MAX_IDS:
        return None
    ids.sort()
    after = asked.after_id
    start = 0 if after is None else bisect_right(ids, after)
    return _through(
        moment.indexed_all(asked.name, ((b"", record_id) for record_id in ids[start:])), asked, scan, access
    )


def _in_key_order(moment: Moment, asked: Question, scan: Scan) -> QueryResult:
    return _through(moment.entries(asked.name, asked.after_id), asked, scan, None)


def _through(pairs: Iterator[tuple[bytes, bytes]], asked: Question, scan: Scan, access: Access | None) -> QueryResult:
    """The first that match of pairs in key order."""
    found: list[Record] = []
    collection, matches, limit, more = asked.collection, asked.matches, asked.limit, scan.more
    last = asked.after_id
    for record_id, entry, value in decoded(pairs):
        if not more():
            return _so_far(found, None if last is None else asked.cursor([last.decode()]), scan, access)
        if matches(value):
            if len(found) == limit:
                return _page(found, asked.cursor([found[-1].id]), scan, access)
            found.append(with_value(collection, record_id, entry, value))
        last = record_id
    return _page(found, None, scan, access)


def _best(moment: Moment, asked: Question, scan: Scan, access: Access | None) -> QueryResult:
    """The first ones in order, of all there are: nothing can be said before all were looked at."""
    order = asked.order
    after = None if asked.begin is None else order.key_of(asked.begin)

    def keyed() -> Iterator[tuple[Any, bytes, bytes, Any]]:
        for record_id, entry, value in decoded(_all(moment, asked.name, access)):
            if not scan.more():
                raise scan.error(None)
            if asked.matches(value):
                key = order.key(value, record_id.decode())
                if after is None or after < key:
                    yield key, record_id, entry, value

    best = heapq.nsmallest(asked.limit + 1, keyed(), key=itemgetter(0))
    records = [with_value(asked.collection, *row) for _, *row in best[: asked.limit]]
    cursor = asked.cursor_at(records[-1]) if len(best) > asked.limit else None
    return _page(records, cursor, scan, access)


def _all(moment: Moment, name: bytes, access: Access | None) -> Iterable[tuple[bytes, bytes]]:
    if access is None:
        return moment.entries(name, None)
    return moment.indexed_all(name, moment.candidates(name, access))


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
