"""Compaction while others read and write: what policy and pins have passed leaves the log and the view.

    seal ─► snapshot ─► manifest names it ─► floor in the log ─► manifest begins there ─► files go ─► view swept
            (short      (in the turn)        (in the turn,        (in the turn)                        (in batches)
             reads)                           durable)

The floor counts for readers from the moment its frame is applied; files go only after a manifest that does without
them is on disk. A crash at any point leaves either what was before or something the next compaction, or the next
process to open the directory alone, brings to its end (`strays.py`).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson

from feltdb_engine import (
    forks,
    frame,
    limits,
    manifest,
    pinning,
    policy,
    positions,
    rewrite,
    snapshot,
    strays,
    sweep,
    view,
)
from feltdb_engine.core import Core
from feltdb_engine.durability import as_storage_error
from feltdb_engine.errors import CompactionRunning
from feltdb_engine.frame import Chain
from feltdb_engine.locks import FileLock, wait_until
from feltdb_engine.manifest import Manifest, SnapshotRef
from feltdb_engine.policy import Boundary, Hold, Retention
from feltdb_engine.segment import FrameReader
from feltdb_engine.view import Floor, State, Transaction
from feltdb_engine.walk import Progress
from feltdb_engine.writer import Outcome, Writer, nothing_done

LOCK = "compact.lock"
KEEP_LOCK = "keep.lock"  # shared: whoever reads files that must stay for a while; alone: whoever removes them


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction:
    """What a compaction did, or with `dry_run` would do. `floor_before`, `floor`, `head` and `ids_from` are sequences.

    `held_by` names the pin (or `retain_from`) that kept history the policy would let go. `files_held` says that a
    backup still reads what should go; the next compaction removes it. `snapshot` is the sequence of the newest one.
    """

    dry_run: bool
    floor_before: int
    floor: int
    head: int
    held_by: str | None
    ids_from: int
    snapshot: int | None
    snapshot_written: bool
    snapshot_bytes: int
    files_removed: int
    bytes_removed: int
    files_held: bool
    entries_swept: int
    view_free_share: float
    rewrite_due: bool


def compact(
    core: Core,
    writer: Writer,
    keep: Retention,
    *,
    retain_from: int | None,
    now_ms: int,
    dry_run: bool,
    progress: Progress | None,
) -> Compaction:
    """Compact by policy. Raises CompactionRunning, StorageFull and StorageWriteFailed: the store goes on either way."""
    with locked(core, LOCK) as lock:
        # A preview ends within milliseconds, and must not keep a compaction from its work.
        if not wait_until(lock.try_exclusive, time.monotonic() + (0 if dry_run else limits.PREVIEW_WAIT_S)):
            raise CompactionRunning("Another compaction of this store is at work.")
        run = _Run(core, writer, keep, retain_from, now_ms)
        try:
            return run.preview() if dry_run else run.all(progress)
        except OSError as error:
            raise as_storage_error(error, core.path) from error


@contextmanager
def locked(core: Core, name: str) -> Iterator[FileLock]:
    """A lock file of the store for one user; a forked child lets go of it. Raises StorageWriteFailed, as for a turn."""
    core.turn.refuse_elsewhere()
    lock = FileLock(core.path / name)
    forks.watch(lock)
    try:
        yield lock
    finally:
        lock.close()


@contextmanager
def files_kept(core: Core) -> Iterator[None]:
    """No file of log or snapshots is removed meanwhile."""
    with locked(core, KEEP_LOCK) as lock:
        wait_until(lock.try_shared, time.monotonic() + limits.TURN_WAIT_S)
        yield


class _Plan:
    """What can be known before anything is done."""

    def __init__(self, run: "_Run") -> None:
        core = run.core
        with core.view.read() as txn:
            self.state = view.state(txn)
            self.floor = view.floor(txn)
            holds = run.holds(txn)
        snapshots = (manifest.read(core.files, core.path) or core.manifest).snapshots
        self.newest: SnapshotRef | None = snapshots[-1] if snapshots else None
        self.boundaries = _boundaries(core, self.floor, self.state)
        here = Boundary(self.state.chain(), 0)
        target, hold = policy.furthest([*self.boundaries, here], run.keep, holds, run.now_ms)
        self.held_by = hold.by if hold is not None else None
        begun = self.boundaries[-1].start if self.boundaries else self.floor.start
        self.seals = target is here and self.state.sequence > begun.sequence
        if target is here and not self.seals:
            target = self.boundaries[-1] if self.boundaries else None
        self.target: Chain | None = None if target is None else target.start

    @property
    def takes_snapshot(self) -> bool:
        """Where history can go that the newest one still needs, or the log behind it has outgrown it."""
        newest, target = self.newest, self.target
        if newest is None:
            return self.state.sequence > 0
        if target is not None and target.sequence > self.floor.sequence and newest.position <= target.position:
            return True
        return self.state.sequence > newest.sequence and self.state.position - newest.position > newest.bytes


class _Run:
    """One compaction."""

    def __init__(self, core: Core, writer: Writer, keep: Retention, retain_from: int | None, now_ms: int) -> None:
        self.core = core
        self.writer = writer
        self.keep = keep
        self.retain_from = retain_from
        self.now_ms = now_ms

    def holds(self, txn: Transaction) -> list[Hold]:
        """Who needs history now."""
        return policy.holds(pinning.held(txn, self.now_ms), self.retain_from)

    def preview(self) -> Compaction:
        """What would be done."""
        plan = _Plan(self)
        ids_from = sweep.ids_from(self.core, self.keep, plan.state, self.now_ms)
        kept = plan.state.position if plan.seals else plan.target.position if plan.target else 0
        paths = [self.core.log.path(start) for start in self.core.log.starts() if start < kept]
        snapshot_at = plan.state.sequence if plan.takes_snapshot else plan.newest.sequence if plan.newest else None
        return self._report(
            plan,
            dry_run=True,
            floor=max(plan.floor.sequence, plan.target.sequence if plan.target else 0),
            held_by=plan.held_by,
            ids_from=max(plan.floor.ids_from, ids_from),
            snapshot=snapshot_at,
            snapshot_written=plan.takes_snapshot,
            snapshot_bytes=plan.newest.bytes if plan.newest else 0,
            files_removed=len(paths),
            bytes_removed=sum(path.stat().st_size for path in paths),
        )

    def all(self, progress: Progress | None) -> Compaction:
        """Do it."""
        core, step = self.core, self.core.files.step
        step("compaction begun")
        plan = _Plan(self)
        held_by = plan.held_by
        if plan.seals:
            self.writer.seal()
            step("segment sealed")
            plan = _Plan(self)
        newest, taken = plan.newest, None
        if plan.takes_snapshot:
            newest = taken = snapshot.take(core, self.writer, progress)
            self._change_manifest(lambda found, _txn: _with_snapshot(found, taken))
            step("snapshot counts")
        floor = self._raise_floor(plan, newest)
        step("floor raised")
        removed, size, files_held = self._remove_passed()
        swept = sweep.clear(core, self.writer)
        step("compaction done")
        return self._report(
            plan,
            dry_run=False,
            floor=floor.sequence,
            held_by=held_by,
            ids_from=floor.ids_from,
            snapshot=newest.sequence if newest else None,
            snapshot_written=taken is not None,
            snapshot_bytes=newest.bytes if newest else 0,
            files_removed=removed,
            bytes_removed=size,
            files_held=files_held,
            entries_swept=swept,
        )

    def _report(self, plan: _Plan, **members: Any) -> Compaction:
        with self.core.view.read() as txn:
            share = self.core.view.free_share(txn)
        nothing = {"files_held": False, "entries_swept": 0}
        return Compaction(
            floor_before=plan.floor.sequence,
            head=plan.state.sequence,
            view_free_share=share,
            rewrite_due=rewrite.is_due(self.core.view),
            **{**nothing, **members},
        )

    def _turn(self, act: Callable[[Transaction, State], Outcome]) -> None:
        self.writer.own(act, time.monotonic() + limits.TURN_WAIT_S)

    def _change_manifest(self, change: Callable[[Manifest, Transaction], Manifest]) -> None:
        """Write the manifest anew, whoever wrote it last, and tell the other processes of the newest snapshot."""
        core = self.core

        def act(txn: Transaction, state: State) -> Outcome:
            found = change(manifest.read(core.files, core.path) or core.manifest, txn)
            manifest.write(core.files, core.path, found)
            core.manifest = found
            core.words[positions.SNAPSHOT] = found.snapshots[-1].sequence + 1 if found.snapshots else 0
            return nothing_done(state)

        self._turn(act)

    def _raise_floor(self, plan: _Plan, newest: SnapshotRef | None) -> Floor:
        """Write into the log what is forgotten from now on, as pins and policy say in that very moment."""
        candidates = [one for one in plan.boundaries if self._passable(one, plan, newest)]
        if candidates:
            self._log_versions(candidates[-1].start.sequence)
        ids_from = sweep.ids_from(self.core, self.keep, plan.state, self.now_ms)

        def act(txn: Transaction, state: State) -> Outcome:
            before = view.floor(txn)
            target, _ = policy.furthest(candidates, self.keep, self.holds(txn), self.now_ms)
            start = before.start if target is None else max(before.start, target.start)
            if start == before.start and ids_from <= before.ids_from:
                return nothing_done(state)
            said = {"act": "floor", "floor": list(start), "ids_from": max(ids_from, before.ids_from)}
            return self.writer.append_own(txn, state, frame.COMPACTION, orjson.dumps(said))

        self._turn(act)
        self.writer.settled()  # no file goes before this is on disk, whatever the store waits for otherwise
        with self.core.view.read() as txn:
            return view.floor(txn)

    def _passable(self, one: Boundary, plan: _Plan, newest: SnapshotRef | None) -> bool:
        """Whether the log may begin there: the newest snapshot lies behind it, with the frame it ends with."""
        if newest is None or plan.target is None:
            return False
        return one.start.position < newest.position and one.start.position <= plan.target.position

    def _log_versions(self, upto: int) -> None:
        """Versions go on where forgotten tombstones left them."""
        floors: dict[str, int] = {}
        size = 0
        for name, version in sweep.versions(self.core, upto).items():
            floors[name] = version
            size += len(name) + 32
            if size >= limits.COMPACTION_FRAME_BYTES:
                self._append({"act": "versions", "floors": floors})
                floors, size = {}, 0
        if floors:
            self._append({"act": "versions", "floors": floors})

    def _append(self, said: dict[str, Any]) -> None:
        self._turn(lambda txn, state: self.writer.append_own(txn, state, frame.COMPACTION, orjson.dumps(said)))

    def _remove_passed(self) -> tuple[int, int, bool]:
        """Let the log begin at the floor, and remove what lies before it; how many files, their bytes, and if held."""
        core = self.core
        with locked(core, KEEP_LOCK) as lock:
            if not wait_until(lock.try_exclusive, time.monotonic() + limits.KEEP_WAIT_S):
                return 0, 0, True
            self._change_manifest(strays.raised_to)
            core.files.step("manifest switched")
            paths = strays.passed(core, core.manifest)
            size = sum(path.stat().st_size for path in paths)
            strays.remove(core, paths)
            return len(paths), size, False


def _with_snapshot(found: Manifest, taken: SnapshotRef) -> Manifest:
    others = [one for one in found.snapshots if one.position != taken.position]
    return replace(found, snapshots=tuple([*others, taken][-limits.SNAPSHOTS_KEPT :]))


def _boundaries(core: Core, floor: Floor, state: State) -> list[Boundary]:
    """Where segments that have begun begin, after the first one."""
    log = core.log
    starts = [start for start in log.starts() if floor.start.position < start <= log.start_of(state.begin)]
    found: list[Boundary] = []
    after = 0
    for start in reversed(starts):
        after += log.file(start).size()
        first = FrameReader(log).at(start)
        if first is not None and first.kind == frame.SEGMENT:
            chain = Chain(start, first.previous_crc, first.epoch, first.base, first.at_ms)
            found.append(Boundary(chain, after))
    return found[::-1]
