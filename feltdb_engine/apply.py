"""`apply`: the only code that changes the view, in commit, catch-up and rebuild alike: replay cannot differ.

Pure in files and clocks: everything comes from the frame and the view.
"""

import hashlib
import struct
from typing import Any

from feltdb_engine import contracts, floors, frame, indexes, payload, view
from feltdb_engine.frame import Frame
from feltdb_engine.indexes import Maintained
from feltdb_engine.limits import FEED_INDEX_STRIDE_BYTES
from feltdb_engine.payload import LoggedOperation
from feltdb_engine.values import loads
from feltdb_engine.view import State, Transaction, View

_BULK = 8  # from here on LMDB's own loop is faster than ours


def apply(target: View, txn: Transaction, state: State, found: Frame) -> State:
    """Bring the view one frame further, from `state`; gives the state after it, already stored."""
    timeline, instance = state.timeline, state.instance
    if found.kind == frame.TRANSACTION:
        if _transaction(target, txn, state, found):
            view.count_keys(txn)
    elif found.kind == frame.TIMELINE:
        began = payload.decode_timeline(found.payload)
        timeline, instance = timeline + 1, began.instance
        txn.put(
            view.TIMELINE_PREFIX + view.ORDINAL_KEY.pack(timeline),
            view.TIMELINE.pack(began.instance, began.parent or bytes(16), began.fork, 0),
        )
    elif found.kind == frame.RECOVERY:
        txn.put(view.RECOVERY_KEY, view.RECOVERY.pack(*payload.decode_recovery(found.payload)))
    elif found.kind == frame.ACKNOWLEDGEMENT:
        txn.delete(view.RECOVERY_KEY)
    elif found.kind == frame.INDEX:
        indexes.change(txn, found.payload)
    elif found.kind == frame.PIN:
        floors.change_pins(txn, found.payload)
    elif found.kind == frame.COMPACTION:
        floors.change_floor(txn, found.payload)
    elif found.kind == frame.CONTRACT:
        contracts.change(txn, found.payload, state.sequence)
    if found.kind != frame.TRANSACTION:
        view.count_keys(txn)
    after = State(
        found.end,
        found.crc,
        timeline,
        found.epoch,
        found.base + found.operations,
        found.at_ms,
        instance,
        found.position,
    )
    txn.put(view.STATE_KEY, view.STATE.pack(*after))
    return after


def _transaction(target: View, txn: Transaction, state: State, found: Frame) -> bool:
    """Whether a collection had its first write."""
    sequence, count, at_ms = found.base, found.operations, found.at_ms
    head = payload.decode_transaction(found.payload, count)
    puts: list[tuple[bytes, bytes]] = []
    live: dict[bytes, int] = {}
    last: dict[bytes, int] = {}
    versions: list[int] = []
    pack = view.ENTRY.pack
    indexed = indexes.maintained(target, txn)
    for operation in payload.decode_operations(found.payload, head.offset, count):
        sequence += 1
        name = operation.collection
        kind = operation.kind
        version = operation.version
        key = name + b"\0" + operation.id
        entry = pack(version, sequence, at_ms)
        last[name] = sequence
        if indexed and name in indexed:
            _index(target, txn, indexed[name], operation, key)
        if kind == payload.DELETE:
            txn.delete(key, db=target.records)
            txn.put(key, entry, db=target.tombstones)
            live[name] = live.get(name, 0) - 1
        else:
            puts.append((key, entry + operation.value))
            if kind == payload.INSERT:
                live[name] = live.get(name, 0) + 1
                if version > 1:
                    txn.delete(key, db=target.tombstones)
        versions.append(version)
    _put_records(target, txn, puts)
    first = False
    for name, written in last.items():
        records, before, floor = view.collection(txn, name)
        first = first or not before
        counted = view.COLLECTION.pack(records + live.get(name, 0), written, floor)
        txn.put(view.COLLECTION_PREFIX + name, counted)
    if count and _starts_a_stride(found):
        txn.put(view.SEQUENCE_KEY.pack(found.base), view.POSITION.pack(found.position), db=target.feed, append=True)
    if head.id:
        _remember(target, txn, state, found, head.id, head.payload_hash, head.versions or tuple(versions))
    return first


def _index(target: View, txn: Transaction, kept: list[Maintained], operation: LoggedOperation, key: bytes) -> None:
    """Move a record's entries. Called before the record itself is written."""
    old = None
    if operation.kind != payload.INSERT:
        entry = txn.get(key, db=target.records)
        old = None if entry is None else loads(entry[view.ENTRY_BYTES :])
    new = None if operation.kind == payload.DELETE else loads(operation.value)
    for one in kept:
        was = None if old is None else one.entry(old, operation.id)
        now = None if new is None else one.entry(new, operation.id)
        if was == now:
            continue
        if was is not None:
            txn.delete(was[0], db=target.index)
        if now is not None:
            txn.put(*now, db=target.index)


def _put_records(target: View, txn: Transaction, puts: list[tuple[bytes, bytes]]) -> None:
    if len(puts) < _BULK:
        for key, entry in puts:
            txn.put(key, entry, db=target.records)
        return
    puts.sort()
    with txn.cursor(db=target.records) as cursor:
        cursor.putmulti(puts)


def _starts_a_stride(found: Frame) -> bool:
    """Whether the frame reaches into a new stride: such frames, about one per stride, are named in the feed's index."""
    stride = FEED_INDEX_STRIDE_BYTES
    return found.position // stride != found.end // stride


def _remember(
    target: View,
    txn: Transaction,
    state: State,
    found: Frame,
    transaction_id: bytes,
    payload_hash: bytes,
    versions: tuple[Any, ...],
) -> None:
    digest = hashlib.sha256(transaction_id).digest()
    head = view.TRANSACTION.pack(payload_hash, found.end, found.base, found.at_ms, state.timeline, found.operations)
    txn.put(digest, head + struct.pack(f"<{len(versions)}Q", *versions), db=target.transactions)
