"""What frames carry. This module alone reads and writes these layouts; all numbers little-endian.

Transaction (kind 1), followed by its operations in mutation order:

     0  u16  id_length         transaction id in UTF-8, 0 = none
     2  u16  actor_length      actor as a JSON object, 0 = nobody named
     4  u32  mutations         asked for; more than the frame's count where a delete found nothing
     8       id, then (only with an id) 32 bytes payload hash, then actor,
             then (only if mutations != count) u64 version after it, per mutation

Operation:

     0  u8   kind              1 insert, 2 update, 3 delete
     1  u8   flags             1 = no version went before
     2  u8   collection_length
     3  u8   reserved          0
     4  u16  id_length
     6  u16  reserved          0
     8  u32  value_length
    12  u64  version           of the record after it
    20  u64  previous          sequence of the record's operation before this one, 0 = none
    28  32s  content_hash      SHA-256, see `encode_operation`
    60       collection, id, value (compact JSON; of a delete: what it removed)

Timeline (kind 2), the log's first one directly after the first segment frame:

     0  16s  instance_id
    16  16s  parent            zeroes = none
    32  u64  fork              the sequence the parent was left at
    40  u64  reserved          0

Recovery (kind 3): u64 position where the tail began, u64 bytes discarded. Its header brings the fresh epoch.
Acknowledgement (kind 4): empty; the recoveries before it were seen by an operator.

Index (kind 6): a JSON object, {"act": "declare", "collection", "name", "fields"} or {"act": "drop", "collection",
"name"}.

Pin (kind 7): a JSON object, {"act": "pin", "name", "sequence", "expires_at_ms" (null = never), "gone": [names that
had expired]} or {"act": "unpin", "names": [...]}.

Compaction (kind 8): a JSON object, {"act": "versions", "floors": {collection: version}} or {"act": "floor",
"floor": [position, crc, epoch, sequence, at_ms], "ids_from": sequence}.

Contract (kind 9): a JSON object, {"act": "propose", "id", "contract"}, {"act": "activate"} or {"act": "withdraw"}; the
latter two are about the last one proposed.

Segment (kind 5), the first frame of every segment file:

     0  8s   magic             "FELTSEG" and a zero byte
     8  u32  format            0
    12  u32  reserved          0
    16  16s  store_id
    32  u64  start             position of this frame
    40  u64  capacity          bytes a segment of this store may take
"""

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from feltdb_engine.frame import FORMAT

_TRANSACTION: Final = struct.Struct("<HHI")
_OPERATION: Final = struct.Struct("<BBBBHHIQQ32s")
_OPERATION_BYTES: Final = _OPERATION.size
_TIMELINE: Final = struct.Struct("<16s16sQQ")
_RECOVERY: Final = struct.Struct("<QQ")
_SEGMENT: Final = struct.Struct("<8sII16sQQ")
_SEGMENT_MAGIC: Final = b"FELTSEG\0"
_CONTENT: Final = struct.Struct("<16sQQqBBHHI")
_sha256 = hashlib.sha256
# Operations are made by the ten thousand: past the keyword constructor, in the order of the fields.
_new: Callable[..., "LoggedOperation"] = tuple.__new__

INSERT: Final = 1
UPDATE: Final = 2
DELETE: Final = 3
NO_PREVIOUS_VERSION: Final = 1
PAYLOAD_HASH_BYTES: Final = 32


class LoggedOperation(NamedTuple):
    """An operation as the log holds it; names and value still encoded."""

    kind: int
    flags: int
    version: int
    previous: int
    content_hash: bytes
    collection: bytes
    id: bytes
    value: bytes


class LoggedTransaction(NamedTuple):
    """A transaction's head; `operations` starts at `offset` of the payload. `versions` is None where all made one."""

    id: bytes
    payload_hash: bytes
    actor: bytes
    mutations: int
    versions: tuple[int, ...] | None
    offset: int


class LoggedTimeline(NamedTuple):
    """A timeline's beginning; ids as raw bytes, `parent` None for the first."""

    instance: bytes
    parent: bytes | None
    fork: int


def encode_operation(
    instance: bytes, sequence: int, transaction_id: bytes, at_ms: int, operation: LoggedOperation
) -> tuple[bytes, bytes]:
    """The parts of an operation, to be joined with the others of its transaction; its content hash is made here.

    The hash is SHA-256 over all that an operation says; lengths go in too, so that no two operations share their bytes.
    """
    kind, flags, version, previous, _, collection, record_id, value = operation
    names, ids, size = len(collection), len(record_id), len(value)
    said = _CONTENT.pack(instance, sequence, version, at_ms, kind, names, ids, len(transaction_id), size)
    content = collection + record_id + value
    digest = _sha256(said + transaction_id + content).digest()
    return _OPERATION.pack(kind, flags, names, 0, ids, 0, size, version, previous, digest), content


