"""Holding a transaction to the contract: what `decide` asks, pure. What counts is what the transaction leaves behind.

Schemas take time, so they are checked before the turn is taken (`check`), and `decide` only looks the result up; what
is unique or referenced is looked up in exact indexes in the turn. A contract that is being activated counts as well.

Not here: where the contract is kept (`contracts.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from feltdb_engine import limits
from feltdb_engine.contract import Contract, digest, reader
from feltdb_engine.errors import ValidationFailed
from feltdb_engine.indexes import Catalogue
from feltdb_engine.schemas import Breach, Schema
from feltdb_engine.values import loads

Read = Callable[[Mapping[str, Any]], bytes | None]


class Key(NamedTuple):
    """An exact index at work. `target` is the collection a reference names, empty for what is unique."""

    number: int
    fields: tuple[str, ...]
    read: Read
    target: bytes


class Left(NamedTuple):
    """What a mutation leaves of a record: `value` is None where it is gone. `place` is the mutation's."""

    place: int
    collection: bytes
    id: bytes
    value: bytes | None


class Held(Protocol):
    """The state records are held against."""

    def record(self, key: bytes) -> bytes | None:
        """The entry of a live record."""

    def holders(self, number: int, content: bytes) -> Iterable[bytes]:
        """The ids in an exact index under a content."""


class Rules:
    """The contract in force, and the one being activated, ready for `decide`. `identity` changes whenever they do."""

    def __init__(self, identity: bytes, contracts: Sequence[Contract], catalogue: Catalogue) -> None:
        self.identity = identity
        self.schemas: dict[bytes, list[Schema]] = {}
        self.keys: dict[bytes, list[Key]] = {}
        self.referenced: dict[bytes, list[tuple[bytes, Key]]] = {}
        for contract in contracts:
            for collection, part in contract.parts.items():
                name = collection.encode()
                if part.schema is not None:
                    self.schemas.setdefault(name, []).append(part.schema)
                targets = {one.index_name: one.collection.encode() for one in part.references}
                for index, fields in part.indexes.items():
                    self._key(catalogue, name, index, fields, targets.get(index, b""))
        self.touched = {*self.keys, *self.referenced}

    def _key(self, catalogue: Catalogue, name: bytes, index: str, fields: tuple[str, ...], target: bytes) -> None:
        found = catalogue.find(name.decode(), index)
        if found is None:
            raise LookupError(f"the index {index} of a contract is not there")
        key = Key(found.number, fields, reader(fields), target)
        known = self.keys.setdefault(name, [])
        if all((one.number, one.target) != (key.number, target) for one in known):
            known.append(key)
            if target:
                self.referenced.setdefault(target, []).append((name, key))

    def check(self, collection: bytes, data: bytes) -> list[Breach]:
        """How a value breaks the schemas of its collection."""
        found: list[Breach] = []
        for schema in self.schemas.get(collection, ()):
            found += schema.breaches(loads(data), len(data))
        return found

    def hold(self, state: Held, left: Sequence[Left], checked: Callable[[Left], list[Breach]]) -> None:
        """Raise ValidationFailed where what is left behind breaks a rule."""
        errors = [fault for one in left for fault in self._schema_faults(one, checked)]
        if any(one.collection in self.touched for one in left):
            errors += self._key_faults(state, left)
        if errors:
            raise ValidationFailed("The transaction breaks the contract.", errors=errors[: limits.SCHEMA_MAX_BREACHES])

    def _schema_faults(self, one: Left, checked: Callable[[Left], list[Breach]]) -> Iterator[dict[str, Any]]:
        if one.value is not None and one.collection in self.schemas:
            for breach in checked(one):
                yield _fault(one.place, "schema", breach.keyword, breach.pointer, breach.message)

    def _key_faults(self, state: Held, left: Sequence[Left]) -> Iterator[dict[str, Any]]:
        moved = {(one.collection, one.id): one.value is not None for one in left}
        taken: dict[tuple[int, bytes], int] = {}
        for one in left:
            if one.value is None:
                yield from self._gone(state, one, moved)
                continue
            keys = self.keys.get(one.collection)
            if not keys:
                continue
            value = loads(one.value)
            for key in keys:
                content = key.read(value)
                if content is None:
                    continue
                if key.target:
                    yield from _reference_faults(state, one, key, value, moved)
                elif self._is_taken(state, one, key, content, moved, taken):
                    message = f"Another record of {one.collection.decode()} has it."
                    yield _fault(one.place, "unique", "unique", pointer_of(key.fields[0]), message)

    def _is_taken(
        self,
        state: Held,
        one: Left,
        key: Key,
        content: bytes,
        moved: Mapping[tuple[bytes, bytes], bool],
        taken: dict[tuple[int, bytes], int],
    ) -> bool:
        if taken.setdefault((key.number, content), one.place) != one.place:
            return True
        # Who moves in this transaction counts with what it leaves behind.
        return any((one.collection, other) not in moved for other in state.holders(key.number, content))

    def _gone(self, state: Held, one: Left, moved: Mapping[tuple[bytes, bytes], bool]) -> Iterator[dict[str, Any]]:
        for collection, key in self.referenced.get(one.collection, ()):
            content = digest([one.id.decode()])
            other = next((each for each in state.holders(key.number, content) if (collection, each) not in moved), None)
            if other is not None:
                message = f"{collection.decode()}:{other.decode()} references it in {key.fields[0]}."
                yield _fault(one.place, "referenced", "references", None, message)


def _reference_faults(
    state: Held, one: Left, key: Key, value: Mapping[str, Any], moved: Mapping[tuple[bytes, bytes], bool]
) -> Iterator[dict[str, Any]]:
    message = reference_fault(key, value, lambda found: _is_there(state, key.target, found, moved))
    if message is not None:
        yield _fault(one.place, "reference", "references", pointer_of(key.fields[0]), message)


def reference_fault(key: Key, value: Mapping[str, Any], is_there: Callable[[bytes], bool]) -> str | None:
    """What is wrong with a reference, None where nothing is."""
    found = named(key, value)
    if type(found) is not str:
        return f"A reference is the id of a record of {key.target.decode()}, a string."
    if not is_there(found.encode()):
        return f"There is no such record in {key.target.decode()}."
    return None


def named(key: Key, value: Mapping[str, Any]) -> Any:
    """What a value has in the field of a reference."""
    found: Any = value
    for step in key.fields[0].split("."):
        found = found[step]
    return found


def _is_there(state: Held, collection: bytes, record_id: bytes, moved: Mapping[tuple[bytes, bytes], bool]) -> bool:
    known = moved.get((collection, record_id))
    if known is not None:
        return known
    if len(record_id) > limits.ID_MAX_BYTES:
        return False
    return state.record(collection + b"\0" + record_id) is not None


def pointer_of(field: str) -> str:
    """The JSON pointer a dotted path is."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in field.split("."))


def _fault(place: int, rule: str, keyword: str, pointer: str | None, message: str) -> dict[str, Any]:
    where = f"/mutations/{place}" + ("" if pointer is None else "/value" + pointer)
    return {"mutation": place, "rule": rule, "keyword": keyword, "pointer": where, "message": message}
