"""What the process that has a directory to itself does: create it, judge its log, trust or remake its view, share it.

Each step leaves the directory so that a crash in it is repaired by the next one to come alone.
"""

import contextlib
import secrets
import struct
from dataclasses import replace
from pathlib import Path

import lmdb

from feltdb_engine import (
    building,
    contracts,
    frame,
    host,
    indexes,
    limits,
    loading,
    manifest,
    payload,
    positions,
    recovery,
    rewrite,
    strays,
    trust,
    view,
)
from feltdb_engine.core import Core, Options
from feltdb_engine.durability import FAILED_NAME, fail, failed
from feltdb_engine.errors import LogCorrupt
from feltdb_engine.files import Files, ForceFailed, exists
from feltdb_engine.frame import Chain
from feltdb_engine.locks import FileLock, Turn
from feltdb_engine.manifest import Manifest, SnapshotRef
from feltdb_engine.positions import Positions
from feltdb_engine.segment import FrameReader, Log
from feltdb_engine.trust import Trust
from feltdb_engine.view import State, View

LOG = "log"
VIEW = "view"


def make_directories(files: Files, path: Path) -> None:
    """The directories of a store, with their names forced up to the first that was there."""
    made = [path, *path.parents]
    made = made[: next(index for index, directory in enumerate(made) if directory.is_dir()) + 1]
    files.make_directory(path / LOG)
    files.make_directory(path / VIEW)
    for directory in (path, *made):
        files.force_names(directory)


def open_alone(options: Options, lock: FileLock, deadline: float) -> Core:
    """Create, recover or rebuild, and share. The caller holds the open-file alone."""
    path, files = options.path, options.files
    found = manifest.read(files, path)
    fresh = found is None
    if found is None:
        found = _create_log(options)
    core = assemble(options, lock, found, Positions(path / positions.NAME))
    try:
        # A thread that holds on to a store about to be renewed may still be at work.
        core.turn.take(deadline)
        core.sync_lock.take(deadline)
        _recover(core, fresh=fresh)
        if fresh:
            manifest.write(files, path, found)
        core.words[positions.STATE] = positions.LIVE
        core.sync_lock.release()
        core.turn.give_back()
    except ForceFailed as error:
        fail(core, f"opening: {error}")
        core.drop()
        raise failed("no") from error
    except BaseException:
        core.drop()
        raise
    return core


def _recover(core: Core, *, fresh: bool) -> None:
    """Judge the log, trust or remake the view, write down what the next one may trust."""
    options, words = core.options, core.words
    boot, store_id, home = options.host.boot_id, bytes.fromhex(core.manifest.store_id), host.identity(core.path)
    vouching = trust.read(core.files, core.path)
    known = vouching if vouching is not None and vouching.store_id == core.manifest.store_id else None
    broken = exists(core.files, core.path / FAILED_NAME)
    durable = max(core.manifest.start.position, known.position if known else 0)
    durable = max(durable, *(one.until for one in core.manifest.snapshots), 0)
    same_boot = core.positions.belongs(boot, store_id, home)
    renew = False
    if same_boot:
        durable = max(durable, words[positions.DURABLE])
        broken = broken or words[positions.STATE] in (positions.FAILED, positions.RECOVERING)
        renew = words[positions.STATE] == positions.RENEW
    else:
        core.positions.begin(boot, store_id, home)
    # Until all is done nobody may join, and whoever comes after a crash in here must know where we were.
    words[positions.STATE] = positions.RECOVERING if broken else positions.RENEW if renew else positions.CLOSED
    if broken:
        recovery.rehome(core.log, durable)
    _refuse_another_start(core)
    core.view, damaged = _view(core, known, vouching, trusted=not broken and not renew)
    state = recovery.settle(core, durable, all_forced=same_boot and not broken)
    building.finish(core.view)
    strays.clear(core, damaged)
    words[positions.SNAPSHOT] = core.manifest.snapshots[-1].sequence + 1 if core.manifest.snapshots else 0
    _record(core, state, place(options) if fresh else known.directory if known else None)
    if broken and exists(core.files, core.path / FAILED_NAME):
        core.files.remove(core.path / FAILED_NAME)
        core.files.force_names(core.path)


def assemble(options: Options, lock: FileLock, found: Manifest, shared: Positions) -> Core:
    """The open parts together, all but the view."""
    path = options.path
    turn = Turn(path / "turn.lock", shared.words)
    log = Log(options.files, path / LOG, bytes.fromhex(found.store_id), found.segment_bytes, turn.refuse_elsewhere)
    return Core(
        path=path,
        options=options,
        files=options.files,
        durability=options.durability,
        manifest=found,
        positions=shared,
        words=shared.words,
        log=log,
        open_lock=lock,
        sync_lock=FileLock(path / "sync.lock"),
        prepare_lock=FileLock(path / "prepare.lock"),
        turn=turn,
    )


def place(options: Options) -> tuple[int, int, str]:
    """The identity of the directory: another one means that this is a copy."""
    return (*host.identity(options.path), options.host.machine_id)


def _create_log(options: Options) -> Manifest:
    """The first segment with the first timeline. The manifest, written last, makes a store of it."""
    directory = options.path / LOG
    _refuse_without_manifest(options)
    for name in options.files.names(directory):
        options.files.remove(directory / name)
    store_id, instance = secrets.token_bytes(16), secrets.token_bytes(16)
    log = Log(options.files, directory, store_id, options.segment_bytes)
    start = Chain(0, 0, secrets.randbits(63) | 1, 0, 0)
    log.prepare(0)
    opening, first = log.segment_frame(start, 0)
    beginning, _ = frame.encode(
        first.chain(),
        kind=frame.TIMELINE,
        operations=0,
        durable=0,
        at_ms=0,
        payload=payload.encode_timeline(payload.LoggedTimeline(instance, None, 0)),
    )
    log.append(0, opening + beginning, hurry=False)
    log.force(1)
    log.forget()
    return Manifest(
        store_id=store_id.hex(),
        instance_id=instance.hex(),
        parent_instance_id=None,
        parent_sequence=None,
        segment_bytes=options.segment_bytes,
        view_map_bytes=limits.VIEW_MAP_BYTES,
        start=start,
    )


