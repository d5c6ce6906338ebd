"""One SQL transaction: work in, cursors forward, both or neither.

Every cursor moves only where it stands as it was read, for the revision that was read, and only while its trigger is
live; one that does not throws the whole batch away. So two evaluators, or an evaluator and a change of a trigger, can
never both have their way, and a crash before the commit changes nothing, after it leaves nothing to do.
Everything is prepared beforehand: nothing is read from the store and nothing is matched in here.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F

from apps.triggers.errors import ControlPlaneMismatch, TriggerStorageFailure
from apps.triggers.evaluation import marks
from apps.triggers.evaluation.compiled import CompiledTrigger, source_change_id
from apps.triggers.evaluation.position import Seen
from apps.triggers.limits import BATCH_ROWS, MAX_KEY_CHARS, MAX_REASON_CHARS
from apps.triggers.models import NamespacePosition, Trigger, TriggerCursor, TriggerQuarantine, TriggerReplay
from apps.workloads.models import Request
from apps.workloads.services import Admission, Prepared, admit_many
from feltdb_engine.model import Cursor, Operation

RETRYABLE_SQLSTATES = ("40001", "40P01")  # serialization failure, deadlock: the batch lost a race
SQL_IDS = 500  # ids in one statement


class BatchStale(Exception):
    """A cursor, a revision or the position was not as read; nothing was written. Read again."""


class ForeignWork(ControlPlaneMismatch):
    """Work under the keys of these changes came from others than those the store holds there."""

    def __init__(self, rows: Sequence["Work"], workload_id: str) -> None:
        first = rows[0].operation.sequence
        super().__init__(
            f"{workload_id} was made under the key of change {first}, but by another change",
            workload_id=workload_id,
            sequence=first,
        )
        self.rows = rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A matching change, ready to be admitted."""

    compiled: CompiledTrigger
    operation: Operation
    prepared: Prepared


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A matching change that cannot become work. `replay` is the replay that came upon it, 0 for none."""

    compiled: CompiledTrigger
    operation: Operation
    code: str
    message: str
    replay: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorMove:
    """One trigger's cursor, from where it was read to where it shall be."""

    trigger_pk: int
    revision: int
    before: Cursor
    after: Cursor


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayMove:
    """A replay's progress: the sequence it was read at and the one it has come to, and whether it is through.

    It holds for the `revision` of the trigger that was read, and while the trigger is active.
    """

    replay_pk: int
    revision: int
    before: int
    after: int
    done: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What one transaction does. `work` and `refused` together are at most `BATCH_ROWS`.

    `definitions` is the count of the namespace's orders (definitions, skips, replays) that it was made by.
    `mark` is the number under which `seen_after` is kept, None for not at all (`marks.py`).
    """

    namespace: str
    definitions: int
    work: Sequence[Work]
    refused: Sequence[Refused]
    moves: Sequence[CursorMove]
    seen_before: Seen
    seen_after: Seen
    replay: ReplayMove | None = None
    mark: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggeredWorkload:
    """One line of the account: which change made which work for which trigger, or had made it before."""

    trigger_id: str
    source_change_id: str
    workload_id: str
    duplicate: bool


def commit(batch: Batch, *, now_ms: int) -> list[TriggeredWorkload]:
    """Carry out a batch.

    Raises `BatchStale` when it was overtaken, `ForeignWork` for a key that another change used,
    `TriggerStorageFailure` when the database failed; whatever is raised, nothing was written.
    """
    assert len(batch.work) + len(batch.refused) <= BATCH_ROWS  # noqa: S101 - the caller splits
    try:
        with transaction.atomic(durable=True):
            _hold_position(batch, now_ms)
            admissions = admit_many([row.prepared for row in batch.work], now_ms=now_ms)
            refuse_foreign(batch.work, admissions)
            _quarantine(batch, now_ms)
            _move(batch.moves)
            _move_replay(batch.replay, made=sum(admission.created for admission in admissions), now_ms=now_ms)
            if batch.mark is not None:
                marks.keep(batch.namespace, batch.mark, batch.seen_after, now_ms=now_ms)
    except IntegrityError as error:
        raise BatchStale(str(error)) from error
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) in RETRYABLE_SQLSTATES:
            raise BatchStale(str(error)) from error
        raise TriggerStorageFailure(f"the control plane's database failed: {error}") from error
    return [
        TriggeredWorkload(
            trigger_id=row.compiled.trigger_id,
            source_change_id=source_change_id(row.operation),
            workload_id=admission.workload.workload_id,
            duplicate=not admission.created,
        )
        for row, admission in zip(batch.work, admissions, strict=True)
    ]


def _hold_position(batch: Batch, now_ms: int) -> None:
    """Take the namespace's row first, so that evaluators queue for it instead of meeting among the cursors."""
    before, after = batch.seen_before, batch.seen_after
    hit = NamespacePosition.objects.filter(
        namespace=batch.namespace,
        mismatch_code="",
        definitions=batch.definitions,
        store_id=before.store_id,
        instance_id=before.instance_id,
        sequence=before.sequence,
        content_hash=before.content_hash,
    ).update(
        instance_id=after.instance_id, sequence=after.sequence, content_hash=after.content_hash, updated_at_ms=now_ms
    )
    if hit != 1:
        raise BatchStale("the namespace's position moved, or an operator changed a trigger")


