"""The program that carries a bulk order out: a workload like any other, claimed by any worker of ours."""

from django.db import transaction

from apps.http.errors import ApiError
from apps.keys import people
from apps.keys.models import Operator
from apps.keys.principal import Principal
from apps.workloads import limits
from apps.workloads.bulk.choosing import CAPABILITY, SCOPES
from apps.workloads.by_hand import Action, act
from apps.workloads.capabilities import JSON, Context, Failed, capability
from apps.workloads.clock import now_ms
from apps.workloads.models import BulkItem, BulkOrder, Workload
from apps.workloads.states import ACTIVE, BulkAction, BulkOutcome, State

_BY_HAND: dict[str, Action] = {BulkAction.RETRY: "retry", BulkAction.CANCEL: "cancel", BulkAction.DISCARD: "cancel"}
_BUSY = "WORKLOAD_STORAGE_FAILURE"


@capability(CAPABILITY)
def carry_out(input: JSON, context: Context) -> JSON:
    """Act on each workload of the set that nothing was done with yet; return how many were done and refused."""
    order = _order(input, context)
    while items := list(order.items.filter(outcome=BulkOutcome.PENDING).order_by("position")[: limits.BULK_STEP]):
        context.heartbeat()  # ends it here where it was stopped
        person = _person(order)
        if person is None:
            _refuse_rest(order)
            break
        for item in items:
            if not _one(order, item, person):
                context.heartbeat()
                break
    outcomes = {each: order.items.filter(outcome=each).count() for each in (BulkOutcome.DONE, BulkOutcome.REFUSED)}
    return {str(each): count for each, count in outcomes.items()}


def _order(input: JSON, context: Context) -> BulkOrder:
    """Return the order this very work was made for: work that somebody else made carries nothing out."""
    bulk_id = input.get("bulk_id") if isinstance(input, dict) else None
    order = BulkOrder.objects.filter(bulk_id=str(bulk_id), workload_id=context.workload_id).first()
    if order is None:
        raise Failed("invalid_input", "this work was made by nobody who started a bulk action", effect="none")
    return order


def _person(order: BulkOrder) -> Principal | None:
    """Return who acts, with what they hold at this moment; None where that is not enough any more."""
    person = Operator.objects.filter(pk=order.person_id).first()
    by = None if person is None else people.principal_of(person)
    return by if by is not None and by.has(SCOPES[BulkAction(order.action)]) else None


def _refuse_rest(order: BulkOrder) -> None:
    message = f"{order.author} may not do this any more"
    rest = order.items.filter(outcome=BulkOutcome.PENDING)
    while ids := list(rest.order_by("position").values_list("pk", flat=True)[: limits.BULK_ROWS]):
        BulkItem.objects.filter(pk__in=ids).update(outcome=BulkOutcome.REFUSED, message=message, at_ms=now_ms())


def _one(order: BulkOrder, item: BulkItem, by: Principal) -> bool:
    """Act on one workload and note the outcome in one transaction. Returns False where the order was stopped."""
    now = now_ms()
    mine = BulkItem.objects.filter(pk=item.pk, outcome=BulkOutcome.PENDING)
    try:
        with transaction.atomic():
            if BulkOrder.objects.filter(pk=order.pk, stopped_at_ms__isnull=False).exists():
                return False
            if not mine.update(outcome=BulkOutcome.DONE, at_ms=now):
                return True  # another attempt was here first
            work = _as_chosen(order, item)
            act(_BY_HAND[order.action], work, by=by, now_ms=now, reason=order.reason)
    except ApiError as refused:
        if refused.code == _BUSY:
            raise Failed("transient_connection", refused.message) from refused
        mine.update(outcome=BulkOutcome.REFUSED, message=refused.message[: limits.MAX_TEXT_CHARS], at_ms=now)
    return True


def _as_chosen(order: BulkOrder, item: BulkItem) -> Workload:
    """Return the work, where it still is what was chosen; else raise what it is now.

    A dead letter must be the same one: what died again since is not taken again. What is to be cancelled may have moved
    on: cancelling is meant for as long as it has not ended.
    """
    work = Workload.objects.filter(namespace=order.namespace, workload_id=item.workload_id).first()
    if work is None:
        raise ApiError("NOT_FOUND", "it is not there any more: it was archived")
    if order.action != BulkAction.CANCEL:
        if (work.state, work.history_length) != (item.seen_state, item.seen_length):
            again = " again" if work.state == State.DEAD_LETTER else ""
            raise ApiError("CONFLICT", f"it has changed since it was chosen: it is {_words(work.state)}{again} now")
    elif work.state == State.CANCELLATION_REQUESTED:
        raise ApiError("CONFLICT", f"{work.worker_id} was asked to give it up already")
    elif work.state not in (*ACTIVE, State.READY, State.AWAITING_APPROVAL):
        raise ApiError("CONFLICT", f"it is {_words(work.state)} now: there is nothing to cancel")
    return work


def _words(state: str) -> str:
    return state.replace("_", " ").lower()
