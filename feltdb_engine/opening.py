"""Opening a directory and letting go of it, together with other processes.

Each process holds a shared lock on the open-file. Whoever gets it alone brings the directory into a state all can share
(`exclusive.py`). The last one out forces the view and marks it clean.
"""

import time
from collections.abc import Callable

import lmdb

from feltdb_engine import exclusive, host, limits, manifest, positions, prefix, trust, view
from feltdb_engine.core import Core, Options
from feltdb_engine.durability import as_storage_error, fail
from feltdb_engine.errors import LogCorrupt, StorageWriteFailed, StoreNotFound, StoreRebuilding
from feltdb_engine.files import ForceFailed
from feltdb_engine.locks import FileLock
from feltdb_engine.positions import Positions

OPEN_LOCK = "open.lock"


def open_core(options: Options) -> Core:
    """Open, creating, recovering or rebuilding where that is needed; for reading only, what is whole of a damaged log.

    Raises what `errors.py` names for opening.
    """
    path = options.path
    try:
        if not (path / manifest.NAME).exists():
            if not options.create:
                raise StoreNotFound(f"There is no store at {path}.")
            exclusive.make_directories(options.files, path)
        host.refuse_remote(path)
        try:
            return _open_locked(options)
        except LogCorrupt as damage:
            if not options.read_only:
                raise
            return prefix.open_prefix(options, damage)
    except (OSError, lmdb.Error) as error:
        raise as_storage_error(error, path.parent) from error


def _open_locked(options: Options) -> Core:
    lock = FileLock(options.path / OPEN_LOCK)
    try:
        return _open_with(options, lock)
    except BaseException:
        lock.close()
        raise


def _open_with(options: Options, lock: FileLock) -> Core:
    deadline = time.monotonic() + options.wait_s
    pause = 0.0005
    while True:
        if lock.try_exclusive():
            core = exclusive.open_alone(options, lock, deadline)
            if lock.try_shared():
                return core
            core.drop()
            lock = FileLock(options.path / OPEN_LOCK)
        elif lock.try_shared():
            attached = _attach(options, lock)
            if attached is not None:
                return attached
            lock.close()
            lock = FileLock(options.path / OPEN_LOCK)
        if time.monotonic() >= deadline:
            raise StoreRebuilding("Another process is opening or rebuilding the store; ask again shortly.")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def _attach(options: Options, lock: FileLock) -> Core | None:
    """Join the processes that have the directory open; None where it must be opened alone first.

    A view that is not the one they have (another file was put in its place, or it was deleted) is never joined: they
    are told to let go, and whoever opens the directory alone makes it again.
    """
    path = options.path
    found = manifest.read(options.files, path)
    if found is None or not (path / positions.NAME).exists():
        return None
    shared = Positions(path / positions.NAME)
    here = shared.belongs(options.host.boot_id, bytes.fromhex(found.store_id), host.identity(path))
    if not here or shared.words[positions.STATE] not in (positions.LIVE, positions.FAILED):
        return None
    core = exclusive.assemble(options, lock, found, shared)
    try:
        core.turn.take(time.monotonic() + options.wait_s)
        if exclusive.attach(core):
            core.turn.give_back()
            return core
        positions.ask_to_renew(core.words)
    except BaseException:
        core.drop()
        raise
    core.drop()
    return None


def close_core(core: Core, drain: Callable[[], None]) -> None:
    """Let go; the last one out forces the view and marks it clean. `drain` serves those that wait for the disk."""
    core.turn.retire(limits.TURN_WAIT_S)
    drain()
    if core.damage is not None:
        core.drop()
        return
    try:
        core.open_lock.release()
        if core.open_lock.try_exclusive():
            _mark_clean(core)
            core.open_lock.release()
    finally:
        core.drop()


def _mark_clean(core: Core) -> None:
    """Alone: what a next boot may trust. Not done where anything is unfinished: the next opener then looks itself."""
    words = core.words
    if words[positions.STATE] != positions.LIVE or words[positions.APPENDING]:
        return
    try:
        core.turn.refuse_elsewhere()
        known = trust.read(core.files, core.path)
        if known is None:
            return
        with core.view.read() as txn:
            state = view.state(txn)
        if state.position != words[positions.WRITTEN]:
            return
        if words[positions.DURABLE] < state.position:
            _force(core, state.position)
            words[positions.DURABLE] = state.position
            words[positions.DURABLE_SEQUENCE] = state.sequence
        core.view.env.sync(True)
        trust.write(core.files, core.path, known.at(state.position, state.crc, clean=True))
        words[positions.STATE] = positions.CLOSED
    except (OSError, lmdb.Error, StorageWriteFailed):
        return


def _force(core: Core, position: int) -> None:
    try:
        core.log.force(position)
    except ForceFailed as error:
        fail(core, f"closing: {error}")
        raise
