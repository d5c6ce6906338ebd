"""What a store holds its records to: the declared indexes. Part of `Store`."""

from collections.abc import Sequence

import lmdb

from feltdb_engine.declaring import Declarer
from feltdb_engine.errors import StoreRebuilding
from feltdb_engine.guard import guarded
from feltdb_engine.model import IndexInfo


class Rules:
    """Methods of `Store`; it brings the open parts."""

    _declarer: Declarer

    def _recover_from(self, error: StoreRebuilding | lmdb.PanicError) -> None:
        raise NotImplementedError

    @guarded
    def declare_index(
        self, collection: str, fields: Sequence[str], *, name: str | None = None, until: float | None = None
    ) -> IndexInfo:
        """Declare an index over one to four fields and build it while others read and write; returns once complete.

        `until`, in `time.monotonic()` seconds, leaves a longer build where it has come to. The same declaration again
        changes nothing, and goes on with a build that was left. Raises InvalidQuery.
        """
        self._refuse_read_only()
        return self._declarer.declare(collection, fields, name, until)

    @guarded
    def drop_index(self, collection: str, name: str, *, until: float | None = None) -> bool:
        """Drop an index; False where there is none of that name. What is left to remove at `until` goes later."""
        self._refuse_read_only()
        return self._declarer.drop(collection, name, until)

    @guarded
    def indexes(self, collection: str | None = None) -> list[IndexInfo]:
        """The declared indexes, oldest first."""
        return self._declarer.all(collection)

    def _refuse_read_only(self) -> None:
        raise NotImplementedError
