"""Under whose authority work runs: every request that a caller makes carries a grant, and work dies with it.

A request that names a grant is held to it; one that names none carries its caller's own for all the caller holds. The
grant is looked at when the work is made, whenever it is claimed or armed again, and whenever its program touches state.
Work that the instance itself makes carries none. Not here: what a grant is and when it stands (`apps/keys/grants/`).
"""

from collections.abc import Iterable
from dataclasses import replace

from django.db import transaction

from apps.keys.grants import resources, services, standing
from apps.keys.grants.errors import GrantRefused
from apps.keys.grants.form import GrantSubject, read_signed
from apps.keys.grants.rules import Context
from apps.keys.principal import Principal
from apps.workloads import errors, limits, statements
from apps.workloads.commands import Claim, CreateWorkload, WorkerRegistration
from apps.workloads.models import Lane, Workload
from apps.workloads.services.moving import Move, commit_together
from apps.workloads.states import State

ACTOR = "authorization"
CREATE = "workload:create"
AREA = "workloads"


def given(command: CreateWorkload, workload_id: str, *, by: Principal, now_ms: int) -> CreateWorkload:
    """Return the request with the grant it runs under. Before the caller's transaction begins.

    Raises WORKLOAD_UNAUTHORIZED where the named grant does not let the requester make this work, or where the caller
    holds no key any more.
    """
    try:
        if command.authorization_snapshot is None:
            if not by.has(CREATE):
                raise errors.unauthorized(f"whoever asks for work holds {CREATE}")
            grant_id = standing.carried_by(
                by, tenant_id=command.namespace, application_id=command.application_id, now_ms=now_ms
            )
            return replace(command, grant_id=grant_id)
        decision = services.verify(
            command.authorization_snapshot,
            subject=GrantSubject(command.requested_by.kind, command.requested_by.id),
            tenant_id=command.namespace,
            application_id=command.application_id,
            capability=CREATE,
            resource=resources.address(command.application_id, AREA),
            context=Context(environment=command.environment, workload_id=workload_id),
            now_ms=now_ms,
        )
        if not decision.allowed:
            raise errors.unauthorized(decision.reason, grant_code=decision.code)
        return replace(command, grant_id=read_signed(command.authorization_snapshot).grant.id)
    except GrantRefused as refused:
        raise _unauthorized(refused) from refused


def check_lane(lane: Lane, *, now_ms: int) -> None:
    """Raise WORKLOAD_UNAUTHORIZED where the authority of the lane's work has ended."""
    refused = _refusal(lane, now_ms)
    if refused is not None:
        raise _unauthorized(refused)


def standing_lanes(lanes: Iterable[Lane], *, now_ms: int) -> list[Lane]:
    """Return the lanes whose work may run; bury what is ready in the others, a batch each time this is asked."""
    living = []
    for lane in lanes:
        refused = _refusal(lane, now_ms)
        if refused is None:
            living.append(lane)
        else:
            _bury(lane, refused, now_ms)
    return living


def bury(row: Workload, lane: Lane, *, now_ms: int) -> Move | None:
    """Return the move that ends ready work whose authority has ended, or None where it has not. Nothing is written."""
    refused = _refusal(lane, now_ms)
    return None if refused is None else _burial(row, refused, now_ms)


def check_touches(claim: Claim, scope: str, collection: str, *, now_ms: int) -> None:
    """Raise WORKLOAD_UNAUTHORIZED unless the work's grant has the scope over the collection."""
    if not claim.grant_id:
        return
    try:
        standing.check_allows(
            claim.namespace,
            claim.grant_id,
            capability=scope,
            segments=("state", collection),
            environment=claim.environment,
            workload_id=claim.workload_id,
            now_ms=now_ms,
        )
    except GrantRefused as refused:
        raise _unauthorized(refused) from refused


def granted_to_worker(command: WorkerRegistration, *, now_ms: int) -> tuple[frozenset[str], str]:
    """Return what a worker is granted of what it declares, and the grant that says so ("" where it names none).

    A grant gives `worker:capability:<name>` for each, to this worker, over `flow://{application}/workers/{worker}`.
    Raises WORKER_UNAUTHORIZED where it gives nothing of it.
    """
    if command.grant is None:
        return command.capabilities, ""
    granted, refusal = set(), None
    try:
        where = resources.address(command.application_id, "workers", command.worker_id)
        grant_id = read_signed(command.grant).grant.id
    except GrantRefused as refused:
        raise errors.worker_unauthorized(refused.message, grant_code=refused.code) from refused
    for name in sorted(command.capabilities):
        decision = services.verify(
            command.grant,
            subject=GrantSubject("worker", command.worker_id),
            tenant_id=command.namespace,
            application_id=command.application_id,
            capability=f"worker:capability:{name}",
            resource=where,
            context=Context(environment="", workload_id=None),
            now_ms=now_ms,
        )
        if decision.allowed:
            granted.add(name)
        else:
            refusal = decision
    if not granted and refusal is not None:
        raise errors.worker_unauthorized(refusal.reason, grant_code=refusal.code)
    return frozenset(granted), grant_id


def _refusal(lane: Lane, now_ms: int) -> GrantRefused | None:
    return standing.refusal(lane.namespace, lane.grant_id, now_ms=now_ms) if lane.grant_id else None


def _bury(lane: Lane, refused: GrantRefused, now_ms: int) -> None:
    rows = statements.fetch(
        Workload,
        'AND "eligible_at_ms" <= %s ORDER BY "eligible_at_ms", "id" LIMIT %s',
        [now_ms, limits.MAX_BATCH],
        lane_id=lane.pk,
        state=State.READY,
        waiting_on=0,
    )
    with transaction.atomic():
        commit_together([_burial(row, refused, now_ms) for row in rows])


def _burial(row: Workload, refused: GrantRefused, now_ms: int) -> Move:
    move = Move(row, now_ms).step("bury", ACTOR, reason="authority_ended", code=refused.code, message=refused.message)
    return move.set(last_failure=f"{refused.code}: {refused.message}"[: limits.MAX_FAILURE_CHARS])


def _unauthorized(refused: GrantRefused) -> errors.WorkloadError:
    return errors.unauthorized(refused.message, grant_code=refused.code)
