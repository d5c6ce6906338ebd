"""Old changes once more, on an operator's explicit order: every one that matches makes work once more, and once.

The order is a row with a range and a place in it; evaluators carry it on beside the feed, and a crash or a second
evaluator makes nothing twice (`evaluation/replaying.py`). It is in the audit, and the work names it.
"""

from typing import Any

from django.db import IntegrityError, OperationalError
from django.db.models import Max

from apps.keys.audit import services as audit
from apps.keys.principal import Principal
from apps.triggers import changing
from apps.triggers.changing import State
from apps.triggers.errors import TriggerConflict, TriggerError, TriggerInvalid, TriggerStorageFailure
from apps.triggers.limits import MAX_OPEN_REPLAYS, MAX_REASON_CHARS, MAX_TEXT_CHARS
from apps.triggers.models import TriggerReplay
from apps.triggers.services.defining import start_cursor
from apps.triggers.services.operating import moving
from apps.triggers.services.showing import find

Outcome = TriggerReplay.Outcome


def replay(
    namespace: str, trigger_id: str, *, start_from: str, end_at: str, by: Principal, now_ms: int, reason: str
) -> TriggerReplay:
    """Order the changes after the cursor `start_from` up to the cursor `end_at` to be evaluated once more.

    Both are cursors of the feed, `beginning` or `now`. Raises CONFLICT where the trigger is not active or has too many
    open replays, TRIGGER_INVALID, TRIGGER_NOT_FOUND, CONTROL_PLANE_MISMATCH, TRIGGER_STORAGE_FAILURE.
    """
    with moving(namespace, now_ms) as store:
        trigger = changing.locked(namespace, trigger_id)
        if trigger.state != State.ACTIVE:
            raise TriggerConflict(f"trigger {trigger_id} is {trigger.state}, not active", state=trigger.state)
        start, end = (
            start_cursor(store, start_from, field="from").sequence,
            start_cursor(store, end_at, field="to").sequence,
        )
        if end <= start:
            raise TriggerInvalid("a replay ends after it starts", field="to")
        if TriggerReplay.objects.filter(trigger=trigger, ended_at_ms__isnull=True).count() >= MAX_OPEN_REPLAYS:
            raise TriggerConflict(f"a trigger has at most {MAX_OPEN_REPLAYS} replays open at once")
        newest = TriggerReplay.objects.filter(trigger=trigger).aggregate(newest=Max("number"))["newest"] or 0
        row = TriggerReplay.objects.create(
            trigger=trigger,
            namespace=namespace,
            number=newest + 1,
            from_sequence=start,
            to_sequence=end,
            position=start,
            author=by.label[:MAX_TEXT_CHARS],
            reason=reason[:MAX_REASON_CHARS],
            created_at_ms=now_ms,
        )
        audit.record(
            by,
            "trigger.replay",
            target=f"{trigger_id}/r{row.number}",
            namespace=namespace,
            reason=reason,
            after={"from": start, "to": end},
            at_ms=now_ms,
        )
        return row


def cancel(
    namespace: str, trigger_id: str, number: int, *, by: Principal, now_ms: int, reason: str = ""
) -> TriggerReplay:
    """End an open replay where it stands; what it has made stays. Raises CONFLICT where it has ended, NOT_FOUND."""
    row = one(namespace, trigger_id, number)
    try:
        with changing.turn(namespace):
            hit = TriggerReplay.objects.filter(pk=row.pk, ended_at_ms__isnull=True).update(
                ended_at_ms=now_ms, outcome=Outcome.CANCELLED, message=reason[:MAX_REASON_CHARS]
            )
            if hit != 1:
                raise TriggerConflict(f"replay {number} of {trigger_id} has ended already")
            audit.record(
                by,
                "trigger.replay_cancel",
                target=f"{trigger_id}/r{number}",
                namespace=namespace,
                reason=reason,
                at_ms=now_ms,
            )
    except (IntegrityError, OperationalError) as error:
        raise TriggerStorageFailure(f"the replay was not ended: {error}") from error
    return one(namespace, trigger_id, number)


def one(namespace: str, trigger_id: str, number: int) -> TriggerReplay:
    """Return a replay. Raises NOT_FOUND, TRIGGER_NOT_FOUND."""
    row = TriggerReplay.objects.filter(trigger=find(namespace, trigger_id), number=number).first()
    if row is None:
        raise TriggerError("NOT_FOUND", f"trigger {trigger_id} has no replay {number}")
    return row


def replays(namespace: str, trigger_id: str, *, before: int | None, limit: int) -> list[TriggerReplay]:
    """Return the trigger's replays, newest first. Raises TRIGGER_NOT_FOUND."""
    rows = TriggerReplay.objects.filter(trigger=find(namespace, trigger_id)).order_by("-number")
    return list(rows[:limit] if before is None else rows.filter(number__lt=before)[:limit])


def replay_document(row: TriggerReplay) -> dict[str, Any]:
    """Return a replay as JSON."""
    return {
        "number": row.number,
        "from_sequence": row.from_sequence,
        "to_sequence": row.to_sequence,
        "position": row.position,
        "made": row.made,
        "author": row.author,
        "reason": row.reason,
        "created_at_ms": row.created_at_ms,
        "ended_at_ms": row.ended_at_ms,
        "outcome": row.outcome or None,
        "message": row.message,
    }
