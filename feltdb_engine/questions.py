"""The querying half of a store's face: queries, counts, search and the indexes that serve them."""

from collections.abc import Mapping, Sequence
from typing import Any

import lmdb

from feltdb_engine.declaring import Declarer
from feltdb_engine.errors import ReadOnlyStore, StoreRebuilding
from feltdb_engine.guard import guarded
from feltdb_engine.model import IndexInfo, QueryResult
from feltdb_engine.order import OrderBy
from feltdb_engine.query import Querier


class Questions:
    """Part of `Store`."""

    _querier: Querier
    _declarer: Declarer
    _read_only: bool

    def _recover_from(self, error: StoreRebuilding | lmdb.PanicError) -> None:
        raise NotImplementedError

    @guarded
    def query(
        self,
        collection: str,
        *,
        where: Mapping[str, Any] | None = None,
        order_by: OrderBy = (),
        limit: int = 100,
        after: str | None = None,
    ) -> QueryResult:
        """Records that match (`where.py`), in key order or by fields.

        Raises InvalidQuery, InvalidCursor, ScanLimitExceeded.
        """
        return self._querier.query(collection, where=where, order_by=order_by, limit=limit, after=after)

    @guarded
    def count(self, collection: str, where: Mapping[str, Any] | None = None) -> int:
        """How many live records match; without a condition, at once. Raises InvalidQuery, ScanLimitExceeded."""
        return self._querier.count(collection, where)

    @guarded
    def search(self, collection: str, text: str, limit: int = 100, *, after: str | None = None) -> QueryResult:
        """Records with `text` in any string of their value, whatever its case, in key order.

        Raises InvalidQuery, InvalidCursor, ScanLimitExceeded.
        """
        return self._querier.search(collection, text, limit=limit, after=after)

    @guarded
    def declare_index(
        self, collection: str, fields: Sequence[str], *, name: str | None = None, until: float | None = None
    ) -> IndexInfo:
        """Declare an index over one to four fields and build it while others read and write; returns once complete.

        `until`, in `time.monotonic()` seconds, leaves a longer build where it has come to. The same declaration again
        changes nothing, and goes on with a build that was left. Raises InvalidQuery.
        """
        self._writable()
        return self._declarer.declare(collection, fields, name, until)

    @guarded
    def drop_index(self, collection: str, name: str, *, until: float | None = None) -> bool:
        """Drop an index; False where there is none of that name. What is left to remove at `until` goes later."""
        self._writable()
        return self._declarer.drop(collection, name, until)

    @guarded
    def indexes(self, collection: str | None = None) -> list[IndexInfo]:
        """The declared indexes, oldest first."""
        return self._declarer.all(collection)

    def _writable(self) -> None:
        if self._read_only:
            raise ReadOnlyStore("The store was opened read-only.")
