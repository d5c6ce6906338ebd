"""The view: the latest state as an LMDB environment that many processes map. This module alone knows its layout.

It can be deleted at any time: `apply.py` makes it again from the log. Layout, format number 4 (`FORMAT`; another number
means rebuild), numbers little-endian except in keys, where they are big-endian so that they sort:

    unnamed     00 "state"             u64 position, u32 crc, u32 timeline, u64 epoch, u64 sequence, i64 at_ms, 16s
    instance,
                                   u64 begin: where the frame that ends at position begins
                00 "recovery"          u64 position, u64 discarded: the last recovery nobody has acknowledged
                00 "indexes"           JSON: the indexes, see `indexes.py`
                00 "contract"          JSON: the contract, see `contracts.py`
                01 collection          u64 live records, u64 sequence of its last write, u64 version floor
                02 u32 ordinal         16s instance, 16s parent, u64 fork, u64 reserved
                03 name                u64 sequence, i64 expires_at_ms (the highest = never): a pin
                00 "floor"             u64 position, u32 crc, u64 epoch, u64 sequence, i64 at_ms: the chain before the
                                       oldest frame kept; u64 forgotten: tombstones up to that sequence are; u64
                                       ids_from: ids of transactions based below are
                00 "swept"             the floor of the last sweep that came to its end
                00 "keys"              u64 keys of the unnamed database, this one and the names of the others included
    records     collection 00 id       u64 version, u64 sequence, i64 at_ms, value
    tombstones  collection 00 id       u64 version, u64 sequence, i64 at_ms
    transactions  SHA-256 of the id    32s payload hash, u64 end position, u64 base, i64 at_ms, u32 timeline,
                                       u32 operations, then u64 version after it per mutation
    feed        u64 sequence           u64 position of the frame that goes on from that sequence; about one per 16 KiB
    index       see `indexes.py`

A record is in `records` or, once deleted, in `tombstones`, which keep its version counting. What is
forgotten (tombstones, ids, places in the feed before the start) counts as absent, whether a compaction has swept it
away yet or not. A version floor is at least every version that forgotten tombstones had.
"""

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import lmdb

from feltdb_engine import limits
from feltdb_engine.frame import Chain

if TYPE_CHECKING:
    from feltdb_engine.contract import Contract
    from feltdb_engine.enforcing import Rules
    from feltdb_engine.indexes import Maintained

FORMAT: Final = 4
STATE_KEY: Final = b"\x00state"
RECOVERY_KEY: Final = b"\x00recovery"
INDEXES_KEY: Final = b"\x00indexes"
CONTRACT_KEY: Final = b"\x00contract"
FLOOR_KEY: Final = b"\x00floor"
SWEPT_KEY: Final = b"\x00swept"
KEYS_KEY: Final = b"\x00keys"
OWN_KEYS_END: Final = b"\x20"  # LMDB keeps the names of the other databases among ours
COLLECTION_PREFIX: Final = b"\x01"
TIMELINE_PREFIX: Final = b"\x02"
PIN_PREFIX: Final = b"\x03"

STATE: Final = struct.Struct("<QIIQQq16sQ")
RECOVERY: Final = struct.Struct("<QQ")
KEYS: Final = struct.Struct("<Q")
COLLECTION: Final = struct.Struct("<QQQ")
TIMELINE: Final = struct.Struct("<16s16sQQ")
PIN: Final = struct.Struct("<Qq")
FLOOR: Final = struct.Struct("<QIQQqQQ")
NEVER: Final = (1 << 63) - 1
ENTRY: Final = struct.Struct("<QQq")
ENTRY_BYTES: Final = ENTRY.size
TRANSACTION: Final = struct.Struct("<32sQQqII")
POSITION: Final = struct.Struct("<Q")
SEQUENCE_KEY: Final = struct.Struct(">Q")
ORDINAL_KEY: Final = struct.Struct(">I")

Transaction: TypeAlias = "lmdb.Transaction[bytes]"

BROKEN: Final = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.NotFoundError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
"""What LMDB and this module say of a file that is no whole view: it must be made again."""


class State(NamedTuple):
    """How far the view is, and on which timeline."""

    position: int
    crc: int
    timeline: int
    epoch: int
    sequence: int
    at_ms: int
    instance: bytes
    begin: int

    def chain(self) -> Chain:
        """The state the next frame goes on from."""
        return Chain(self.position, self.crc, self.epoch, self.sequence, self.at_ms)


class StoredTransaction(NamedTuple):
    """The first outcome of a transaction id."""

    payload_hash: bytes
    end: int
    base: int
    at_ms: int
    timeline: int
    operations: int
    versions: tuple[int, ...]


class Timeline(NamedTuple):
    """One timeline; its parent was left after `fork`."""

    instance: bytes
    parent: bytes | None
    fork: int


