"""What the process that has a directory to itself does: create it, judge its log, trust or remake its view, share it.

Each step leaves the directory so that a crash in it is repaired by the next one to come alone.
"""

import contextlib
import secrets
from pathlib import Path

import lmdb

from feltdb_engine import frame, host, limits, manifest, payload, positions, recovery, trust, view
from feltdb_engine.core import Core, Options
from feltdb_engine.durability import FAILED_NAME
from feltdb_engine.files import Files, exists
from feltdb_engine.frame import Chain
from feltdb_engine.locks import FileLock, Turn
from feltdb_engine.manifest import Manifest
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


def open_alone(options: Options, lock: FileLock) -> Core:
    """Create, recover or rebuild, and share. The caller holds the open-file alone."""
    path, files = options.path, options.files
    found = manifest.read(files, path)
    fresh = found is None
    if found is None:
        found = _create_log(options)
    store_id = bytes.fromhex(found.store_id)
    log = Log(files, path / LOG, store_id, found.segment_bytes)
    shared = Positions(path / positions.NAME)
    known = _known(options, found)
    same_boot = shared.belongs(options.host.boot_id, store_id, host.identity(path))
    failed = exists(files, path / FAILED_NAME)
    durable = max(found.start.position, known.position if known else 0)
    if same_boot:
        durable = max(durable, shared.words[positions.DURABLE])
        failed = failed or shared.words[positions.STATE] == positions.FAILED
        shared.words[positions.STATE] = positions.FAILED if failed else positions.CLOSED
    else:
        shared.begin(options.host.boot_id, store_id, host.identity(path))
    if failed:
        recovery.rehome(log, durable)
    opened = None
    try:
        opened = _view(options, found, log, None if failed else known)
        core = assemble(options, lock, found, shared, log, opened)
        state = recovery.settle(core, durable, all_forced=same_boot and not failed)
        _share(core, state, place(options) if fresh else known.directory if known else None)
    except BaseException:
        if opened is not None:
            opened.close()
        log.forget()
        shared.close()
        raise
    if fresh:
        manifest.write(files, path, core.manifest)
    return core


def assemble(options: Options, lock: FileLock, found: Manifest, shared: Positions, log: Log, opened: View) -> Core:
    """The open parts together."""
    path = options.path
    return Core(
        path=path,
        options=options,
        files=options.files,
        durability=options.durability,
        manifest=found,
        positions=shared,
        words=shared.words,
        log=log,
        view=opened,
        open_lock=lock,
        sync_lock=FileLock(path / "sync.lock"),
        prepare_lock=FileLock(path / "prepare.lock"),
        turn=Turn(path / "turn.lock", shared.words),
    )


def place(options: Options) -> tuple[int, int, str]:
    """The identity of the directory: another one means that this is a copy."""
    return (*host.identity(options.path), options.host.machine_id)


def _known(options: Options, found: Manifest) -> Trust | None:
    known = trust.read(options.files, options.path)
    return known if known is not None and known.store_id == found.store_id else None


def _create_log(options: Options) -> Manifest:
    """The first segment with the first timeline. The manifest, written last, makes a store of it."""
    directory = options.path / LOG
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
    log.append(0, opening + beginning)
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


def _view(options: Options, found: Manifest, log: Log, known: Trust | None) -> View:
    """The view as it is, where it can be trusted, or an empty one."""
    directory = options.path / VIEW
    if known is not None and _is_the_same(options, known):
        trusted = None
        with contextlib.suppress(lmdb.Error):
            trusted = View(directory, found.view_map_bytes)
            trusted.attach()
            with trusted.read() as txn:
                state = view.state(txn)
            if _agrees(state, log, known, options.host.boot_id.hex()):
                return trusted
        if trusted is not None:
            trusted.close()
    for name in options.files.names(directory):
        options.files.remove(directory / name)
    empty = View(directory, found.view_map_bytes)
    empty.create()
    with empty.write() as txn:
        txn.put(view.STATE_KEY, view.STATE.pack(*view.empty_state(found.start)))
    return empty


def _is_the_same(options: Options, known: Trust) -> bool:
    """Whether these are the very files the trust file speaks of, in a state it vouches for."""
    try:
        at = host.identity(options.path / VIEW / "data.mdb")
    except OSError:
        return False
    vouched = known.clean or known.boot_id == options.host.boot_id.hex()
    return vouched and known.view_format == view.FORMAT and known.view == at and known.home == place(options)


def _agrees(state: State, log: Log, known: Trust, boot_id: str) -> bool:
    """Whether the view ends with a frame the log has; after another boot, with the very one it was closed at."""
    if known.boot_id != boot_id and (state.position, state.crc) != (known.position, known.crc):
        return False
    last = FrameReader(log).at(state.begin)
    return last is not None and (last.end, last.crc) == (state.position, state.crc)


def _share(core: Core, state: State, directory: tuple[int, int, str] | None) -> None:
    """Let others in: trust written, state live."""
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
    if exists(core.files, core.path / FAILED_NAME):
        core.files.remove(core.path / FAILED_NAME)
        core.files.force_names(core.path)
    core.words[positions.STATE] = positions.LIVE
