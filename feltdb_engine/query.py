"""Queries: records that match a condition, in key order or by fields, page by page; counts and text search.

A cursor is a position (the sort values and id of the last record given), not a kept result: nothing expires, and writes
shift no rows. It goes on only with the query it came from. An index chooses candidates and may bring their order
(`planner.py`); every candidate is tested against the whole query, so results are the same with and without.
"""

import base64
import hashlib
import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import lmdb
import orjson

from feltdb_engine import indexes, indexscan, limits, planner, view
from feltdb_engine.core import Core
from feltdb_engine.errors import InvalidCursor, InvalidQuery, ScanLimitExceeded
from feltdb_engine.model import QueryResult, Record
from feltdb_engine.order import Order, OrderBy
from feltdb_engine.planner import Access
from feltdb_engine.reading import Reader, record
from feltdb_engine.values import encode_collection, encode_id, loads
from feltdb_engine.view import ENTRY_BYTES, Transaction
from feltdb_engine.where import Test, compile_where


class Querier:
    """Runs queries over an open store."""

    def __init__(self, core: Core, reader: Reader) -> None:
        self._core = core
        self._reader = reader

    def query(
        self,
        collection: str,
        *,
        where: Mapping[str, Any] | None,
        order_by: OrderBy,
        limit: int,
        after: str | None,
    ) -> QueryResult:
        """One page of a query. Raises InvalidQuery, InvalidCursor, ScanLimitExceeded (with a cursor to go on from)."""
        name = encode_collection(collection)
        if not 1 <= limit <= limits.QUERY_MAX_RECORDS:
            raise InvalidQuery(f"limit is between 1 and {limits.QUERY_MAX_RECORDS}.", pointer="/limit")
        matches = compile_where(where)
        order = Order(order_by)
        signature = _signature(collection, where, order_by)
        begin = _parse(after, signature)
        with self._core.view.read() as txn:
            access = planner.choose(self._indexes(txn, name), where, order_by)
            last_write = view.collection(txn, name)[1]
            found = None
            if access is not None and access.mode == "stream":
                found = self._streamed(txn, collection, name, matches, order, limit, begin, signature, access)
            elif access is not None and access.mode == "ids":
                found = self._by_ids(txn, collection, name, matches, limit, begin, signature, access)
            elif order.fields:
                pairs = self._reader.entries(txn, name, None) if access is None else self._pairs(txn, name, access)
                found = self._ordered(pairs, collection, matches, order, limit, begin, signature)
                if access is not None:
                    found = replace(found, plan=_plan(found.plan, access))
            if found is None:
                found = self._in_key_order(txn, collection, name, matches, limit, begin, signature)
        self._reader.settle(last_write)
        return found

    def count(self, collection: str, where: Mapping[str, Any] | None) -> int:
        """How many records match. Raises InvalidQuery, ScanLimitExceeded."""
        name = encode_collection(collection)
        matches = compile_where(where)
        with self._core.view.read() as txn:
            live, last_write, _ = view.collection(txn, name)
            if where is not None:
                access = planner.choose(self._indexes(txn, name), where, ())
                pairs = self._reader.entries(txn, name, None) if access is None else self._pairs(txn, name, access)
                live = 0
                for scanned, (_, entry) in enumerate(pairs):
                    if scanned == limits.SCAN_BUDGET_RECORDS:
                        raise _budget(scanned, None)
                    live += matches(loads(entry[ENTRY_BYTES:]))
        self._reader.settle(last_write)
        return live

    def search(self, collection: str, text: str, *, limit: int, after: str | None) -> QueryResult:
        """Records with `text` in any string of their value, whatever its case, in key order; stops at the limit."""
        name = encode_collection(collection)
        if type(text) is not str or not 1 <= len(text) <= limits.SEARCH_TEXT_MAX_CHARS:
            raise InvalidQuery(f"A search has 1 to {limits.SEARCH_TEXT_MAX_CHARS} characters.", pointer="/query")
        if not 1 <= limit <= limits.QUERY_MAX_RECORDS:
            raise InvalidQuery(f"limit is between 1 and {limits.QUERY_MAX_RECORDS}.", pointer="/limit")
        signature = _signature(collection, {"search": text}, ())
        begin = _parse(after, signature)
        wanted = text.casefold()
        with self._core.view.read() as txn:
            last_write = view.collection(txn, name)[1]
            found = self._in_key_order(
                txn, collection, name, lambda value: _says(value, wanted), limit, begin, signature
            )
        self._reader.settle(last_write)
        return found

    def _indexes(self, txn: Transaction, name: bytes) -> Sequence[indexes.Maintained]:
        return indexes.maintained(self._core.view, txn).get(name, ())

    def _pairs(self, txn: Transaction, name: bytes, access: Access) -> Iterator[tuple[bytes, bytes]]:
        for record_id in indexscan.ids(self._core.view, txn, access):
            yield record_id, self._entry(txn, name, record_id)

    def _entry(self, txn: Transaction, name: bytes, record_id: bytes) -> bytes:
        entry = self._core.view.record(txn, view.record_key(name, record_id))
        if entry is None:
            raise lmdb.CorruptedError("an index names a record that is not there")
        return entry

    def _streamed(
        self,
        txn: Transaction,
        collection: str,
        name: bytes,
        matches: Test,
        order: Order,
        limit: int,
        begin: list[Any] | None,
        signature: str,
        access: Access,
    ) -> QueryResult:
        after = None if begin is None else order.key_of(begin)
        seek = None if begin is None else (order.values_of(begin), encode_id(begin[-1]))
        scanned, stopped = 0, False
        last: tuple[Any, bytes, Any] | None = None  # how far everything was looked at

        def rows() -> Iterator[tuple[bytes, bytes]]:
            nonlocal scanned, stopped, last
            for mark, members in groupby(indexscan.stream(self._core.view, txn, access, seek), itemgetter(0)):
                group: list[tuple[Any, bytes, Any, bytes]] = []
                for _, record_id in members:
                    if scanned == limits.SCAN_BUDGET_RECORDS:
                        stopped = True
                        return
                    scanned += 1
                    entry = self._entry(txn, name, record_id)
                    value = loads(entry[ENTRY_BYTES:])
                    key = order.key(value, record_id.decode())
                    if after is not None and not after < key:
                        continue
                    if mark is not None:
                        group.append((key, record_id, value, entry))
                        continue
                    last = (key, record_id, value)
                    if matches(value):
                        yield record_id, entry
                for key, record_id, value, entry in sorted(group, key=itemgetter(0)):
                    last = (key, record_id, value)
                    if matches(value):
                        yield record_id, entry

        found = [record(collection, *row) for row in islice(rows(), limit + 1)]
        cursor = None
        if len(found) > limit:
            kept = found[limit - 1]
            cursor = _cursor(order.position(kept.value, kept.id), signature)
        elif stopped:
            if last is not None:
                cursor = _cursor(order.position(last[2], last[1].decode()), signature)
            if not found or cursor is None:
                raise _budget(scanned, cursor)
        return _result(found[:limit], cursor, scanned, access)

    def _by_ids(
        self,
        txn: Transaction,
        collection: str,
        name: bytes,
        matches: Test,
        limit: int,
        begin: list[Any] | None,
        signature: str,
        access: Access,
    ) -> QueryResult | None:
        """None where so many would have to be sorted that reading in key order is better."""
        ids = list(islice(indexscan.ids(self._core.view, txn, access), limits.INDEX_SORT_MAX_IDS + 1))
        if len(ids) > limits.INDEX_SORT_MAX_IDS:
            return None
        ids.sort()
        start = 0 if begin is None else bisect_right(ids, encode_id(begin[-1]))
        records: list[Record] = []
        for scanned, record_id in enumerate(ids[start:], 1):
            entry = self._entry(txn, name, record_id)
            if matches(loads(entry[ENTRY_BYTES:])):
                if len(records) == limit:
                    return _result(records, _cursor([records[-1].id], signature), scanned, access)
                records.append(record(collection, record_id, entry))
        return _result(records, None, len(ids) - start, access)

    def _in_key_order(
        self,
        txn: Transaction,
        collection: str,
        name: bytes,
        matches: Test,
        limit: int,
        begin: list[Any] | None,
        signature: str,
    ) -> QueryResult:
        start = None if begin is None else encode_id(begin[-1])
        records: list[Record] = []
        scanned, more, last = 0, False, b""
        for record_id, entry in self._reader.entries(txn, name, start):
            if scanned == limits.SCAN_BUDGET_RECORDS:
                cursor = _cursor([last.decode()], signature)
                if not records:
                    raise _budget(scanned, cursor)
                break
            scanned += 1
            if matches(loads(entry[ENTRY_BYTES:])):
                if len(records) == limit:
                    more = True
                    break
                records.append(record(collection, record_id, entry))
            last = record_id
        stopped = scanned == limits.SCAN_BUDGET_RECORDS and not more
        if more:
            return _result(records, _cursor([records[-1].id], signature), scanned)
        return _result(records, _cursor([last.decode()], signature) if stopped else None, scanned)

    def _ordered(
        self,
        pairs: Iterable[tuple[bytes, bytes]],
        collection: str,
        matches: Test,
        order: Order,
        limit: int,
        begin: list[Any] | None,
        signature: str,
    ) -> QueryResult:
        after = None if begin is None else order.key_of(begin)
        scanned = 0

        def candidates(pairs: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[Any, bytes, bytes]]:
            nonlocal scanned
            for record_id, entry in pairs:
                scanned += 1
                if scanned > limits.SCAN_BUDGET_RECORDS:
                    raise _budget(scanned - 1, None)
                value = loads(entry[ENTRY_BYTES:])
                if matches(value):
                    key = order.key(value, record_id.decode())
                    if after is None or after < key:
                        yield key, record_id, entry

        best = heapq.nsmallest(limit + 1, candidates(pairs), key=itemgetter(0))
        records = [record(collection, record_id, entry) for _, record_id, entry in best[:limit]]
        cursor = None
        if len(best) > limit:
            cursor = _cursor(order.position(records[-1].value, records[-1].id), signature)
        return _result(records, cursor, scanned)


