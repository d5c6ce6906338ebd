"""Changes that stand aside: those in quarantine, to be retried or given up, and those to be passed over.

What an operator does here is in the audit. A retry makes the work under the change's own key, so it is made once.
"""

from collections.abc import Collection

from django.db import IntegrityError, OperationalError, transaction

from apps.http.errors import ApiError
from apps.keys.audit import services as audit
from apps.keys.principal import Principal
from apps.state import stores
from apps.triggers import changing
from apps.triggers.errors import ControlPlaneMismatch, TriggerConflict, TriggerError, TriggerStorageFailure
from apps.triggers.evaluation import authority, batches, matching, position, standing
from apps.triggers.evaluation.batches import Refused, TriggeredWorkload, Work
from apps.triggers.evaluation.compiled import compile_trigger, source_change_id
from apps.triggers.evaluation.standing import Standing
from apps.triggers.limits import MAX_KEY_CHARS, MAX_REASON_CHARS, MAX_TEXT_CHARS
from apps.triggers.models import SKIPPED, NamespacePosition, Trigger, TriggerQuarantine
from apps.triggers.services import changes
from apps.triggers.services.showing import cursor_of, find
from apps.workloads.commands import Admission
from apps.workloads.services import admit_many
from feltdb_engine import Store
from feltdb_engine.model import Cursor, Operation

RETRIED = "retried"


def quarantined(namespace: str, trigger_id: str, *, before: int | None, limit: int) -> list[TriggerQuarantine]:
    """Return what of the trigger is quarantined and not yet seen to, newest first. Raises TRIGGER_NOT_FOUND."""
    trigger = find(namespace, trigger_id)
    rows = TriggerQuarantine.objects.filter(trigger=trigger, resolved_at_ms__isnull=True).order_by("-id")
    return list(rows[:limit] if before is None else rows.filter(id__lt=before)[:limit])


def retry(
    namespace: str, trigger_id: str, change_id: str, *, by: Principal, now_ms: int, reason: str = ""
) -> TriggeredWorkload:
    """Make the work of a quarantined change, by the trigger as it is defined now; then it is quarantined no more.

    Raises the refusal where it still cannot become work, CONFLICT where it does not match any more, NOT_FOUND where it
    is not in quarantine, FEED_COMPACTED, CONTROL_PLANE_MISMATCH, TRIGGER_NOT_FOUND, TRIGGER_STORAGE_FAILURE.
    """
    trigger = find(namespace, trigger_id)
    store = stores.store(namespace)
    place = changes.named(change_id, store)
    row = _open(trigger, place)
    _check_position(namespace, store)
    operation = changes.read(store, place)
    if operation.content_hash != row.content_hash:
        raise ControlPlaneMismatch(f"change {place.sequence} is not the one that was quarantined")
    try:
        admission = _admit(store, trigger, operation, row, by=by, now_ms=now_ms, reason=reason)
    except (IntegrityError, OperationalError) as error:
        raise TriggerStorageFailure(f"the change was not retried: {error}") from error
    return TriggeredWorkload(
        trigger_id=trigger_id,
        source_change_id=source_change_id(operation),
        workload_id=admission.workload.workload_id,
        duplicate=not admission.created,
    )


def _admit(
    store: Store,
    trigger: Trigger,
    operation: Operation,
    row: TriggerQuarantine,
    *,
    by: Principal,
    now_ms: int,
    reason: str,
    foreign: Collection[matching.Place] = (),
) -> Admission:
    work = _work(store, trigger, operation, row.replay, now_ms, foreign)
    try:
        with transaction.atomic():
            [admission] = admissions = admit_many([work.prepared], now_ms=now_ms)
            batches.refuse_foreign([work], admissions)
            _resolve(row, f"{RETRIED}: {admission.workload.workload_id}", by=by, now_ms=now_ms)
            _record("retry", trigger, operation.sequence, by=by, now_ms=now_ms, reason=reason)
        return admission
    except batches.ForeignWork:
        known = NamespacePosition.objects.get(pk=trigger.namespace)
        if foreign or operation.sequence > known.reconciled_to:
            raise
    foreign = {matching.place_of(work.compiled, operation)}
    return _admit(store, trigger, operation, row, by=by, now_ms=now_ms, reason=reason, foreign=foreign)


def skip(namespace: str, trigger_id: str, change_id: str, *, by: Principal, now_ms: int, reason: str) -> str:
    """Pass one change over: one in quarantine is given up, one the trigger has not come to yet will make no work.

    Returns the change's `source_change_id`. Raises CONFLICT for a change that was evaluated and is not in quarantine,
    NOT_FOUND, FEED_COMPACTED, TRIGGER_NOT_FOUND, TRIGGER_STORAGE_FAILURE.
    """
    trigger = find(namespace, trigger_id)
    store = stores.store(namespace)
    place = changes.named(change_id, store)
    try:
        if TriggerQuarantine.objects.filter(**_same(trigger, place), resolved_at_ms__isnull=True).exists():
            with transaction.atomic():
                row = _open(trigger, place)
                _resolve(row, reason or SKIPPED.lower(), by=by, now_ms=now_ms)
                _record("skip", trigger, place.sequence, by=by, now_ms=now_ms, reason=reason)
            return f"{place.instance_id}:{place.sequence}"
        operation = changes.read(store, place)
        with changing.turn(namespace):
            _refuse_seen_to(trigger, place)
            _pass_over(changing.locked(namespace, trigger_id), operation, by=by, now_ms=now_ms, reason=reason)
        return source_change_id(operation)
    except (IntegrityError, OperationalError) as error:
        raise TriggerStorageFailure(f"the change was not skipped: {error}") from error