def _refuse_without_manifest(options: Options) -> None:
    """Raise LogCorrupt where the log holds more than a creation that did not finish leaves: its manifest was lost."""
    log = Log(options.files, options.path / LOG, b"", limits.SEGMENT_MAX_BYTES)
    starts = log.starts()
    reader, at, more = FrameReader(log), 0, any(starts)
    while starts and not more and (found := reader.at(at)) is not None:
        at, more = found.end, found.kind not in (frame.SEGMENT, frame.TIMELINE)
    log.forget()
    if more:
        raise LogCorrupt(
            f"{options.path} has a log, but no {manifest.NAME}. Put that file back, or restore a backup.",
            segment=manifest.NAME,
            offset=0,
            sequence=None,
        )


def _refuse_another_start(core: Core) -> None:
    """Raise LogCorrupt where the log does not begin as the manifest says: one of them is of another directory."""
    if not core.log.begins_at(core.manifest.start):
        raise LogCorrupt(
            f"The log does not go on from where {manifest.NAME} says that it begins. Put back the files that belong "
            "together, or restore a backup.",
            segment=manifest.NAME,
            offset=0,
            sequence=core.manifest.start.sequence,
        )


def _view(core: Core, known: Trust | None, vouching: Trust | None, *, trusted: bool) -> tuple[View, list[SnapshotRef]]:
    """The view as it is, where it can be trusted, or one to be filled; and the snapshots found damaged meanwhile.

    `vouching` may be of another store.
    """
    directory = core.path / VIEW
    if trusted and known is not None:
        found = _as_it_is(core, known)
        if found is not None:
            return rewrite.where_due(core, found), []
    if vouching is not None:
        # The next file may get the number of this one: nothing may vouch for it before it is whole.
        trust.write(core.files, core.path, replace(vouching, clean=False, view=(0, 0)))
    core.files.make_directory(directory)
    for name in core.files.names(directory):
        core.files.remove(directory / name)
    made, damaged = loading.base(core.files, core.path, core.manifest, directory)
    with made.read() as txn:
        state = view.state(txn)
    if not recovery.ends_in_log(core.log, state):
        made.close()
        raise recovery.damage(core.log, state, state.position)
    return made, damaged


def _as_it_is(core: Core, known: Trust) -> View | None:
    """The view that is there, if it is the one that was vouched for."""
    if not _is_the_same(core, known):
        return None
    found = None
    with contextlib.suppress(lmdb.Error):
        found = View(core.path / VIEW, core.manifest.view_map_bytes)
        found.attach()
        with found.read() as txn:
            _look(txn)
            state = view.state(txn)
        if _agrees(core, state, known):
            return found
    if found is not None:
        found.close()
    return None


def attach(core: Core) -> bool:
    """Open the view that the others have; False where the one that lies there is another, or is broken.

    The caller joins them, and holds the turn.
    """
    known = trust.read(core.files, core.path)
    if known is None or (known.store_id, known.view) != (core.manifest.store_id, _identity(core)):
        return False
    try:
        core.view = View(core.path / VIEW, core.manifest.view_map_bytes)
        core.view.attach()
        with core.view.read() as txn:
            _look(txn)
            return recovery.ends_in_log(core.log, view.state(txn))
    except view.BROKEN:
        return False


def _identity(core: Core) -> tuple[int, int] | None:
    """Which file the view is, None where there is none."""
    try:
        return host.identity(core.path / VIEW / "data.mdb")
    except OSError:
        return None


def _look(txn: view.Transaction) -> None:
    """That catalogue, contract, pins and last recovery can be read. Raises `lmdb.Error` where one of them cannot."""
    try:
        indexes.catalogue(txn)
        contracts.state(txn)
        view.pins(txn)
        view.recovery(txn)
    except (ValueError, TypeError, KeyError, struct.error) as error:
        raise lmdb.CorruptedError(f"the view cannot be read: {error}") from error


def _is_the_same(core: Core, known: Trust) -> bool:
    """Whether these are the very files the facts speak of, in a state they vouch for."""
    vouched = known.clean or known.boot_id == core.options.host.boot_id.hex()
    there = known.view == _identity(core) and known.home == place(core.options)
    return vouched and known.view_format == view.FORMAT and there


def _agrees(core: Core, state: State, known: Trust) -> bool:
    """Whether the view ends with a frame the log has; after another boot, with the very one it was closed at.

    One to which no frame was applied says of no log that it is its view; making it again costs nothing.
    """
    if state.begin == state.position:
        return False
    same_boot = known.boot_id == core.options.host.boot_id.hex()
    if not same_boot and (state.position, state.crc) != (known.position, known.crc):
        return False
    return recovery.ends_in_log(core.log, state)


def _record(core: Core, state: State, directory: tuple[int, int, str] | None) -> None:
    """Write down what the next opener may trust."""
    facts = Trust(
        directory=directory,
        home=place(core.options),
        store_id=core.manifest.store_id,
        view_format=view.FORMAT,
        boot_id=core.options.host.boot_id.hex(),
        view=host.identity(core.path / VIEW / "data.mdb"),
        position=state.position,
        crc=state.crc,
        clean=False,
    )
    trust.write(core.files, core.path, facts)
