"""Records from lines of JSON, in transactions, so that an import can be gone on with wherever it was left.

A line is `{"collection", "id", "value"}`; `version`, `sequence` and `updated_at_ms`, which an export has, are passed
over, and so are blank lines. What cannot be kept exactly is a bad row: numbers beyond 64 bits, members given twice.

Lines are taken into batches by what they say alone: up to so many lines or bytes, and a record once. Each batch is one
transaction whose id names the import and its first line, and whose payload hash is that of its lines. The same lines
again under the same import are therefore answered, not written; other lines there are an IDEMPOTENCY_CONFLICT.

A bad row is what is no such line, or what the store refuses (a contract; with `insert`, a record that is there):

    stop    its batch is not written; all before it are. Mend it, and import the same lines again.
    skip    it is left out and told; the rest of its batch is written. Mend it, and import it under another id.

A row that references another one must not come in an earlier batch than it.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import orjson

from feltdb_engine import limits
from feltdb_engine.errors import (
    EngineError,
    InvalidKey,
    InvalidValue,
    PreconditionFailed,
    TransactionTooLarge,
    ValidationFailed,
)
from feltdb_engine.model import Actor, CommitResult, Mutation
from feltdb_engine.values import encode_collection, encode_id, encode_value

Mode = Literal["put", "insert"]
OnBadRow = Literal["stop", "skip"]
Progress = Callable[[int, int], None]
_MEMBERS: Final = frozenset(("collection", "id", "value", "version", "sequence", "updated_at_ms"))


@dataclass(frozen=True, kw_only=True, slots=True)
class BadRow:
    """A line that was not imported. `line` counts from 1; `pointer` leads into it."""

    line: int
    code: str
    message: str
    pointer: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportReport:
    """What became of the lines. Where not `complete`, everything before `next_line` is in, and nothing from there on.

    `rows` were written, now or, `repeated` of them, by an earlier run; `bad_rows` counts all, `bad` holds the first.
    """

    complete: bool
    lines: int
    next_line: int
    rows: int
    repeated: int
    bad_rows: int
    bad: tuple[BadRow, ...]
    revision: int


class Cut:
    """Where lines are cut into batches: a batch has at most so many lines and bytes, and a record once.

    What is cut follows from the lines alone, so that the same lines always make the same batches.
    """

    def __init__(self, max_lines: int, max_bytes: int) -> None:
        self._max_lines, self._max_bytes = max_lines, max_bytes
        self._lines = self._bytes = 0
        self._keys: set[tuple[str, str]] = set()

    def before(self, key: tuple[str, str] | None, size: int) -> bool:
        """Take a line in: the record it is about, None for none, and its bytes. True where a batch begins with it."""
        full = self._lines == self._max_lines or self._bytes + size > self._max_bytes or key in self._keys
        begins = self._lines > 0 and full
        if begins:
            self._lines = self._bytes = 0
            self._keys.clear()
        self._lines += 1
        self._bytes += size
        if key is not None:
            self._keys.add(key)
        return begins


class _Row(NamedTuple):
    line: int
    mutation: Mutation


class _Batch:
    """Lines that go in one transaction."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.rows: list[_Row] = []
        self.bad: list[BadRow] = []
        self.lines = 0
        self.hash = hashlib.sha256()


