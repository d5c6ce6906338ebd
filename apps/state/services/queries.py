"""Queries and searches over one collection. How they are planned and bounded is the engine's business."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from apps.http import budget
from apps.http.errors import ApiError
from apps.state import cursors
from apps.state.asking import Basis, Query, Search
from apps.state.calls import Call
from apps.state.services.doors import may_read
from apps.state.stores import store
from feltdb_engine import QueryResult, ReadBasis, Record
from feltdb_engine.errors import DeadlineExceeded, ScanLimitExceeded
from feltdb_engine.questions import Questions


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
    """Return one page, of now or of an earlier revision.

    Raises INVALID_QUERY, INVALID_CURSOR, FEED_COMPACTED and CURSOR_AHEAD for a revision that is not there, and
    SCAN_LIMIT_EXCEEDED or the deadline's refusal, with the cursor to go on from, where nothing was found in time.
    """
    may_read(call, wanted.collection)
    opened = store(call.namespace)
    bound_to = cursors.binding(
        "query", call.namespace, wanted.collection, wanted.where, wanted.order_by, *_revision(wanted)
    )
    revision = opened.head().sequence if wanted.as_of is None else wanted.as_of
    asked = opened if wanted.as_of is None else opened.as_of(wanted.as_of)
    after, until = cursors.decode(bound_to, wanted.cursor), call.read_until
    count = _count(asked, wanted, until) if wanted.count else None
    if not wanted.limit:
        return Found(records=(), next_cursor=None, exhausted=not count, plan={}, revision=revision, count=count)
    with _bounded(bound_to):
        result = asked.query(
            wanted.collection,
            where=wanted.where,
            order_by=wanted.order_by,
            limit=wanted.limit,
            after=after,
            select=wanted.select,
            deadline=until,
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
        result = opened.search(collection, wanted.text, wanted.limit, after=after, deadline=call.read_until)
    return _found(result, bound_to, revision)


def basis(call: Call, wanted: Basis) -> ReadBasis:
    """Read records and conditions, and return the token that fences a commit with them. Raises as `run` does."""
    for collection in {*(name for name, _ in wanted.records), *(each.collection for each in wanted.predicates)}:
        may_read(call, collection)
    keys = [f"{collection}:{record_id}" for collection, record_id in wanted.records]
    with _bounded(None):
        return store(call.namespace).read_basis(keys, wanted.predicates, deadline=call.read_until)


def _revision(wanted: Query) -> tuple[int, ...]:
    return () if wanted.as_of is None else (wanted.as_of,)


def _count(asked: Questions, wanted: Query, until: float) -> int:
    """Count all that match, part by part: the scan budget of one call is not a bound, the deadline is."""
    counted, after = 0, None
    while True:
        try:
            return counted + asked.count(wanted.collection, wanted.where, after=after, deadline=until)
        except ScanLimitExceeded as error:
            counted += error.details["counted"]
            after = error.details["cursor"]


@contextmanager
def _bounded(bound_to: bytes | None) -> Iterator[None]:
    """Give the refusal of a scan that is too long its cursor, where there is one to go on from."""
    try:
        yield
    except (ScanLimitExceeded, DeadlineExceeded) as error:
        position = error.details.get("cursor")
        cursor = None if bound_to is None else cursors.encode(bound_to, position)
        if isinstance(error, DeadlineExceeded):
            raise budget.late(next_cursor=cursor) from error
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
