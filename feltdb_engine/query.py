"""Queries by scan: records that match a condition, in key order or by fields, page by page.

A cursor is a position (the sort values and id of the last record given), not a kept result: nothing expires, and writes
shift no rows. It goes on only with the query it came from. Indexes come in here, where candidates are chosen.
"""

import base64
import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from feltdb_engine import limits, view
from feltdb_engine.core import Core
from feltdb_engine.errors import InvalidCursor, InvalidQuery, ScanLimitExceeded
from feltdb_engine.model import QueryResult, Record
from feltdb_engine.reading import Reader, record
from feltdb_engine.values import encode_collection, encode_id, loads
from feltdb_engine.view import ENTRY_BYTES
from feltdb_engine.where import MISSING, compile_where, field_of

OrderBy = Sequence[tuple[str, str]]


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
        order = _Order(order_by)
        signature = _signature(collection, where, order_by)
        begin = _parse(after, signature)
        if order.fields:
            return self._ordered(collection, name, matches, order, limit, begin, signature)
        return self._in_key_order(collection, name, matches, limit, begin, signature)

    def _in_key_order(
        self, collection: str, name: bytes, matches: Any, limit: int, begin: Any, signature: str
    ) -> QueryResult:
        start = None if begin is None else encode_id(begin[-1])
        records: list[Record] = []
        scanned, more, last = 0, False, b""
        with self._core.view.read() as txn:
            last_write = view.collection(txn, name)[1]
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
        self._reader.settle(last_write)
        stopped = scanned == limits.SCAN_BUDGET_RECORDS and not more
        if more:
            return _result(records, _cursor([records[-1].id], signature), scanned)
        return _result(records, _cursor([last.decode()], signature) if stopped else None, scanned)

    def _ordered(
        self,
        collection: str,
        name: bytes,
        matches: Any,
        order: "_Order",
        limit: int,
        begin: Any,
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

        with self._core.view.read() as txn:
            last_write = view.collection(txn, name)[1]
            best = heapq.nsmallest(
                limit + 1, candidates(self._reader.entries(txn, name, None)), key=lambda item: item[0]
            )
        self._reader.settle(last_write)
        records = [record(collection, record_id, entry) for _, record_id, entry in best[:limit]]
        cursor = None
        if len(best) > limit:
            cursor = _cursor(order.position(records[-1]), signature)
        return _result(records, cursor, scanned)


def _budget(scanned: int, cursor: str | None) -> ScanLimitExceeded:
    return ScanLimitExceeded(
        f"The query looked at {scanned} records, the most one call may. Narrow it, or go on from the cursor.",
        cursor=cursor,
        scanned=scanned,
    )


def _result(records: list[Record], cursor: str | None, scanned: int) -> QueryResult:
    return QueryResult(
        records=tuple(records),
        next_cursor=cursor,
        exhausted=cursor is None,
        plan={"access": "scan", "scanned": scanned},
    )


class _Order:
    """An order over records: fields, then the id. Missing, null, false, true, numbers, strings, then the rest."""

    def __init__(self, order_by: OrderBy) -> None:
        if len(order_by) > limits.ORDER_BY_MAX_FIELDS:
            raise InvalidQuery(f"At most {limits.ORDER_BY_MAX_FIELDS} fields to order by.", pointer="/order_by")
        self.fields = []
        for index, (path, direction) in enumerate(order_by):
            if direction not in ("asc", "desc"):
                raise InvalidQuery("The directions are asc and desc.", pointer=f"/order_by/{index}")
            self.fields.append((field_of(path, f"/order_by/{index}"), direction == "desc"))

    def position(self, last: Record) -> list[Any]:
        """What a cursor keeps: per field [value] or [] where it is missing, then the id."""
        found: list[Any] = []
        for read, _ in self.fields:
            value = read(last.value)
            found.append([] if value is MISSING else [value])
        return [*found, last.id]

    def key_of(self, kept: list[Any]) -> tuple[Any, ...]:
        """The sort key of a cursor's position."""
        if len(kept) != len(self.fields) + 1:
            raise InvalidCursor("This cursor does not belong to this query.")
        given = [one[0] if one else MISSING for one in kept[:-1]]
        return self._build(given, kept[-1])

    def key(self, value: Mapping[str, Any], record_id: str) -> tuple[Any, ...]:
        """The sort key of a record."""
        return self._build([read(value) for read, _ in self.fields], record_id)

    def _build(self, found: list[Any], record_id: str) -> tuple[Any, ...]:
        parts = [
            _Descending(_rank(one)) if descending else _rank(one)
            for one, (_, descending) in zip(found, self.fields, strict=True)
        ]
        return (*parts, record_id.encode())


class _Descending:
    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: "_Descending") -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.key == other.key)

    __hash__ = None  # type: ignore[assignment]


def _rank(value: Any) -> tuple[int, Any]:
    if value is MISSING:
        return (0, 0)
    if value is None:
        return (1, 0)
    if type(value) is bool:
        return (2, value)
    if type(value) in (int, float):
        return (3, value)
    if type(value) is str:
        return (4, value)
    return (5, orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


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