def _refuse_seen_to(trigger: Trigger, place: Cursor) -> None:
    """Raise CONFLICT for a change that somebody gave up or retried before, though the trigger comes to it again."""
    row = TriggerQuarantine.objects.filter(**_same(trigger, place), replay=0).first()
    if row is not None:
        raise TriggerConflict(f"{row.resolved_by} has seen to change {place.sequence} already: {row.resolution}")


def _pass_over(trigger: Trigger, operation: Operation, *, by: Principal, now_ms: int, reason: str) -> None:
    """Note that a change is to be passed over; evaluators read it with the trigger, which `turn` makes them do."""
    at = cursor_of(trigger)
    if operation.sequence <= at.sequence:
        raise TriggerConflict(
            f"change {operation.sequence} was evaluated already and is not in quarantine", cursor=str(at)
        )
    TriggerQuarantine.objects.create(
        trigger=trigger,
        namespace=trigger.namespace,
        instance_id=operation.instance_id,
        sequence=operation.sequence,
        record_key=operation.key[:MAX_KEY_CHARS],
        change_kind=operation.kind,
        content_hash=operation.content_hash,
        trigger_revision=trigger.revision,
        code=SKIPPED,
        message="passed over by an operator before the trigger came to it",
        at_ms=now_ms,
        resolved_at_ms=now_ms,
        resolved_by=by.label[:MAX_TEXT_CHARS],
        resolution=reason[:MAX_REASON_CHARS],
    )
    _record("skip", trigger, operation.sequence, by=by, now_ms=now_ms, reason=reason)


def _same(trigger: Trigger, place: Cursor) -> dict[str, object]:
    return {"trigger": trigger, "instance_id": place.instance_id, "sequence": place.sequence}


def _open(trigger: Trigger, place: Cursor) -> TriggerQuarantine:
    row = TriggerQuarantine.objects.filter(**_same(trigger, place), resolved_at_ms__isnull=True).first()
    if row is None:
        raise TriggerError("NOT_FOUND", f"change {place.sequence} is not in quarantine for {trigger.trigger_id}")
    return row


def _check_position(namespace: str, store: Store) -> None:
    row = NamespacePosition.objects.get(pk=namespace)
    if row.mismatch_code:
        raise ControlPlaneMismatch(row.mismatch)
    position.check(position.of_row(row), store)


def _work(
    store: Store,
    trigger: Trigger,
    operation: Operation,
    replay: int,
    now_ms: int,
    foreign: Collection[matching.Place],
) -> Work:
    before = Cursor(instance_id=operation.instance_id, sequence=operation.sequence - 1)
    one = Standing(compiled=compile_trigger(trigger), stored=before, reached=before)
    for each in authority.ended([one.compiled], now_ms=now_ms):
        raise TriggerConflict(f"the trigger's authority has ended: {each.refused.message}", reason=each.refused.code)
    found = matching.matches(store, [operation], standing.dispatch([one]))
    if not found:
        raise TriggerConflict(
            f"change {operation.sequence} does not match {trigger.trigger_id} as it is defined now; skip it instead"
        )
    row = matching.prepared(found[0], matching.depths(trigger.namespace, found), replay=replay, foreign=foreign)
    if isinstance(row, Refused):
        raise _refusal(row)
    return row


def _refusal(row: Refused) -> ApiError:
    """The refusal as an answer: its own code where it is one of the table's, else CONFLICT with the code as reason."""
    try:
        return TriggerError(row.code, row.message)
    except KeyError:
        return TriggerConflict(row.message, reason=row.code)


def _resolve(row: TriggerQuarantine, resolution: str, *, by: Principal, now_ms: int) -> None:
    hit = TriggerQuarantine.objects.filter(pk=row.pk, resolved_at_ms__isnull=True).update(
        resolved_at_ms=now_ms, resolved_by=by.label[:MAX_TEXT_CHARS], resolution=resolution[:MAX_REASON_CHARS]
    )
    if hit != 1:
        raise TriggerConflict("another operator has seen to this change just now")


def _record(action: str, trigger: Trigger, sequence: int, *, by: Principal, now_ms: int, reason: str) -> None:
    audit.record(
        by,
        f"trigger.{action}",
        target=f"{trigger.trigger_id}/{sequence}",
        namespace=trigger.namespace,
        reason=reason,
        at_ms=now_ms,
    )
