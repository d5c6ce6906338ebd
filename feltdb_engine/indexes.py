"""Indexes in the view: what they are, and their entries. Maintained by `apply`, built by `building.py`.

All definitions are one JSON value under one key of the unnamed database (`view.INDEXES_KEY`), so that a commit finds
them with one look. An entry, in the database "index":

    key     u32 number of the index (big-endian), a component per field (`ordering.py`), the record's id
    value   u8 length of the components

Every live record of the collection has exactly one entry in a declared index, also where fields are missing. An exact
index, made by a contract, has 32 bytes of SHA-256 in place of the components, and no entry where a field is missing
or null; queries do not use it. Its name has a colon, which declared ones cannot have.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from feltdb_engine import contract, limits, view
from feltdb_engine.ordering import component
from feltdb_engine.view import Transaction, View
from feltdb_engine.where import field_of

NUMBER: Final = struct.Struct(">I")
NUMBER_BYTES: Final = NUMBER.size
EXACT_BYTES: Final = 32
_EXACT_SIZE: Final = bytes((EXACT_BYTES,))


class Definition(NamedTuple):
    """An index. `progress` is the id up to which a build has come, None once it is complete."""

    number: int
    collection: str
    name: str
    fields: tuple[str, ...]
    progress: str | None

    @property
    def exact(self) -> bool:
        """Whether a contract made it."""
        return ":" in self.name

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

    def entry(self, value: Mapping[str, Any], record_id: bytes) -> tuple[bytes, bytes] | None:
        """Key and value of a record's entry, None where it has none."""
        parts = [self._prefix]
        size = 0
        for read in self._reads:
            part = component(read(value), self.text_bytes)[0]
            parts.append(part)
            size += len(part)
        parts.append(record_id)
        return b"".join(parts), bytes((size,))


class Exact(Maintained):
    """An exact index, ready for use."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        self._content = contract.reader(definition.fields)

    def entry(self, value: Mapping[str, Any], record_id: bytes) -> tuple[bytes, bytes] | None:
        content = self._content(value)
        return None if content is None else (self._prefix + content + record_id, _EXACT_SIZE)


def ready(one: Definition) -> Maintained:
    """A definition made ready."""
    return Exact(one) if one.exact else Maintained(one)


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
            found.setdefault(one.collection.encode(), []).append(ready(one))
        target.known_indexes = known = (data, found)
    return known[1]


def change(txn: Transaction, content: bytes) -> None:
    """Apply an index frame: `payload.py` has its layout."""
    said = orjson.loads(content)
    before = catalogue(txn)
    known = before.find(said["collection"], said["name"])
    if said["act"] == "declare":
        store(txn, _with(txn, before, said["collection"], said["name"], tuple(said["fields"])))
    elif known is not None:
        store(txn, _without(before, known))


def keep_exact(txn: Transaction, needed: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
    """Have these exact indexes, and no others."""
    before = after = catalogue(txn)
    for one in before.definitions:
        if one.exact and (one.collection, one.name) not in needed:
            after = _without(after, one)
    for (collection, name), fields in sorted(needed.items()):
        if after.find(collection, name) is None:
            after = _with(txn, after, collection, name, fields)
    if after is not before:
        store(txn, after)


def _with(txn: Transaction, before: Catalogue, collection: str, name: str, fields: tuple[str, ...]) -> Catalogue:
    live = view.collection(txn, collection.encode())[0]
    made = Definition(before.next_number, collection, name, fields, "" if live else None)
    return before._replace(next_number=before.next_number + 1, definitions=(*before.definitions, made))


def _without(before: Catalogue, known: Definition) -> Catalogue:
    kept = tuple(one for one in before.definitions if one is not known)
    return before._replace(definitions=kept, dropped=(*before.dropped, known.number))


def holders(target: View, txn: Transaction, number: int, content: bytes) -> Iterator[bytes]:
    """The ids in an exact index under a content."""
    prefix = NUMBER.pack(number) + content
    with txn.cursor(db=target.index) as cursor:
        if cursor.set_range(prefix):
            for key in cursor.iternext(values=False):
                if not key.startswith(prefix):
                    return
                yield key[len(prefix) :]
