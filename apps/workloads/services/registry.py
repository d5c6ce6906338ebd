"""What happens to registered workers: each function one operation. Instants are the server's, never the worker's."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from apps.keys.audit.services import record
from apps.keys.principal import Principal
from apps.workloads import deadlines, errors, limits, statements
from apps.workloads.commands import ClaimStanding, ReportedClaim, WorkerBeat, WorkerRegistration
from apps.workloads.lifecycle import HEARTBEAT_TIMEOUT_MS, LIVING, Health, Lifecycle, after
from apps.workloads.models import RegisteredWorker, Workload
from apps.workloads.services import authority, placement, validation
from apps.workloads.services.fencing import current_claim_id, end_attempt
from apps.workloads.services.moving import Lost, deciding_anew, policies_of
from apps.workloads.services.sweeping import recovered
from apps.workloads.states import ACTIVE, AttemptStatus, State

RESTARTED = "worker_restarted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reconciled:
    """What a worker that was away still holds. `unreported`: what it holds and did not name."""

    worker: RegisteredWorker
    claims: Sequence[ClaimStanding]
    unreported: Sequence[ClaimStanding]


@deciding_anew
def register(command: WorkerRegistration, *, by: Principal, now_ms: int) -> RegisteredWorker:
    """Register a worker, or a new incarnation of it; what an earlier one held goes back to be tried again at once.

    It is granted what it declares, or of that only what the grant it presents names. Raises WORKER_INVALID and
    WORKER_UNAUTHORIZED (a grant that covers none of it).
    """
    _check(command)
    granted, grant_id = authority.granted_to_worker(command, now_ms=now_ms)
    known = RegisteredWorker.objects.filter(namespace=command.namespace, worker_id=command.worker_id).first()
    worker = known or RegisteredWorker(namespace=command.namespace, worker_id=command.worker_id)
    was = {} if known is None else {"incarnation_id": known.incarnation_id}
    worker.incarnation_id = f"incarnation_{secrets.token_hex(12)}"
    worker.lifecycle, worker.health = Lifecycle.REGISTERED, Health.UNKNOWN
    worker.declared_capabilities = sorted(command.capabilities)
    worker.granted_capabilities = sorted(granted)
    worker.workload_kinds = sorted(command.workload_kinds)
    worker.concurrency, worker.grant_id = command.concurrency, grant_id
    worker.registered_by, worker.registered_at_ms, worker.seen_at_ms = by.label, now_ms, now_ms
    try:
        with transaction.atomic():
            if known is None:
                worker.save(force_insert=True)
            elif not RegisteredWorker.objects.filter(pk=worker.pk, **was).update(**_columns(worker)):
                raise Lost
            record(by, "worker.register", target=worker.worker_id, namespace=worker.namespace, at_ms=now_ms)
    except IntegrityError as error:
        if not RegisteredWorker.objects.filter(namespace=command.namespace, worker_id=command.worker_id).exists():
            raise
        raise Lost from error  # another process registered it since we looked
    _give_up_claims(worker, now_ms)
    return worker


def _check(command: WorkerRegistration) -> None:
    try:
        validation.name(command.worker_id, "/worker_id", limits.MAX_NAME_CHARS)
        validation.names(command.capabilities, "/capabilities", limits.MAX_WORKER_CAPABILITIES)
        validation.names(command.workload_kinds, "/workload_kinds", limits.MAX_WORKER_CAPABILITIES)
    except errors.WorkloadError as error:
        raise errors.worker_invalid(error.message, pointer=(error.details or {})["pointer"]) from error
    if not 1 <= command.concurrency <= limits.MAX_WORKER_CONCURRENCY:
        raise errors.worker_invalid(f"must be 1 to {limits.MAX_WORKER_CONCURRENCY}", pointer="/capacity/concurrency")


def _columns(worker: RegisteredWorker) -> dict[str, Any]:
    fields = worker._meta.concrete_fields
    return {field.attname: getattr(worker, field.attname) for field in fields if not field.primary_key}


def _give_up_claims(worker: RegisteredWorker, now_ms: int) -> None:
    """Take back what an earlier incarnation held: its process is gone, and if not, its fence is stale now."""
    held = Workload.objects.filter(
        namespace=worker.namespace, worker_id=worker.worker_id, claimed_at_ms__lt=worker.registered_at_ms
    )
    while rows := list(held.filter(state__in=ACTIVE)[: limits.MAX_BATCH]):
        policies = policies_of(rows)
        moves = [recovered(row, policies[row.pk], now_ms, RESTARTED) for row in rows]
        with transaction.atomic():
            for move in moves:
                if move.commit():
                    end_attempt(move.row, now_ms, AttemptStatus.WORKER_LOST, error=f"worker_lost: {RESTARTED}")


@deciding_anew
def heartbeat(
    namespace: str,
    worker_id: str,
    *,
    incarnation_id: str,
    health: Health,
    claims: Sequence[ReportedClaim] = (),
    extend_ms: int | None = None,
    now_ms: int,
) -> WorkerBeat:
    """Show life, extend the leases of `claims` where asked to, and learn how each stands.

    Raises WORKER_NOT_FOUND, WORKER_HEARTBEAT_REJECTED (another incarnation) and WORKER_RECOVERY_REQUIRED (it was
    OFFLINE). A draining worker that holds nothing more is OFFLINE from here on.
    """
    if extend_ms is not None:
        validation.lease(extend_ms, "/extend_ms")
    worker = find(namespace, worker_id)
    _check_incarnation(worker, incarnation_id, errors.worker_heartbeat_rejected)
    if worker.lifecycle == Lifecycle.OFFLINE:
        raise errors.worker_recovery_required()
    target = after(worker.lifecycle, "heartbeat")
    if target == Lifecycle.DRAINING and not placement.active(worker):
        target = after(target, "empty")
    _move(worker, target, health=health, seen_at_ms=max(now_ms, worker.registered_at_ms))
    return WorkerBeat(worker=worker, claims=_standings(worker, claims, extend_ms, now_ms))


def reconcile(
    namespace: str,
    worker_id: str,
    *,
    incarnation_id: str,
    claims: Sequence[ReportedClaim],
    now_ms: int,
) -> Reconciled:
    """Compare what a worker says it holds with what it holds. Changes no work; a recovering worker is READY after it.

    Raises WORKER_NOT_FOUND, WORKER_RECONCILIATION_DENIED (another incarnation), WORKER_RECOVERY_REQUIRED.
    """
    worker = find(namespace, worker_id)
    _check_incarnation(worker, incarnation_id, errors.worker_reconciliation_denied)
    if worker.lifecycle == Lifecycle.OFFLINE:
        raise errors.worker_recovery_required()
    seen_at_ms = max(now_ms, worker.registered_at_ms)
    _move(worker, after(worker.lifecycle, "reconcile"), health=Health.HEALTHY, seen_at_ms=seen_at_ms)
    said = {(each.workload_id, each.claim_id) for each in claims}
    held = Workload.objects.filter(namespace=namespace, worker_id=worker_id).order_by("pk")[: limits.MAX_PAGE]
    unreported = [row for row in held if (row.workload_id, current_claim_id(row)) not in said]
    return Reconciled(
        worker=worker,
        claims=_standings(worker, claims, None, now_ms),
        unreported=[_standing(row, now_ms) for row in unreported],
    )


def _standings(
    worker: RegisteredWorker, claims: Sequence[ReportedClaim], extend_ms: int | None, now_ms: int
) -> list[ClaimStanding]:
    """Return how each claim stands, in order, its lease extended where asked to; lost ones are lost for good."""
    names = [each.workload_id for each in claims]
    rows = {
        row.workload_id: row
        for row in Workload.objects.filter(
            namespace=worker.namespace, worker_id=worker.worker_id, workload_id__in=names
        )
    }
    found = []
    with transaction.atomic():
        for each in claims:
            row = rows.get(each.workload_id)
            if row is None or (each.claim_id, each.fencing_token) != (current_claim_id(row), row.fencing_token):
                found.append(ClaimStanding(workload_id=each.workload_id, claim_id=each.claim_id, standing="lost"))
                continue
            standing = _standing(row, now_ms)
            if extend_ms is not None and standing.standing != "lost":
                standing = _extended(row, extend_ms, now_ms)
            found.append(standing)
    return found


def _extended(row: Workload, extend_ms: int, now_ms: int) -> ClaimStanding:
    guards = {"state": row.state, "fencing_token": row.fencing_token, "history_length": row.history_length}
    row.heartbeat_at_ms, row.lease_expires_at_ms = now_ms, now_ms + extend_ms
    changes = {
        "heartbeat_at_ms": row.heartbeat_at_ms,
        "lease_expires_at_ms": row.lease_expires_at_ms,
        "due_at_ms": deadlines.due_at_ms(row),
    }
    if not statements.update(Workload, changes, id=row.pk, **guards):
        raise Lost  # it moved since we looked: look again
    return _standing(row, now_ms)


def _standing(row: Workload, now_ms: int) -> ClaimStanding:
    expires_at_ms = row.lease_expires_at_ms or 0
    if expires_at_ms <= now_ms or deadlines.passed(row, now_ms) is not None:
        standing = "lost"
    else:
        standing = "cancel" if row.state == State.CANCELLATION_REQUESTED else "held"
    return ClaimStanding(
        workload_id=row.workload_id,
        claim_id=current_claim_id(row) or "",
        standing=standing,  # type: ignore[arg-type]
        expires_at_ms=expires_at_ms,
        cancel_deadline_at_ms=row.cancel_deadline_at_ms,
    )


def drain(namespace: str, worker_id: str, *, by: Principal, now_ms: int, reason: str = "") -> RegisteredWorker:
    """Give the worker no more work; it is OFFLINE at its first heartbeat with nothing left. Again: the same."""
    return _operate(namespace, worker_id, "drain", by, now_ms, reason)


def recover(namespace: str, worker_id: str, *, by: Principal, now_ms: int, reason: str = "") -> RegisteredWorker:
    """Let a worker that was OFFLINE come back: it is READY once it shows life or reconciles. Again: the same."""
    return _operate(namespace, worker_id, "recover", by, now_ms, reason)


@deciding_anew
def _operate(namespace: str, worker_id: str, event: str, by: Principal, now_ms: int, reason: str) -> RegisteredWorker:
    reason = reason.strip()[: limits.MAX_REASON_CHARS]
    validation.refuse_secret_text(reason, "/reason")
    worker = find(namespace, worker_id)
    target = after(worker.lifecycle, event)
    if target == worker.lifecycle:
        return worker
    with transaction.atomic():
        # It has from now on to show life.
        _move(worker, target, health=worker.health, seen_at_ms=max(now_ms, worker.registered_at_ms))
        record(by, f"worker.{event}", target=worker_id, namespace=namespace, reason=reason, at_ms=now_ms)
    return worker


@deciding_anew
def remove(namespace: str, worker_id: str, *, by: Principal, now_ms: int, reason: str = "") -> None:
    """Forget a worker. Raises WORKER_NOT_FOUND, and WORKER_BUSY while it holds work."""
    validation.refuse_secret_text(reason, "/reason")
    worker = find(namespace, worker_id)
    with transaction.atomic():
        if not RegisteredWorker.objects.filter(pk=worker.pk, incarnation_id=worker.incarnation_id).delete()[0]:
            raise Lost
        if holds := placement.active(worker):
            raise errors.worker_busy(holds)
        record(by, "worker.remove", target=worker_id, namespace=namespace, reason=reason, at_ms=now_ms)


def find(namespace: str, worker_id: str) -> RegisteredWorker:
    """Return the worker. Raises WORKER_NOT_FOUND, also for one of another namespace."""
    worker = statements.first(RegisteredWorker, namespace=namespace, worker_id=worker_id)
    if worker is None:
        raise errors.worker_not_found(worker_id)
    return worker


def page(namespace: str, *, after_id: str = "", limit: int) -> tuple[list[RegisteredWorker], str | None]:
    """Return workers in the order of their names, and the name to go on after (None at the end)."""
    rows = RegisteredWorker.objects.filter(namespace=namespace, worker_id__gt=after_id).order_by("worker_id")
    found = list(rows[: limit + 1])
    return found[:limit], found[limit - 1].worker_id if len(found) > limit else None


def detect_silence(*, now_ms: int, limit: int = limits.MAX_BATCH) -> list[RegisteredWorker]:
    """Mark workers that have shown no life for HEARTBEAT_TIMEOUT_MS as OFFLINE; their work is left to its leases."""
    silent = RegisteredWorker.objects.filter(
        lifecycle__in=LIVING, seen_at_ms__lte=now_ms - HEARTBEAT_TIMEOUT_MS
    ).order_by("seen_at_ms")
    marked = []
    for worker in silent[:limit]:
        try:
            _move(worker, after(worker.lifecycle, "fall_silent"), health=Health.UNHEALTHY, seen_at_ms=worker.seen_at_ms)
        except Lost:
            continue  # it has just shown life, or another sweep was first
        marked.append(worker)
    return marked


def _check_incarnation(worker: RegisteredWorker, incarnation_id: str, refusal: Any) -> None:
    if incarnation_id != worker.incarnation_id:
        raise refusal(worker.incarnation_id)


def _move(worker: RegisteredWorker, lifecycle: Lifecycle, *, health: str, seen_at_ms: int) -> None:
    """Compare (incarnation, lifecycle, last seen) and set; raises Lost when another was first."""
    same = {name: getattr(worker, name) for name in ("incarnation_id", "lifecycle", "seen_at_ms")}
    changes = {"lifecycle": lifecycle, "health": health, "seen_at_ms": seen_at_ms}
    if not statements.update(RegisteredWorker, changes, id=worker.pk, **same):
        raise Lost
    worker.lifecycle, worker.health, worker.seen_at_ms = lifecycle, health, seen_at_ms
