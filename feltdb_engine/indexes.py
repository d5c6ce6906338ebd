"""Declared indexes in the view: what they are, and their entries. Maintained by `apply`, built by `building.py`.

All definitions are one JSON value under one key of the unnamed database (`view.INDEXES_KEY`), so that a commit finds
them with one look. An entry, in the database "index":

    key     u32 number of the index (big-endian), a component per field (`ordering.py`), the record's id
    value   u8 length of the components

Every live record of the collection has exactly one entry, also where fields are missing.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from feltdb_engine import limits, view
from feltdb_engine.ordering import component
from feltdb_engine.view import Transaction, View
from feltdb_engine.where import field_of

NUMBER: Final = struct.Struct(">I")
NUMBER_BYTES: Final = NUMBER.size


class Definition(NamedTuple):
    """An index. `progress` is the id up to which a build has come, None once it is complete."""

    number: int
    collection: str
    name: str
    fields: tuple[str, ...]
    progress: str | None

    @property
    def prefix(self) -> bytes:
        """What all its entries begin with."""
        return NUMBER.pack(self.number)


class Catalogue(NamedTuple):
    """All indexes of a store, the next free number, and the numbers whose entries are still to be removed."""

    next_number: int
    definitions: tuple[Definition, ...]
    dropped: tuple[int, ...]

    def find(self, collection: str, name: str) -> Definition | None:
        """The index of that name."""
        return next((one for one in self.definitions if (one.collection, one.name) == (collection, name)), None)

    def replace(self, changed: Definition) -> "Catalogue":
        """The same with one definition changed."""
        return self._replace(
            definitions=tuple(changed if one.number == changed.number else one for one in self.definitions)
        )


class Maintained:
    """A definition ready for use: its entries for a record's value."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._prefix = definition.prefix
        self._reads: list[Callable[[Mapping[str, Any]], Any]] = [field_of(path, "") for path in definition.fields]
        self.text_bytes = text_bytes(len(definition.fields))

    def entry(self, value: Mapping[str, Any], record_id: bytes) -> tuple[bytes, bytes]:
        """Key and value of a record's entry."""
        parts = [self._prefix]
        size = 0
        for read in self._reads:
            part = component(read(value), self.text_bytes)[0]
            parts.append(part)
            size += len(part)
        parts.append(record_id)
        return b"".join(parts), bytes((size,))


def text_bytes(fields: int) -> int:
    """How much of a string an entry keeps: 96 bytes with one or two fields, less with more, to fit LMDB's keys."""
    return min(limits.INDEX_TEXT_BYTES, limits.INDEX_COMPONENTS_BYTES // fields - 2)


def catalogue(txn: Transaction) -> Catalogue:
    """What is declared."""
    return parse(txn.get(view.INDEXES_KEY))


def parse(data: bytes | None) -> Catalogue:
    """The catalogue as the view keeps it."""
    if data is None:
        return Catalogue(1, (), ())
    number, definitions, dropped = orjson.loads(data)
    found = (Definition(n, collection, name, tuple(fields), at) for n, collection, name, fields, at in definitions)
    return Catalogue(number, tuple(found), tuple(dropped))


def store(txn: Transaction, changed: Catalogue) -> None:
    """Keep the catalogue."""
    definitions = [list(one) for one in changed.definitions]
    txn.put(view.INDEXES_KEY, orjson.dumps([changed.next_number, definitions, changed.dropped]))


def maintained(target: View, txn: Transaction) -> Mapping[bytes, list[Maintained]]:
    """The indexes by collection, remembered as long as the catalogue's bytes are the same."""
    data = txn.get(view.INDEXES_KEY)
    if data is None:
        return {}
    known = target.known_indexes
    if known is None or known[0] != data:
        found: dict[bytes, list[Maintained]] = {}
        for one in parse(data).definitions:
            found.setdefault(one.collection.encode(), []).append(Maintained(one))
        target.known_indexes = known = (data, found)
    return known[1]


def change(txn: Transaction, content: bytes) -> None:
    """Apply an index frame: `payload.py` has its layout."""
    said = orjson.loads(content)
    before = catalogue(txn)
    known = before.find(said["collection"], said["name"])
    if said["act"] == "declare":
        live = view.collection(txn, said["collection"].encode())[0]
        made = Definition(
            before.next_number, said["collection"], said["name"], tuple(said["fields"]), "" if live else None
        )
        store(txn, before._replace(next_number=before.next_number + 1, definitions=(*before.definitions, made)))
    elif known is not None:
        kept = tuple(one for one in before.definitions if one is not known)
        store(txn, before._replace(definitions=kept, dropped=(*before.dropped, known.number)))
