"""Whether a namespace's store is the one the control plane knows, told by the farthest change both have seen.

When engine and database were rolled back apart (a volume snapshot, a copied directory, a host with data of its own on a
shared database), the store no longer holds that change, or another one in its place. Then nothing may be evaluated:
changes would be passed over, or made into work twice. Not here: what becomes of a mismatch (`walker.py`, `services/`).
"""

from dataclasses import dataclass

from apps.triggers.errors import ControlPlaneMismatch
from apps.triggers.evaluation import pins
from apps.triggers.models import SEQUENCE_NONE, NamespacePosition
from feltdb_engine import Store
from feltdb_engine.errors import CursorAhead, CursorUnknown, FeedCompacted
from feltdb_engine.model import Cursor, Operation


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The farthest change seen. `content_hash` is empty exactly where `sequence` is 0."""

    store_id: str
    instance_id: str
    sequence: int
    content_hash: str


def of_row(row: NamespacePosition) -> Seen:
    """Return what the control plane remembers."""
    return Seen(
        store_id=row.store_id, instance_id=row.instance_id, sequence=row.sequence, content_hash=row.content_hash
    )


def at_head(store: Store) -> Seen | None:
    """Return the store's last durable change; None where history was compacted up to it: only its number is known."""
    head = store.head()
    try:
        last = operation_at(store, head)
    except FeedCompacted:
        return None
    return Seen(
        store_id=store.store_id,
        instance_id=head.instance_id,
        sequence=SEQUENCE_NONE if last is None else last.sequence,
        content_hash="" if last is None else last.content_hash,
    )


def advanced(seen: Seen, cursor: Cursor, last: Operation | None) -> Seen:
    """Return what was seen after a page that ended at `cursor` with operation `last`."""
    if last is None or last.sequence <= seen.sequence:
        return seen
    return Seen(
        store_id=seen.store_id,
        instance_id=cursor.instance_id,
        sequence=last.sequence,
        content_hash=last.content_hash,
    )


def nothing_seen(store: Store) -> Seen:
    """Return the position of a database that has seen no change of a store, on its present timeline."""
    return Seen(store_id=store.store_id, instance_id=store.head().instance_id, sequence=SEQUENCE_NONE, content_hash="")


def check(seen: Seen, store: Store) -> None:
    """Compare with what the store holds. Raises `ControlPlaneMismatch`; history that was compacted tells nothing."""
    if seen.store_id != store.store_id:
        raise ControlPlaneMismatch(
            "the namespace's directory holds another store than the one this database knows",
            expected_store_id=seen.store_id,
            store_id=store.store_id,
        )
    if seen.sequence == SEQUENCE_NONE:
        return
    try:
        found = operation_at(store, Cursor(instance_id=seen.instance_id, sequence=seen.sequence))
    except FeedCompacted:
        return
    except (CursorAhead, CursorUnknown):
        found = None
    if found is None or found.sequence != seen.sequence or found.content_hash != seen.content_hash:
        raise ControlPlaneMismatch(
            f"change {seen.sequence}, which this database has seen, is not in the store any more: "
            "store and database were rolled back apart",
            sequence=seen.sequence,
            head=store.head().sequence,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
    """What a store says of itself to a database: its head, and how far it was told that it had been seen."""

    seen: Seen
    told: int


def meeting(store: Store, namespace: str, *, now_ms: int) -> Meeting:
    """Read what `changing.meet` needs, before its transaction; compares with what is remembered.

    Where history was compacted up to the head, the last change is known by nothing but its number: then what is
    remembered stays. Raises `ControlPlaneMismatch`.
    """
    told = pins.told(store, now_ms=now_ms)
    row = NamespacePosition.objects.filter(pk=namespace).first()
    if row is not None:
        check(of_row(row), store)
    seen = at_head(store) or (nothing_seen(store) if row is None else of_row(row))
    return Meeting(seen=seen, told=told)


def check_told(seen: Seen, told: int) -> None:
    """Compare with how far the store was told that its database had seen it. Raises `ControlPlaneMismatch`."""
    if told > seen.sequence:
        raise ControlPlaneMismatch(
            f"the store was told that change {told} was seen, and this database has seen no more than {seen.sequence}: "
            "the database was put back to an earlier state",
            sequence=seen.sequence,
            told=told,
        )


def operation_at(store: Store, cursor: Cursor) -> Operation | None:
    """Return the operation a cursor ends at, or the next there is; None where there is none. Raises as the feed."""
    if cursor.sequence == SEQUENCE_NONE:
        return None
    before = Cursor(instance_id=cursor.instance_id, sequence=cursor.sequence - 1)
    operations = store.changes(before, limit=1).operations
    return operations[0] if operations else None
