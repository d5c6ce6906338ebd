"""Backup while serving, and restore into a new directory.

    dest/MANIFEST.json      what the backup holds, with size and SHA-256 of each file, and of itself
    dest/manifest.json      the store's manifest
    dest/log/*.seg          the segments up to a frame's end that was durable when the backup began
    dest/snapshots/*.snap   the snapshots the manifest names

The log below the durable position never changes, so it is copied without stopping anyone; the view is not in it, since
the log makes it. Both directions write to a hidden directory beside the target, force it, and rename it last: what
has the target's name is whole. `MANIFEST.json` comes last into that directory.
"""

import hashlib
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

from feltdb_engine import exclusive, manifest, snapshot, view
from feltdb_engine.beside import beside
from feltdb_engine.bundle import (
    MANIFEST_NAME,
    BackupInfo,
    FileEntry,
    check_files,
    check_snapshots,
    encode,
    read_info,
    read_manifest,
    walk_frames,
    walk_log,
)
from feltdb_engine.compaction import files_kept
from feltdb_engine.core import Core
from feltdb_engine.durability import Durability
from feltdb_engine.errors import BackupInvalid, DestinationExists
from feltdb_engine.files import Files, OSFiles, write_whole
from feltdb_engine.frame import Chain
from feltdb_engine.manifest import Manifest
from feltdb_engine.segment import segment_name
from feltdb_engine.walk import Progress

_CHUNK = 1 << 20


def backup(core: Core, durability: Durability, dest: Path, progress: Progress | None) -> BackupInfo:
    """Copy everything committed up to now. Raises DestinationExists."""
    _refuse_inside(core.path, dest)
    with files_kept(core), beside(core.files, dest) as partial:
        kept = manifest.read(core.files, core.path) or core.manifest
        with core.view.read() as txn:
            state = view.state(txn)
        durability.wait_position(state.position)
        core.files.step("backup begun")
        core.files.make_directory(partial / exclusive.LOG)
        entries = []
        for start in core.log.starts():
            if start < kept.start.position:
                continue  # passed by a compaction, and not removed yet
            if start >= state.position:
                break
            end = min(start + core.log.capacity, state.position)
            name = f"{exclusive.LOG}/{segment_name(start)}"
            entries.append(_copy(core.files, core.log.path(start), partial, name, end - start))
            core.files.step("backup segment copied")
            if progress is not None:
                progress(end, state.position)
        core.files.force_names(partial / exclusive.LOG)
        if kept.snapshots:
            core.files.make_directory(partial / snapshot.DIRECTORY)
            for ref in kept.snapshots:
                name = f"{snapshot.DIRECTORY}/{snapshot.name_of(ref.position)}"
                entries.append(_copy(core.files, core.path / name, partial, name, ref.bytes))
                core.files.step("backup snapshot copied")
            core.files.force_names(partial / snapshot.DIRECTORY)
        manifest.write(core.files, partial, kept)
        entries.append(_entry(partial, manifest.NAME))
        core.files.step("backup files whole")
        info = BackupInfo(
            store_id=core.manifest.store_id,
            instance_id=state.instance.hex(),
            sequence=state.sequence,
            position=state.position,
            crc=state.crc,
            made_at_ms=time.time_ns() // 1_000_000,
            files=tuple(entries),
        )
        write_whole(core.files, partial / MANIFEST_NAME, encode(info))
        core.files.step("backup manifest written")
    core.files.step("backup renamed")
    return info


def verify_backup(path: str | Path, progress: Progress | None = None) -> BackupInfo:
    """Hold every byte against the manifest and every frame against the one before. Raises BackupInvalid."""
    path = Path(path).absolute()
    info = read_info(path)
    check_files(path, info)
    check_snapshots(OSFiles(), path, info)
    walk = walk_log(OSFiles(), path, info, info.position, progress)
    chain = walk.chain
    if walk.findings or (chain.position, chain.crc, chain.sequence) != (info.position, info.crc, info.sequence):
        what = walk.findings[0].message if walk.findings else "It ends elsewhere than its manifest says."
        raise BackupInvalid(f"The log in the backup is damaged. {what}", file=exclusive.LOG)
    return info


