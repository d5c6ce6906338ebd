"""What goes in and comes out: frozen values, and the parts a transaction is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JSONObject = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One record as it was at `version`."""

    id: str
    key: str
    version: int
    sequence: int
    updated_at_ms: int
    value: JSONObject


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Some records in order, and where to go on (None at the end)."""

    records: tuple[Record, ...]
    next_cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a transaction did. `duplicate`: it had been committed before, under the same id."""

    transaction_id: str
    base_revision: int
    revision: int
    duplicate: bool
    operation_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """Who caused a change."""

    subject: str | None
    key_id: str | None
    request_id: str | None
    workload_id: str | None
    trigger_id: str | None
    traceparent: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One change in the feed. `kind` is insert, update or delete; a delete's `value` is what it removed."""

    sequence: int
    instance_id: str
    transaction_id: str | None
    kind: str
    collection: str
    id: str
    key: str
    version: int
    previous_version: int
    value: JSONObject
    content_hash: str
    at_ms: int
    actor: Actor


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """A page of the feed. Keep `cursor` once the operations are dealt with: it is where to go on."""

    operations: tuple[Operation, ...]
    cursor: str
    head: int
    floor: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One transaction, as a stream gives it. Keep `cursor` once it is dealt with."""

    cursor: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Basis:
    """What was read at `revision`: the token that fences a commit with it, and the records, None where absent."""

    token: str
    revision: int
    records: tuple[Record | None, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Contract:
    """The namespace's contract; `pending` is one that is being activated."""

    revision: int
    sequence: int
    contract: JSONObject
    pending: JSONObject | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ContractCheck:
    """Whether a contract is one (`issues` say why not), and what stored records break it, if all were looked at."""

    valid: bool
    issues: tuple[JSONObject, ...]
    complete: bool
    checked: int
    breaches: tuple[JSONObject, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """One record of an export."""

    collection: str
    id: str
    version: int
    updated_at_ms: int
    value: JSONObject


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """How many rows of an import are in, and the revision they are in at."""

    import_id: str
    rows: int
    revision: int


def put(
    collection: str, record_id: str, value: JSONObject, *, version: int | None = None, create: bool = False
) -> dict[str, Any]:
    """Store a whole value; `create` only where there is no record, `version` only at that version."""
    operation: dict[str, Any] = {"collection": collection, "id": record_id, "value": value}
    if create:
        operation["requireAbsent"] = True
    return _at(operation, version)


def merge(collection: str, record_id: str, patch: JSONObject, *, version: int | None = None) -> dict[str, Any]:
    """Merge a patch (RFC 7396) into a record that is there."""
    return _at({"collection": collection, "id": record_id, "merge": patch}, version)


def delete(collection: str, record_id: str, *, version: int | None = None) -> dict[str, Any]:
    """Remove a record, if it is there."""
    return _at({"collection": collection, "id": record_id, "delete": True}, version)


def require_absent(collection: str, record_id: str) -> dict[str, Any]:
    """Commit only if there is no such record."""
    return {"collection": collection, "id": record_id, "requireAbsent": True}


def require_present(collection: str, record_id: str) -> dict[str, Any]:
    """Commit only if there is such a record."""
    return {"collection": collection, "id": record_id, "requirePresent": True}


def require_version(collection: str, record_id: str, version: int) -> dict[str, Any]:
    """Commit only if the record has this version (0 = absent)."""
    return {"collection": collection, "id": record_id, "expectedVersion": version}


def require_equal(collection: str, record_id: str, pointer: str, value: Any) -> dict[str, Any]:
    """Commit only if this is at the JSON pointer in the record's value."""
    return {"collection": collection, "id": record_id, "pointer": pointer, "equals": value}


def _at(operation: dict[str, Any], version: int | None) -> dict[str, Any]:
    if version is not None:
        operation["expectedVersion"] = version
    return operation


def record(body: Mapping[str, Any]) -> Record:
    """Return the record in an answer; members this client does not know are left out."""
    return Record(**{name: body[name] for name in Record.__slots__})


def outcome(body: Mapping[str, Any]) -> Outcome:
    """Return the outcome in an answer."""
    return Outcome(
        transaction_id=body["transactionId"],
        base_revision=body["baseRevision"],
        revision=body["commitRevision"],
        duplicate=body["duplicate"],
        operation_ids=tuple(body["operationIds"]),
    )


def operation(body: Mapping[str, Any]) -> Operation:
    """Return the operation in an answer."""
    members = {name: body[name] for name in Operation.__slots__ if name != "actor"}
    return Operation(**members, actor=Actor(**{name: body["actor"].get(name) for name in Actor.__slots__}))
