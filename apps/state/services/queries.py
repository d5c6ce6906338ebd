"""Queries and searches over one collection. How they are planned and bounded is the engine's business."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from apps.http.errors import ApiError
from apps.state import cursors
from apps.state.asking import Query, Search
from apps.state.calls import Call
from apps.state.services.doors import may_read
from apps.state.stores import store
from feltdb_engine import QueryResult, Record
from feltdb_engine.errors import ScanLimitExceeded


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Records that match, their values cut to the selection, how they were found, and where to go on."""

    records: tuple[Record, ...]
    next_cursor: str | None
    exhausted: bool
    plan: Mapping[str, Any]
    revision: int
    count: int | None = None


def run(call: Call, wanted: Query) -> Found:
    """Return one page. Raises INVALID_QUERY, INVALID_CURSOR, SCAN_LIMIT_EXCEEDED (with the cursor to go on from)."""
    may_read(call, wanted.collection)
    opened = store(call.namespace)
    bound_to = cursors.binding("query", call.namespace, wanted.collection, wanted.where, wanted.order_by)
    revision = opened.head().sequence
    after = cursors.decode(bound_to, wanted.cursor)
    with _bounded(bound_to):
        count = opened.count(wanted.collection, wanted.where) if wanted.count else None
        if not wanted.limit:
            return Found(records=(), next_cursor=None, exhausted=not count, plan={}, revision=revision, count=count)
        result = opened.query(
            wanted.collection,
            where=wanted.where,
            order_by=wanted.order_by,
            limit=wanted.limit,
            after=after,
            select=wanted.select,
        )
    return replace(_found(result, bound_to, revision), count=count)


def search(call: Call, collection: str, wanted: Search) -> Found:
    """Return records with the text in any string, in key order, stopping at the limit. Raises as `run` does."""
    may_read(call, collection)
    opened = store(call.namespace)
    bound_to = cursors.binding("search", call.namespace, collection, wanted.text)
    revision = opened.head().sequence
    after = cursors.decode(bound_to, wanted.cursor)
    with _bounded(bound_to):
        result = opened.search(collection, wanted.text, wanted.limit, after=after)
    return _found(result, bound_to, revision)


@contextmanager
def _bounded(bound_to: bytes) -> Iterator[None]:
    """Give the refusal of a scan that is too long its cursor, where there is one to go on from."""
    try:
        yield
    except ScanLimitExceeded as error:
        cursor = cursors.encode(bound_to, error.details.get("cursor"))
        further = "go on from next_cursor, or narrow it" if cursor else "narrow it, or declare an index"
        raise ApiError(
            "SCAN_LIMIT_EXCEEDED", f"This reads more than one request may; {further}.", next_cursor=cursor
        ) from error


def _found(result: QueryResult, bound_to: bytes, revision: int) -> Found:
    return Found(
        records=result.records,
        next_cursor=cursors.encode(bound_to, result.next_cursor),
        exhausted=result.exhausted,
        plan=result.plan,
        revision=revision,
    )
