"""One namespace's evaluation, step by step: read a page of the feed, match it, commit what it became.

A walker belongs to one thread. What it remembers (compiled triggers, how far it looked) is only ever a shortcut: the
cursors in the database decide, and are read again whenever somebody else moved something.
Not here: when to step and who else does (`apps/triggers/evaluator.py`).
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db import OperationalError

from apps.triggers import changing
from apps.triggers.errors import ControlPlaneMismatch, ReplayFailed, TriggerStorageFailure
from apps.triggers.evaluation import authority, batches, marks, matching, pins, position, replaying, standing
from apps.triggers.evaluation.batches import (
    Batch,
    BatchStale,
    CursorMove,
    ForeignWork,
    Refused,
    ReplayMove,
    TriggeredWorkload,
    Work,
)
from apps.triggers.evaluation.compiled import CompiledTrigger
from apps.triggers.evaluation.matching import Place, Row
from apps.triggers.evaluation.position import Seen
from apps.triggers.evaluation.standing import Group, Standing
from apps.triggers.limits import (
    MARK_MS,
    MARK_OPERATIONS,
    QUIET_FLUSH_OPERATIONS,
    QUIET_FLUSH_S,
    SCAN_OPERATIONS,
    YIELD_S,
)
from apps.triggers.models import SEQUENCE_NONE, NamespacePosition, TriggerReplay
from feltdb_engine import Store
from feltdb_engine.errors import CursorAhead, CursorUnknown, EngineError, FeedCompacted
from feltdb_engine.model import Changes, Cursor

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What one step did. `more`: there is, or may be, more to do at once. `stale`: somebody else was first."""

    results: tuple[TriggeredWorkload, ...] = ()
    more: bool = False
    stale: bool = False


