"""The part of `Store` that gives records out as lines of JSON and takes them in."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from feltdb_engine import exporting, limits
from feltdb_engine.importing import Import, ImportReport, Mode, OnBadRow
from feltdb_engine.model import Actor, CommitResult
from feltdb_engine.past import Past
from feltdb_engine.values import NOBODY
from feltdb_engine.walk import Progress


class Transfer:
    """Methods of `Store`."""

    commit: Callable[..., CommitResult]
    _max_payload: int

    def snapshot(self) -> Past:
        """See `Store`."""
        raise NotImplementedError

    def _refuse_read_only(self) -> None:
        raise NotImplementedError

    def export(
        self,
        collections: Sequence[str] | None = None,
        *,
        at: Past | None = None,
        after: str | None = None,
        progress: Progress | None = None,
    ) -> Iterator[bytes]:
        """The records of these collections (None = all) as lines of JSON (`exporting.py`), whole lines some at a time.

        All of one moment: `at` (`as_of`, `snapshot`), or now. `after` is a key to go on from at the same moment.
        `progress(done, total)` is called with records. Raises InvalidKey, FeedCompacted, ScanLimitExceeded.
        """
        return exporting.export(at or self.snapshot(), collections, after, progress)

    def import_ndjson(
        self,
        chunks: Iterable[bytes],
        import_id: str,
        *,
        collection: str | None = None,
        mode: Mode = "put",
        on_bad_row: OnBadRow = "stop",
        batch_lines: int = limits.IMPORT_BATCH_LINES,
        actor: Actor = NOBODY,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Take in lines of JSON (`importing.py`), each once, however often they are imported under the same id.

        `collection` is that of lines which name none. `progress(lines, rows)` is called after each batch. Raises
        InvalidKey, InvalidValue, IdempotencyConflict, and what commits do for other reasons than a row, with
        `details["next_line"]`: all before it is in.
        """
        self._refuse_read_only()
        return Import(
            self.commit,
            import_id,
            collection=collection,
            mode=mode,
            on_bad_row=on_bad_row,
            batch_lines=batch_lines,
            batch_bytes=min(limits.IMPORT_BATCH_BYTES, self._max_payload // 5),
            actor=actor,
            progress=progress,
        ).run(chunks)
