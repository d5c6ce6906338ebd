"""What an attempt leaves for whoever goes on after it, and what an attempt is given to go on with."""

from django.db import IntegrityError, transaction
from django.db.models import Max

from apps.http import canonical_json
from apps.workloads import deadlines, errors, limits, statements
from apps.workloads.commands import JSON, ExecutionContext, Fence
from apps.workloads.fields import Text
from apps.workloads.machine import move
from apps.workloads.models import Attempt, Checkpoint, Request, Workload
from apps.workloads.services import validation
from apps.workloads.services.fencing import attempt_id, held
from apps.workloads.services.moving import Lost, Move, deciding_anew
from apps.workloads.states import AttemptStatus, State

SECRET_REFERENCE = "secret://"  # noqa: S105 - the form of a name, not a secret


@deciding_anew
def checkpoint(fence: Fence, state: JSON, *, now_ms: int) -> Checkpoint:
    """Keep `state` for whoever goes on after this attempt; the newest MAX_CHECKPOINTS of the work are kept.

    Refused in this order: WORKLOAD_SECRET_REJECTED, WORKLOAD_INVALID (too large), deadline, fence,
    WORKLOAD_TRANSITION_DENIED (not started). It is a sign of life, but does not extend the lease. Only the first of
    an attempt is a transition; history does not grow with the others.
    """
    raw, kept = validation.kept_json(state, "/state", limits.MAX_CHECKPOINT_BYTES)
    row = held(fence, now_ms, word="checkpoint")
    move(row.state, "checkpoint")
    attempt = statements.get(Attempt, workload_id=row.pk, number=row.fencing_token)
    newest = Checkpoint.objects.filter(workload=row).aggregate(newest=Max("sequence"))["newest"] or 0
    made = statements.new(
        Checkpoint,
        workload_id=row.pk,
        attempt_id=attempt.pk,
        namespace=row.namespace,
        sequence=newest + 1,
        produced_by=fence.worker_id,
        created_at_ms=now_ms,
        state_hash=canonical_json.sha256_hex(kept),
        state=Text(raw.decode()),
    )
    try:
        with transaction.atomic():
            _show_life(row, fence, attempt, now_ms)
            statements.insert([made])
            Checkpoint.objects.filter(workload=row, sequence__lte=made.sequence - limits.MAX_CHECKPOINTS).delete()
    except IntegrityError as error:
        if not Checkpoint.objects.filter(workload=row, sequence=made.sequence).exists():
            raise
        raise Lost from error  # the same worker kept another one since we looked: take the next number
    made.attempt, made.state = attempt, kept
    return made


def _show_life(row: Workload, fence: Fence, attempt: Attempt, now_ms: int) -> None:
    """Mark the sign of life, and the transition where this is the attempt's first checkpoint."""
    row_heartbeat_ms = max(now_ms, row.heartbeat_at_ms or now_ms)
    if row.state != State.CHECKPOINTED:
        Move(row, now_ms).step("checkpoint", fence.worker_id).set(heartbeat_at_ms=row_heartbeat_ms).commit_or_lose()
        statements.update(Attempt, {"status": AttemptStatus.CHECKPOINTED}, id=attempt.pk)
        return
    row.heartbeat_at_ms = row_heartbeat_ms
    changes = {"heartbeat_at_ms": row_heartbeat_ms, "due_at_ms": deadlines.due_at_ms(row)}
    guards = {"state": row.state, "fencing_token": row.fencing_token, "history_length": row.history_length}
    if not statements.update(Workload, changes, id=row.pk, **guards):
        raise Lost


@deciding_anew
def context(fence: Fence, *, now_ms: int, secret_references: tuple[str, ...] = ()) -> ExecutionContext:
    """Return what the holder of the claim needs to run the work or to go on with it. Changes nothing.

    Refused in this order: deadline, fence, WORKLOAD_INVALID for what is not the name of a secret.
    """
    row = held(fence, now_ms, word="context")
    for index, name in enumerate(secret_references):
        if not name.startswith(SECRET_REFERENCE) or len(name) > limits.MAX_TEXT_CHARS:
            raise errors.invalid(f"must begin with {SECRET_REFERENCE}", pointer=f"/secret_references/{index}")
    request = statements.get(Request, workload_id=row.pk)
    if row.lease_expires_at_ms is None:
        raise AssertionError("a held row carries its lease")
    return ExecutionContext(
        workload_id=row.workload_id,
        attempt_id=attempt_id(row),
        worker_id=fence.worker_id,
        capabilities=tuple(request.capability_snapshot),
        connection_scopes=tuple(request.connection_scopes),
        secret_references=secret_references,
        expires_at_ms=row.lease_expires_at_ms,
        fencing_token=row.fencing_token,
        input=request.input,
        checkpoints=tuple(Checkpoint.objects.filter(workload=row).select_related("attempt").order_by("sequence")),
    )
