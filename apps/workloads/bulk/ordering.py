"""What can happen to a bulk order: draft, start, stop, discard. Each is one operation; instants are the caller's."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from apps.keys.audit.services import record
from apps.keys.principal import Principal
from apps.workloads import limits
from apps.workloads.bulk.choosing import CAPABILITY, SCOPES, Choice, Chosen, Selection
from apps.workloads.commands import CreateWorkload, RetryPolicy, Subject
from apps.workloads.errors import WorkloadError, unauthorized
from apps.workloads.models import BulkItem, BulkOrder, Workload
from apps.workloads.services import validation
from apps.workloads.services.admission import admit_many, prepare
from apps.workloads.services.control import cancel
from apps.workloads.states import FINAL, BulkAction, BulkOutcome, BulkState, State

PROVENANCE = "bulk:"
"""How `trigger` of an order's own work begins; the order's id follows."""

Phase: TypeAlias = Literal["draft", "waiting", "running", "stopping", "stopped", "finished", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How an order stands: `work` is its own workload, None before it is started and after that was archived."""

    phase: Phase
    done: int
    refused: int
    pending: int
    work: Workload | None

    @property
    def over(self) -> bool:
        """Tell whether nothing more happens by itself."""
        return self.phase in ("stopped", "finished", "failed")


def draft(namespace: str, action: BulkAction, selection: Selection, *, by: Principal, now_ms: int) -> BulkOrder:
    """Choose the workloads and keep them as a draft that nothing is done with yet. At most MAX_BULK.

    Raises WORKLOAD_UNAUTHORIZED for who may not do it or has no account here, WORKLOAD_INVALID for a selection that the
    action does not fit.
    """
    person = _person(by, action)
    choice = Choice(namespace, action, selection)
    _forget_old(now_ms)
    order = BulkOrder.objects.create(
        bulk_id=f"bulk_{secrets.token_hex(12)}",
        namespace=namespace,
        action=action,
        state=BulkState.CHOOSING,
        selection=selection.as_json(),
        person_id=person,
        author=by.label,
        created_at_ms=now_ms,
    )
    order.total = _write_rows(order, choice)
    order.state, order.more = BulkState.DRAFT, choice.more
    order.save(update_fields=["total", "state", "more"])
    return order


def _write_rows(order: BulkOrder, chosen: Iterable[Chosen]) -> int:
    numbered = enumerate(chosen, 1)
    total = 0
    while some := list(islice(numbered, limits.BULK_ROWS)):
        rows = [
            BulkItem(
                order=order,
                position=position,
                workload_id=each.workload_id,
                seen_state=each.state,
                seen_length=each.history_length,
            )
            for position, each in some
        ]
        with transaction.atomic():
            BulkItem.objects.bulk_create(rows)
        total += len(rows)
    return total


def start(namespace: str, bulk_id: str, *, by: Principal, now_ms: int, reason: str = "") -> BulkOrder:
    """Have a draft carried out, once: starting it again changes nothing and answers the same.

    Raises NOT_FOUND, WORKLOAD_UNAUTHORIZED for anybody but its author, WORKLOAD_INVALID for an empty set.
    """
    reason = reason.strip()[: limits.MAX_REASON_CHARS]
    validation.refuse_secret_text(reason, "/reason")
    order = find(namespace, bulk_id)
    if _person(by, BulkAction(order.action)) != order.person_id:
        raise unauthorized(f"this set was chosen by {order.author}; choose it yourself to act on it")
    if not order.total:
        raise WorkloadError("WORKLOAD_INVALID", "there is nothing in this set")
    prepared = prepare(
        CreateWorkload(
            namespace=namespace,
            definition_id=CAPABILITY,
            requested_by=Subject(kind="human", id=by.subject.id),
            idempotency_key=f"{PROVENANCE}{bulk_id}",
            input={"bulk_id": bulk_id, "action": order.action, "workloads": order.total},
            trigger=f"{PROVENANCE}{bulk_id}",
            retry_policy=RetryPolicy(max_attempts=10, max_delay_ms=10_000),
        )
    )
    started = {
        "state": BulkState.STARTED,
        "started_at_ms": now_ms,
        "reason": reason,
        "workload_id": prepared.workload_id,
    }
    with transaction.atomic():
        if BulkOrder.objects.filter(pk=order.pk, state=BulkState.DRAFT).update(**started):
            [admission] = admit_many([prepared], now_ms=now_ms)
            if admission.workload.workload_id != prepared.workload_id:
                raise admission.conflict or AssertionError("an order's work was there before it")
            record(
                by,
                f"bulk.{order.action}",
                target=bulk_id,
                namespace=namespace,
                reason=reason,
                after={"selection": order.selection, "workloads": order.total},
                at_ms=now_ms,
            )
    return find(namespace, bulk_id)


