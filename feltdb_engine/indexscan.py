"""Walking an index: ids in the order of its keys, forwards or group by group backwards. Not here: reading records."""

from collections.abc import Iterator, Sequence
from typing import Any

from feltdb_engine.indexes import NUMBER_BYTES
from feltdb_engine.ordering import AFTER, component, group_end
from feltdb_engine.planner import Access
from feltdb_engine.view import Transaction, View


def ids(target: View, txn: Transaction, access: Access, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """Index keys and ids in all ranges, after an index key, in the order of the keys."""
    with txn.cursor(db=target.index) as cursor:
        for low, high in access.ranges:
            if high > after and cursor.set_range(max(low, after)):
                for key, sizes in cursor.iternext():
                    if key >= high:
                        break
                    if key > after:
                        yield key, key[NUMBER_BYTES + sizes[0] :]


def stream(
    target: View, txn: Transaction, access: Access, after: tuple[Sequence[Any], bytes] | None
) -> Iterator[tuple[bytes | None, bytes]]:
    """Marker and id in the order of at least one field, from at or before the position `after` (ordered values, id).

    Neighbours with the same marker share what the index kept of their values and are still to be sorted; those with
    None come in their final order.
    """
    if not access.ranges:
        return
    low, high = access.ranges[0]
    group, seek = (b"", b"") if after is None else _position(access, *after)
    with txn.cursor(db=target.index) as cursor:
        if not access.reverse:
            yield from _forward(cursor, access, max(low, seek), high)
            return
        bound = min(high, group + AFTER) if group else high
        while cursor.prev() if cursor.set_range(bound) else cursor.last():
            last = cursor.key()
            if last < low:
                return
            bound = last[: group_end(last, len(access.fixed), access.ordered, access.by.text_bytes)[0]]
            start = seek if seek.startswith(bound) else bound
            yield from _forward(cursor, access, start, bound + AFTER)


def _forward(cursor: Any, access: Access, start: bytes, high: bytes) -> Iterator[tuple[bytes | None, bytes]]:
    base, ordered, text_bytes = len(access.fixed), access.ordered, access.by.text_bytes
    if not cursor.set_range(start):
        return
    for key, sizes in cursor.iternext():
        if key >= high:
            return
        whole = NUMBER_BYTES + sizes[0]
        end, lossy = group_end(key, base, ordered, text_bytes)
        yield (key[:end] if lossy or end != whole else None), key[whole:]


def _position(access: Access, values: Sequence[Any], record_id: bytes) -> tuple[bytes, bytes]:
    """The group a position lies in, and the key to seek for it."""
    group = access.fixed
    for value in values:
        part, lossy = component(value, access.by.text_bytes)
        group += part
        if lossy:
            return group, group
    return group, group + record_id if _covers(access) else group


def _covers(access: Access) -> bool:
    """Whether what is fixed and what is ordered make up the whole index."""
    at, components = NUMBER_BYTES, 0
    while at < len(access.fixed):
        at = group_end(access.fixed, at, 1, access.by.text_bytes)[0]
        components += 1
    return components + access.ordered == len(access.by.definition.fields)