def refuse_foreign(work: Sequence[Work], admissions: Sequence[Admission]) -> None:
    """Raise `ForeignWork` where a known key is no duplicate: only the same change may have made its work.

    The trigger may have been redefined since.
    """
    conflicts = [
        (row, admission.workload)
        for row, admission in zip(work, admissions, strict=True)
        if admission.conflict is not None
    ]
    if not conflicts:
        return
    inputs = dict(
        Request.objects.filter(workload__in=[workload.pk for _, workload in conflicts]).values_list("pk", "input")
    )
    foreign = [
        (row, workload) for row, workload in conflicts if made_by(inputs.get(workload.pk)) != row.operation.content_hash
    ]
    if foreign:
        raise ForeignWork([row for row, _ in foreign], foreign[0][1].workload_id)


def made_by(stored: object) -> object:
    """Return the content hash of the change that made work, by its input; None for what is no trigger's."""
    source = stored.get("source") if isinstance(stored, dict) else None
    return source.get("content_hash") if isinstance(source, dict) else None


def _quarantine(batch: Batch, now_ms: int) -> None:
    if not batch.refused:
        return
    TriggerQuarantine.objects.bulk_create(
        [
            TriggerQuarantine(
                trigger_id=row.compiled.pk,
                namespace=batch.namespace,
                instance_id=row.operation.instance_id,
                sequence=row.operation.sequence,
                replay=row.replay,
                record_key=row.operation.key[:MAX_KEY_CHARS],
                change_kind=row.operation.kind,
                content_hash=row.operation.content_hash,
                trigger_revision=row.compiled.revision,
                code=row.code,
                message=row.message[:MAX_REASON_CHARS],
                at_ms=now_ms,
            )
            for row in batch.refused
        ],
        ignore_conflicts=True,  # a rewound cursor finds its refusals already there
    )


def _move_replay(move: ReplayMove | None, *, made: int, now_ms: int) -> None:
    if move is None:
        return
    row = TriggerReplay.objects.filter(
        pk=move.replay_pk,
        ended_at_ms__isnull=True,
        position=move.before,
        trigger__revision=move.revision,
        trigger__state=Trigger.State.ACTIVE,
    )
    values: dict[str, Any] = {"position": move.after, "made": F("made") + made}
    if move.done:
        values |= {"ended_at_ms": now_ms, "outcome": TriggerReplay.Outcome.DONE}
    if row.update(**values) != 1:
        raise BatchStale("the replay moved or was ended")


def _move(moves: Iterable[CursorMove]) -> None:
    """Move each cursor, those that make the same move in one statement. Each must be hit, or the batch is stale."""
    alike: dict[tuple[int, Cursor, Cursor], list[int]] = defaultdict(list)
    for move in moves:
        alike[move.revision, move.before, move.after].append(move.trigger_pk)
    for (revision, before, after), pks in alike.items():
        for start in range(0, len(pks), SQL_IDS):
            some = pks[start : start + SQL_IDS]
            hit = TriggerCursor.objects.filter(
                pk__in=some,
                live=True,
                revision=revision,
                instance_id=before.instance_id,
                sequence=before.sequence,
            ).update(instance_id=after.instance_id, sequence=after.sequence)
            if hit != len(some):
                raise BatchStale("a trigger or its cursor changed")
