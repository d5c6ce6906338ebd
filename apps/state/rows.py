"""NDJSON as exports write it and imports read it, cut into batches. Pure.

    {"feltdb_export": 1, "namespace", "instance_id", "revision"}       the first line of an export; imports pass over it
    {"collection", "id", "version", "sequence", "updated_at_ms", "value"}    a record, as the engine exports it
    {"records": 3, "revision": 120, "complete": true}                  the last line; imports pass over it

Of a record an import takes `collection`, `id` and `value`. Batches are cut by what has been read alone, so that the
same lines always make the same batches: a batch is a transaction, whose id names its first row.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from apps.http import strict_json
from apps.http.errors import ApiError
from apps.state import reading
from apps.state.limits import IMPORT_BATCH_BYTES, IMPORT_BATCH_ROWS
from apps.state.reading import invalid
from feltdb_engine import Mutation
from feltdb_engine.importing import Cut

FORMAT = 1
_RECORD = frozenset({"collection", "id", "value", "key", "version", "sequence", "updated_at_ms"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Rows that are committed together. `rows` are their numbers, from 1, in the order of `mutations`."""

    rows: tuple[int, ...]
    mutations: tuple[Mutation, ...]


class BadRow(Exception):
    """A row that cannot be imported: its number, from 1, and why."""

    def __init__(self, row: int, refusal: ApiError) -> None:
        super().__init__(row, refusal.message)
        self.row = row
        self.refusal = refusal


def batches(lines: Iterable[bytes], *, kind: Literal["put", "insert"], collection: str | None) -> Iterator[Batch]:
    """Cut lines into batches; a record that comes twice begins a new one. Raises BadRow for one that is no row."""
    rows: list[int] = []
    mutations: list[Mutation] = []
    cut = Cut(IMPORT_BATCH_ROWS, IMPORT_BATCH_BYTES)
    for number, line in _numbered(lines):
        if not line.strip():
            continue
        try:
            mutation = _mutation(strict_json.loads(line), kind, collection)
        except ApiError as refusal:
            raise BadRow(number, refusal) from refusal
        if mutation is None:
            continue
        if cut.before((mutation.collection, mutation.id), len(line)):
            yield Batch(rows=tuple(rows), mutations=tuple(mutations))
            rows, mutations = [], []
        rows.append(number)
        mutations.append(mutation)
    if rows:
        yield Batch(rows=tuple(rows), mutations=tuple(mutations))


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Number the lines from 1; what reading one raises is about the one after the last."""
    number = 0
    source = iter(lines)
    while True:
        number += 1
        try:
            yield number, next(source)
        except StopIteration:
            return
        except ApiError as refusal:
            raise BadRow(number, refusal) from refusal


def _mutation(row: Any, kind: Literal["put", "insert"], collection: str | None) -> Mutation | None:
    if type(row) is dict and ("feltdb_export" in row or "complete" in row) and "id" not in row:
        return None
    members = reading.an_object(row, "", _RECORD)
    value = members.get("value")
    if type(value) is not dict:
        raise invalid("A row has a value, which is an object.", pointer="/value")
    return Mutation(
        kind=kind,
        collection=reading.collection_name(members.get("collection", collection), pointer="/collection"),
        id=reading.record_id(members.get("id"), pointer="/id"),
        value=value,
    )
