"""`decide`: what a transaction does to the state it finds. Pure: no files, no clocks, no randomness.

Order: known transaction id, preconditions, read bases (fences), each mutation's own condition, the contract. The answer
is the content of a frame, the first answer again, or a refusal.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from feltdb_engine import payload, values
from feltdb_engine.enforcing import Left, Rules
from feltdb_engine.errors import (
    FenceBroken,
    IdempotencyConflict,
    InvalidValue,
    PreconditionFailed,
    RecordNotFound,
    TransactionTooLarge,
)
from feltdb_engine.fences import Fence, PredicateFence
from feltdb_engine.model import JSON, MutationKind
from feltdb_engine.payload import LoggedOperation
from feltdb_engine.schemas import Breach
from feltdb_engine.view import ENTRY, ENTRY_BYTES, State, StoredTransaction

_unpack = ENTRY.unpack_from
# Operations are made by the ten thousand: past the keyword constructor, in the order of the fields.
_new: Callable[..., LoggedOperation] = tuple.__new__


class StateView(Protocol):
    """The state a decision is made on: one consistent moment."""

    def record(self, key: bytes) -> bytes | None:
        """The entry of a live record."""

    def tombstone(self, key: bytes) -> bytes | None:
        """The entry of a deleted record that is remembered."""

    def version_floor(self, collection: bytes) -> int:
        """At least every version that forgotten records of the collection ever had."""

    def transaction(self, digest: bytes) -> StoredTransaction | None:
        """The first outcome of a transaction id."""

    def last_write(self, collection: bytes) -> int:
        """The sequence of a collection's last operation."""

    def touched(self, collection: bytes, after: int) -> set[bytes] | None:
        """The ids of a collection written after a sequence; None where that is too much to look at."""

    def rules(self) -> Rules | None:
        """What the contract asks."""

    def holders(self, number: int, content: bytes) -> Iterable[bytes]:
        """The ids in an exact index under a content."""


class Change(NamedTuple):
    """A mutation, checked and encoded. `value` is the whole value, of `merge` unused; `patch` is for `merge` only."""

    kind: MutationKind
    collection: bytes
    id: bytes
    key: bytes
    value: bytes
    patch: Any
    if_version: int | None


class Condition(NamedTuple):
    """A precondition, checked and encoded."""

    predicate: Literal["absent", "present", "version", "equals"]
    collection: bytes
    id: bytes
    key: bytes
    version: int | None
    pointer: tuple[str, ...]
    value: JSON


class Checked(NamedTuple):
    """What checking values against the schemas of `identity` gave. `final`: what is missing is checked in the turn."""

    identity: bytes
    breaches: Mapping[tuple[bytes, bytes], list[Breach]]
    final: bool


class Request(NamedTuple):
    """A transaction, checked and encoded. `transaction_id` is empty where none was given."""

    changes: tuple[Change, ...]
    conditions: tuple[Condition, ...]
    transaction_id: bytes
    payload_hash: bytes
    actor: bytes
    at_ms: int
    max_payload_bytes: int
    fences: tuple[Fence, ...] = ()
    checked: Checked | None = None


class Unproved(Exception):
    """Something must be looked at outside the turn before this can be decided: a fence, or a value."""


class Decision(NamedTuple):
    """The content of a frame: `operations` operations. `versions` is the record's version after it, per mutation."""

    payload: bytes
    operations: int
    at_ms: int
    versions: tuple[int, ...]
    sequences: tuple[int, ...]


def decide(view: StateView, state: State, request: Request) -> Decision | StoredTransaction:
    """The frame a request makes, or the first answer of a known id. Raises Unproved and refusals."""
    if request.transaction_id:
        known = view.transaction(hashlib.sha256(request.transaction_id).digest())
        if known is not None:
            if known.payload_hash != request.payload_hash:
                raise IdempotencyConflict("This transaction id was used with another request.")
            return known
    for place, condition in enumerate(request.conditions):
        try:
            _check(view, condition)
        except PreconditionFailed as refusal:
            refusal.details["pointer"] = f"/preconditions/{place}"
            raise
    for place, fence in enumerate(request.fences):
        _check_fence(view, state, place, fence)
    at_ms = max(request.at_ms, state.at_ms)
    parts: list[bytes] = []
    versions: list[int] = []
    sequence, encode = state.sequence, payload.encode_operation
    rules = view.rules()
    left: list[Left] = []
    for change in request.changes:
        try:
            operation, version = _change(view, change)
        except (PreconditionFailed, RecordNotFound) as refusal:
            refusal.details["pointer"] = f"/mutations/{len(versions)}"
            raise
        except InvalidValue as fault:  # what a merge comes to
            fault.details["pointer"] = f"/mutations/{len(versions)}/value{fault.details['pointer']}"
            raise
        versions.append(version)
        if operation is not None:
            sequence += 1
            parts += encode(state.instance, sequence, request.transaction_id, at_ms, operation)
            if rules is not None:
                gone = operation.kind == payload.DELETE
                left.append(Left(len(versions) - 1, change.collection, change.id, None if gone else operation.value))
    if rules is not None:
        rules.hold(view, left, lambda one: _breaches(rules, request.checked, one))
    return _decision(request, state.sequence, sequence, at_ms, tuple(versions), parts)


def _breaches(rules: Rules, checked: Checked | None, one: Left) -> list[Breach]:
    """How a value breaks its schema: looked up, since that takes time."""
    if one.value is None:
        return []
    if checked is not None and checked.identity == rules.identity:
        known = checked.breaches.get((one.collection, one.value))
        if known is not None:
            return known
        if checked.final:
            return rules.check(one.collection, one.value)
    raise Unproved


