"""Pages of records in key order over one moment. Not here: conditions and orders (`query.py`)."""

import time

from feltdb_engine import limits
from feltdb_engine.errors import DeadlineExceeded, InvalidQuery
from feltdb_engine.model import Page, Record
from feltdb_engine.moment import Moment, record
from feltdb_engine.values import encode_collection, encode_id

_LOOK_EVERY = 64  # records between two looks at the clock


def page(
    moment: Moment, collection: str, *, after: str | None, limit: int, reverse: bool, deadline: float | None
) -> Page:
    """Up to `limit` records, fewer where they are large or the deadline passes; `next_after` then says so."""
    name = encode_collection(collection)
    if not 1 <= limit <= limits.PAGE_MAX_RECORDS:
        raise InvalidQuery(f"limit is between 1 and {limits.PAGE_MAX_RECORDS}.", pointer="/limit")
    start = None if after is None else encode_id(after)
    records: list[Record] = []
    size = 0
    until = float("inf") if deadline is None else deadline
    for record_id, entry in moment.entries(name, start, reverse=reverse):
        if len(records) == limit or size > limits.PAGE_MAX_BYTES:
            return Page(records=tuple(records), next_after=records[-1].id)
        if len(records) % _LOOK_EVERY == 0 and time.monotonic() >= until:
            if not records:
                raise DeadlineExceeded("The deadline passed before a record was read.", cursor=after)
            return Page(records=tuple(records), next_after=records[-1].id)
        size += len(entry)
        records.append(record(collection, record_id, entry))
    return Page(records=tuple(records), next_after=None)
