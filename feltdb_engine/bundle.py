"""What a backup directory says of itself, and whether that is so. Not here: making and restoring one (`backup.py`)."""

import hashlib
import os
import re
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from feltdb_engine import exclusive, manifest, plain, snapshot
from feltdb_engine.errors import BackupInvalid, EngineError
from feltdb_engine.files import Files
from feltdb_engine.manifest import Manifest
from feltdb_engine.segment import Log
from feltdb_engine.snapshot import SnapshotDamaged
from feltdb_engine.walk import Progress, Walk

MANIFEST_NAME: Final = "MANIFEST.json"
FORMAT: Final = "feltdb-backup-1"
_NAME = re.compile(r"manifest\.json|log/[0-9]{20}\.seg|snapshots/[0-9]{20}\.snap")
_CHUNK = 1 << 20
_MANIFEST_MAX_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One file of a backup. `name` is relative to it."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BackupInfo:
    """What a backup holds: this store, on this timeline, up to `sequence`, whose frame ends at `position`."""

    store_id: str
    instance_id: str
    sequence: int
    position: int
    crc: int
    made_at_ms: int
    files: tuple[FileEntry, ...]


def encode(info: BackupInfo) -> bytes:
    """The bytes of `MANIFEST.json`; there is exactly one form, so that any other byte is damage."""
    members: dict[str, Any] = {"format": FORMAT, **asdict(info)}
    members["sha256"] = hashlib.sha256(orjson.dumps(members)).hexdigest()
    return orjson.dumps(members, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_info(path: Path) -> BackupInfo:
    """The manifest of a backup, held against its own digest. Raises BackupInvalid."""
    _refuse_link(path, directory=True, name=".")
    _refuse_link(path / MANIFEST_NAME, directory=False, name=MANIFEST_NAME)
    with open(path / MANIFEST_NAME, "rb") as file:
        data = file.read(_MANIFEST_MAX_BYTES + 1)
    try:
        members = orjson.loads(data)
        entries = tuple(FileEntry(**entry) for entry in members.pop("files"))
        members.pop("sha256")
        if members.pop("format") != FORMAT:
            raise ValueError("format")
        info = BackupInfo(**members, files=entries)
        for made in (info, *entries):
            plain.check(made)
        same = encode(info) == data
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupInvalid("MANIFEST.json is not one of a backup this version made.", file=MANIFEST_NAME) from error
    if not same:
        raise BackupInvalid("MANIFEST.json is not what was written.", file=MANIFEST_NAME)
    for entry in info.files:
        if not _NAME.fullmatch(entry.name):
            raise BackupInvalid(f"The name {entry.name!r} has no place in a backup.", file=entry.name)
    names = [entry.name for entry in info.files]
    if len(set(names)) != len(names) or manifest.NAME not in names:
        raise BackupInvalid("MANIFEST.json names a file twice, or not the store's manifest.", file=MANIFEST_NAME)
    return info


def check_files(path: Path, info: BackupInfo) -> None:
    """Every file named is there, plain, and of the bytes named; and no other is. Raises BackupInvalid."""
    _refuse_link(path / exclusive.LOG, directory=True, name=exclusive.LOG)
    named = {entry.name for entry in info.files}
    there = set(os.listdir(path)) - {MANIFEST_NAME}
    for directory in {exclusive.LOG, snapshot.DIRECTORY} & there:
        _refuse_link(path / directory, directory=True, name=directory)
        there = there - {directory} | {f"{directory}/{name}" for name in os.listdir(path / directory)}
    for name in sorted(there - named):
        raise BackupInvalid(f"{name} is not in the manifest.", file=name)
    for entry in info.files:
        _refuse_link(path / entry.name, directory=False, name=entry.name)
        if _digest(path / entry.name) != (entry.size, entry.sha256):
            raise BackupInvalid(f"{entry.name} is not what was written.", file=entry.name)


def _refuse_link(path: Path, *, directory: bool, name: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise BackupInvalid(f"{name} is missing.", file=name) from error
    if not (stat.S_ISDIR(mode) if directory else stat.S_ISREG(mode)):
        raise BackupInvalid(f"{name} is a link or something else a backup does not hold.", file=name)


def _digest(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()


def read_manifest(files: Files, path: Path, info: BackupInfo) -> Manifest:
    """The store's manifest in a backup. Raises BackupInvalid."""
    try:
        found = manifest.read(files, path)
        if found is not None:
            plain.check(found)
            plain.check_whole(*found.start, *(number for ref in found.snapshots for number in ref))
            bytes.fromhex(found.store_id)
    except (EngineError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupInvalid("The store's manifest in the backup cannot be read.", file=manifest.NAME) from error
    if found is None or found.store_id != info.store_id:
        raise BackupInvalid("The store's manifest in the backup is of another store.", file=manifest.NAME)
    return found


def check_snapshots(files: Files, path: Path, info: BackupInfo) -> None:
    """Every snapshot the manifest names is there, whole, and holds what the log brings to its end. BackupInvalid."""
    found = read_manifest(files, path, info)
    for ref in found.snapshots:
        name = f"{snapshot.DIRECTORY}/{snapshot.name_of(ref.position)}"
        try:
            for _ in snapshot.read(files, path / name, found.store_id, ref):
                pass
        except (SnapshotDamaged, OSError) as error:
            raise BackupInvalid(f"The snapshot {name} is damaged. {error}", file=name) from error
        if ref.until > info.position:
            raise BackupInvalid(f"The log ends before the snapshot {name} is whole.", file=name)
    if found.start.position and not found.snapshots:
        raise BackupInvalid("The log has no beginning, and there is no snapshot.", file=manifest.NAME)


def walk_log(
    files: Files, path: Path, info: BackupInfo, end: int, progress: Progress | None, *, until: int | None = None
) -> Walk:
    """Judge every frame of a backup's log, or those up to a sequence. Raises BackupInvalid."""
    walk = walk_frames(files, path, read_manifest(files, path, info), end)
    before = walk.chain
    for one in walk:
        if until is not None and one.last > until:
            walk.chain = before
            break
        before = walk.chain
        if progress is not None:
            progress(one.end, end)
    return walk


def walk_frames(files: Files, path: Path, found: Manifest, end: int) -> Walk:
    """The frames of a backup's log."""
    log = Log(files, path / exclusive.LOG, bytes.fromhex(found.store_id), found.segment_bytes)
    return Walk(log, found.start, end, found.instance_at_start)