class NamespaceWalker:
    """Evaluates the triggers of one namespace. `clock` gives milliseconds, `pause` waits so many seconds."""

    def __init__(
        self,
        namespace: str,
        *,
        clock: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.namespace = namespace
        self._clock = clock
        self._monotonic = monotonic
        self._pause = pause
        self._known: dict[tuple[int, int], CompiledTrigger] = {}
        self._standings: list[Standing] = []
        self._groups: list[Group] | None = None
        self._seen: Seen | None = None
        self._seen_next: Seen | None = None
        self._definitions: int | None = None
        self._turn = 0
        self._flushed_at = monotonic()
        self._replays: list[TriggerReplay] = []
        self._reconciled_to = SEQUENCE_NONE
        self._foreign: set[Place] = set()
        self._mark, self._marked_at = 0, monotonic() - MARK_MS
        self._marked: Seen | None = None
        self._results: list[TriggeredWorkload] = []
        self._watch = authority.Watch(monotonic)
        self._pins = pins.Pins(namespace)

    def step(self, store: Store) -> Step:
        """Do the next piece of work: at most one page of the feed.

        Raises `ControlPlaneMismatch` (which stands until an operator acts), `ReplayFailed` or
        `TriggerStorageFailure` (try again later). Whatever is raised, every transaction is whole.
        """
        return self._run(self._step, store)

    def flush(self, store: Store) -> Step:
        """Store how far was looked, also where nothing matched. Raises as `step`."""
        return self._run(self._store_quiet, store)

    def _run(self, work: Callable[[Store], bool], store: Store) -> Step:
        """Run a piece of work, which tells whether there is more; what it made is told also where it was overtaken."""
        self._results = []
        more, stale = True, False
        try:
            more = self._guarded(work, store)
        except BatchStale:
            stale = True
        except ForeignWork as error:
            stale = self._meet_foreign(error)
        except ControlPlaneMismatch as error:
            changing.note_mismatch(self.namespace, error, now_ms=self._clock())
            raise
        return Step(results=tuple(self._results), more=more, stale=stale)

    def _meet_foreign(self, error: ForeignWork) -> bool:
        """Where numbers of lost changes were given again, go on with keys by content; tells so. Else block."""
        if all(row.operation.sequence <= self._reconciled_to for row in error.rows):
            self._foreign |= {matching.place_of(row.compiled, row.operation) for row in error.rows}
            return True
        for compiled in {row.compiled.pk: row.compiled for row in error.rows}.values():
            self._block(compiled, error.code, error.message)
        return False

    def _guarded(self, work: Callable[[Store], T], store: Store) -> T:
        """Run a piece of work; when it fails, in whatever way, nothing of what it had looked at is remembered."""
        try:
            return work(store)
        except EngineError as error:
            self._forget()
            raise ReplayFailed(f"the feed could not be read: {error.message}") from error
        except OperationalError as error:
            self._forget()
            raise TriggerStorageFailure(f"the control plane's database failed: {error}") from error
        except BaseException:
            self._forget()
            raise

    def _store_quiet(self, store: Store) -> bool:
        self._commit(store, [], self._standings)
        return False

    def renew_pins(self, store: Store) -> None:
        """Keep in the store the history that is needed yet, and tell it how far it was seen. Raises as `step`."""
        if self._seen is not None and self._definitions is not None:
            seen = self._seen.sequence
            self._guarded(lambda store: self._pins.renew(store, seen_sequence=seen, now_ms=self._clock()), store)

    def idle(self, head: Cursor) -> bool:
        """Tell whether, as far as this process knows, every live trigger has looked at everything up to `head`, and
        no replay is open.
        """
        return not self._replays and all(_is_at(group.hindmost, head) for group in self._grouped())

    def authority_due(self) -> bool:
        """Tell whether to step although nothing is new, for somebody's authority may have ended."""
        return bool(self._standings) and self._watch.due()

    def _step(self, store: Store) -> bool:
        """Tell whether there is, or may be, more to do at once."""
        self._refresh(store)
        if self._watch.due():
            self._watch.looked()
            if self._block_ended(each.compiled for each in self._standings):
                return True
        head = store.head()
        groups = self._grouped()
        behind = [group for group in groups if not _is_at(group.hindmost, head)]
        self._turn += 1
        if self._replays and (not behind or self._turn % 2):
            self._replay(store, self._replays[0])
            return True
        if not behind:
            if self.flush_due():
                self._commit(store, [], self._standings)
            return False
        group = behind[self._turn % len(behind)]
        page = self._read(store, group)
        if page is not None:
            together = self._evaluate(store, group, page)
            if len(groups) > 1 or not together:
                self._groups = None
        return True

    def _grouped(self) -> list[Group]:
        """The triggers by where they stand. As long as they all stand together nothing is sorted anew."""
        if self._groups is None:
            self._groups = standing.clusters(self._standings)
        return self._groups

    def _refresh(self, store: Store) -> None:
        """Read the triggers again where anything moved but by us."""
        told = pins.told(store, now_ms=self._clock())  # before the row, which others move on meanwhile
        row = NamespacePosition.objects.filter(pk=self.namespace).first()
        if row is None:
            self._forget()
            return
        if row.mismatch_code:
            raise ControlPlaneMismatch(row.mismatch)
        seen = position.of_row(row)
        position.check_told(seen, told)
        if row.definitions == self._definitions and seen == self._seen:
            return
        position.check(seen, store)
        self._standings, self._groups = standing.load(self.namespace, self._known), None
        self._reconciled_to = row.reconciled_to
        self._replays = replaying.open_replays(self.namespace)
        self._mark = marks.newest(self.namespace)
        self._definitions, self._seen, self._seen_next = row.definitions, seen, seen

    def _forget(self) -> None:
        """Drop what was looked at but not stored: it would be passed over if its cursors moved without its work."""
        self._definitions = None
        self._standings, self._groups = [], None
        self._replays = []

    def _read(self, store: Store, group: Group) -> Changes | None:
        """Read the page after the hindmost of the group. None where it cannot be read and the group was told so."""
        after = group.hindmost
        try:
            page = store.changes(after, limit=SCAN_OPERATIONS, collections=group.collections)
        except (FeedCompacted, CursorUnknown) as error:
            for each in group.members:
                if each.reached == after:
                    self._block(each.compiled, error.code, f"{error.message} (cursor {after})")
            return None
        except CursorAhead as error:
            raise _beyond(after) from error
        if page.rewound_from is not None:
            raise _beyond(after)
        return page

    def _block(self, compiled: CompiledTrigger, code: str, message: str) -> None:
        logger.error("trigger %s/%s is blocked: %s: %s", self.namespace, compiled.trigger_id, code, message)
        changing.block(compiled.pk, revision=compiled.revision, code=code, reason=message, now_ms=self._clock())
        self._forget()

    def _block_ended(self, triggers: Iterable[CompiledTrigger]) -> bool:
        """Block those whose authority has ended. Tells whether there were any: then nothing is remembered."""
        found = authority.ended(triggers, now_ms=self._clock())
        for each in found:
            self._block(each.compiled, each.refused.code, each.refused.message)
        return bool(found)

    def _evaluate(self, store: Store, group: Group, page: Changes) -> bool:
        """Match a page and commit it in batches; the group has then looked at everything up to its end.

        Tells whether all of the group stand there.
        """
        assert self._seen_next is not None  # noqa: S101 - set by the refresh that loaded the group
        last = page.operations[-1] if page.operations else None
        self._seen_next = position.advanced(self._seen_next, page.cursor, last)
        found = matching.matches(store, page.operations, group.dispatch)
        together = True
        for rows, is_last in matching.chunks(self.namespace, found, foreign=self._foreign):
            for match, _ in rows:
                match.standing.reached = _place(page, match.operation.sequence)
            if is_last:
                together = group.reach(page.cursor)
            self._commit(store, [row for _, row in rows], _busy(rows))
            self._pause(YIELD_S)
        if not found:
            together = group.reach(page.cursor)
            if self.flush_due():
                self._commit(store, [], self._standings)
        return together

    def _commit(self, store: Store, rows: Sequence[Work | Refused], movers: Sequence[Standing]) -> None:
        """Commit rows and the movers' cursors, if there is anything to commit."""
        moving = [each for each in movers if each.stored != each.reached]
        if not moving:
            self._flushed_at = self._monotonic()
            return
        moves = [
            CursorMove(
                trigger_pk=each.compiled.pk, revision=each.compiled.revision, before=each.stored, after=each.reached
            )
            for each in moving
        ]
        self._write(store, rows, moves)
        for each in moving:
            each.stored = each.reached
        if movers is self._standings:
            self._flushed_at = self._monotonic()

    def _write(
        self,
        store: Store,
        rows: Sequence[Work | Refused],
        moves: Sequence[CursorMove],
        replay: ReplayMove | None = None,
    ) -> None:
        assert self._seen is not None and self._seen_next is not None  # noqa: S101 - there are standings
        assert self._definitions is not None  # noqa: S101 - likewise
        position.check(self._seen, store)
        if self._block_ended({row.compiled.pk: row.compiled for row in rows}.values()):
            raise BatchStale("a trigger's authority ended")
        refused = [row for row in rows if isinstance(row, Refused)]
        mark = self._next_mark()
        batch = Batch(
            namespace=self.namespace,
            definitions=self._definitions,
            work=[row for row in rows if isinstance(row, Work)],
            refused=refused,
            moves=moves,
            seen_before=self._seen,
            seen_after=self._seen_next,
            replay=replay,
            mark=mark,
        )
        self._results += batches.commit(batch, now_ms=self._clock())
        self._seen = self._seen_next
        if mark is not None:
            self._mark, self._marked, self._marked_at = mark, self._seen, self._monotonic()
        for row in refused:
            logger.warning(
                "trigger %s/%s: change %s is quarantined: %s: %s",
                self.namespace,
                row.compiled.trigger_id,
                row.operation.sequence,
                row.code,
                row.message,
            )

    def _next_mark(self) -> int | None:
        """The number to keep what is seen next under, None where the mark before is near enough."""
        seen = self._seen_next
        if seen is None or seen.sequence == SEQUENCE_NONE or seen == self._marked:
            return None
        far = self._marked is None or seen.sequence - self._marked.sequence >= MARK_OPERATIONS
        late = self._monotonic() - self._marked_at >= MARK_MS / 1000
        return self._mark + 1 if far or late else None

    def _replay(self, store: Store, row: TriggerReplay) -> None:
        """Do the next page of a replay: its rows and its progress, no cursor."""
        page = replaying.read(store, row)
        if page is None:
            replaying.fail(row, "history does not reach back to its changes any more", now_ms=self._clock())
            self._definitions = None
            return
        for rows, move in replaying.chunks(self.namespace, store, row, page):
            self._write(store, rows, [], move)
            row.position = move.after
            self._pause(YIELD_S)
        if row.position >= row.to_sequence:
            self._replays.remove(row)

    def flush_due(self) -> bool:
        """Tell whether cursors that only passed changes by are to be stored now."""
        if self._monotonic() - self._flushed_at >= QUIET_FLUSH_S:
            return any(each.stored != each.reached for each in self._standings)
        return any(each.reached.sequence - each.stored.sequence >= QUIET_FLUSH_OPERATIONS for each in self._standings)


def _beyond(cursor: Cursor) -> ControlPlaneMismatch:
    return ControlPlaneMismatch(
        f"a trigger has evaluated change {cursor.sequence}, which the store does not hold any more: "
        "store and database were rolled back apart"
    )


def _is_at(cursor: Cursor, head: Cursor) -> bool:
    return cursor.instance_id == head.instance_id and cursor.sequence >= head.sequence


def _place(page: Changes, sequence: int) -> Cursor:
    return Cursor(instance_id=page.cursor.instance_id, sequence=sequence)


def _busy(rows: Sequence[Row]) -> list[Standing]:
    """Return those that have a row in the batch."""
    return list({match.standing.compiled.pk: match.standing for match, _ in rows}.values())
