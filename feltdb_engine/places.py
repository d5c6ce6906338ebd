"""Finding a place in the log by sequence, with the feed's index: it is never more than one stride away."""

from collections.abc import Iterator
from itertools import islice

from feltdb_engine import frame, payload, view
from feltdb_engine.core import Core
from feltdb_engine.errors import LogCorrupt
from feltdb_engine.frame import Frame
from feltdb_engine.payload import LoggedOperation
from feltdb_engine.view import Floor, Transaction


def frames_after(core: Core, txn: Transaction, floor: Floor, sequence: int) -> Iterator[Frame]:
    """The frames from at or before the one that goes on from `sequence`. Only the place is looked up in `txn`."""
    log, begin = core.log, floor.start.position
    place = core.view.feed_position(txn, sequence, begin)
    log.forget_before(begin)
    return log.frames(floor.start) if place is None else log.frames_from(place)


def frame_of(core: Core, txn: Transaction, floor: Floor, sequence: int) -> Frame | None:
    """The transaction that holds a sequence, None where it has been compacted away. Raises LogCorrupt."""
    for found in frames_after(core, txn, floor, sequence - 1):
        if found.last >= sequence:
            if found.base < sequence and found.kind == frame.TRANSACTION:
                return found
            break
    with core.view.read() as now:
        if sequence <= view.floor(now).sequence:
            return None
    raise LogCorrupt(
        f"The log has no whole frame with sequence {sequence}, although the view names it.",
        segment=None,
        offset=None,
        sequence=sequence,
    )


def operation_of(core: Core, txn: Transaction, floor: Floor, sequence: int) -> tuple[Frame, LoggedOperation] | None:
    """The operation with a sequence and the transaction it is of, None where compacted away. Raises LogCorrupt."""
    found = frame_of(core, txn, floor, sequence)
    if found is None:
        return None
    head = payload.decode_transaction(found.payload, found.operations)
    place = sequence - found.base - 1
    logged = payload.decode_operations(found.payload, head.offset, found.operations)
    return found, next(islice(logged, place, None))
