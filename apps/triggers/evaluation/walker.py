"""One namespace's evaluation, step by step: read a page of the feed, match it, commit what it became.

A walker belongs to one thread. What it remembers (compiled triggers, how far it looked) is only ever a shortcut: the
cursors in the database decide, and are read again whenever somebody else moved something.
Not here: when to step and who else does (`apps/triggers/evaluator.py`).
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.db import OperationalError

from apps.http.errors import ApiError
from apps.triggers import changing
from apps.triggers.contract import change_of
from apps.triggers.errors import ControlPlaneMismatch, ReplayFailed, TriggerStorageFailure
from apps.triggers.evaluation import batches, position, standing
from apps.triggers.evaluation.batches import (
    Batch,
    BatchStale,
    CursorMove,
    ForeignWork,
    Refused,
    TriggeredWorkload,
    Work,
)
from apps.triggers.evaluation.compiled import CompiledTrigger, refusal_of_depth, work_for
from apps.triggers.evaluation.position import Seen
from apps.triggers.evaluation.standing import Standing
from apps.triggers.limits import (
    BATCH_BYTES,
    BATCH_ROWS,
    QUIET_FLUSH_OPERATIONS,
    QUIET_FLUSH_S,
    SCAN_OPERATIONS,
    YIELD_S,
)
from apps.triggers.models import NamespacePosition
from apps.workloads.models import Request
from apps.workloads.services import prepare
from feltdb_engine import Store
from feltdb_engine.errors import CursorAhead, CursorUnknown, EngineError, FeedCompacted
from feltdb_engine.model import Changes, Cursor, Operation

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What one step did. `more`: there is, or may be, more to do at once. `stale`: somebody else was first."""

    results: tuple[TriggeredWorkload, ...] = ()
    more: bool = False
    stale: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Match:
    standing: Standing
    operation: Operation


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
        self._seen: Seen | None = None
        self._seen_next: Seen | None = None
        self._definitions: int | None = None
        self._turn = 0
        self._flushed_at = monotonic()
        self._results: list[TriggeredWorkload] = []

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
            self._block(error.compiled, error.code, error.message)
        except ControlPlaneMismatch as error:
            changing.note_mismatch(self.namespace, error, now_ms=self._clock())
            raise
        return Step(results=tuple(self._results), more=more, stale=stale)

    def _guarded(self, work: Callable[[Store], bool], store: Store) -> bool:
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
        self._commit(store, [], [], self._standings)
        return False

    def idle(self, head: Cursor) -> bool:
        """Tell whether every live trigger, as far as this process knows, has looked at everything up to `head`."""
        return all(_is_at(each.reached, head) for each in self._standings)

    def _step(self, store: Store) -> bool:
        """Tell whether there is, or may be, more to do at once."""
        self._refresh(store)
        head = store.head()
        behind = [group for group in standing.clusters(self._standings) if not _is_at(group[0].reached, head)]
        if not behind:
            if self.flush_due():
                self._commit(store, [], [], self._standings)
            return False
        self._turn += 1
        group = behind[self._turn % len(behind)]
        page = self._read(store, group)
        if page is not None:
            self._evaluate(store, group, page)
        return True

    def _refresh(self, store: Store) -> None:
        """Read the triggers again where anything moved but by us."""
        row = NamespacePosition.objects.filter(pk=self.namespace).first()
        if row is None:
            self._forget()
            return
        if row.mismatch_code:
            raise ControlPlaneMismatch(row.mismatch)
        seen = position.of_row(row)
        if row.definitions == self._definitions and seen == self._seen:
            return
        position.check(seen, store)
        self._standings = standing.load(self.namespace, self._known)
        self._definitions, self._seen, self._seen_next = row.definitions, seen, seen

    def _forget(self) -> None:
        """Drop what was looked at but not stored: it would be passed over if its cursors moved without its work."""
        self._definitions = None
        self._standings = []

    def _read(self, store: Store, group: Sequence[Standing]) -> Changes | None:
        """Read the page after the hindmost of the group. None where it cannot be read and the group was told so."""
        after = group[0].reached
        collections = tuple(sorted({each.compiled.collection for each in group}))
        try:
            page = store.changes(after, limit=SCAN_OPERATIONS, collections=collections)
        except (FeedCompacted, CursorUnknown) as error:
            for each in group:
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

    def _evaluate(self, store: Store, group: Sequence[Standing], page: Changes) -> None:
        """Match a page and commit it in batches; the group has then looked at everything up to its end."""
        assert self._seen_next is not None  # noqa: S101 - set by the refresh that loaded the group
        last = page.operations[-1] if page.operations else None
        self._seen_next = position.advanced(self._seen_next, page.cursor, last)
        matches = _matches(page, group)
        depths = _depths(self.namespace, matches)
        work: list[Work] = []
        refused: list[Refused] = []
        size = 0
        for match in matches:
            row = _prepared(match, depths)
            if isinstance(row, Work):
                work.append(row)
                size += len(row.prepared.input_text)
            else:
                refused.append(row)
            match.standing.reached = Cursor(instance_id=page.cursor.instance_id, sequence=match.operation.sequence)
            if len(work) + len(refused) >= BATCH_ROWS or size >= BATCH_BYTES:
                self._commit(store, work, refused, _busy(work, refused, group))
                work, refused, size = [], [], 0
                self._pause(YIELD_S)
        for each in group:
            each.reached = page.cursor
        if work or refused:
            self._commit(store, work, refused, _busy(work, refused, group))
            self._pause(YIELD_S)
        elif self.flush_due():
            self._commit(store, [], [], self._standings)

    def _commit(self, store: Store, work: list[Work], refused: list[Refused], movers: Sequence[Standing]) -> None:
        """Commit rows and the movers' cursors, if there is anything to commit."""
        moving = [each for each in movers if each.stored != each.reached]
        if not moving:
            self._flushed_at = self._monotonic()
            return
        assert self._seen is not None and self._seen_next is not None  # noqa: S101 - there are standings
        position.check(self._seen, store)
        batch = Batch(
            namespace=self.namespace,
            work=tuple(work),
            refused=tuple(refused),
            moves=tuple(
                CursorMove(
                    trigger_pk=each.compiled.pk,
                    revision=each.compiled.revision,
                    before=each.stored,
                    after=each.reached,
                )
                for each in moving
            ),
            seen_before=self._seen,
            seen_after=self._seen_next,
        )
        self._results += batches.commit(batch, now_ms=self._clock())
        for each in moving:
            each.stored = each.reached
        self._seen = self._seen_next
        if movers is self._standings:
            self._flushed_at = self._monotonic()
        for row in refused:
            logger.warning(
                "trigger %s/%s: change %s is quarantined: %s: %s",
                self.namespace,
                row.compiled.trigger_id,
                row.operation.sequence,
                row.code,
                row.message,
            )

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