def restore(
    source: str | Path,
    dest: str | Path,
    *,
    to_revision: int | None = None,
    files: Files | None = None,
    progress: Progress | None = None,
) -> BackupInfo:
    """Make a store of a backup, whole or up to a revision, on a timeline of its own that names where it came from.

    The new store was opened, and stands where it should, before it gets its name. Raises BackupInvalid,
    DestinationExists.
    """
    from feltdb_engine.store import Store

    source, dest, files = Path(source).absolute(), Path(dest).absolute(), files or OSFiles()
    _refuse_inside(source, dest)
    info = verify_backup(source, progress)
    target = _chain_at(source, info, to_revision)
    kept = _manifest_at(source, info, target)
    with beside(files, dest) as partial:
        files.step("restore begun")
        files.make_directory(partial / exclusive.LOG)
        files.make_directory(partial / exclusive.VIEW)
        files.make_directory(partial / snapshot.DIRECTORY)
        for entry in info.files:
            size = _restored_bytes(entry, target, kept)
            if not size:
                continue
            copied = _copy(files, source / entry.name, partial, entry.name, size)
            if size == entry.size and copied != entry:
                raise BackupInvalid("A file changed while it was restored.", file=entry.name)
            files.step("restore file copied")
        manifest.write(files, partial, kept)
        for directory in (partial / exclusive.LOG, partial / snapshot.DIRECTORY, partial):
            files.force_names(directory)
        files.step("restore files whole")
        with Store.open(partial, create=False, files=files) as store:
            head = store.head()
            if head.sequence != target.sequence or store.store_id != info.store_id:
                raise BackupInvalid("The restored store does not stand where the backup was made.")
            if head.instance_id == info.instance_id:
                raise BackupInvalid("The restored store did not begin a timeline of its own.")
        files.step("restore opened")
    files.step("restore renamed")
    return info


def _chain_at(source: Path, info: BackupInfo, revision: int | None) -> Chain:
    """The end of the last frame at or before a revision, which must end a transaction."""
    if revision is None:
        return Chain(info.position, info.crc, 0, info.sequence, 0)
    files = OSFiles()
    found = manifest.read(files, source)
    if found is None or not found.start.sequence <= revision <= info.sequence:
        raise BackupInvalid(f"Revision {revision} is not in this backup, which ends at {info.sequence}.")
    walk = walk_log(files, source, info, info.position, None, until=revision)
    if walk.chain.sequence != revision:
        raise BackupInvalid(
            f"Revision {revision} lies inside a transaction; the one before it ends at {walk.chain.sequence}."
        )
    if not walk.frames:
        raise BackupInvalid(f"Revision {revision} lies before the first timeline.")
    return walk.chain


def _manifest_at(source: Path, info: BackupInfo, target: Chain) -> Manifest:
    """The store's manifest with the snapshots that are whole at the target. Raises BackupInvalid."""
    found = read_manifest(OSFiles(), source, info)
    whole = tuple(one for one in found.snapshots if one.until <= target.position)
    if found.start.position and not whole:
        first = min(one.until for one in found.snapshots)
        earliest = next(
            (one.last for one in walk_frames(OSFiles(), source, found, info.position) if one.end >= first),
            info.sequence,
        )
        raise BackupInvalid(
            f"Revision {target.sequence} lies before the oldest snapshot; the earliest to restore is {earliest}."
        )
    return replace(found, snapshots=whole)


def _restored_bytes(entry: FileEntry, target: Chain, kept: Manifest) -> int:
    """How much of a file of the backup the restored store needs."""
    kind, _, name = entry.name.rpartition("/")
    if kind == exclusive.LOG:
        return min(entry.size, max(0, target.position - int(Path(name).stem)))
    return entry.size if name in {snapshot.name_of(one.position) for one in kept.snapshots} else 0


def _copy(files: Files, source: Path, partial: Path, name: str, size: int) -> FileEntry:
    """The first bytes of a file, forced, with their digest."""
    digest = hashlib.sha256()
    fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        target = files.open(partial / name, create=True)
        try:
            done = 0
            while done < size:
                data = os.pread(fd, min(_CHUNK, size - done), done)
                if not data:
                    # A segment need not be as long as it may be: what was never written reads as zeroes.
                    data = bytes(min(_CHUNK, size - done))
                target.write(done, data)
                digest.update(data)
                done += len(data)
            target.force()
        finally:
            target.close()
    finally:
        os.close(fd)
    return FileEntry(name=name, size=size, sha256=digest.hexdigest())


def _entry(directory: Path, name: str) -> FileEntry:
    data = (directory / name).read_bytes()
    return FileEntry(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _refuse_inside(source: Path, dest: Path) -> None:
    real = dest.parent.resolve()
    if real == source.resolve() or source.resolve() in real.parents:
        raise DestinationExists("The destination lies inside the directory it is made from.")


def as_members(info: BackupInfo) -> dict[str, object]:
    """The info as JSON values."""
    return {**asdict(info), "files": [asdict(entry) for entry in info.files]}
