"""Verify: is every byte of the log as it was written, and does the view say what the log says?

The log is replayed into a view of its own with the code that commits use, and the two are compared entry by entry.
That needs as much room in the temporary directory as the view takes. The store serves on meanwhile.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import lmdb

from feltdb_engine import building, exclusive, limits, manifest, view
from feltdb_engine.apply import apply
from feltdb_engine.core import Core
from feltdb_engine.errors import EngineError, LogCorrupt
from feltdb_engine.files import Files, OSFiles
from feltdb_engine.recovery import bytes_beyond
from feltdb_engine.segment import Log
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
    with core.view.read() as txn:
        target = view.state(txn)
        walk = Walk(core.log, core.manifest.start, target.position)
        with tempfile.TemporaryDirectory(prefix="feltdb-verify-") as directory:
            compared = _replayed(core, txn, target, walk, Path(directory), progress)
    _judge_tail(core, writer, walk)
    return Verification(
        position=target.position,
        sequence=target.sequence,
        frames=walk.frames,
        operations=walk.operations,
        view_compared=compared,
        findings=tuple(walk.findings),
    )


def _replayed(
    core: Core, txn: Transaction, target: State, walk: Walk, directory: Path, progress: Progress | None
) -> bool:
    """Walk, replay and compare; whether the views could be compared: damage in the log leaves nothing to compare."""
    replay = View.create(directory, core.manifest.view_map_bytes, core.manifest.start)
    try:
        state = view.empty_state(core.manifest.start)
        writing = replay.write()
        try:
            pending = 0
            for found in walk:
                if not walk.findings:
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
        if walk.findings:
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
    """Entry by entry: state, collections and their counts, timelines, and all databases."""
    for name in ("records", "tombstones", "transactions", "feed", *(("index",) if indexes else ())):
        with (
            txn.cursor(db=getattr(actual, name)) as left,
            expected.cursor(db=getattr(replay, name)) as right,
        ):
            _compare_cursors(name, left, right, walk, prefix=b"")
    own = (view.STATE_KEY, view.RECOVERY_KEY, view.FLOOR_KEY, *((view.INDEXES_KEY,) if indexes else ()))
    for prefix in (*own, view.COLLECTION_PREFIX, view.TIMELINE_PREFIX, view.PIN_PREFIX):
        with txn.cursor() as left, expected.cursor() as right:
            _compare_cursors("state", left, right, walk, prefix=prefix)


def _compare_cursors(
    name: str, left: "lmdb.Cursor[bytes]", right: "lmdb.Cursor[bytes]", walk: Walk, *, prefix: bytes
) -> None:
    """Report the first entry in which the two differ."""
    here, there = left.set_range(prefix), right.set_range(prefix)
    while True:
        one = left.item() if here and left.key().startswith(prefix) else None
        other = right.item() if there and right.key().startswith(prefix) else None
        if one != other:
            key = min(item[0] for item in (one, other) if item is not None)
            walk.findings.append(
                Finding(kind="view", message=f"The view differs from the log in {name}, first at {_text(name, key)}.")
            )
            return
        if one is None:
            return
        here, there = left.next(), right.next()


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
    walk = Walk(log, found.start, end)
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