def _decision(
    request: Request, base: int, last: int, at_ms: int, versions: tuple[int, ...], parts: Iterable[bytes]
) -> Decision:
    count = last - base
    head = payload.encode_transaction_head(
        request.transaction_id,
        request.payload_hash,
        request.actor,
        len(versions),
        versions if len(versions) != count else None,
    )
    data = b"".join((head, *parts))
    if len(data) > request.max_payload_bytes:
        raise TransactionTooLarge(f"A transaction takes at most {request.max_payload_bytes} bytes.", bytes=len(data))
    return Decision(data, count, at_ms, versions, tuple(range(base + 1, last + 1)))


def _change(view: StateView, change: Change) -> tuple[LoggedOperation | None, int]:
    """The operation of one mutation (None: nothing to delete), its hash left empty, and the version after it."""
    kind, collection, record_id, key, value, _, if_version = change
    entry = view.record(key)
    present = entry is not None
    if entry is None:
        entry = view.tombstone(key)
    version, previous = (0, 0) if entry is None else _unpack(entry)[:2]
    if if_version is not None and if_version != (version if present else 0):
        _refuse("version", collection, record_id, if_version, version if present else 0)
    if entry is None and kind != "delete":
        version = view.version_floor(collection)
    operation = payload.UPDATE if present else payload.INSERT
    if kind != "put":
        if kind == "insert" and present:
            _refuse("absent", collection, record_id, 0, version)
        if kind in ("update", "merge") and not present:
            raise RecordNotFound("There is no such record.", collection=collection.decode(), id=record_id.decode())
        if kind == "delete":
            if not present or entry is None:
                return None, version
            operation, value = payload.DELETE, entry[ENTRY_BYTES:]
        elif kind == "merge" and entry is not None:
            value = merged(entry[ENTRY_BYTES:], change)
    flags = payload.NO_PREVIOUS_VERSION if entry is None else 0
    version += 1
    return _new(LoggedOperation, (operation, flags, version, previous, b"", collection, record_id, value)), version


def merged(value: bytes, change: Change) -> bytes:
    """The value a merge makes of another one. Raises InvalidValue."""
    return values.encode_value(merge_patch(values.loads(value), change.patch))


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: members of the patch replace, null removes, objects merge."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, member in patch.items():
        if member is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), member)
    return result


def _check(view: StateView, condition: Condition) -> None:
    entry = view.record(condition.key)
    actual = ENTRY.unpack_from(entry)[0] if entry is not None else 0
    predicate = condition.predicate
    if predicate == "absent":
        holds, expected = entry is None, 0
    elif predicate == "present":
        holds, expected = entry is not None, None
    elif predicate == "version":
        holds, expected = actual == condition.version, condition.version
    else:
        _check_equals(condition, entry)
        return
    if not holds:
        _refuse(predicate, condition.collection, condition.id, expected, actual)


def _check_equals(condition: Condition, entry: bytes | None) -> None:
    found, actual = False, None
    if entry is not None:
        found, actual = at_pointer(values.loads(entry[ENTRY_BYTES:]), condition.pointer)
    if not found or not values.same_json(actual, condition.value):
        _refuse("equals", condition.collection, condition.id, condition.value, actual)


def _check_fence(view: StateView, state: State, place: int, fence: Fence) -> None:
    if fence.instance != state.instance:
        raise FenceBroken("The store was restored or copied since this was read.", fence=place, kind="timeline")
    for one in fence.records:
        entry = view.record(one.key)
        actual = ENTRY.unpack_from(entry)[0] if entry is not None else 0
        if actual != one.version:
            raise FenceBroken(
                "A record that was read has changed since.",
                fence=place,
                kind="record",
                collection=one.collection.decode(),
                id=one.id.decode(),
                expected=one.version,
                actual=actual,
            )
    for number, predicate in enumerate(fence.predicates):
        if view.last_write(predicate.collection) > predicate.since:
            _check_predicate(view, place, number, predicate)


def _check_predicate(view: StateView, place: int, number: int, predicate: PredicateFence) -> None:
    """Something of the collection was written since it was read: does the same match, in the same versions?"""
    proof, broken = predicate.proof, None
    if proof is None:
        raise Unproved
    if proof.refusal is not None:
        raise proof.refusal
    if proof.holds:
        if view.last_write(predicate.collection) <= proof.sequence:
            return
        touched = None if proof.ids is None else view.touched(predicate.collection, proof.sequence)
        if touched is None or proof.ids is None:
            raise Unproved
        broken = next((one for one in sorted(touched) if one in proof.ids or _matches(view, predicate, one)), None)
        if broken is None:
            return
    raise FenceBroken(
        "What matched a condition that was read has changed since.",
        fence=place,
        kind="predicate",
        predicate=number,
        collection=predicate.collection.decode(),
        id=None if broken is None else broken.decode(),
    )


def _matches(view: StateView, predicate: PredicateFence, record_id: bytes) -> bool:
    entry = view.record(predicate.collection + b"\0" + record_id)
    return entry is not None and predicate.matches(values.loads(entry[ENTRY_BYTES:]))


def at_pointer(value: Any, pointer: tuple[str, ...]) -> tuple[bool, Any]:
    """Whether the RFC 6901 pointer (as unescaped steps) leads somewhere, and to what."""
    for step in pointer:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdigit() and str(int(step)) == step:
            if int(step) >= len(value):
                return False, None
            value = value[int(step)]
        else:
            return False, None
    return True, value


def _refuse(predicate: str, collection: bytes, record_id: bytes, expected: JSON, actual: JSON) -> None:
    raise PreconditionFailed(
        f"The record is not as the request expected it ({predicate}).",
        predicate=predicate,
        collection=collection.decode(),
        id=record_id.decode(),
        expected=expected,
        actual=actual,
    )
