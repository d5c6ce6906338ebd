"""Read bases: a token over what was read, and whether that is still so when a transaction is decided.

A token is opaque text: 8 bytes of SHA-256, then JSON, in URL-safe Base64:

    [1, store id, instance id, sequence, [[collection, id, version or 0], ...], [[collection, where, digest], ...]]

`digest` is SHA-256 over ids and versions of all records of the collection that match, in id order: a record that came,
went or changed makes another one. A token is no secret and no right: who makes one up fences only himself.

Predicates are proved on a read transaction before the turn is taken (`prove`): where nothing of the collection was
written since the basis, at once, else by looking at all that match. In the turn only what was written since the proof
is looked at, so that a fence never holds other writers up. Not here: the decision itself (`decide.py`).
"""

import base64
import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from feltdb_engine import frame, limits, payload, planner, view
from feltdb_engine.errors import EngineError, InvalidKey, InvalidQuery, ScanLimitExceeded
from feltdb_engine.model import Predicate, ReadBasis
from feltdb_engine.moment import Moment, record
from feltdb_engine.scan import Scan
from feltdb_engine.values import encode_collection, encode_key, loads
from feltdb_engine.view import ENTRY, ENTRY_BYTES
from feltdb_engine.where import Test, compile_where

_FORMAT: Final = 1
_CHECK_BYTES: Final = 8
_MATCH: Final = struct.Struct("<HQ")


class RecordFence(NamedTuple):
    """A record that was read. `version` 0 = it was absent."""

    collection: bytes
    id: bytes
    key: bytes
    version: int


class Proof(NamedTuple):
    """What looking at a predicate gave at a sequence. `ids` matched then; None where nobody had to look."""

    sequence: int
    holds: bool
    ids: frozenset[bytes] | None
    refusal: EngineError | None = None


class PredicateFence(NamedTuple):
    """A condition over a collection that was read at `since`."""

    collection: bytes
    since: int
    digest: bytes
    where: Mapping[str, Any] | None
    matches: Test
    proof: Proof | None


class Fence(NamedTuple):
    """A token, read."""

    instance: bytes
    records: tuple[RecordFence, ...]
    predicates: tuple[PredicateFence, ...]


def basis(
    moment: Moment, store_id: str, keys: Sequence[str], predicates: Sequence[Predicate], deadline: float | None
) -> ReadBasis:
    """Read the records and predicates, and give them a token.

    Raises InvalidKey, InvalidQuery, ScanLimitExceeded, DeadlineExceeded.
    """
    if not 1 <= len(keys) + len(predicates) or len(keys) > limits.BASIS_MAX_RECORDS:
        raise InvalidQuery(f"A read basis has 1 to {limits.BASIS_MAX_RECORDS} records or predicates.", pointer="/reads")
    if len(predicates) > limits.BASIS_MAX_PREDICATES:
        raise InvalidQuery(f"A read basis has at most {limits.BASIS_MAX_PREDICATES} predicates.", pointer="/predicates")
    found, reads = [], []
    for key in keys:
        collection, record_id = encode_key(key)
        entry = moment.record(collection, record_id)
        found.append(None if entry is None else record(collection.decode(), record_id, entry))
        reads.append([collection.decode(), record_id.decode(), 0 if entry is None else ENTRY.unpack_from(entry)[0]])
    conditions = []
    for place, one in enumerate(predicates):
        try:
            test = compile_where(one.where)
        except InvalidQuery as fault:
            fault.details["pointer"] = f"/predicates/{place}/where{fault.details['pointer']}"
            raise
        name = encode_collection(one.collection)
        digest = _digest(matching(moment, name, one.where, test, Scan(deadline)))
        conditions.append([one.collection, one.where, digest.hex()])
    body = orjson.dumps([_FORMAT, store_id, moment.instance.hex(), moment.sequence, reads, conditions])
    token = base64.urlsafe_b64encode(hashlib.sha256(body).digest()[:_CHECK_BYTES] + body).decode().rstrip("=")
    if len(token) > limits.BASIS_MAX_CHARS:
        raise InvalidQuery(f"A read basis takes at most {limits.BASIS_MAX_CHARS} characters.", pointer="/reads")
    return ReadBasis(token=token, revision=moment.sequence, records=tuple(found))


