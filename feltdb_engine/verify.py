"""Verify: is every byte of the log as it was written, and does the view say what the log says?

The log is replayed into a view of its own with the code that commits use, and the two are compared entry by entry.
That needs as much room in the temporary directory as the view takes. The store serves on meanwhile.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from pathlib import Path

import lmdb

from feltdb_engine import building, compaction, exclusive, limits, loading, manifest, snapshot, sweep, view
from feltdb_engine.apply import apply
from feltdb_engine.core import Core
from feltdb_engine.errors import EngineError, LogCorrupt
from feltdb_engine.files import Files, OSFiles
from feltdb_engine.manifest import Manifest
from feltdb_engine.recovery import bytes_beyond
from feltdb_engine.segment import Log
from feltdb_engine.snapshot import SnapshotDamaged
from feltdb_engine.view import State, Transaction, View
from feltdb_engine.walk import Finding, Progress, Walk
from feltdb_engine.writer import Outcome, Writer, nothing_done


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What was looked at and what was found. `position` and `sequence` are how far the look went."""

    position: int
    sequence: int
    frames: int
    operations: int
    view_compared: bool
    findings: tuple[Finding, ...]

    @property
    def good(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def verify(core: Core, writer: Writer, progress: Progress | None) -> Verification:
    """Look at one moment of an open store."""
    with compaction.files_kept(core):
        kept = manifest.read(core.files, core.path) or core.manifest
        with core.view.read() as txn:
            target = view.state(txn)
            walk = Walk(core.log, kept.start, target.position, kept.instance_at_start)
            _judge_snapshots(core.files, core.path, kept, walk)
            with tempfile.TemporaryDirectory(prefix="feltdb-verify-") as directory:
                compared = _replayed(core, kept, txn, target, walk, Path(directory), progress)
    _judge_tail(core, writer, walk)
    return Verification(
        position=target.position,
        sequence=target.sequence,
        frames=walk.frames,
        operations=walk.operations,
        view_compared=compared,
        findings=tuple(walk.findings),
    )


def _judge_snapshots(files: Files, path: Path, kept: Manifest, walk: Walk) -> None:
    """Every byte of every snapshot is as it was written."""
    for ref in kept.snapshots:
        try:
            for _ in snapshot.read(files, snapshot.path_of(path, ref), kept.store_id, ref):
                pass
        except (SnapshotDamaged, OSError) as error:
            name = snapshot.name_of(ref.position)
            walk.findings.append(Finding(kind="snapshot", message=str(error), segment=name, sequence=ref.sequence))


def _replayed(
    core: Core,
    kept: Manifest,
    txn: Transaction,
    target: State,
    walk: Walk,
    directory: Path,
    progress: Progress | None,
) -> bool:
    """Walk, replay and compare; whether the views could be compared: damage in the log leaves nothing to compare."""
    try:
        # From as far back as possible: what newer snapshots say is then held against the log too, by way of the view.
        replay, _ = loading.base(core.files, core.path, kept, directory, oldest=True)
    except (LogCorrupt, OSError):
        for _ in walk:  # which snapshots, and why, is among the findings
            pass
        return False
    damaged = len(walk.findings)
    try:
        with replay.read() as beginning:
            state = view.state(beginning)
        writing = replay.write()
        try:
            pending = 0
            for found in walk:
                if len(walk.findings) == damaged and found.position >= state.position:
                    state = apply(replay, writing, state, found)
                    pending += found.end - found.position
                if pending >= limits.REBUILD_BATCH_BYTES:
                    writing.commit()
                    pending, writing = 0, replay.write()
                if progress is not None:
                    progress(found.end, target.position)
            writing.commit()
        finally:
            writing.abort()
        if len(walk.findings) > damaged:
            return False
        if state != target:
            walk.report("view", "The view stands elsewhere than the log.", state.position, state.sequence)
        try:
            # An index that is still being built has no entries to hold against anything.
            built = not building.pending(txn)
            if built:
                building.finish(replay)
            with replay.read() as expected:
                _compare(core.view, txn, replay, expected, walk, indexes=built)
        except lmdb.Error as error:
            walk.findings.append(Finding(kind="view", message=f"The view cannot be read: {error}."))
        return True
    finally:
        replay.close()


def _compare(actual: View, txn: Transaction, replay: View, expected: Transaction, walk: Walk, *, indexes: bool) -> None:
    """Entry by entry, less what is forgotten: state, collections and their counts, timelines, and all databases."""
    floor = view.floor(txn)
    for name, database in actual.databases().items():
        if name == "index" and not indexes:
            continue
        with txn.cursor(db=database) as left, expected.cursor(db=replay.databases()[name]) as right:
            _compare_entries(name, _remembered(name, left, floor), _remembered(name, right, floor), walk)
    own = [view.STATE_KEY, view.RECOVERY_KEY, view.CONTRACT_KEY, view.FLOOR_KEY]
    if indexes:
        own.append(view.INDEXES_KEY)
    for prefix in (*own, view.COLLECTION_PREFIX, view.TIMELINE_PREFIX, view.PIN_PREFIX):
        with txn.cursor() as left, expected.cursor() as right:
            _compare_entries("state", _with_prefix(left, prefix), _with_prefix(right, prefix), walk)


def _remembered(name: str, cursor: "lmdb.Cursor[bytes]", floor: view.Floor) -> Iterator[tuple[bytes, bytes]]:
    cursor.first()
    return (item for item in cursor.iternext() if not sweep.is_forgotten(name, item[1], floor))


def _with_prefix(cursor: "lmdb.Cursor[bytes]", prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    cursor.set_range(prefix)
    return takewhile(lambda item: item[0].startswith(prefix), cursor.iternext())


def _compare_entries(
    name: str, left: Iterator[tuple[bytes, bytes]], right: Iterator[tuple[bytes, bytes]], walk: Walk
) -> None:
    """Report the first entry in which the two differ."""
    for one, other in zip_longest(left, right):
        if one != other:
            key = min(item[0] for item in (one, other) if item is not None)
            walk.findings.append(
                Finding(kind="view", message=f"The view differs from the log in {name}, first at {_text(name, key)}.")
            )
            return


def _text(name: str, key: bytes) -> str:
    if name in ("records", "tombstones"):
        return key.replace(b"\0", b":", 1).decode(errors="replace")
    return key.hex()


def _judge_tail(core: Core, writer: Writer, walk: Walk) -> None:
    """Nothing may lie past the last frame. Looked at again in the turn, when no writer can be the reason."""

    def act(_txn: Transaction, state: State) -> Outcome:
        if bytes_beyond(core.log, state.position):
            walk.report("tail", "Something lies past the last frame.", state.position, state.sequence + 1)
        return nothing_done(state)

    with core.view.read() as txn:
        position = view.state(txn).position
    if bytes_beyond(core.log, position):
        writer.own(act, time.monotonic() + limits.TURN_WAIT_S)


def verify_log(path: Path, *, files: Files | None = None, progress: Progress | None = None) -> Verification:
    """Look at the log of a directory that cannot be opened. Nobody may be writing to it.

    Raises StoreNotFound's relatives only where there is no manifest to begin with.
    """
    files = files or OSFiles()
    try:
        found = manifest.read(files, path)
    except (EngineError, ValueError, KeyError, TypeError) as error:
        return _nothing_seen(Finding(kind="manifest", message=str(error), segment=manifest.NAME, offset=0))
    if found is None:
        return _nothing_seen(Finding(kind="manifest", message="There is no manifest.", segment=manifest.NAME))
    log = Log(files, path / exclusive.LOG, bytes.fromhex(found.store_id), found.segment_bytes)
    end = max((start + log.file(start).size() for start in log.starts()), default=0)
    end = _last_byte(log, end)
    walk = Walk(log, found.start, end, found.instance_at_start)
    _judge_snapshots(files, path, found, walk)
    for one in walk:
        if progress is not None:
            progress(one.end, end)
    log.forget()
    return Verification(
        position=walk.chain.position,
        sequence=walk.chain.sequence,
        frames=walk.frames,
        operations=walk.operations,
        view_compared=False,
        findings=tuple(walk.findings),
    )


def verify_damaged(path: Path, damage: LogCorrupt, files: Files | None, progress: Progress | None) -> Verification:
    """Look at the log of a directory that opening found damaged; what opening found, where looking finds nothing."""
    seen = verify_log(path, files=files, progress=progress)
    return seen if seen.findings else replace(seen, findings=(as_finding(damage),))


def _last_byte(log: Log, end: int) -> int:
    """Where what was written ends, at most: past it there are only zeroes."""
    for start in reversed(log.starts()):
        beyond = bytes_beyond(log, start) if start else bytes_beyond(log, 0)
        if beyond:
            return start + beyond
    return end


def _nothing_seen(finding: Finding) -> Verification:
    return Verification(position=0, sequence=0, frames=0, operations=0, view_compared=False, findings=(finding,))


def as_finding(error: LogCorrupt) -> Finding:
    """What opening refused, as a finding."""
    details = error.details
    return Finding(
        kind="log",
        message=error.message,
        segment=details.get("segment"),
        offset=details.get("offset"),
        sequence=details.get("sequence"),
    )
