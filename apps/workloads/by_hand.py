"""What a person at the console does to work: the service, and the audit event that names them, in one transaction."""

from typing import Any, Literal

from django.db import OperationalError, transaction

from apps.http.errors import ApiError
from apps.keys.audit.services import record
from apps.keys.models import Namespace
from apps.keys.principal import Principal
from apps.workloads import services, twins
from apps.workloads.commands import Subject
from apps.workloads.errors import WorkloadError, twin_lives
from apps.workloads.models import Workload
from apps.workloads.states import Approval


def namespace_named(name: str) -> str:
    """Return the name of a namespace that exists. Raises NOT_FOUND."""
    if not Namespace.objects.filter(name=name).exists():
        raise ApiError("NOT_FOUND", f"there is no namespace {name}; the first key for it makes it (keys create)")
    return name


Action = Literal["retry", "cancel", "approve", "reject"]
_DECISIONS = {"approve": Approval.APPROVED, "reject": Approval.REJECTED}


def act(
    action: Action, work: Workload, *, by: Principal, now_ms: int, reason: str = "", input_hash: str = ""
) -> Workload:
    """Retry, cancel, approve or reject the work as it stands now; `input_hash` is that of the input a decision is on.

    Raises what the service raises; CONFLICT for a retry of work that was asked for again and has not ended there; and
    WORKLOAD_STORAGE_FAILURE where the database gave up. Then nothing was done.
    """
    if action in _DECISIONS:
        return _decide(_DECISIONS[action], work, by, now_ms, reason, input_hash)
    twin = twins.living(work) if action == "retry" else None
    if twin is not None:
        raise twin_lives(twin.workload_id, twin.state)
    service = services.retry if action == "retry" else services.cancel
    try:
        with transaction.atomic():
            after = service(work.namespace, work.workload_id, actor=by.label, now_ms=now_ms, reason=reason)
            record(
                by,
                f"workload.{action}",
                target=work.workload_id,
                namespace=work.namespace,
                reason=reason.strip(),
                before={"state": str(work.state)},
                after={"state": str(after.state)},
                at_ms=now_ms,
            )
    except OperationalError as error:
        raise _busy() from error
    return after


def ask_again(work: Workload, input: Any, *, key: str, by: Principal, now_ms: int) -> Workload:
    """Make new work of ended work, with another input; `key` makes it once. Raises what `services.resubmit` raises."""
    try:
        with transaction.atomic():
            made = services.resubmit(
                work.namespace,
                work.workload_id,
                by=by,
                requested_by=Subject(kind="human", id=by.subject.id),
                idempotency_key=key,
                edits={"input": input},
                now_ms=now_ms,
            )
            if made.created:
                record(
                    by,
                    "workload.resubmit",
                    target=work.workload_id,
                    namespace=work.namespace,
                    after={"workload_id": made.workload.workload_id},
                    at_ms=now_ms,
                )
    except OperationalError as error:
        raise _busy() from error
    return made.workload


def _decide(outcome: Approval, work: Workload, by: Principal, now_ms: int, reason: str, input_hash: str) -> Workload:
    """Decide; the service keeps the audit event itself, since every decision is a person's."""
    try:
        return services.decide_approval(
            work.namespace, work.workload_id, outcome, by=by, input_hash=input_hash, now_ms=now_ms, reason=reason
        )[0]
    except OperationalError as error:
        raise _busy() from error


def _busy() -> WorkloadError:
    return WorkloadError("WORKLOAD_STORAGE_FAILURE", "The database was busy; nothing was done. Try again.")
