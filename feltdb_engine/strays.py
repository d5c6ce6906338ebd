"""What lies in a store's directory and does not count: removed by whoever has the directory to itself.

What the manifest does not name is only removed right after the manifest was written once more and forced: had forcing
it failed before, the disk might still hold an older one, which needs those files.
"""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from feltdb_engine import manifest, rewrite, snapshot, view
from feltdb_engine.core import Core
from feltdb_engine.files import exists
from feltdb_engine.manifest import Manifest, SnapshotRef
from feltdb_engine.view import Transaction

_UNFINISHED = ".new"


def clear(core: Core, damaged: Sequence[SnapshotRef]) -> None:
    """Finish a compaction that was killed, and remove what others left unfinished. Alone, at opening.

    `damaged` snapshots could not be read, and were not needed. An error of the disk is no reason not to open: the next
    one tries again.
    """
    with core.view.read() as txn:
        raised = raised_to(core.manifest, txn)
    raised = replace(raised, snapshots=tuple(one for one in raised.snapshots if one not in damaged))
    with contextlib.suppress(OSError):
        if raised != core.manifest or passed(core, raised):
            manifest.write(core.files, core.path, raised)
            core.manifest = raised
            core.files.step("manifest switched")
            remove(core, passed(core, raised))
        for path in _unfinished(core):
            core.files.remove(path)
    shutil.rmtree(core.path / rewrite.DIRECTORY, ignore_errors=True)


def raised_to(found: Manifest, txn: Transaction) -> Manifest:
    """The manifest of a log that begins at the view's floor."""
    floor = view.floor(txn)
    if floor.start.position <= found.start.position:
        return found
    instance = view.instance_after(txn, floor.sequence)
    reached = tuple(one for one in found.snapshots if one.position > floor.start.position)
    return replace(found, start=floor.start, start_instance=instance.hex(), snapshots=reached)


def passed(core: Core, found: Manifest) -> list[Path]:
    """Segments before the log's start, and snapshots the manifest does not name."""
    files, named = core.files, {snapshot.name_of(one.position) for one in found.snapshots}
    paths = [core.log.path(start) for start in core.log.starts() if start < found.start.position]
    if exists(files, core.path / snapshot.DIRECTORY):
        names = files.names(core.path / snapshot.DIRECTORY)
        paths += [core.path / snapshot.DIRECTORY / name for name in names if name not in named]
    return paths


def remove(core: Core, paths: Sequence[Path]) -> None:
    """Remove files the manifest, which was forced just now, does without."""
    for path in paths:
        core.files.remove(path)
        core.files.step("passed file removed")
    for directory in sorted({path.parent for path in paths}):
        core.files.force_names(directory)
    core.log.forget_before(core.manifest.start.position)


def _unfinished(core: Core) -> Iterator[Path]:
    for directory in (core.path, core.log.directory):
        for name in core.files.names(directory):
            if name.endswith(_UNFINISHED) and name != rewrite.DIRECTORY:
                yield directory / name
