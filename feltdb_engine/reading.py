"""Reading records by key, and the moments that pages and queries are answered over.

Every answer waits until the state it used is durable: a key by the sequence of its record or tombstone, a page by
that of its collection's last write. Readers never block and see one consistent moment.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Literal

import lmdb

from feltdb_engine import limits, positions, view
from feltdb_engine.core import Core
from feltdb_engine.durability import Durability, has_no_room
from feltdb_engine.errors import DeadlineExceeded, InvalidKey, ScanLimitExceeded
from feltdb_engine.manifest import COMPACTED_FORMAT
from feltdb_engine.model import CollectionInfo, Health, Record
from feltdb_engine.moment import Moment, Present, decoded, with_value
from feltdb_engine.values import encode_collection, encode_key, encode_transaction_id, loads
from feltdb_engine.view import ENTRY, ENTRY_BYTES, StoredTransaction, Timeline
from feltdb_engine.writer import Writer

_KEY_MAX_BYTES = limits.COLLECTION_MAX_CHARS + 1 + limits.ID_MAX_BYTES
_DURABLE_SEQUENCE = positions.DURABLE_SEQUENCE
Storage = Literal["clean", "recovered-incomplete-write", "failed", "rebuilding", "damaged"]
_unpack = ENTRY.unpack_from
# Records are made by the ten thousand: past the keyword constructor, in the order of the fields.
_new: Callable[..., Record] = tuple.__new__


class Now:
    """A moment to be used in a `with`: what is left of it without an error, or short of its budget, is durable.

    A generator would do; it would cost as much again as what it does.
    """

    __slots__ = ("_deadline", "_last_write", "_names", "_reader", "_txn")

    def __init__(self, reader: "Reader", names: Sequence[bytes], deadline: float | None) -> None:
        self._reader = reader
        self._names = names
        self._deadline = deadline

    def __enter__(self) -> Moment:
        self._txn = self._reader.view.read()
        try:
            moment = Present(self._reader.view, self._txn)
            self._last_write = max([moment.counted(name)[1] for name in self._names], default=0)
        except BaseException:
            self._txn.abort()
            raise
        return moment

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._txn.abort()
        if kind is None or isinstance(error, ScanLimitExceeded):
            self._reader.settle(self._last_write, self._deadline)


class Reader:
    """The reading side of an open store."""

    def __init__(self, core: Core, durability: Durability, writer: Writer) -> None:
        self._core = core
        self._words = core.words
        self.view = core.view
        self._begin = core.view.env.begin
        self._durability = durability
        self._writer = writer
        self._next_check = time.monotonic() + limits.READER_CHECK_INTERVAL_S

    def get(self, key: str, deadline: float | None = None) -> Record | None:
        """The live record, or None."""
        raw = _raw_key(key)
        with self._begin() as txn:
            entry = txn.get(raw, None, self.view.records)
            if entry is None:
                entry = txn.get(raw, None, self.view.tombstones)
                if entry is None:
                    encode_key(key)
                    return None
                self.settle(_unpack(entry)[1], deadline)
                return None
        version, sequence, at_ms = _unpack(entry)
        if sequence > self._words[_DURABLE_SEQUENCE]:
            self.settle(sequence, deadline)
        collection, _, record_id = key.partition(":")
        return _new(Record, (collection, record_id, version, sequence, at_ms, loads(entry[ENTRY_BYTES:])))

    def get_many(self, keys: Sequence[str], deadline: float | None) -> list[Record | None]:
        """The live records, in the order asked, of one moment."""
        if len(keys) > limits.GET_MANY_MAX_KEYS:
            raise InvalidKey(f"At most {limits.GET_MANY_MAX_KEYS} keys at once.")
        encoded = [encode_key(key) for key in keys]
        found: list[Record | None] = [None] * len(keys)
        live: list[tuple[int, bytes]] = []
        newest = 0
        with self._begin() as txn:
            for place, (collection, record_id) in enumerate(encoded):
                raw = view.record_key(collection, record_id)
                entry = self.view.record(txn, raw)
                used = entry or self.view.tombstone(txn, raw)
                if used is not None:
                    newest = max(newest, _unpack(used)[1])
                if entry is not None:
                    live.append((place, entry))
        for place, entry, value in decoded(live):
            collection, record_id = encoded[place]
            found[place] = with_value(collection.decode(), record_id, entry, value)
        self.settle(newest, deadline)
        return found

    def now(self, collections: Sequence[str], deadline: float | None) -> "Now":
        """The present, for one answer about these collections, which is given once what it rests on is durable."""
        return Now(self, [encode_collection(name) for name in collections], deadline)

    def collections(self) -> list[CollectionInfo]:
        """The collections that have live records, in name order."""
        with self._begin() as txn:
            found = view.collections(txn)
        self.settle(max((last for _, _, last in found), default=0))
        return [CollectionInfo(name=name.decode(), records=live) for name, live, _ in found if live]

    def transaction(self, transaction_id: str) -> StoredTransaction | None:
        """The first outcome of a transaction id, once that is durable."""
        digest = hashlib.sha256(encode_transaction_id(transaction_id)).digest()
        with self._begin() as txn:
            known = self.view.transaction(txn, digest)
        if known is not None:
            self._published(positions.WRITTEN, known.end)
            self._durability.wait(known.end, known.base + known.operations)
        return known

    def timelines(self) -> list[Timeline]:
        """The timelines of the log, oldest first."""
        with self._begin() as txn:
            return view.timelines(txn)

    def health(self, *, read_only: bool) -> Health:
        """What can be observed now."""
        words = self._words
        with self._begin() as txn:
            state = view.state(txn)
            cut = view.recovery(txn)
            floor = view.floor(txn)
        storage: Storage = "clean" if cut is None else "recovered-incomplete-write"
        if words[positions.STATE] == positions.FAILED:
            storage = "failed"
        elif words[positions.STATE] != positions.LIVE:
            storage = "rebuilding"
        elif self._core.damage is not None:
            storage = "damaged"
        reasons = [] if storage == "clean" else [str(storage)]
        if has_no_room(self._core.path, limits.PREPARE_STEP_BYTES):
            reasons.append("full")
        if read_only:
            reasons.append("read-only")
        offset = None if cut is None else cut[0]
        return Health(
            storage=storage,
            byte_offset=state.position if storage == "damaged" else offset,
            discarded_bytes=None if cut is None else cut[1],
            durable_format=COMPACTED_FORMAT if words[positions.SNAPSHOT] else self._core.manifest.format,
            store_id=self._core.manifest.store_id,
            instance_id=state.instance.hex(),
            written=words[positions.WRITTEN],
            durable=words[positions.DURABLE],
            head=words[_DURABLE_SEQUENCE],
            floor=floor.sequence,
            snapshot=words[positions.SNAPSHOT] - 1 if words[positions.SNAPSHOT] else None,
            reasons=tuple(reasons),
        )

    def settle(self, sequence: int, deadline: float | None = None) -> None:
        """Return once everything up to `sequence` is durable, also where its writer was killed before publishing it.

        Raises StorageFailed, DeadlineExceeded.
        """
        words = self._words
        if sequence <= words[_DURABLE_SEQUENCE]:
            return
        try:
            self._published(positions.WRITTEN_SEQUENCE, sequence, deadline)
            self._durability.wait_sequence(sequence, deadline)
        except DeadlineExceeded as error:
            raise DeadlineExceeded("The deadline passed before what was read was known to be on disk.") from error

    def _published(self, word: int, target: int, deadline: float | None = None) -> None:
        patience = time.monotonic() + limits.FORCE_PATIENCE_S
        while self._words[word] < target:
            now = time.monotonic()
            if now > patience:
                until = now + limits.TURN_WAIT_S
                self._writer.catch_up(until if deadline is None else min(until, deadline))
                return
            time.sleep(0.0001)

    def check_readers(self) -> None:
        """Once in a while: free the slots of readers that were killed."""
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + limits.READER_CHECK_INTERVAL_S
            with contextlib.suppress(lmdb.Error):
                self.view.env.reader_check()


def _raw_key(key: str) -> bytes:
    try:
        raw = key.encode().replace(b":", b"\0", 1)
    except (UnicodeEncodeError, AttributeError):
        encode_key(key)
        raise
    if len(raw) > _KEY_MAX_BYTES or ":" not in key:
        encode_key(key)
        raise InvalidKey("A key is collection:id.")
    return raw