def parse(token: object, store_id: str, pointer: str) -> Fence:
    """The fence a token is. Raises InvalidQuery where it is none of this store's."""
    try:
        if type(token) is not str or len(token) > limits.BASIS_MAX_CHARS:
            raise ValueError
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        body = data[_CHECK_BYTES:]
        if hashlib.sha256(body).digest()[:_CHECK_BYTES] != data[:_CHECK_BYTES]:
            raise ValueError
        number, of_store, instance, sequence, reads, conditions = orjson.loads(body)
        if (number, of_store) != (_FORMAT, store_id):
            raise ValueError
        if len(reads) > limits.BASIS_MAX_RECORDS or len(conditions) > limits.BASIS_MAX_PREDICATES:
            raise ValueError
        return Fence(
            bytes.fromhex(instance),
            tuple(_record_fence(*one) for one in reads),
            tuple(_predicate_fence(sequence, *one) for one in conditions),
        )
    except (ValueError, TypeError, KeyError, InvalidKey, InvalidQuery) as error:
        raise InvalidQuery("This is no read basis of this store.", pointer=pointer) from error


def _record_fence(collection: str, record_id: str, version: int) -> RecordFence:
    name, identity = encode_key(f"{collection}:{record_id}")
    return RecordFence(name, identity, view.record_key(name, identity), version)


def _predicate_fence(since: int, collection: str, where: Mapping[str, Any] | None, digest: str) -> PredicateFence:
    return PredicateFence(
        encode_collection(collection), since, bytes.fromhex(digest), where, compile_where(where), None
    )


def matching(
    moment: Moment, name: bytes, where: Mapping[str, Any] | None, matches: Test, scan: Scan
) -> dict[bytes, int]:
    """Id and version of every record that matches. Raises ScanLimitExceeded, DeadlineExceeded."""
    access = planner.choose(moment.indexes(name), where, ())
    pairs: Iterable[tuple[bytes, bytes]]
    if access is None:
        pairs = moment.entries(name, None)
    else:
        found = moment.candidates(name, access)
        pairs = ((record_id, moment.indexed(name, record_id)) for _, record_id in found)
    seen: dict[bytes, int] = {}
    for record_id, entry in pairs:
        if not scan.more():
            raise scan.error(None)
        if where is None or matches(loads(entry[ENTRY_BYTES:])):
            seen[record_id] = ENTRY.unpack_from(entry)[0]
    return seen


def _digest(seen: Mapping[bytes, int]) -> bytes:
    digest = hashlib.sha256()
    for record_id in sorted(seen):
        digest.update(_MATCH.pack(len(record_id), seen[record_id]) + record_id)
    return digest.digest()


def prove(moment: Moment, fences: tuple[Fence, ...], deadline: float) -> tuple[Fence, ...]:
    """The same fences with every predicate looked at now."""
    return tuple(
        fence._replace(predicates=tuple(_proved(moment, one, deadline) for one in fence.predicates)) for fence in fences
    )


def _proved(moment: Moment, one: PredicateFence, deadline: float) -> PredicateFence:
    if moment.counted(one.collection)[1] <= one.since:
        return one._replace(proof=Proof(moment.sequence, True, None))
    try:
        seen = matching(moment, one.collection, one.where, one.matches, Scan(deadline))
    except EngineError as refusal:
        # A known transaction id answers first, whatever became of its fences.
        if isinstance(refusal, ScanLimitExceeded):
            refusal = ScanLimitExceeded(
                "Whether the fence holds takes looking at more records than one call may: declare an index for it.",
                scanned=refusal.details["scanned"],
            )
        return one._replace(proof=Proof(moment.sequence, False, None, refusal))
    return one._replace(proof=Proof(moment.sequence, _digest(seen) == one.digest, frozenset(seen)))


def touched(frames: Iterator[frame.Frame], collection: bytes, after: int, head: int) -> set[bytes] | None:
    """The ids of a collection written after a sequence, up to `head`; None where that is too much to look at here."""
    found: set[bytes] = set()
    reached = walked = 0
    for one in frames:
        reached = one.last
        if one.kind == frame.TRANSACTION and one.last > after:
            walked += one.end - one.position
            if walked > limits.FENCE_WALK_MAX_BYTES:
                return None
            found |= _written(one, collection)
        if reached >= head:
            return found
    return None


def _written(one: frame.Frame, collection: bytes) -> set[bytes]:
    head = payload.decode_transaction(one.payload, one.operations)
    logged = payload.decode_operations(one.payload, head.offset, one.operations)
    return {operation.id for operation in logged if operation.collection == collection}
