"""Old changes evaluated once more: reading a replay's next page and making its rows. The walker writes them."""

from collections.abc import Iterator, Sequence

from apps.triggers.evaluation import matching, standing
from apps.triggers.evaluation.batches import Refused, ReplayMove, Work
from apps.triggers.evaluation.compiled import compile_trigger
from apps.triggers.evaluation.matching import Match
from apps.triggers.evaluation.standing import Standing
from apps.triggers.limits import MAX_REASON_CHARS, SCAN_OPERATIONS
from apps.triggers.models import SKIPPED, Trigger, TriggerQuarantine, TriggerReplay
from feltdb_engine import Store
from feltdb_engine.errors import FeedCompacted
from feltdb_engine.model import Changes, Cursor


def open_replays(namespace: str) -> list[TriggerReplay]:
    """Return the replays that are to be carried on, oldest first: those whose trigger is active."""
    rows = TriggerReplay.objects.filter(
        namespace=namespace, ended_at_ms__isnull=True, trigger__state=Trigger.State.ACTIVE
    )
    return list(rows.select_related("trigger").order_by("pk"))


def read(store: Store, row: TriggerReplay) -> Changes | None:
    """Read the replay's next page; None where history does not reach back to it."""
    after = Cursor(instance_id=store.head().instance_id, sequence=row.position)
    try:
        return store.changes(after, limit=SCAN_OPERATIONS, collections=(row.trigger.source_collection,))
    except FeedCompacted:
        return None


def chunks(
    namespace: str, store: Store, row: TriggerReplay, page: Changes
) -> Iterator[tuple[Sequence[Work | Refused], ReplayMove]]:
    """Yield what each transaction of a page does, the last of them also where nothing matched."""
    end = min(page.cursor.sequence, row.to_sequence)
    found = _matches(store, row, page)
    position = row.position
    for rows, is_last in matching.chunks(namespace, found, replay=row.number):
        # A trigger matches a change once, so a chunk ends between changes.
        after = end if is_last else rows[-1][0].operation.sequence
        yield [each for _, each in rows], _move(row, position, after)
        position = after
    if not found:
        yield [], _move(row, position, end)


def _matches(store: Store, row: TriggerReplay, page: Changes) -> list[Match]:
    start = Cursor(instance_id=page.cursor.instance_id, sequence=row.position)
    skipped = TriggerQuarantine.objects.filter(
        trigger=row.trigger, code=SKIPPED, sequence__gt=row.position, sequence__lte=row.to_sequence
    )
    one = Standing(
        compiled=compile_trigger(row.trigger),
        stored=start,
        reached=start,
        skips=frozenset(skipped.values_list("instance_id", "sequence")),
    )
    operations = [each for each in page.operations if each.sequence <= row.to_sequence]
    return matching.matches(store, operations, standing.dispatch([one]))


def _move(row: TriggerReplay, before: int, after: int) -> ReplayMove:
    return ReplayMove(
        replay_pk=row.pk, revision=row.trigger.revision, before=before, after=after, done=after >= row.to_sequence
    )


def fail(row: TriggerReplay, message: str, *, now_ms: int) -> None:
    """End a replay that cannot go on."""
    TriggerReplay.objects.filter(pk=row.pk, ended_at_ms__isnull=True).update(
        ended_at_ms=now_ms, outcome=TriggerReplay.Outcome.FAILED, message=message[:MAX_REASON_CHARS]
    )
