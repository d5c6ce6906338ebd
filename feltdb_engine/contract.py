"""A contract: what the records of a store must be. Its shape, checked and brought into one form.

    {"collections": {"orders": {
        "schema": {...},                                          JSON Schema 2020-12, see `schemas.py`; optional
        "unique": ["number", ["shop", "receipt"]],                fields, or several that are unique together; optional
        "references": [{"field": "customer", "collection": "customers"}]}}}    optional

`unique`: no two records of the collection have the same values there. Where one of the fields is missing or null, a
record is not held to it. Values are the same as in `eq` of a query: 1, 1.0, "1" and true are four values.

`references`: where the field is there and not null, it is a string, the id of a record of that collection; and such a
record cannot be deleted as long as it is referenced. What counts is what a transaction leaves behind, in any order.

Not here: holding records to it (`enforcing.py`), bringing it into force (`activating.py`).
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from feltdb_engine import limits
from feltdb_engine.errors import ContractInvalid, EngineError
from feltdb_engine.ordering import MISSING
from feltdb_engine.schemas import Schema
from feltdb_engine.values import encode_collection, explain
from feltdb_engine.where import field_of

_PARTS: Final = frozenset(("schema", "unique", "references"))


class Unique(NamedTuple):
    """Fields that are unique together, and the name of the index that keeps them so."""

    fields: tuple[str, ...]

    @property
    def index_name(self) -> str:
        return "unique:" + "-".join(self.fields)


class Reference(NamedTuple):
    """A field that names a record of another collection, and the name of the index that finds who does."""

    field: str
    collection: str

    @property
    def index_name(self) -> str:
        return "reference:" + self.field


class Part(NamedTuple):
    """What a contract says of one collection."""

    schema: Schema | None
    unique: tuple[Unique, ...]
    references: tuple[Reference, ...]

    @property
    def indexes(self) -> dict[str, tuple[str, ...]]:
        """The fields of the indexes this needs, by name."""
        found = {one.index_name: one.fields for one in self.unique}
        return found | {one.index_name: (one.field,) for one in self.references}


class Contract(NamedTuple):
    """A contract, compiled. `members` is its one form, as the log keeps it."""

    members: Mapping[str, Any]
    parts: Mapping[str, Part]

    @property
    def digest(self) -> str:
        """SHA-256 of its one form, lower-case hex."""
        return hashlib.sha256(orjson.dumps(self.members, option=orjson.OPT_SORT_KEYS)).hexdigest()


def parse(said: object) -> Contract:
    """The contract a caller means. Raises ContractInvalid with the place of the first fault."""
    if not isinstance(said, Mapping) or set(said) != {"collections"} or not isinstance(said["collections"], Mapping):
        raise ContractInvalid("A contract has collections, an object.", pointer="")
    try:
        explain(said, "")
    except EngineError as fault:
        raise ContractInvalid(fault.message, pointer=fault.details["pointer"]) from fault
    collections = said["collections"]
    if len(collections) > limits.CONTRACT_MAX_COLLECTIONS:
        raise ContractInvalid(
            f"A contract has at most {limits.CONTRACT_MAX_COLLECTIONS} collections.", pointer="/collections"
        )
    parts: dict[str, Part] = {}
    members: dict[str, Any] = {}
    for name in sorted(collections):
        pointer = f"/collections/{name}"
        _named(name, pointer)
        parts[name] = part = _part(collections[name], pointer)
        one = dict(collections[name])
        one["unique"] = [list(each.fields) for each in part.unique]
        one["references"] = [each._asdict() for each in part.references]
        members[name] = one
    made = Contract({"collections": members}, parts)
    if len(orjson.dumps(made.members)) > limits.CONTRACT_MAX_BYTES:
        raise ContractInvalid(f"A contract takes at most {limits.CONTRACT_MAX_BYTES} bytes.", pointer="")
    return made


def _named(name: object, pointer: str) -> None:
    try:
        encode_collection(name)
    except EngineError as fault:
        raise ContractInvalid(fault.message, pointer=pointer) from fault


def _part(said: object, pointer: str) -> Part:
    if not isinstance(said, Mapping) or not set(said) <= _PARTS:
        raise ContractInvalid("A collection has schema, unique and references.", pointer=pointer)
    schema = said.get("schema")
    if schema is not None and not isinstance(schema, Mapping | bool):
        raise ContractInvalid("A schema is an object.", pointer=pointer + "/schema")
    unique = tuple(_unique(one, f"{pointer}/unique/{at}") for at, one in enumerate(_list(said, "unique", pointer)))
    references = tuple(
        _reference(one, f"{pointer}/references/{at}") for at, one in enumerate(_list(said, "references", pointer))
    )
    names = [one.index_name for one in unique] + [each.index_name for each in references]
    if len(set(names)) != len(names):
        raise ContractInvalid("A field is unique once, and references one collection.", pointer=pointer)
    if len(names) > limits.CONTRACT_MAX_INDEXES:
        raise ContractInvalid(f"At most {limits.CONTRACT_MAX_INDEXES} unique and references.", pointer=pointer)
    return Part(None if schema is None else Schema(schema, pointer + "/schema"), unique, references)


def _list(said: Mapping[str, Any], name: str, pointer: str) -> Sequence[Any]:
    found = said.get(name, ())
    if not isinstance(found, list | tuple):
        raise ContractInvalid(f"{name} is a list.", pointer=f"{pointer}/{name}")
    return found


def _unique(said: object, pointer: str) -> Unique:
    fields = (said,) if isinstance(said, str) else said
    if not isinstance(fields, list | tuple) or not 1 <= len(fields) <= limits.INDEX_MAX_FIELDS:
        raise ContractInvalid(f"Unique are 1 to {limits.INDEX_MAX_FIELDS} fields together.", pointer=pointer)
    if len(set(map(str, fields))) != len(fields):
        raise ContractInvalid("The fields are different ones.", pointer=pointer)
    return Unique(tuple(_field(one, pointer) for one in fields))


def _reference(said: object, pointer: str) -> Reference:
    if not isinstance(said, Mapping) or set(said) != {"field", "collection"}:
        raise ContractInvalid("A reference has field and collection.", pointer=pointer)
    _named(said["collection"], pointer + "/collection")
    return Reference(_field(said["field"], pointer + "/field"), said["collection"])


def _field(said: object, pointer: str) -> str:
    try:
        field_of(said, pointer)
    except EngineError as fault:
        raise ContractInvalid(fault.message, pointer=pointer) from fault
    return str(said)


def reader(fields: Sequence[str]) -> Callable[[Mapping[str, Any]], bytes | None]:
    """The function from a value to what an exact index keeps of these fields: 32 bytes, None where one is not there."""
    reads = [field_of(one, "") for one in fields]

    def read(value: Mapping[str, Any]) -> bytes | None:
        found = [one(value) for one in reads]
        if any(one is MISSING or one is None for one in found):
            return None
        return digest(found)

    return read


def digest(found: Sequence[Any]) -> bytes:
    """32 bytes, the same for the same values alone. -0.0 is 0.0."""
    return hashlib.sha256(orjson.dumps([_zero(one) for one in found], option=orjson.OPT_SORT_KEYS)).digest()


def _zero(value: Any) -> Any:
    if type(value) is float:
        return value or 0.0
    if type(value) is list:
        return [_zero(one) for one in value]
    if type(value) is dict:
        return {name: _zero(one) for name, one in value.items()}
    return value