def encode_transaction_head(
    transaction_id: bytes,
    payload_hash: bytes,
    actor: bytes,
    mutations: int,
    versions: tuple[int, ...] | None,
) -> bytes:
    """The head of a transaction. `payload_hash` counts with an id only, `versions` where some mutation did nothing."""
    parts = [_TRANSACTION.pack(len(transaction_id), len(actor), mutations)]
    if transaction_id:
        parts += (transaction_id, payload_hash)
    parts.append(actor)
    if versions is not None:
        parts.append(struct.pack(f"<{len(versions)}Q", *versions))
    return b"".join(parts)


def decode_transaction(payload: bytes, count: int) -> LoggedTransaction:
    """The head of a transaction whose frame holds `count` operations."""
    id_length, actor_length, mutations = _TRANSACTION.unpack_from(payload)
    offset = _TRANSACTION.size
    transaction_id = payload[offset : offset + id_length]
    offset += id_length
    payload_hash = b""
    if id_length:
        payload_hash = payload[offset : offset + PAYLOAD_HASH_BYTES]
        offset += PAYLOAD_HASH_BYTES
    actor = payload[offset : offset + actor_length]
    offset += actor_length
    versions = None
    if mutations != count:
        versions = struct.unpack_from(f"<{mutations}Q", payload, offset)
        offset += 8 * mutations
    return LoggedTransaction(transaction_id, payload_hash, actor, mutations, versions, offset)


def decode_operations(payload: bytes, offset: int, count: int) -> Iterator[LoggedOperation]:
    """The operations from `offset` on."""
    unpack, new = _OPERATION.unpack_from, _new
    for _ in range(count):
        kind, flags, names, _r1, ids, _r2, size, version, previous, digest = unpack(payload, offset)
        name_at = offset + _OPERATION_BYTES
        id_at = name_at + names
        value_at = id_at + ids
        offset = value_at + size
        content = payload[name_at:id_at], payload[id_at:value_at], payload[value_at:offset]
        yield new(LoggedOperation, (kind, flags, version, previous, digest, *content))


def checked_operations(
    payload: bytes, offset: int, count: int, *, instance: bytes, base: int, transaction_id: bytes, at_ms: int
) -> Iterator[tuple[int, bool, int, int, int, bytes, bytes, bytes, bytes]]:
    """Of each operation from `offset` on: sequence, whether the content is what was committed, kind, flags, version,
    content hash, collection, id and value.

    Flat and in one loop, since the feed is read by the ten thousand.
    """
    unpack, content, sha256 = _OPERATION.unpack_from, _CONTENT.pack, _sha256
    id_bytes = len(transaction_id)
    for sequence in range(base + 1, base + 1 + count):
        kind, flags, names, _r1, ids, _r2, size, version, _, digest = unpack(payload, offset)
        name_at = offset + _OPERATION_BYTES
        id_at = name_at + names
        value_at = id_at + ids
        offset = value_at + size
        said = content(instance, sequence, version, at_ms, kind, names, ids, id_bytes, size)
        # Collection, id and value stand side by side here as in what is hashed.
        good = sha256(said + transaction_id + payload[name_at:offset]).digest() == digest
        yield (
            sequence,
            good,
            kind,
            flags,
            version,
            digest,
            payload[name_at:id_at],
            payload[id_at:value_at],
            payload[value_at:offset],
        )


def encode_timeline(timeline: LoggedTimeline) -> bytes:
    """The payload of a timeline frame."""
    return _TIMELINE.pack(timeline.instance, timeline.parent or bytes(16), timeline.fork, 0)


def decode_timeline(payload: bytes) -> LoggedTimeline:
    """The timeline a frame begins."""
    instance, parent, fork, _ = _TIMELINE.unpack_from(payload)
    return LoggedTimeline(instance, parent if any(parent) else None, fork)


def encode_recovery(position: int, discarded: int) -> bytes:
    """The payload of a recovery frame."""
    return _RECOVERY.pack(position, discarded)


def decode_recovery(payload: bytes) -> tuple[int, int]:
    """Where the tail began, and how many bytes it had."""
    position, discarded = _RECOVERY.unpack_from(payload)
    return position, discarded


def encode_segment(store_id: bytes, start: int, capacity: int) -> bytes:
    """The payload of a segment frame."""
    return _SEGMENT.pack(_SEGMENT_MAGIC, FORMAT, 0, store_id, start, capacity)


def segment_matches(payload: bytes, store_id: bytes, start: int, capacity: int) -> bool:
    """Whether the segment is of this store, format and place."""
    return payload == encode_segment(store_id, start, capacity)
