"""A store whose log is damaged, opened for reading only: what the log holds before the first bad place, no more.

The view is made anew from the log, in the temporary directory, as are locks and positions: nothing is written to the
store's own directory, and no other process is held up. Those files have no names once they are open, so that nothing
is left of them however this process ends. It stays as it is until it is closed.
"""

import shutil
import tempfile
from pathlib import Path

from feltdb_engine import building, exclusive, loading, manifest, positions, recovery
from feltdb_engine.core import Core, Options
from feltdb_engine.errors import LogCorrupt
from feltdb_engine.locks import FileLock, Turn
from feltdb_engine.positions import Positions
from feltdb_engine.segment import Log


def open_prefix(options: Options, damage: LogCorrupt) -> Core:
    """Open what is whole. Raises LogCorrupt where there is no manifest to read by, or no snapshot to begin with."""
    found = manifest.read(options.files, options.path)
    if found is None:
        raise damage
    scratch = Path(tempfile.mkdtemp(prefix="feltdb-prefix-"))
    try:
        own = Positions(scratch / positions.NAME)
        core = Core(
            path=options.path,
            options=options,
            files=options.files,
            durability=options.durability,
            manifest=found,
            positions=own,
            words=own.words,
            log=Log(options.files, options.path / exclusive.LOG, bytes.fromhex(found.store_id), found.segment_bytes),
            open_lock=FileLock(scratch / "open.lock"),
            sync_lock=FileLock(scratch / "sync.lock"),
            prepare_lock=FileLock(scratch / "prepare.lock"),
            turn=Turn(scratch / "turn.lock", own.words),
            damage=damage,
        )
        try:
            _fill(core, scratch / exclusive.VIEW)
        except BaseException:
            core.drop()
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return core


def _fill(core: Core, directory: Path) -> None:
    directory.mkdir()
    core.view, _ = loading.base(core.files, core.path, core.manifest, directory)
    state = recovery.apply_rest(core)
    building.finish(core.view)
    words, snapshots = core.words, core.manifest.snapshots
    words[positions.WRITTEN] = words[positions.DURABLE] = state.position
    words[positions.WRITTEN_SEQUENCE] = words[positions.DURABLE_SEQUENCE] = state.sequence
    words[positions.SNAPSHOT] = snapshots[-1].sequence + 1 if snapshots else 0
    words[positions.STATE] = positions.LIVE
