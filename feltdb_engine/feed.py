"""The feed: every committed operation in order, read from the log. Only what is durable is ever given.

A transaction is never split over pages. Waiting is bounded polling of a shared word, so it works across processes.
"""

import time
from collections.abc import Callable, Collection, Iterator
from typing import NoReturn

from feltdb_engine import frame, limits, payload, positions, view
from feltdb_engine.core import Core
from feltdb_engine.durability import Durability
from feltdb_engine.errors import FeedCompacted, InvalidQuery, LogCorrupt
from feltdb_engine.frame import Frame
from feltdb_engine.model import Changes, Cursor, Operation, OperationKind
from feltdb_engine.places import frames_after
from feltdb_engine.timeline import Ancestry
from feltdb_engine.values import decode_actor, encode_collection, loads

_KINDS: dict[int, OperationKind] = {
    payload.INSERT: "insert",
    payload.UPDATE: "update",
    payload.DELETE: "delete",
}
# Operations are made by the ten thousand: past the keyword constructor, in the order of the fields.
_new: Callable[..., Operation] = tuple.__new__


class Feed:
    """The feed of an open store."""

    def __init__(self, core: Core, durability: Durability) -> None:
        self._core = core
        self._words = core.words
        self._durability = durability

    def head(self, wanted: int = 0) -> Cursor:
        """The last durable operation of this timeline; `wanted` is waited for where it is written already."""
        return Cursor(instance_id=self._ancestry().current.hex(), sequence=self._durability.head(wanted))

    def start(self) -> Cursor:
        """Before the oldest operation there is."""
        with self._core.view.read() as txn:
            current, floor = Ancestry(view.timelines(txn)).current, view.floor(txn).sequence
        return Cursor(instance_id=current.hex(), sequence=floor)

    def _ancestry(self) -> Ancestry:
        with self._core.view.read() as txn:
            return Ancestry(view.timelines(txn))

    def changes(
        self,
        after: Cursor | None,
        *,
        limit: int,
        collections: Collection[str] | None,
        deadline: float | None,
    ) -> Changes:
        """The durable operations after a cursor, whole transactions, about `limit` of them, of some collections."""
        if not 1 <= limit <= limits.CHANGES_MAX_OPERATIONS:
            raise InvalidQuery(f"limit is between 1 and {limits.CHANGES_MAX_OPERATIONS}.", pointer="/limit")
        wanted = None if collections is None else {encode_collection(name) for name in collections}
        head = self._durability.head(0 if after is None else after.sequence, deadline)
        with self._core.view.read() as txn:
            ancestry = Ancestry(view.timelines(txn))
            floor = view.floor(txn)
            sequence, rewound_from = (floor.sequence, None) if after is None else ancestry.resolve(after, head)
            _refuse_below(floor, sequence, head)
            frames = frames_after(self._core, txn, floor, sequence) if sequence < head else iter(())
        operations: list[Operation] = []
        if sequence < head:
            sequence = self._collect(operations, frames, sequence, head, limit, wanted, ancestry, deadline)
        return Changes(
            operations=tuple(operations),
            cursor=Cursor(instance_id=ancestry.current.hex(), sequence=sequence),
            head=head,
            floor=floor.sequence,
            rewound_from=rewound_from,
        )

    def _collect(
        self,
        operations: list[Operation],
        frames: Iterator[Frame],
        after: int,
        head: int,
        limit: int,
        wanted: set[bytes] | None,
        ancestry: Ancestry,
        deadline: float | None,
    ) -> int:
        """Gather operations after a sequence; gives the sequence reached."""
        size, reached = 0, after
        for found in frames:
            if found.last <= after:
                continue
            if found.base >= head:
                break
            if operations and len(operations) + found.operations > limit:
                break
            if reached > after and size + len(found.payload) > limits.CHANGES_MAX_BYTES:
                break
            if deadline is not None and reached > after and time.monotonic() >= deadline:
                break
            if found.kind == frame.TRANSACTION:
                size += len(found.payload)
                operations += _operations(found, after, wanted, ancestry.instance_at(found.last))
            reached = found.last
            if reached >= head:
                break
        if reached == after:
            self._missing(after, head)
        return reached

    def _missing(self, after: int, head: int) -> NoReturn:
        """A compaction may have passed while we read; anything else is damage."""
        with self._core.view.read() as txn:
            _refuse_below(view.floor(txn), after, head)
        raise LogCorrupt(
            f"The log has no whole frame after sequence {after}, although it was durable.",
            segment=None,
            offset=None,
            sequence=after + 1,
        )

    def wait_for_change(self, after: Cursor, timeout_s: float) -> bool:
        """True as soon as the durable head is beyond the cursor, False at the time-out."""
        words, durability = self._words, self._durability
        deadline = time.monotonic() + timeout_s
        sequence, _ = self._ancestry().resolve(after, durability.head(after.sequence, deadline))
        pause = limits.FEED_POLL_MIN_S
        while durability.published() <= sequence:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            written = words[positions.WRITTEN_SEQUENCE]
            if written > sequence and pause >= limits.FEED_POLL_MAX_S:
                durability.head(written, deadline)
            time.sleep(min(pause, left))
            pause = min(pause * 1.25, limits.FEED_POLL_MAX_S)
        return True


def _refuse_below(floor: view.Floor, sequence: int, head: int) -> None:
    if sequence < floor.sequence:
        raise FeedCompacted("The history after this cursor is gone.", floor=floor.sequence, head=head)


def _operations(found: Frame, after: int, wanted: set[bytes] | None, instance: bytes) -> list[Operation]:
    """The operations of a frame, each held against its content hash."""
    head = payload.decode_transaction(found.payload, found.operations)
    actor = decode_actor(head.actor)
    transaction_id = head.id.decode() if head.id else None
    instance_id, at_ms = instance.hex(), found.at_ms
    names: dict[bytes, str] = {}
    operations: list[Operation] = []
    for sequence, good, kind, flags, version, digest, collection, record_id, value in payload.checked_operations(
        found.payload,
        head.offset,
        found.operations,
        instance=instance,
        base=found.base,
        transaction_id=head.id,
        at_ms=at_ms,
    ):
        if sequence <= after or (wanted is not None and collection not in wanted):
            continue
        if not good:
            raise LogCorrupt(
                f"The content of operation {sequence} is not what was committed.",
                segment=None,
                offset=None,
                sequence=sequence,
            )
        name = names.get(collection)
        if name is None:
            name = names[collection] = collection.decode()
        members = (
            sequence,
            instance_id,
            transaction_id,
            _KINDS[kind],
            name,
            record_id.decode(),
            version,
            0 if flags & payload.NO_PREVIOUS_VERSION else version - 1,
            loads(value),
            digest.hex(),
            at_ms,
            actor,
        )
        operations.append(_new(Operation, members))
    return operations
