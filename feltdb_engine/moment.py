"""One consistent moment of the records, as pages, queries and counts see it. Here: the present, a read transaction.

Not here: an earlier moment (`past.py`), which answers to the same methods.
"""

from collections.abc import Callable, Iterator, Sequence

import lmdb

from feltdb_engine import indexes, indexscan, view
from feltdb_engine.model import Record
from feltdb_engine.planner import Access
from feltdb_engine.values import loads
from feltdb_engine.view import ENTRY, ENTRY_BYTES, Transaction, View

_unpack = ENTRY.unpack_from
# Records are made by the ten thousand: past the keyword constructor, in the order of the fields.
_new: Callable[..., Record] = tuple.__new__


class Moment:
    """The records as a read transaction sees them. Lives as long as it; not for threads to share."""

    keeps_index_order = True

    def __init__(self, target: View, txn: Transaction) -> None:
        self._view = target
        self._txn = txn

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
        return self._view.record(self._txn, view.record_key(collection, record_id))

    def entries(
        self, collection: bytes, after: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Id and entry of the live records of a collection in key order, after an id."""
        prefix = collection + b"\0"
        skip = len(prefix)
        with self._txn.cursor(db=self._view.records) as cursor:
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
            if there:
                for key, entry in pairs:
                    if not key.startswith(prefix):
                        return
                    yield key[skip:], entry

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


def record(collection: str, record_id: bytes, entry: bytes) -> Record:
    """The record an entry holds."""
    version, sequence, at_ms = _unpack(entry)
    return _new(Record, (collection, record_id.decode(), version, sequence, at_ms, loads(entry[ENTRY_BYTES:])))