def _matches(page: Changes, group: Sequence[Standing]) -> list[_Match]:
    """Return what matches, in the order of the changes and, within a change, of the trigger ids."""
    table = standing.dispatch(group)
    found = []
    for operation in page.operations:
        candidates = table.get((operation.collection, operation.kind))
        if not candidates:
            continue
        change = change_of(operation)
        for each in candidates:
            if operation.sequence > each.reached.sequence and each.compiled.decide(change).matched:
                found.append(_Match(standing=each, operation=operation))
    return found


def _depths(namespace: str, matches: Sequence[_Match]) -> dict[str, int]:
    """Return how deep the work lies that made the matching changes, by workload id."""
    makers = {match.operation.actor.workload_id for match in matches} - {None}
    if not makers:
        return {}
    rows: Iterator[tuple[str, object]] = (
        Request.objects.filter(namespace=namespace, workload__workload_id__in=makers)
        .values_list("workload__workload_id", "input")
        .iterator()
    )
    return {workload_id: _depth_of(stored) for workload_id, stored in rows}


def _depth_of(stored: object) -> int:
    provenance = stored.get("provenance") if isinstance(stored, dict) else None
    depth = provenance.get("depth") if isinstance(provenance, dict) else None
    return depth if isinstance(depth, int) else 0


def _prepared(match: _Match, depths: dict[str, int]) -> Work | Refused:
    """Make the row of a match: work, or why it cannot be."""
    compiled, operation = match.standing.compiled, match.operation
    depth = depths.get(operation.actor.workload_id or "", 0) + 1
    reason = refusal_of_depth(compiled, operation, depth)
    if reason is not None:
        return Refused(compiled=compiled, operation=operation, code="TRIGGER_FEEDS_ITSELF", message=reason)
    try:
        prepared = prepare(work_for(compiled, operation, change_of(operation), depth=depth))
    except ApiError as error:
        return Refused(compiled=compiled, operation=operation, code=error.code, message=error.message)
    return Work(compiled=compiled, operation=operation, prepared=prepared)


def _busy(work: Sequence[Work], refused: Sequence[Refused], group: Sequence[Standing]) -> list[Standing]:
    """Return those of the group that have a row in the batch."""
    pks = {row.compiled.pk for row in work} | {row.compiled.pk for row in refused}
    return [each for each in group if each.compiled.pk in pks]