class Import:
    """One import into a store, by its `commit`."""

    def __init__(
        self,
        commit: Callable[..., CommitResult],
        import_id: str,
        *,
        collection: str | None,
        mode: Mode,
        on_bad_row: OnBadRow,
        batch_lines: int,
        batch_bytes: int,
        actor: Actor,
        progress: Progress | None,
    ) -> None:
        """Raises InvalidKey, InvalidValue."""
        if not 1 <= len(import_id.encode()) <= limits.IMPORT_ID_MAX_BYTES:
            raise InvalidKey(f"An import's id takes 1 to {limits.IMPORT_ID_MAX_BYTES} bytes.")
        if not 1 <= batch_lines <= limits.TRANSACTION_MAX_MUTATIONS:
            raise InvalidValue(f"A batch has 1 to {limits.TRANSACTION_MAX_MUTATIONS} lines.", pointer="/batch")
        if mode not in ("put", "insert") or on_bad_row not in ("stop", "skip"):
            raise InvalidValue("A row is put or inserted; a bad one stops the import or is skipped.", pointer="/mode")
        if collection is not None:
            encode_collection(collection)
        self._commit = commit
        self._id = import_id
        self._collection = collection
        self._mode: Mode = mode
        self._skip = on_bad_row == "skip"
        self._cut = Cut(batch_lines, batch_bytes)
        self._actor = actor
        self._progress = progress
        self._rows = self._repeated = self._bad_rows = self._revision = 0
        self._bad: list[BadRow] = []

    def run(self, chunks: Iterable[bytes]) -> ImportReport:
        """Import all lines; `chunks` is their bytes, cut anywhere.

        Raises IdempotencyConflict where other lines were imported under this id, and what a commit does for other
        reasons than its rows: all before `details["next_line"]` is in then.
        """
        batch = _Batch(1)
        number = 0
        for number, line in enumerate(split(chunks), 1):
            row = self._read(number, line)
            key = (row.mutation.collection, row.mutation.id) if isinstance(row, _Row) else None
            size = len(line or b"") if isinstance(row, _Row) else 0
            if self._cut.before(key, size):
                if not self._write(batch):
                    return self._report(False, number - 1, batch.first)
                batch = _Batch(number)
            batch.lines += 1
            batch.hash.update(b"%d\n" % len(line or b""))
            batch.hash.update(line or b"")
            if isinstance(row, BadRow):
                batch.bad.append(row)
            elif row is not None:
                batch.rows.append(row)
        if batch.lines and not self._write(batch):
            return self._report(False, number, batch.first)
        return self._report(True, number, number + 1)

    def _report(self, complete: bool, lines: int, next_line: int) -> ImportReport:
        return ImportReport(
            complete=complete,
            lines=lines,
            next_line=next_line,
            rows=self._rows,
            repeated=self._repeated,
            bad_rows=self._bad_rows,
            bad=tuple(self._bad),
            revision=self._revision,
        )

    def _tell(self, bad: BadRow) -> None:
        self._bad_rows += 1
        if len(self._bad) < limits.IMPORT_BAD_ROWS_TOLD:
            self._bad.append(bad)

    def _write(self, batch: _Batch) -> bool:
        """Whether the import may go on."""
        rows = batch.rows
        if batch.bad and not self._skip:
            self._tell(batch.bad[0])
            return False
        told = list(batch.bad)
        while rows:
            try:
                done = self._commit(
                    [row.mutation for row in rows],
                    transaction_id=f"{self._id}:{batch.first}",
                    payload_hash=hashlib.sha256(self._mode.encode() + batch.hash.digest()).digest(),
                    actor=self._actor,
                )
            except EngineError as refused:
                bad = list(_bad_rows(refused, rows))
                if not bad:
                    refused.details["next_line"] = batch.first
                    raise
                if not self._skip:
                    self._tell(bad[0])
                    return False
                told += bad
                lines = {one.line for one in bad}
                rows = [row for row in rows if row.line not in lines]
                continue
            # What an earlier run left out is not in the transaction it made.
            self._rows += len(done.versions)
            self._repeated += len(done.versions) if done.duplicate else 0
            self._revision = done.revision
            break
        for one in sorted(told, key=lambda one: one.line):
            self._tell(one)
        if self._progress is not None:
            self._progress(batch.first + batch.lines - 1, self._rows)
        return True

    def _read(self, number: int, line: bytes | None) -> _Row | BadRow | None:
        if line is None:
            message = f"A line takes at most {limits.IMPORT_LINE_MAX_BYTES} bytes."
            return BadRow(line=number, code="LINE_TOO_LONG", message=message, pointer=None)
        if not line.strip():
            return None
        try:
            said = parse(line)
            if not isinstance(said, Mapping) or not set(said) <= _MEMBERS or not {"id", "value"} <= set(said):
                raise InvalidValue("A row is an object with collection, id and value.", pointer="")
            collection, record_id, value = said.get("collection", self._collection), said["id"], said["value"]
            encode_collection(collection)
            encode_id(record_id)
            encode_value(value, "/value")
        except EngineError as fault:
            pointer = fault.details.get("pointer")
            return BadRow(line=number, code=fault.code, message=fault.message, pointer=pointer)
        mutation = Mutation(kind=self._mode, collection=str(collection), id=str(record_id), value=value)
        return _Row(number, mutation)


def _bad_rows(refused: EngineError, rows: list[_Row]) -> Iterator[BadRow]:
    """The rows that are why a transaction was refused; none where it was for another reason."""
    if isinstance(refused, ValidationFailed):
        seen: set[int] = set()
        for error in refused.details["errors"]:
            place = error["mutation"]
            if place not in seen:
                seen.add(place)
                pointer = error["pointer"].removeprefix(f"/mutations/{place}")
                yield BadRow(line=rows[place].line, code=refused.code, message=error["message"], pointer=pointer)
    elif isinstance(refused, PreconditionFailed):
        key = (refused.details["collection"], refused.details["id"])
        line = next(row.line for row in rows if (row.mutation.collection, row.mutation.id) == key)
        yield BadRow(line=line, code=refused.code, message="There is such a record.", pointer=None)
    elif isinstance(refused, TransactionTooLarge) and len(rows) == 1:
        yield BadRow(line=rows[0].line, code=refused.code, message=refused.message, pointer=None)


def split(chunks: Iterable[bytes]) -> Iterator[bytes | None]:
    """Lines, without their ends; None for one that is too long, whose bytes are let go."""
    rest, too_long = b"", False
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield None if too_long or len(line) > limits.IMPORT_LINE_MAX_BYTES else line.removesuffix(b"\r")
            too_long = False
        if len(rest) > limits.IMPORT_LINE_MAX_BYTES:
            rest, too_long = b"", True
    if rest or too_long:
        yield None if too_long or len(rest) > limits.IMPORT_LINE_MAX_BYTES else rest


def parse(line: bytes) -> Any:
    """The JSON of a line, exactly. Raises InvalidValue."""
    try:
        said = orjson.loads(line)
        if orjson.dumps(said) == line:
            return said  # written as we write it, so nothing was rounded or said twice
        return json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"This is not JSON that can be kept exactly: {str(error)[:200]}.", pointer="") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member name is given twice")
    return found