def _budget(scanned: int, cursor: str | None) -> ScanLimitExceeded:
    return ScanLimitExceeded(
        f"The query looked at {scanned} records, the most one call may. Narrow it, or go on from the cursor.",
        cursor=cursor,
        scanned=scanned,
    )


def _says(value: Any, wanted: str) -> bool:
    if type(value) is str:
        return wanted in value.casefold()
    if type(value) is dict:
        return any(_says(member, wanted) for member in value.values())
    return type(value) is list and any(_says(member, wanted) for member in value)


def _plan(plan: Mapping[str, Any], access: Access) -> dict[str, Any]:
    return {"access": "index", "index": access.by.definition.name, "scanned": plan["scanned"]}


def _result(records: list[Record], cursor: str | None, scanned: int, access: Access | None = None) -> QueryResult:
    plan: dict[str, Any] = {"access": "scan", "scanned": scanned}
    return QueryResult(
        records=tuple(records),
        next_cursor=cursor,
        exhausted=cursor is None,
        plan=plan if access is None else _plan(plan, access),
    )


def _signature(collection: str, where: Mapping[str, Any] | None, order_by: OrderBy) -> str:
    """What ties a cursor to its query."""
    text = orjson.dumps([collection, where, [list(one) for one in order_by]], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def _cursor(position: list[Any], signature: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([signature, position])).decode().rstrip("=")


def _parse(cursor: str | None, signature: str) -> list[Any] | None:
    if cursor is None:
        return None
    try:
        if len(cursor) > limits.CURSOR_MAX_CHARS:
            raise ValueError(cursor)
        found, position = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if found != signature or not isinstance(position, list) or type(position[-1]) is not str:
            raise ValueError(cursor)
    except (ValueError, TypeError, IndexError) as error:
        raise InvalidCursor("This cursor does not belong to this query.") from error
    return position
