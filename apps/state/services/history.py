"""What became of one record over time: its operations, newest first, and the one it owes its present state to."""

from dataclasses import dataclass

from apps.http.errors import ApiError
from apps.state import cursors
from apps.state.calls import Call
from apps.state.inputs import PageRequest
from apps.state.services.doors import may_read
from apps.state.services.records import not_found
from apps.state.stores import store
from feltdb_engine import Operation


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """Operations of one record, newest first, and the cursor to older ones; None at the oldest that is kept."""

    operations: tuple[Operation, ...]
    next_cursor: str | None
    revision: int


def past(call: Call, collection: str, record_id: str, wanted: PageRequest) -> Past:
    """Return a page of the record's history. Raises NOT_FOUND where there never was one, INVALID_CURSOR."""
    may_read(call, collection)
    opened = store(call.namespace)
    bound_to = cursors.binding("history", call.namespace, collection, record_id)
    position = cursors.decode_number(bound_to, wanted.cursor)
    revision = opened.head().sequence
    found = opened.history(collection, record_id, wanted.limit, from_sequence=position, deadline=call.read_until)
    if not found.operations and position is None and opened.get(f"{collection}:{record_id}") is None:
        raise not_found()
    following = None if found.next_sequence is None else str(found.next_sequence)
    return Past(operations=found.operations, next_cursor=cursors.encode(bound_to, following), revision=revision)


def provenance(call: Call, collection: str, record_id: str) -> tuple[Operation, int]:
    """Return the record's last operation, a delete included, and the state's position.

    Raises NOT_FOUND where there never was one, FEED_COMPACTED where the record is older than what the feed keeps.
    """
    may_read(call, collection)
    opened = store(call.namespace)
    revision = opened.head().sequence
    found = opened.provenance(collection, record_id)
    if found is None and opened.get(f"{collection}:{record_id}") is None:
        raise not_found()
    if found is None:
        raise ApiError("FEED_COMPACTED", "The record's last write is older than what the feed keeps.")
    return found, revision