def stop(namespace: str, bulk_id: str, *, by: Principal, now_ms: int, reason: str = "") -> BulkOrder:
    """End an order where it stands: what is done stays done. Stopping it again changes nothing.

    Raises NOT_FOUND, WORKLOAD_UNAUTHORIZED, WORKLOAD_TRANSITION_DENIED where it has ended or was not started.
    """
    order = find(namespace, bulk_id)
    _person(by, BulkAction(order.action))
    with transaction.atomic():
        running = BulkOrder.objects.filter(pk=order.pk, state=BulkState.STARTED, stopped_at_ms__isnull=True)
        if running.update(stopped_at_ms=now_ms, stopped_by=by.label):
            cancel(namespace, order.workload_id, actor=by.label, now_ms=now_ms, reason=reason)
            record(by, "bulk.stop", target=bulk_id, namespace=namespace, reason=reason.strip(), at_ms=now_ms)
        elif order.state != BulkState.STARTED:
            raise WorkloadError("WORKLOAD_TRANSITION_DENIED", "this was not started yet")
    return find(namespace, bulk_id)


def discard(namespace: str, bulk_id: str, *, by: Principal) -> None:
    """Forget a draft. Raises NOT_FOUND, WORKLOAD_TRANSITION_DENIED for one that was started."""
    order = find(namespace, bulk_id)
    _person(by, BulkAction(order.action))
    if not _delete(BulkOrder.objects.filter(pk=order.pk, state=BulkState.DRAFT)):
        raise WorkloadError("WORKLOAD_TRANSITION_DENIED", "this was started already; stop it instead")


def find(namespace: str, bulk_id: str) -> BulkOrder:
    """Return the order. Raises NOT_FOUND, also while its rows are still being chosen."""
    rows = BulkOrder.objects.filter(namespace=namespace, bulk_id=bulk_id).exclude(state=BulkState.CHOOSING)
    order = rows.first()
    if order is None:
        raise WorkloadError("NOT_FOUND", f"there is no bulk action {bulk_id}")
    return order


def orders(namespace: str, *, limit: int) -> list[BulkOrder]:
    """Return the namespace's orders, newest first."""
    rows = BulkOrder.objects.filter(namespace=namespace).exclude(state=BulkState.CHOOSING)
    return list(rows.order_by("-id")[:limit])


def standing(order: BulkOrder) -> Standing:
    """Return how far the order is, counted from its rows."""
    counts = order.items.aggregate(
        done=Count("pk", filter=Q(outcome=BulkOutcome.DONE)),
        refused=Count("pk", filter=Q(outcome=BulkOutcome.REFUSED)),
        pending=Count("pk", filter=Q(outcome=BulkOutcome.PENDING)),
    )
    work = Workload.objects.filter(workload_id=order.workload_id).first() if order.workload_id else None
    return Standing(phase=_phase(order, work, counts["pending"]), work=work, **counts)


def _phase(order: BulkOrder, work: Workload | None, pending: int) -> Phase:
    if order.state != BulkState.STARTED:
        return "draft"
    over = work is None or work.state in FINAL
    if order.stopped_at_ms is not None or (over and pending):
        return "stopped" if over else "stopping"
    if over:
        return "finished"
    if work is not None and work.state == State.DEAD_LETTER:
        return "failed"
    return "waiting" if work is not None and work.state == State.READY else "running"


def _person(by: Principal, action: BulkAction) -> int:
    if by.person_id is None:
        raise unauthorized("actions on many workloads are for people with an account")
    if not by.has(SCOPES[action]):
        raise unauthorized(f"whoever does this holds {SCOPES[action]}")
    return by.person_id


def _forget_old(now_ms: int) -> None:
    """Delete one draft that nobody started and one order whose time has come, so they never pile up."""
    drafts = BulkOrder.objects.exclude(state=BulkState.STARTED)
    for old in (
        drafts.filter(created_at_ms__lt=now_ms - limits.BULK_DRAFT_MS),
        BulkOrder.objects.filter(created_at_ms__lt=now_ms - limits.BULK_KEPT_MS),
    ):
        _delete(BulkOrder.objects.filter(pk__in=list(old.order_by("pk").values_list("pk", flat=True)[:1])))


def _delete(orders: QuerySet[BulkOrder]) -> int:
    with transaction.atomic():
        return orders.delete()[1].get("workloads.BulkOrder", 0)
