"""From what a caller says to what `decide` takes: every mutation and precondition checked and encoded once."""

from collections.abc import Callable, Sequence
from itertools import count

from feltdb_engine import limits
from feltdb_engine.decide import Change, Condition, Request
from feltdb_engine.errors import InvalidKey, InvalidValue, TransactionTooLarge
from feltdb_engine.fences import parse
from feltdb_engine.model import Actor, Mutation, Precondition
from feltdb_engine.payload import PAYLOAD_HASH_BYTES
from feltdb_engine.values import (
    NOBODY,
    encode_actor,
    encode_collection,
    encode_id,
    encode_transaction_id,
    encode_value,
    explain,
    request_hash,
)

_KINDS = frozenset(("put", "insert", "update", "merge", "delete"))
_PREDICATES = ("absent", "present", "version", "equals")
_AT_MS_MAX = 1 << 52
# Changes are made by the ten thousand: past the keyword constructor, in the order of the fields.
_new: Callable[..., Change] = tuple.__new__


def build(
    mutations: Sequence[Mutation],
    preconditions: Sequence[Precondition],
    fences: Sequence[str],
    *,
    store_id: str,
    transaction_id: str | None,
    payload_hash: bytes | None,
    actor: Actor,
    at_ms: int,
    max_payload_bytes: int,
) -> Request:
    """The request to decide. Raises InvalidKey, InvalidValue, InvalidQuery, TransactionTooLarge."""
    if not 1 <= len(mutations) <= limits.TRANSACTION_MAX_MUTATIONS:
        raise TransactionTooLarge(
            f"A transaction has 1 to {limits.TRANSACTION_MAX_MUTATIONS} mutations.", mutations=len(mutations)
        )
    if len(preconditions) > limits.TRANSACTION_MAX_PRECONDITIONS:
        raise TransactionTooLarge(f"A transaction has at most {limits.TRANSACTION_MAX_PRECONDITIONS} preconditions.")
    if len(fences) > limits.FENCES_MAX:
        raise TransactionTooLarge(f"A transaction has at most {limits.FENCES_MAX} fences.")
    if type(at_ms) is not int or not 0 <= at_ms <= _AT_MS_MAX:
        raise InvalidValue("A time is a whole number of milliseconds since 1970.", pointer="/at_ms")
    changes = tuple(map(_change, count(), mutations))
    if len(changes) > 1 and len({change.key for change in changes}) != len(changes):
        raise InvalidKey("A transaction changes a record once.")
    conditions = tuple(_condition(index, one) for index, one in enumerate(preconditions)) if preconditions else ()
    identity = digest = b""
    if transaction_id is not None:
        identity = encode_transaction_id(transaction_id)
        digest = payload_hash or request_hash(mutations, preconditions, fences)
        if len(digest) != PAYLOAD_HASH_BYTES:
            raise InvalidValue("A payload hash has 32 bytes.", pointer="/payload_hash")
    return Request(
        changes=changes,
        conditions=conditions,
        transaction_id=identity,
        payload_hash=digest,
        actor=b"" if actor is NOBODY else encode_actor(actor),
        at_ms=at_ms,
        max_payload_bytes=max_payload_bytes,
        fences=tuple(parse(token, store_id, f"/fences/{place}") for place, token in enumerate(fences))
        if fences
        else (),
    )


def _change(index: int, mutation: Mutation) -> Change:
    kind = mutation.kind
    if kind not in _KINDS:
        raise InvalidValue(
            "A mutation is one of " + ", ".join(sorted(_KINDS)) + ".", pointer=f"/mutations/{index}/kind"
        )
    collection = encode_collection(mutation.collection)
    record_id = encode_id(mutation.id)
    version = mutation.if_version
    if version is not None and (type(version) is not int or version < 0):
        raise InvalidValue("if_version is a version, 0 for absent.", pointer=f"/mutations/{index}/if_version")
    said = mutation.value
    if kind == "delete":
        if said is not None:
            raise InvalidValue("A delete has no value.", pointer=f"/mutations/{index}/value")
        value = b""
    else:
        try:
            value = encode_value(said)
        except InvalidValue as fault:
            fault.details["pointer"] = f"/mutations/{index}/value{fault.details['pointer']}"
            raise
    key = collection + b"\0" + record_id
    return _new(Change, (kind, collection, record_id, key, value, said if kind == "merge" else None, version))


def _condition(index: int, one: Precondition) -> Condition:
    where = f"/preconditions/{index}"
    if one.predicate not in _PREDICATES:
        raise InvalidValue("A predicate is one of " + ", ".join(_PREDICATES) + ".", pointer=where + "/predicate")
    collection = encode_collection(one.collection)
    record_id = encode_id(one.id)
    if one.predicate == "version" and (type(one.version) is not int or one.version < 0):
        raise InvalidValue("A version is a whole number, 0 for absent.", pointer=where + "/version")
    steps: tuple[str, ...] = ()
    if one.predicate == "equals":
        steps = parse_pointer(one.pointer, where + "/pointer")
        explain(one.value, where + "/value")
    return Condition(
        one.predicate, collection, record_id, collection + b"\0" + record_id, one.version, steps, one.value
    )


def parse_pointer(pointer: object, where: str) -> tuple[str, ...]:
    """The steps of an RFC 6901 pointer. Raises InvalidValue."""
    if type(pointer) is not str or (pointer and not pointer.startswith("/")):
        raise InvalidValue("A pointer is empty or begins with a slash (RFC 6901).", pointer=where)
    if not pointer:
        return ()
    steps = pointer[1:].split("/")
    for step in steps:
        if "~" in step.replace("~0", "").replace("~1", ""):
            raise InvalidValue("In a pointer ~ is followed by 0 or 1 (RFC 6901).", pointer=where)
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)
