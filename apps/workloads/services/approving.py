"""How people decide on work that needs approval: once, for good, on the input they have seen."""

from django.db import IntegrityError, transaction

from apps.keys.audit.services import record
from apps.keys.principal import Principal
from apps.workloads import errors, limits
from apps.workloads.commands import ApprovalPolicy, Subject
from apps.workloads.models import Decision, Request, Workload
from apps.workloads.services import validation
from apps.workloads.services.fencing import in_time
from apps.workloads.services.moving import Lost, Move, deciding_anew, load
from apps.workloads.states import Approval, State

EVENTS = {Approval.APPROVED: "approve", Approval.REJECTED: "reject"}


@deciding_anew
def decide_approval(
    namespace: str,
    workload_id: str,
    outcome: Approval,
    *,
    by: Principal,
    input_hash: str,
    now_ms: int,
    reason: str = "",
) -> tuple[Workload, Decision, bool]:
    """Approve or reject the work whose input has this hash. Returns work, decision, and whether this made it.

    Refused in this order: WORKLOAD_INVALID (rejecting needs a reason), WORKLOAD_SECRET_REJECTED,
    WORKLOAD_APPROVAL_NOT_REQUIRED, WORKLOAD_APPROVER_NOT_PERMITTED (kind, list, or the requester itself),
    WORKLOAD_APPROVAL_STALE (another input), then the same outcome again is the first decision and the other one
    WORKLOAD_APPROVAL_DECIDED, WORKLOAD_TIMED_OUT, WORKLOAD_APPROVAL_NOT_ACTIONABLE.
    """
    reason = reason.strip()[: limits.MAX_DECISION_REASON_CHARS]
    if outcome == Approval.REJECTED and not reason:
        raise errors.invalid("a rejection needs a reason", pointer="/reason")
    validation.refuse_secret_text(reason, "/reason")
    row = load(namespace, workload_id)
    request = Request.objects.defer("input", "authorization_snapshot").get(pk=row.pk)
    if row.approval == Approval.NONE:
        raise errors.approval_not_required()
    decider = Subject(kind=by.subject.kind.lower(), id=by.subject.id)  # type: ignore[arg-type]
    _check_permitted(decider, ApprovalPolicy.from_json(request.approval), request)
    if input_hash != request.input_hash:
        raise errors.approval_stale(request.input_hash)
    known = Decision.objects.filter(workload=row).first()
    if known is not None:
        if known.outcome != outcome:
            raise errors.approval_decided(
                known.outcome, f"{known.decider_kind}:{known.decider_id}", known.decided_at_ms
            )
        return row, known, False
    row = in_time(row, now_ms)
    if row.state != State.AWAITING_APPROVAL:
        raise errors.approval_not_actionable(row.state)
    return _write(row, outcome, decider, by, reason, request.input_hash, now_ms)


def _check_permitted(decider: Subject, policy: ApprovalPolicy, request: Request) -> None:
    if decider.kind not in policy.approver_kinds:
        raise errors.approver_not_permitted(f"{decider.kind}s do not decide on this work")
    if policy.approvers is not None and decider not in policy.approvers:
        raise errors.approver_not_permitted("not one of this work's approvers")
    if (decider.kind, decider.id) == (request.requester_kind, request.requester_id):
        raise errors.approver_not_permitted("who asks for work does not approve it")


def _write(
    row: Workload, outcome: Approval, decider: Subject, by: Principal, reason: str, input_hash: str, now_ms: int
) -> tuple[Workload, Decision, bool]:
    made = Decision(
        workload=row,
        namespace=row.namespace,
        outcome=outcome,
        decider_kind=decider.kind,
        decider_id=decider.id,
        decided_at_ms=now_ms,
        reason=reason,
        input_hash=input_hash,
    )
    move = Move(row, now_ms).step(
        EVENTS[outcome], by.label, decided_by=decider.id, decider_kind=decider.kind, reason=reason or None
    )
    # Time spent waiting for approval is not time spent in the queue.
    move.set(approval=outcome, eligible_at_ms=max(row.eligible_at_ms, now_ms))
    if outcome == Approval.APPROVED and row.waiting_on:
        move.look_soon()  # what it waits for may have ended in vain meanwhile
    try:
        with transaction.atomic():
            move.commit_or_lose()
            made.save(force_insert=True)
            record(
                by,
                f"workload.{EVENTS[outcome]}",
                target=row.workload_id,
                namespace=row.namespace,
                reason=reason,
                before={"state": str(row.state)},
                after={"state": str(move.after.state)},
                at_ms=now_ms,
            )
    except IntegrityError as error:
        if not Decision.objects.filter(workload=row).exists():
            raise
        raise Lost from error  # somebody else decided since we looked: look again
    return move.after, made, True
