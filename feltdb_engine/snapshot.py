"""Snapshot files: a state of the view from which the log goes on. This module alone reads and writes their layout.

    snapshots/00000000000067109240.snap     named by the position from which the log goes on, 20 digits

Blocks, one after the other; numbers little-endian:

     0  u32  crc               CRC-32C of bytes 4 to the end of the block, seeded with that of the block before (0)
     4  u32  length            of the whole block
     8  u8   kind              1 head, 2 own, 3 records, 4 tombstones, 5 transactions, 6 feed, 7 end
     9  u8   reserved          0, three times
    12  u32  entries           in the payload
    16       payload

Head: JSON, {"format":0,"store_id","position","sequence"}. End: u64 until, u64 entries in all; nothing follows it. The
others hold entries in key order, each u16 key length, u32 value length, key, value, as the database of that name in
`view.py` has them (format 2 of the view; "own" is the unnamed one). Indexes are built anew.

A snapshot is made while others write. Its own entries are of the one moment at `position`. Of the rest it holds what
was there at that moment, less the records written since, which the log after `position` brings again: `apply` puts
whole records, so replaying to `until`, the position when the last entry was read, makes the state whole. Everything
up to `until` was durable before the snapshot got its name.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import google_crc32c
import orjson

from feltdb_engine import limits, view
from feltdb_engine.core import Core
from feltdb_engine.entries import Entries, pages
from feltdb_engine.files import File, Files, exists
from feltdb_engine.manifest import SnapshotRef
from feltdb_engine.view import State, Transaction
from feltdb_engine.walk import Progress
from feltdb_engine.writer import Writer

DIRECTORY: Final = "snapshots"
SUFFIX: Final = ".snap"
FORMAT: Final = 0

HEAD: Final = 1
OWN: Final = 2
KINDS: Final = {"records": 3, "tombstones": 4, "transactions": 5, "feed": 6}
END: Final = 7

_BLOCK: Final = struct.Struct("<IIB3xI")
_BODY: Final = struct.Struct("<IB3xI")
_CRC: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<HI")
_END: Final = struct.Struct("<QQ")


class SnapshotDamaged(Exception):
    """The file is not what was written."""


def name_of(position: int) -> str:
    """The file name of the snapshot from which the log goes on at `position`."""
    return f"{position:020d}{SUFFIX}"


def path_of(directory: Path, ref: SnapshotRef) -> Path:
    """Where a store keeps a snapshot."""
    return directory / DIRECTORY / name_of(ref.position)


def take(core: Core, writer: Writer, progress: Progress | None) -> SnapshotRef:
    """Write a snapshot of the view while others use it; it is there for good, whole, once this returns."""
    files, directory = core.files, core.path / DIRECTORY
    if not exists(files, directory):
        files.make_directory(directory)
        files.force_names(core.path)
    with core.view.read() as txn:
        state = view.state(txn)
        own = _own_entries(txn)
        total = _used_bytes(core, txn)
    path = directory / name_of(state.position)
    fresh = path.with_suffix(".new")
    if exists(files, fresh):
        files.remove(fresh)
    files.step("snapshot begun")
    blocks = _BlockWriter(files.open(fresh, create=True))
    try:
        head = {
            "format": FORMAT,
            "store_id": core.manifest.store_id,
            "position": state.position,
            "sequence": state.sequence,
        }
        blocks.block(HEAD, 0, orjson.dumps(head))
        blocks.entries(OWN, own)
        floor = _floor(own)
        for name, kind in KINDS.items():
            for page in pages(core.view, getattr(core.view, name)):
                blocks.entries(kind, _of_the_moment(name, page, state, floor))
                files.step("snapshot block")
                if progress is not None:
                    progress(min(blocks.size, total), total)
        until = writer.settled().position
        blocks.block(END, 0, _END.pack(until, blocks.count))
        files.step("snapshot written")
        blocks.file.force()
    finally:
        blocks.file.close()
    files.step("snapshot forced")
    files.rename(fresh, path)
    files.force_names(directory)
    files.step("snapshot named")
    if progress is not None:
        progress(total, total)
    return SnapshotRef(state.position, state.sequence, until, blocks.size)


def read(files: Files, path: Path, store_id: str, ref: SnapshotRef) -> Iterator[tuple[int, Entries]]:
    """The kinds and entries of a snapshot, in order. Raises SnapshotDamaged, at the latest at its end, and OSError."""
    if not exists(files, path):
        raise SnapshotDamaged("It is missing.")
    file = files.open(path)
    try:
        if file.size() != ref.bytes:
            raise SnapshotDamaged("It is not as long as it was.")
        yield from _read(file, store_id, ref)
    finally:
        file.close()


def _read(file: File, store_id: str, ref: SnapshotRef) -> Iterator[tuple[int, Entries]]:
    at = crc = count = 0
    kind = 0
    while kind != END:
        head = file.read(at, _BLOCK.size)
        if len(head) < _BLOCK.size:
            raise SnapshotDamaged(f"It ends at byte {at}, too early.")
        said, length, kind, entries = _BLOCK.unpack(head)
        if not _BLOCK.size <= length <= limits.SNAPSHOT_BLOCK_MAX_BYTES:
            raise SnapshotDamaged(f"The block at byte {at} is not what was written.")
        data = file.read(at, length)
        crc = google_crc32c.extend(crc, data[4:])
        if len(data) < length or crc != said or head[9:12] != bytes(3):
            raise SnapshotDamaged(f"The block at byte {at} is not what was written.")
        payload = data[_BLOCK.size :]
        if at == 0:
            expected = {"format": FORMAT, "store_id": store_id, "position": ref.position, "sequence": ref.sequence}
            if kind != HEAD or orjson.loads(payload) != expected:
                raise SnapshotDamaged("It is another snapshot than the one named.")
        elif kind != END:
            count += entries
            yield kind, _decoded(payload, entries)
        at += length
    if _END.unpack(payload) != (ref.until, count) or at != ref.bytes:
        raise SnapshotDamaged("It does not end as it was written.")


def _decoded(payload: bytes, count: int) -> Entries:
    found, at = [], 0
    for _ in range(count):
        key_bytes, value_bytes = _ENTRY.unpack_from(payload, at)
        key_at = at + _ENTRY.size
        value_at = key_at + key_bytes
        at = value_at + value_bytes
        found.append((payload[key_at:value_at], payload[value_at:at]))
    return found


def _own_entries(txn: Transaction) -> Entries:
    """All that the unnamed database holds, of one moment, but how far a sweep has come and how many keys there are."""
    with txn.cursor() as cursor:
        cursor.first()
        found = []
        for key, value in cursor.iternext():
            if key >= view.OWN_KEYS_END:
                break
            if key not in (view.SWEPT_KEY, view.KEYS_KEY):
                found.append((key, value))
        return found


def _floor(own: Entries) -> view.Floor:
    return view.unpack_floor(dict(own)[view.FLOOR_KEY])


def _of_the_moment(name: str, page: Entries, state: State, floor: view.Floor) -> Entries:
    """The entries that were there at `state`, less what is forgotten."""
    if name == "records":
        return [item for item in page if view.ENTRY.unpack_from(item[1])[1] <= state.sequence]
    if name == "tombstones":
        return [item for item in page if floor.forgotten < view.ENTRY.unpack_from(item[1])[1] <= state.sequence]
    if name == "transactions":
        return [item for item in page if _remembered(item[1], state, floor)]
    begin, end = floor.start.position, state.position
    return [item for item in page if begin <= view.POSITION.unpack(item[1])[0] < end]


def _remembered(data: bytes, state: State, floor: view.Floor) -> bool:
    end, base = view.transaction_base(data)
    return end <= state.position and base >= floor.ids_from


def _used_bytes(core: Core, txn: Transaction) -> int:
    """About how long the snapshot will be."""
    info, page = core.view.env.info(), core.view.env.stat()["psize"]
    return int((info["last_pgno"] + 1) * page * (1 - core.view.free_share(txn)))


class _BlockWriter:
    """Writes blocks, each checksummed after the one before, and forces now and then."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = self.count = 0
        self._crc = 0
        self._forced = 0

    def entries(self, kind: int, found: Entries) -> None:
        """Blocks of entries, none larger than one may be."""
        parts: list[bytes] = []
        size = held = 0
        for key, value in found:
            parts += (_ENTRY.pack(len(key), len(value)), key, value)
            size += _ENTRY.size + len(key) + len(value)
            held += 1
            if size >= limits.SNAPSHOT_BLOCK_BYTES:
                self.block(kind, held, b"".join(parts))
                parts, size, held = [], 0, 0
        if held:
            self.block(kind, held, b"".join(parts))

    def block(self, kind: int, entries: int, payload: bytes) -> None:
        """One block at the end of the file."""
        body = _BODY.pack(_BLOCK.size + len(payload), kind, entries) + payload
        self._crc = google_crc32c.extend(self._crc, body)
        self.file.write(self.size, _CRC.pack(self._crc) + body)
        self.size += _CRC.size + len(body)
        self.count += entries
        if self.size - self._forced >= limits.SNAPSHOT_FORCE_BYTES:
            self.file.force()
            self._forced = self.size
