"""Where a change came from and what it led to: change, transaction, trigger, work, and the changes that work made.

Every step is a look by key, but for what work wrote: the log is kept by sequence, not by work, so the operations from
the time of its attempts are read through, up to a bound that the answer tells.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from apps.triggers.evaluation.compiled import idempotency_key
from apps.triggers.models import Trigger, TriggerQuarantine, TriggerReplay
from apps.workloads import identity
from apps.workloads.commands import BY_CHANGE
from apps.workloads.models import Attempt, Workload
from feltdb_engine import Operation, Store
from feltdb_engine.model import Cursor

MAX_TRIGGERS = 200
"""Triggers of one collection asked about one change."""

MAX_REPLAYS = 50
MAX_READ_OPERATIONS = 20_000
"""Operations read through for what one work wrote; the page goes on from there."""

READ_PAGE = 1_000
MAX_WRITTEN = 200
CLOCKS_APART_MS = 1_000
"""How far the clocks of a worker's database and of the store's writer may stand apart."""

_KEY = "state-trigger:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """Work that a change became: by which trigger, and by which replay of it (0: none)."""

    trigger: Trigger
    work: Workload
    replay: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """What a change led to. `silent` triggers watch its collection and made no work of it."""

    work: Sequence[Effect]
    quarantined: Sequence[TriggerQuarantine]
    silent: Sequence[Trigger]
    more_triggers: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The change that made a work: its timeline and sequence."""

    instance_id: str
    sequence: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """Operations that one work wrote, oldest first; `read` were looked through, `go_on` is where the next look begins.

    `go_on` is None where everything from the time of its attempts has been looked at.
    """

    operations: Sequence[Operation]
    read: int
    go_on: int | None


def cause_of(namespace: str, operation: Operation) -> Workload | None:
    """Return the work that wrote an operation, None where none did, or where it has been removed."""
    if operation.actor.workload_id is None:
        return None
    return Workload.objects.filter(namespace=namespace, workload_id=operation.actor.workload_id).first()


def effects_of(namespace: str, operation: Operation) -> Effects:
    """Return the work that an operation became, by whichever trigger of its collection, and what stands aside."""
    watching = Trigger.objects.filter(namespace=namespace, source_collection=operation.collection)
    triggers = list(watching.order_by("trigger_id")[: MAX_TRIGGERS + 1])
    more, triggers = len(triggers) > MAX_TRIGGERS, triggers[:MAX_TRIGGERS]
    if not triggers:
        return Effects(work=(), quarantined=(), silent=(), more_triggers=False)
    replays: dict[int, list[int]] = {trigger.pk: [0] for trigger in triggers}
    covering = TriggerReplay.objects.filter(
        trigger__in=list(replays), from_sequence__lt=operation.sequence, to_sequence__gte=operation.sequence
    )
    for trigger_pk, number in covering.values_list("trigger_id", "number")[:MAX_REPLAYS]:
        replays[trigger_pk].append(number)
    made_by = {
        _work_id(trigger, operation, replay, by_content): (trigger, replay)
        for trigger in triggers
        for replay in replays[trigger.pk]
        for by_content in (False, True)
    }
    rows = Workload.objects.filter(workload_id__in=list(made_by)).order_by("id")
    work = [Effect(trigger=made_by[row.workload_id][0], work=row, replay=made_by[row.workload_id][1]) for row in rows]
    aside = TriggerQuarantine.objects.filter(
        trigger__in=list(replays), instance_id=operation.instance_id, sequence=operation.sequence
    )
    quarantined = list(aside.select_related("trigger").order_by("id")[:MAX_TRIGGERS])
    told = {each.trigger.pk for each in work} | {each.trigger_id for each in quarantined}
    return Effects(
        work=work,
        quarantined=quarantined,
        silent=[
            each for each in triggers if each.pk not in told and operation.kind in each.change_kinds and not _gone(each)
        ],
        more_triggers=more,
    )


def _gone(trigger: Trigger) -> bool:
    return trigger.state == Trigger.State.ARCHIVED


def _work_id(trigger: Trigger, operation: Operation, replay: int, by_content: bool) -> str:
    """Return the id that the work of this change has: the id is made of what names the request."""
    return identity.workload_id(
        tenant=trigger.namespace,
        application=trigger.application_id,
        requester_kind=trigger.requested_by_kind,
        requester_id=trigger.requested_by_id,
        key=idempotency_key(trigger.trigger_id, operation, replay=replay, by_content=by_content),
    )


def trigger_of(work: Workload) -> Trigger | None:
    """Return the trigger that a change made the work by, None where no change did."""
    if not work.trigger.startswith(BY_CHANGE):
        return None
    return Trigger.objects.filter(namespace=work.namespace, trigger_id=work.trigger.removeprefix(BY_CHANGE)).first()


def source_of(key: str) -> Source | None:
    """Return the change that an idempotency key names, None for a key that no trigger made."""
    if not key.startswith(_KEY):
        return None
    parts = key.removeprefix(_KEY).split(":")
    for place in range(len(parts) - 1, 1, -1):  # a trigger's id may hold colons, and more may follow the sequence
        if parts[place].isascii() and parts[place].isdigit() and len(parts[place]) <= 20 and len(parts[place - 1]) > 8:
            return Source(instance_id=parts[place - 1], sequence=int(parts[place]))
    return None


def written_by(
    opened: Store, workload_id: str, attempts: Sequence[Attempt], *, after: int | None, now_ms: int, until: float
) -> Written:
    """Return what a work wrote in its attempts; `after` goes on where an earlier look ended.

    `until` is in `time.monotonic()` seconds. Raises the engine's errors.
    """
    begun = [each.started_at_ms or each.claimed_at_ms for each in attempts]
    if not begun:
        return Written(operations=(), read=0, go_on=None)
    ended = [now_ms if each.ended_at_ms is None else each.ended_at_ms for each in attempts]
    last_ms = max(ended) + CLOCKS_APART_MS
    head = opened.head()
    at = _first_at(opened, head, min(begun) - CLOCKS_APART_MS) if after is None else after
    found: list[Operation] = []
    read = 0
    while at < head.sequence:
        if read >= MAX_READ_OPERATIONS or len(found) >= MAX_WRITTEN or (read and time.monotonic() >= until):
            return Written(operations=found, read=read, go_on=at)
        page = opened.changes(Cursor(instance_id=head.instance_id, sequence=at), limit=READ_PAGE)
        read += page.cursor.sequence - at
        at = page.cursor.sequence
        found += [each for each in page.operations if each.actor.workload_id == workload_id]
        if page.operations and page.operations[-1].at_ms > last_ms:
            break
    return Written(operations=found, read=read, go_on=None)


def _first_at(opened: Store, head: Cursor, at_ms: int) -> int:
    """Return a sequence after which all operations from `at_ms` on lie: time never goes back within a log."""
    low, high = opened.start().sequence, head.sequence
    while low < high:
        middle = (low + high) // 2
        committed_at_ms, last = opened.time_of(middle + 1)
        if committed_at_ms < at_ms:
            low = max(middle + 1, last)
        else:
            high = middle
    return low
