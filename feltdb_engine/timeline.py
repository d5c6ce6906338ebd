"""Timelines: which instance an operation belongs to, and what a cursor of another one means here.

A log's timelines follow each other: each begins at the sequence after its `fork`, where its parent was left.
"""

import secrets
from bisect import bisect_left
from dataclasses import replace

from feltdb_engine import exclusive, frame, manifest, payload, trust
from feltdb_engine.core import Core
from feltdb_engine.errors import CursorAhead, CursorUnknown
from feltdb_engine.model import Cursor
from feltdb_engine.view import State, Timeline, Transaction
from feltdb_engine.writer import Outcome, Writer, nothing_done


class Ancestry:
    """The timelines of a log, oldest first."""

    def __init__(self, timelines: list[Timeline]) -> None:
        self._timelines = timelines
        self._forks = [timeline.fork for timeline in timelines[1:]]

    @property
    def current(self) -> bytes:
        """The instance the log is on now."""
        return self._timelines[-1].instance

    def instance_at(self, sequence: int) -> bytes:
        """The instance an operation was first committed under."""
        return self._timelines[bisect_left(self._forks, sequence)].instance

    def resolve(self, cursor: Cursor, head: int) -> tuple[int, int | None]:
        """The sequence a cursor means here, and the one it was rewound from. Raises CursorUnknown, CursorAhead."""
        wanted = cursor.instance_id
        for index, timeline in enumerate(self._timelines):
            if timeline.instance.hex() != wanted:
                continue
            if index == len(self._forks):
                if cursor.sequence > head:
                    raise CursorAhead("The cursor lies beyond the head of its timeline.", head=head)
                return cursor.sequence, None
            left_at = self._forks[index]
            if cursor.sequence > left_at:
                return left_at, cursor.sequence
            return cursor.sequence, None
        raise CursorUnknown("The cursor is of a timeline that is no ancestor of this store's.")


def begin_where_due(core: Core, writer: Writer, deadline: float) -> None:
    """In a copied directory: begin a timeline of its own, before the first write."""
    here = exclusive.place(core.options)
    if _recorded(core) == here:
        return

    def act(txn: Transaction, state: State) -> Outcome:
        known = trust.read(core.files, core.path)
        if known is None or known.directory == here:
            return nothing_done(state)
        outcome = _begin(core, writer, txn, state)
        trust.write(core.files, core.path, replace(known, directory=here))
        return outcome

    writer.own(act, deadline)


def begin(core: Core, writer: Writer, deadline: float) -> None:
    """Begin a timeline on somebody's word: what is written from now on can be told from what another copy wrote."""
    writer.own(lambda txn, state: _begin(core, writer, txn, state), deadline)


def _begin(core: Core, writer: Writer, txn: Transaction, state: State) -> Outcome:
    instance = secrets.token_bytes(16)
    began = payload.LoggedTimeline(instance, state.instance, state.sequence)
    outcome = writer.append_own(txn, state, frame.TIMELINE, payload.encode_timeline(began))
    # As it stands on the disk: a compaction by another process may have replaced it.
    current = manifest.read(core.files, core.path) or core.manifest
    core.manifest = current.on_timeline(instance.hex(), state.instance.hex(), state.sequence)
    manifest.write(core.files, core.path, core.manifest)
    return outcome


def _recorded(core: Core) -> tuple[int, int, str] | None:
    known = trust.read(core.files, core.path)
    return known.directory if known else None
