"""History of one record, by key: each operation in the log names the sequence of the one before it for that record.

The view's entry names the newest; the feed's index finds a sequence within one stride of the log. So each step costs
the same however long the log is, and no further index is kept.
"""

import time
from dataclasses import dataclass

from feltdb_engine import limits, payload, view
from feltdb_engine.core import Core
from feltdb_engine.errors import CursorAhead, DeadlineExceeded, FeedCompacted, InvalidCursor, InvalidQuery
from feltdb_engine.feed import _operations
from feltdb_engine.model import Operation
from feltdb_engine.places import frame_of
from feltdb_engine.reading import Reader
from feltdb_engine.timeline import Ancestry
from feltdb_engine.values import encode_collection, encode_id


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """Operations of one record, newest first. `next_sequence` goes on from here; None at the first operation kept."""

    operations: tuple[Operation, ...]
    next_sequence: int | None


def history(
    core: Core,
    reader: Reader,
    collection: str,
    record_id: str,
    *,
    limit: int,
    from_sequence: int | None,
    deadline: float | None,
) -> History:
    """Up to `limit` operations of a record, newest first, or from one of its sequences on downwards."""
    if not 1 <= limit <= limits.PAGE_MAX_RECORDS:
        raise InvalidQuery(f"limit is between 1 and {limits.PAGE_MAX_RECORDS}.", pointer="/limit")
    name, identity = encode_collection(collection), encode_id(record_id)
    key = view.record_key(name, identity)
    operations: list[Operation] = []
    size = 0
    until = time.monotonic() + limits.READ_MAX_S
    if deadline is not None:
        until = min(until, deadline)
    with core.view.read() as txn:
        entry = core.view.record(txn, key) or core.view.tombstone(txn, key)
        newest = view.ENTRY.unpack_from(entry)[1] if entry is not None else 0
        ancestry = Ancestry(view.timelines(txn))
        floor = view.floor(txn)
        sequence = newest if from_sequence is None else from_sequence
        if not 0 <= sequence <= newest:
            raise InvalidCursor("This sequence is not one of the record's.")
        while sequence > floor.sequence and len(operations) < limit and size < limits.CHANGES_MAX_BYTES:
            if time.monotonic() >= until:
                break
            found = frame_of(core, txn, floor, sequence)
            if found is None:
                sequence = 0  # a compaction has passed it while we read
                break
            head = payload.decode_transaction(found.payload, found.operations)
            logged = list(payload.decode_operations(found.payload, head.offset, found.operations))
            one = logged[sequence - found.base - 1]
            if (one.collection, one.id) != (name, identity):
                raise InvalidCursor("This sequence is not one of the record's.")
            made = _operations(found, sequence - 1, {name}, ancestry.instance_at(sequence))
            operations.append(made[0])
            size += len(one.value)
            sequence = one.previous
    if not operations and sequence > floor.sequence:
        raise DeadlineExceeded("The deadline passed before an operation was read.", from_sequence=sequence)
    reader.settle(newest, deadline)
    return History(operations=tuple(operations), next_sequence=sequence if sequence > floor.sequence else None)


def transaction_at(
    core: Core, reader: Reader, sequence: int, head: int, *, deadline: float | None
) -> tuple[Operation, ...]:
    """The operations of the transaction that holds a sequence, in order.

    Raises InvalidQuery, CursorAhead, FeedCompacted, DeadlineExceeded.
    """
    if type(sequence) is not int or sequence < 1:
        raise InvalidQuery("An operation's sequence is an integer, 1 or more.", pointer="/sequence")
    if sequence > head:
        raise CursorAhead("This sequence lies beyond the head.", head=head)
    with core.view.read() as txn:
        floor = view.floor(txn)
        found = frame_of(core, txn, floor, sequence) if sequence > floor.sequence else None
        if found is None:
            raise FeedCompacted("This operation is gone.", floor=floor.sequence, head=head)
        instance = Ancestry(view.timelines(txn)).instance_at(found.last)
    reader.settle(found.last, deadline)
    return tuple(_operations(found, found.base, None, instance))


def time_of(core: Core, sequence: int) -> tuple[int, int]:
    """When the transaction that holds a sequence was committed, and its last sequence. Decodes no operation."""
    with core.view.read() as txn:
        floor = view.floor(txn)
        found = frame_of(core, txn, floor, sequence) if sequence > floor.sequence else None
        if found is None:
            raise FeedCompacted("This operation is gone.", floor=floor.sequence, head=view.state(txn).sequence)
        return found.at_ms, found.last
