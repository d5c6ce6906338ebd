"""One consistent moment of the records, as pages, queries and counts see it. Here: the present, a read transaction.

Not here: an earlier moment (`past.py`), which answers to the same methods.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import lmdb

from feltdb_engine import indexes, indexscan, limits, view
from feltdb_engine.model import Record
from feltdb_engine.planner import Access
from feltdb_engine.values import loads
from feltdb_engine.view import ENTRY, ENTRY_BYTES, Transaction, View

T = TypeVar("T")
# Keys and entries, and how many bytes of each key come before the id.
Chunk: TypeAlias = tuple[int, list[tuple[bytes, bytes]]]
_unpack = ENTRY.unpack_from
# Records are made by the ten thousand: past the keyword constructor, in the order of the fields.
_new: Callable[..., Record] = tuple.__new__


class Moment:
    """The records as a read transaction sees them. Lives as long as it; not for threads to share."""

    keeps_index_order = True

    def __init__(self, target: View, txn: Transaction) -> None:
        self._view = target
        self._txn = txn
        self._get = txn.get
        self._records = target.records

    @property
    def sequence(self) -> int:
        """The revision seen."""
        return view.state(self._txn).sequence

    @property
    def instance(self) -> bytes:
        """The timeline the store is on."""
        return view.state(self._txn).instance

    def counted(self, collection: bytes) -> tuple[int, int]:
        """How many live records a collection has, and the sequence its answers rest on."""
        live, last_write, _ = view.collection(self._txn, collection)
        return live, last_write

    def record(self, collection: bytes, record_id: bytes) -> bytes | None:
        """The entry of a live record."""
        return self._get(collection + b"\0" + record_id, None, self._records)

    def entries(
        self, collection: bytes, after: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Id and entry of the live records of a collection in key order, after an id."""
        for skip, chunk in self._chunks(collection, after, reverse, sys.maxsize):
            for key, entry in chunk:
                yield key[skip:], entry

    def chunks(self, collection: bytes, after: bytes | None, *, reverse: bool, most: int) -> Iterator[Chunk]:
        """The first of the same, some at a time."""
        pairs = islice(self.entries(collection, after, reverse=reverse), most)
        while chunk := list(islice(pairs, limits.READ_CHUNK_RECORDS)):
            yield 0, chunk

    def _chunks(self, collection: bytes, after: bytes | None, reverse: bool, most: int) -> Iterator[Chunk]:
        prefix = collection + b"\0"
        skip = len(prefix)
        with self._txn.cursor(db=self._records) as cursor:
            if reverse:
                bound = prefix + after if after is not None else collection + b"\1"
                there = cursor.set_range(bound)
                there = cursor.prev() if there else cursor.last()
                pairs = cursor.iterprev(keys=True, values=True)
            else:
                bound = prefix + (after or b"")
                there = cursor.set_range(bound)
                if there and after is not None and cursor.key() == bound:
                    there = cursor.next()
                pairs = cursor.iternext(keys=True, values=True)
            pairs = islice(pairs, most)
            while there and (chunk := list(islice(pairs, limits.READ_CHUNK_RECORDS))):
                there = chunk[-1][0].startswith(prefix)  # keys are sorted: the last one tells of all
                yield skip, chunk if there else [pair for pair in chunk if pair[0].startswith(prefix)]

    def indexes(self, collection: bytes) -> Sequence[indexes.Maintained]:
        """The indexes a query may be planned with."""
        return indexes.maintained(self._view, self._txn).get(collection, ())

    def candidates(self, _collection: bytes, access: Access, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Index key and id of all an access leads to, after an index key, in the order of the keys."""
        return indexscan.ids(self._view, self._txn, access, after)

    def stream(
        self, access: Access, after: tuple[Sequence[object], bytes] | None
    ) -> Iterator[tuple[bytes | None, bytes]]:
        """See `indexscan.stream`."""
        return indexscan.stream(self._view, self._txn, access, after)

    def indexed(self, collection: bytes, record_id: bytes) -> bytes:
        """The entry of a record an index names."""
        entry = self.record(collection, record_id)
        if entry is None:
            raise lmdb.CorruptedError("an index names a record that is not there")
        return entry

    def indexed_all(
        self, collection: bytes, places: Iterator[tuple[bytes | None, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Id and entry of each record an index names."""
        for _, record_id in places:
            yield record_id, self.indexed(collection, record_id)


class Present(Moment):
    """The present, and nothing else: it is read in fewer steps for each record."""

    def chunks(self, collection: bytes, after: bytes | None, *, reverse: bool, most: int) -> Iterator[Chunk]:
        return self._chunks(collection, after, reverse, most)

    def indexed_all(
        self, collection: bytes, places: Iterator[tuple[bytes | None, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        get, of, prefix = self._get, self._records, collection + b"\0"
        for _, record_id in places:
            entry = get(prefix + record_id, None, of)
            yield record_id, self.indexed(collection, record_id) if entry is None else entry


def decoded(pairs: Iterable[tuple[T, bytes]]) -> Iterator[tuple[T, bytes, Any]]:
    """Each name (an id, say) and entry, and the entry's value, decoded some at a time."""
    rest = iter(pairs)
    while chunk := list(islice(rest, limits.READ_CHUNK_RECORDS)):
        for (name, entry), value in zip(chunk, values([entry for _, entry in chunk]), strict=True):
            yield name, entry, value


def values(entries: Sequence[bytes]) -> list[Any]:
    """The values of entries. One parse of many takes much less than many parses."""
    found: list[Any] = loads(b"[" + b",".join([entry[ENTRY_BYTES:] for entry in entries]) + b"]")
    return found


def record(collection: str, record_id: bytes, entry: bytes) -> Record:
    """The record an entry holds."""
    return with_value(collection, record_id, entry, loads(entry[ENTRY_BYTES:]))


def with_value(collection: str, record_id: bytes, entry: bytes, value: Any) -> Record:
    """The record an entry holds, whose value was decoded before."""
    version, sequence, at_ms = _unpack(entry)
    return _new(Record, (collection, record_id.decode(), version, sequence, at_ms, value))


def records(collection: str, pairs: Sequence[tuple[bytes, bytes]], skip: int) -> tuple[list[Record], int]:
    """The records of keys and entries, and the bytes of their values; an id begins after `skip` bytes of its key."""
    text = b"[" + b",".join([entry[ENTRY_BYTES:] for _, entry in pairs]) + b"]"
    found = [
        _new(Record, (collection, key[skip:].decode(), version, sequence, at_ms, value))
        for (key, entry), value in zip(pairs, loads(text), strict=True)
        for version, sequence, at_ms in (_unpack(entry),)
    ]
    return found, len(text)