class Floor(NamedTuple):
    """Where the log begins, and what is forgotten."""

    start: Chain
    forgotten: int
    ids_from: int

    @property
    def sequence(self) -> int:
        """The sequence before the oldest operation kept."""
        return self.start.sequence

    def pack(self) -> bytes:
        """As the view keeps it."""
        return FLOOR.pack(*self.start, *self[1:])


def record_key(collection: bytes, record_id: bytes) -> bytes:
    """The key of a record; collections never contain the separator."""
    return collection + b"\0" + record_id


class View:
    """An open view. Whoever writes holds the turn."""

    def __init__(self, directory: Path, map_bytes: int) -> None:
        self.env = lmdb.Environment(
            str(directory),
            map_size=map_bytes,
            max_readers=limits.VIEW_MAX_READERS,
            max_dbs=limits.VIEW_MAX_DATABASES,
            max_spare_txns=16,
            sync=False,
            metasync=False,
            writemap=False,
            mode=0o640,
        )
        self.env.reader_check()
        self.known_indexes: tuple[bytes, Mapping[bytes, list[Maintained]]] | None = None
        self.known_rules: tuple[bytes, bytes, list[Contract], Rules] | None = None

    @classmethod
    def create(cls, directory: Path, map_bytes: int, start: Chain) -> "View":
        """An empty view. The caller has the directory, which is empty, to itself."""
        cls(directory, map_bytes).close()
        # LMDB leaves its lock file sparse: touching a hole on a full disk would be SIGBUS.
        fd = os.open(directory / "lock.mdb", os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(fd, 0, os.fstat(fd).st_size)
        finally:
            os.close(fd)
        made = cls(directory, map_bytes)
        made._make(start)
        return made

    def _make(self, start: Chain) -> None:
        with self.env.begin(write=True) as txn:
            self._databases(txn, create=True)
            txn.put(STATE_KEY, STATE.pack(*empty_state(start)))
            txn.put(FLOOR_KEY, Floor(start, 0, 0).pack())
            count_keys(txn)

    def attach(self) -> None:
        """Find the databases. Raises `lmdb.Error` where this is not a whole view. The caller holds the turn.

        A write transaction, because what a read transaction opens ends with it.
        """
        with self.env.begin(write=True) as txn:
            self._databases(txn, create=False)
            reached = state(txn)
            floor(txn)
            if len(timelines(txn)) != reached.timeline:
                raise lmdb.CorruptedError("the view lacks a timeline")
            if txn.get(KEYS_KEY) != KEYS.pack(txn.stat()["entries"]):
                raise lmdb.CorruptedError("the view lacks a key")

    def _databases(self, txn: Transaction, *, create: bool) -> None:
        self.records = self.env.open_db(b"records", txn=txn, create=create)
        self.tombstones = self.env.open_db(b"tombstones", txn=txn, create=create)
        self.transactions = self.env.open_db(b"transactions", txn=txn, create=create)
        self.feed = self.env.open_db(b"feed", txn=txn, create=create)
        self.index = self.env.open_db(b"index", txn=txn, create=create)

    def read(self) -> Transaction:
        """A read transaction: one consistent moment. Keep it short."""
        return self.env.begin()

    def write(self) -> Transaction:
        """The write transaction. The caller holds the turn."""
        return self.env.begin(write=True)

    def close(self) -> None:
        """Let go of the environment."""
        self.env.close()

    def record(self, txn: Transaction, key: bytes) -> bytes | None:
        """The entry of a live record."""
        return txn.get(key, db=self.records)

    def tombstone(self, txn: Transaction, key: bytes) -> bytes | None:
        """The entry of a deleted record."""
        return txn.get(key, db=self.tombstones)

    def transaction(self, txn: Transaction, digest: bytes) -> StoredTransaction | None:
        """The first outcome of a transaction id that is remembered, by the SHA-256 of the id."""
        data = txn.get(digest, db=self.transactions)
        if data is None:
            return None
        head = TRANSACTION.unpack_from(data)
        count = (len(data) - TRANSACTION.size) // 8
        payload_hash, end, base, at_ms, timeline, operations = head
        if base < floor(txn).ids_from:
            return None
        versions = struct.unpack_from(f"<{count}Q", data, TRANSACTION.size)
        return StoredTransaction(payload_hash, end, base, at_ms, timeline, operations, versions)

    def databases(self) -> dict[str, Any]:
        """The databases beside the unnamed one, by name."""
        return {name: getattr(self, name) for name in ("records", "tombstones", "transactions", "feed", "index")}

    def free_share(self, txn: Transaction) -> float:
        """Which part of the file holds nothing."""
        stats = [self.env.stat(), *(txn.stat(db) for db in self.databases().values())]
        used = sum(one["branch_pages"] + one["leaf_pages"] + one["overflow_pages"] for one in stats)
        return max(0.0, 1 - used / (self.env.info()["last_pgno"] + 1))

    def feed_position(self, txn: Transaction, after: int, begin: int) -> int | None:
        """The position, at or past `begin`, of a frame that goes on from a sequence at or before `after`."""
        with txn.cursor(db=self.feed) as cursor:
            key = SEQUENCE_KEY.pack(after)
            found = cursor.set_range(key)
            if not (found and cursor.key() == key) and not (cursor.prev() if found else cursor.last()):
                return None
            (position,) = POSITION.unpack(cursor.value())
            return position if position >= begin else None


def empty_state(chain: Chain) -> State:
    """The state of a view to which nothing was applied yet; timelines are counted from 1."""
    return State(chain.position, chain.crc, 0, chain.epoch, chain.sequence, chain.at_ms, bytes(16), chain.position)


def state(txn: Transaction) -> State:
    """How far the view is. Raises `lmdb.Error` where this is no view of ours."""
    data = txn.get(STATE_KEY)
    if data is None or len(data) != STATE.size:
        raise lmdb.CorruptedError("the view has no state")
    return State(*STATE.unpack(data))


def floor(txn: Transaction) -> Floor:
    """Where the log begins and what is forgotten. Raises `lmdb.Error` where this is no view of ours."""
    data = txn.get(FLOOR_KEY)
    if data is None or len(data) != FLOOR.size:
        raise lmdb.CorruptedError("the view has no floor")
    return unpack_floor(data)


def unpack_floor(data: bytes) -> Floor:
    """The floor as the view keeps it."""
    fields = FLOOR.unpack(data)
    return Floor(Chain(*fields[:5]), *fields[5:])


def transaction_base(data: bytes) -> tuple[int, int]:
    """End position and base sequence of a remembered transaction."""
    _, end, base, *_ = TRANSACTION.unpack_from(data)
    return end, base


def count_keys(txn: Transaction) -> None:
    """Keep how many keys the unnamed database has: after each change that adds one or removes one."""
    txn.put(KEYS_KEY, KEYS.pack(0))
    txn.put(KEYS_KEY, KEYS.pack(txn.stat()["entries"]))


def recovery(txn: Transaction) -> tuple[int, int] | None:
    """Position and discarded bytes of the last recovery nobody has acknowledged."""
    data = txn.get(RECOVERY_KEY)
    return None if data is None else RECOVERY.unpack(data)


def collection(txn: Transaction, name: bytes) -> tuple[int, int, int]:
    """Live records, sequence of the last write, version floor."""
    data = txn.get(COLLECTION_PREFIX + name)
    return (0, 0, 0) if data is None else _counted(data)


def _counted(data: bytes) -> tuple[int, int, int]:
    if len(data) != COLLECTION.size:
        raise lmdb.CorruptedError("what the view says of a collection cannot be read")
    return COLLECTION.unpack(data)


def collections(txn: Transaction) -> list[tuple[bytes, int, int]]:
    """All collections there ever were, in name order: name, live records, sequence of the last write."""
    found = []
    with txn.cursor() as cursor:
        cursor.set_range(COLLECTION_PREFIX)
        for key, data in cursor:
            if not key.startswith(COLLECTION_PREFIX):
                break
            live, last, _ = _counted(data)
            found.append((key[1:], live, last))
    return found


def pins(txn: Transaction) -> dict[str, tuple[int, int]]:
    """All pins by name, expired ones included: sequence, and when they expire."""
    found = {}
    with txn.cursor() as cursor:
        cursor.set_range(PIN_PREFIX)
        for key, data in cursor:
            if not key.startswith(PIN_PREFIX):
                break
            sequence, expires_at_ms = PIN.unpack(data)
            found[key[1:].decode()] = (sequence, expires_at_ms)
    return found


def timelines(txn: Transaction) -> list[Timeline]:
    """All timelines of the log, oldest first. Raises `lmdb.Error` where this is no view of ours."""
    found = []
    with txn.cursor() as cursor:
        cursor.set_range(TIMELINE_PREFIX)
        for key, data in cursor:
            if not key.startswith(TIMELINE_PREFIX):
                break
            if len(data) != TIMELINE.size:
                raise lmdb.CorruptedError("a timeline of the view cannot be read")
            instance, parent, fork, _ = TIMELINE.unpack(data)
            found.append(Timeline(instance, parent if any(parent) else None, fork))
    return found


def instance_after(txn: Transaction, sequence: int) -> bytes:
    """The timeline that an operation after this sequence belongs to, as far as they have begun."""
    return [one.instance for one in timelines(txn) if one.fork <= sequence][-1]
