"""Single records: create, read, put, merge, delete, compare-and-set, and pages of a collection.

Each write is one engine transaction. A refusal is raised as `ApiError` with its code; what was found out on the way
(the current version) goes with it.
"""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import uuid_utils

from apps.http.errors import ApiError
from apps.state import cursors
from apps.state.calls import Call
from apps.state.conditions import NO_CONDITIONS, Conditions, failed
from apps.state.inputs import PageRequest
from apps.state.services.committing import commit, payload_hash
from apps.state.services.doors import may_read, may_write
from apps.state.stores import store
from feltdb_engine import (
    CommitResult,
    Cursor,
    Mutation,
    Precondition,
    Record,
    Store,
)
from feltdb_engine.errors import FeedCompacted, InvalidKey, PreconditionFailed, RecordNotFound
from feltdb_engine.model import MutationKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """A record as it was at `revision` or later."""

    record: Record
    revision: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a write left: the record (as removed, for a delete), the state's position, and whether it is a repeat."""

    record: Record
    revision: int
    created: bool
    replayed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordPage:
    """Records in key order, and the cursor to go on from."""

    records: tuple[Record, ...]
    next_cursor: str | None
    revision: int


def read(call: Call, collection: str, record_id: str) -> Read:
    """Return the record. Raises NOT_FOUND."""
    may_read(call, collection)
    opened = store(call.namespace)
    revision = opened.head().sequence  # before the read: the answer holds at least this much
    found = opened.get(f"{collection}:{record_id}", deadline=call.deadline)
    if found is None:
        raise not_found()
    return Read(record=found, revision=revision)


def page(call: Call, collection: str, wanted: PageRequest) -> RecordPage:
    """Return a page of the collection; one that does not exist is empty. Raises INVALID_CURSOR."""
    may_read(call, collection)
    opened = store(call.namespace)
    bound_to = cursors.binding("records", call.namespace, collection)
    revision = opened.head().sequence
    after = cursors.decode(bound_to, wanted.cursor)
    try:
        found = opened.page(collection, after=after, limit=wanted.limit, deadline=call.deadline)
    except InvalidKey as error:
        raise cursors.refused() from error
    return RecordPage(records=found.records, next_cursor=cursors.encode(bound_to, found.next_after), revision=revision)


def create(call: Call, collection: str, record_id: str | None, value: Mapping[str, Any]) -> Written:
    """Create a record, under an id made here if none is given. Raises CONFLICT where it exists."""
    may_write(call, collection)
    content = payload_hash("create", collection, record_id, value)
    if record_id is None:
        record_id = _new_id(call, collection)
    mutation = Mutation(kind="insert", collection=collection, id=record_id, value=value)
    try:
        return _write(call, mutation, content=content)
    except PreconditionFailed as error:
        raise ApiError(
            "CONFLICT", "A record with this id already exists.", details={"collection": collection, "id": record_id}
        ) from error


def put(
    call: Call, collection: str, record_id: str, value: Mapping[str, Any], conditions: Conditions = NO_CONDITIONS
) -> Written:
    """Store the whole value, whether the record exists or not. Raises IF_MATCH_FAILED."""
    may_write(call, collection)
    return _conditional(call, "put", collection, record_id, value, conditions)


def merge(
    call: Call, collection: str, record_id: str, patch: Mapping[str, Any], conditions: Conditions = NO_CONDITIONS
) -> Written:
    """Apply a merge patch (RFC 7396) in one step, whoever else writes. Raises NOT_FOUND, IF_MATCH_FAILED."""
    may_write(call, collection)
    return _conditional(call, "merge", collection, record_id, patch, conditions)


def put_own(
    call: Call, collection: str, record_id: str, value: Mapping[str, Any], conditions: Conditions = NO_CONDITIONS
) -> Written:
    """Store a record of FeltDB's own, for the route that such records are written through; as `put` otherwise."""
    may_read(call, collection)
    return _conditional(call, "put", collection, record_id, value, conditions)


def delete_own(call: Call, collection: str, record_id: str, conditions: Conditions = NO_CONDITIONS) -> Written:
    """Remove a record of FeltDB's own, for the route that such records are written through; as `delete` otherwise."""
    may_read(call, collection)
    return _conditional(call, "delete", collection, record_id, None, conditions)


def delete(call: Call, collection: str, record_id: str, conditions: Conditions = NO_CONDITIONS) -> Written:
    """Remove the record. Raises NOT_FOUND, IF_MATCH_FAILED."""
    may_write(call, collection)
    return _conditional(call, "delete", collection, record_id, None, conditions)


