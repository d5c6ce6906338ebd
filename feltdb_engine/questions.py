"""What can be asked of records at one moment: pages, queries, counts, search.

A store answers for now, `past.py` for then.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import lmdb

from feltdb_engine import fences, paging, query
from feltdb_engine.errors import EngineError, StoreRebuilding
from feltdb_engine.guard import guarded
from feltdb_engine.model import Page, Predicate, QueryResult, ReadBasis
from feltdb_engine.moment import Moment
from feltdb_engine.order import OrderBy
from feltdb_engine.scan import Scan


class Questions:
    """Part of `Store` and of `Past`. Each `deadline` is in `time.monotonic()` seconds."""

    @property
    def store_id(self) -> str:
        """See `Store`."""
        raise NotImplementedError

    def _recover_from(self, error: StoreRebuilding | lmdb.Error) -> None:
        raise NotImplementedError

    def _read_error(self, error: OSError | lmdb.Error) -> EngineError:
        raise NotImplementedError

    def _moment(self, collections: Sequence[str], deadline: float | None) -> AbstractContextManager[Moment]:
        """The moment asked about. Left only once all that was seen of the collections is durable."""
        raise NotImplementedError

    @guarded
    def page(
        self,
        collection: str,
        *,
        after: str | None = None,
        limit: int = 100,
        reverse: bool = False,
        deadline: float | None = None,
    ) -> Page:
        """Up to `limit` records in key order, going on after an id, which need not exist.

        Raises InvalidKey, InvalidQuery, DeadlineExceeded.
        """
        with self._moment((collection,), deadline) as moment:
            return paging.page(moment, collection, after=after, limit=limit, reverse=reverse, deadline=deadline)

    @guarded
    def query(
        self,
        collection: str,
        *,
        where: Mapping[str, Any] | None = None,
        order_by: OrderBy = (),
        limit: int = 100,
        after: str | None = None,
        select: Sequence[str] | None = None,
        deadline: float | None = None,
    ) -> QueryResult:
        """Records that match (`where.py`), in key order or by fields, whole or cut to the paths of `select`.

        A page that ran out of budget or time is short and not `exhausted`. Raises InvalidQuery, InvalidCursor, and
        where nothing was found so far ScanLimitExceeded or DeadlineExceeded, with the `cursor` to go on from.
        """
        with self._moment((collection,), deadline) as moment:
            return query.query(
                moment,
                collection,
                where=where,
                order_by=order_by,
                limit=limit,
                after=after,
                select=select,
                scan=Scan(deadline),
            )

    @guarded
    def count(
        self,
        collection: str,
        where: Mapping[str, Any] | None = None,
        *,
        after: str | None = None,
        deadline: float | None = None,
    ) -> int:
        """How many live records match; without a condition, at once.

        Raises InvalidQuery, and ScanLimitExceeded or DeadlineExceeded with what was `counted` so far and the `cursor`
        that counts the rest, given as `after`.
        """
        with self._moment((collection,), deadline) as moment:
            return query.count(moment, collection, where, after, Scan(deadline))

    @guarded
    def search(
        self, collection: str, text: str, limit: int = 100, *, after: str | None = None, deadline: float | None = None
    ) -> QueryResult:
        """Records with `text` in any string of their value, whatever its case, in key order. Raises as `query`."""
        with self._moment((collection,), deadline) as moment:
            return query.search(moment, collection, text, limit=limit, after=after, scan=Scan(deadline))

    @guarded
    def read_basis(
        self, keys: Sequence[str] = (), predicates: Sequence[Predicate] = (), *, deadline: float | None = None
    ) -> ReadBasis:
        """The records at these keys, and a token that fences a commit with them and with what matches the predicates.

        The commit then succeeds only if each record still has that version, or is still absent, and the same records
        match in the same versions. Raises InvalidKey, InvalidQuery, ScanLimitExceeded, DeadlineExceeded.
        """
        names = [*{key.partition(":")[0] for key in keys}, *(one.collection for one in predicates)]
        with self._moment(names, deadline) as moment:
            return fences.basis(moment, self.store_id, keys, predicates, deadline)
