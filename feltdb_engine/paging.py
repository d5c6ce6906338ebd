"""Pages of records in key order over one moment. Not here: conditions and orders (`query.py`)."""

import time

from feltdb_engine import limits
from feltdb_engine.errors import DeadlineExceeded, InvalidQuery
from feltdb_engine.model import Page, Record
from feltdb_engine.moment import Moment, records
from feltdb_engine.values import encode_collection, encode_id


def page(
    moment: Moment, collection: str, *, after: str | None, limit: int, reverse: bool, deadline: float | None
) -> Page:
    """Up to `limit` records, fewer where they are large or the deadline passes; `next_after` then says so."""
    name = encode_collection(collection)
    if not 1 <= limit <= limits.PAGE_MAX_RECORDS:
        raise InvalidQuery(f"limit is between 1 and {limits.PAGE_MAX_RECORDS}.", pointer="/limit")
    start = None if after is None else encode_id(after)
    found: list[Record] = []
    size = 0
    until = float("inf") if deadline is None else deadline
    for skip, chunk in moment.chunks(name, start, reverse=reverse, most=limit + 1):
        late = time.monotonic() >= until
        if late and not found:
            raise DeadlineExceeded("The deadline passed before a record was read.", cursor=after)
        if late or len(found) == limit or size > limits.PAGE_MAX_BYTES:
            return Page(records=tuple(found), next_after=found[-1].id)
        room = limit - len(found)
        more, taken = records(collection, chunk[:room], skip)
        found += more
        size += taken
        if room < len(chunk):
            return Page(records=tuple(found), next_after=found[-1].id)
    return Page(records=tuple(found), next_after=None)
