"""Queries, counts and text search: what callers say is checked here, and answered over one moment (`answering.py`).

A cursor is a position (the sort values and id of the last record given), not a kept result: nothing expires, and writes
shift no rows. It goes on only with the query it came from. An index chooses candidates and may bring their order
(`planner.py`); every candidate is tested against the whole query, so results are the same with and without.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from feltdb_engine import limits, planner
from feltdb_engine.answering import Question, answer, encode_cursor, signature_of
from feltdb_engine.errors import InvalidCursor, InvalidQuery
from feltdb_engine.model import QueryResult
from feltdb_engine.moment import Moment, decoded
from feltdb_engine.order import Order, OrderBy
from feltdb_engine.projection import compile_select
from feltdb_engine.scan import Scan
from feltdb_engine.values import encode_collection, encode_id
from feltdb_engine.where import compile_where


def query(
    moment: Moment,
    collection: str,
    *,
    where: Mapping[str, Any] | None,
    order_by: OrderBy,
    limit: int,
    after: str | None,
    select: Sequence[str] | None,
    scan: Scan,
) -> QueryResult:
    """One page of a query. Raises InvalidQuery, InvalidCursor, and what `answering.answer` does."""
    name = encode_collection(collection)
    _check_limit(limit)
    cut = compile_select(select)
    matches = compile_where(where)
    begin = None if after is None else _parse(after, signature_of(collection, where, order_by))
    asked = Question(collection, name, where, matches, Order(order_by), order_by, limit, begin)
    found = answer(moment, asked, scan)
    if cut is not None:
        found = replace(found, records=tuple(one._replace(value=cut(one.value)) for one in found.records))
    return found


def count(moment: Moment, collection: str, where: Mapping[str, Any] | None, after: str | None, scan: Scan) -> int:
    """How many records match, after a cursor.

    Raises InvalidQuery, InvalidCursor, ScanLimitExceeded and DeadlineExceeded; details of these: `counted` so far,
    and the `cursor` that counts the rest.
    """
    name = encode_collection(collection)
    matches = compile_where(where)
    if where is None:
        return moment.counted(name)[0]
    signature = signature_of(collection, {"count": where}, ())
    begin = _parse(after, signature)
    access = planner.choose(moment.indexes(name), where, ())
    index = None if access is None else [access.by.definition.name, access.by.definition.number]
    if begin is not None and begin[:-1] != [index]:
        raise InvalidCursor("The count went another way than it would now: an index came or went. Count again.")
    counted = 0
    last: bytes | None
    pairs: Iterable[tuple[bytes, bytes]]
    if access is None:
        last = None if begin is None else encode_id(begin[-1])
        pairs = moment.entries(name, last)
    else:
        last = None if begin is None else _from_hex(begin[-1])
        found = moment.candidates(name, access, last or b"")
        pairs = ((key, moment.indexed(name, record_id)) for key, record_id in found)
    for place, _, value in decoded(pairs):
        if not scan.more():
            cursor = None
            if last is not None and (access is None or moment.keeps_index_order):
                cursor = encode_cursor(signature, [index, last.decode() if access is None else last.hex()])
            raise scan.error(cursor, counted=counted)
        counted += matches(value)
        last = place
    return counted


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise InvalidCursor("This cursor does not belong to this count.") from error


def search(moment: Moment, collection: str, text: str, *, limit: int, after: str | None, scan: Scan) -> QueryResult:
    """Records with `text` in any string of their value, whatever its case, in key order; stops at the limit."""
    name = encode_collection(collection)
    if type(text) is not str or not 1 <= len(text) <= limits.SEARCH_TEXT_MAX_CHARS:
        raise InvalidQuery(f"A search has 1 to {limits.SEARCH_TEXT_MAX_CHARS} characters.", pointer="/query")
    _check_limit(limit)
    wanted = text.casefold()
    searched = {"search": text}
    begin = None if after is None else _parse(after, signature_of(collection, searched, ()))
    matches = partial(_says, wanted=wanted)
    return answer(moment, Question(collection, name, searched, matches, Order(()), (), limit, begin), scan)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= limits.QUERY_MAX_RECORDS:
        raise InvalidQuery(f"limit is between 1 and {limits.QUERY_MAX_RECORDS}.", pointer="/limit")


def _says(value: Any, wanted: str) -> bool:
    if type(value) is str:
        return wanted in value.casefold()
    if type(value) is dict:
        return any(_says(member, wanted) for member in value.values())
    return type(value) is list and any(_says(member, wanted) for member in value)


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