def compare_and_set(
    call: Call, collection: str, record_id: str, expected_version: int, value: Mapping[str, Any]
) -> Written:
    """Store the value if the record has this version (0 = absent). Raises VERSION_CONFLICT with currentVersion."""
    may_write(call, collection)
    mutation = Mutation(kind="put", collection=collection, id=record_id, value=value, if_version=expected_version)
    content = payload_hash("cas", collection, record_id, value, expected_version)
    try:
        return _write(call, mutation, content=content, value_at="/value")
    except PreconditionFailed as error:
        raise ApiError(
            "VERSION_CONFLICT",
            "The record has another version than expected.",
            updated=False,
            currentVersion=_version(error) or 0,
        ) from error


def not_found() -> ApiError:
    """The one answer for a record that is not there."""
    return ApiError("NOT_FOUND", "There is no such record.")


def _conditional(
    call: Call,
    kind: MutationKind,
    collection: str,
    record_id: str,
    value: Mapping[str, Any] | None,
    conditions: Conditions,
) -> Written:
    """Write under the caller's conditions: what they leave open is fixed to the version they were judged on."""
    opened = store(call.namespace)
    content = payload_hash(kind, collection, record_id, value, *_said(conditions))
    while True:  # each turn means that another write succeeded; the engine refuses at the deadline
        if_version = _judged(opened, call, f"{collection}:{record_id}", conditions)
        mutation = Mutation(kind=kind, collection=collection, id=record_id, value=value, if_version=if_version)
        try:
            return _write(call, mutation, content=content)
        except RecordNotFound as error:
            raise not_found() from error
        except PreconditionFailed as error:
            version = _version(error)
            if conditions and not conditions.hold(version):
                raise failed(version) from error
            if kind != "put" and version is None:
                raise not_found() from error


def _judged(opened: Store, call: Call, key: str, conditions: Conditions) -> int | None:
    """Return the version to insist on. A repeated transaction id is not judged: its first outcome stands."""
    if not conditions:
        return None
    found = opened.get(key)
    version = None if found is None else found.version
    if not conditions.hold(version):
        known = call.transaction_id is not None and opened.transaction(call.transaction_id) is not None
        if not known:
            raise failed(version)
    return version or 0


def _write(call: Call, mutation: Mutation, *, content: bytes, value_at: str = "") -> Written:
    opened = store(call.namespace)
    before = None
    preconditions: tuple[Precondition, ...] = ()
    if mutation.kind == "put" and mutation.if_version is None:
        before = opened.get(f"{mutation.collection}:{mutation.id}")
    elif mutation.kind == "delete":
        preconditions = (Precondition(collection=mutation.collection, id=mutation.id, predicate="present"),)
    keyed = content if call.transaction_id is not None else None
    result = commit(opened, call, [mutation], preconditions, payload_hash=keyed, value_at=lambda _: value_at)
    created, value = _effect(opened, mutation, before, result)
    record = Record(
        collection=mutation.collection,
        id=mutation.id,
        version=result.versions[0],
        sequence=result.sequences[0],
        updated_at_ms=result.at_ms,
        value=value,
    )
    return Written(record=record, revision=result.revision, created=created, replayed=result.duplicate)


def _effect(
    opened: Store, mutation: Mutation, before: Record | None, result: CommitResult
) -> tuple[bool, Mapping[str, Any]]:
    """Tell whether this write created the record, and the value it left: its own, whoever wrote after it."""
    version = result.versions[0]
    if mutation.kind != "merge":
        value = mutation.value or {}
        if mutation.kind == "delete" or mutation.if_version is not None:
            return mutation.if_version == 0, value
        if mutation.kind == "insert" or version == 1:
            return True, value
        if before is not None and before.version + 1 == version:
            return False, value
    else:
        after = opened.get(f"{mutation.collection}:{mutation.id}")
        if after is not None and after.version == version:
            return False, after.value
    at = Cursor(instance_id=result.instance_id, sequence=result.sequences[0] - 1)
    try:
        operation = opened.changes(at, limit=1).operations[0]
    except FeedCompacted:  # a repetition so late that the first outcome is no longer in the feed
        return False, mutation.value or {}
    return operation.kind == "insert", operation.value


def _new_id(call: Call, collection: str) -> str:
    """Return a new id: UUIDv7, or, where the request may be repeated, a UUIDv8 that the repetition makes again."""
    if call.transaction_id is None:
        return str(uuid_utils.uuid7())
    digest = hashlib.sha256("\0".join((call.namespace, collection, call.transaction_id)).encode()).digest()
    number = int.from_bytes(digest[:16])
    number = number & ~(0xF << 76) | 8 << 76
    number = number & ~(0b11 << 62) | 0b10 << 62
    return str(uuid.UUID(int=number))


def _said(conditions: Conditions) -> list[Any]:
    return [
        None if tags is None else [tags.anything, sorted(tags.versions)]
        for tags in (conditions.match, conditions.none_match)
    ]


def _version(error: PreconditionFailed) -> int | None:
    """Return the version the record had when the engine refused, None for absent."""
    actual = error.details.get("actual")
    return actual if type(actual) is int and actual > 0 else None
