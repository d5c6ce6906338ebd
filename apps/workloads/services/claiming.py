"""How work finds a worker: by name, or the next in order of priority, eligibility and age.

The next work is looked for lane by lane (`models.Lane`): an idle look is one query over the lanes, and a claim reads
only the heads of the lanes it takes from, however much work there is that is done, not yet eligible or for others.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from typing import Any

from django.db import transaction

from apps.workloads import deadlines, errors, identity, limits, statements
from apps.workloads.commands import Claim, ClaimById, ClaimNext
from apps.workloads.models import Attempt, Dependency, Lane, Request, Workload
from apps.workloads.services import authority, holds, placement, validation
from apps.workloads.services.fencing import attempt_id, in_time
from apps.workloads.services.moving import Move, commit_together, deciding_anew, load
from apps.workloads.states import Approval, AttemptStatus, State

ACTOR = "claim"
_WORK, _LANE = Workload._meta.db_table, Lane._meta.db_table
# What the partial index over claimable work is made of, written as it is there: SQLite would else plan each time anew.
_CLAIMABLE = f'"state" = \'{State.READY}\' AND "waiting_on" = 0 AND "eligible_at_ms" <= %s'
_HEAD = f'AND {_CLAIMABLE} ORDER BY "eligible_at_ms", "id" LIMIT %s'
# S608: made of the names of our own tables alone.
_OPEN = (
    f'AND EXISTS (SELECT 1 FROM "{_WORK}" WHERE "lane_id" = "{_LANE}"."id" AND {_CLAIMABLE}) '  # noqa: S608
    f'{holds.NOT_HELD} ORDER BY "priority" DESC, "id"'
)


@deciding_anew
def claim(command: ClaimById, *, now_ms: int) -> Claim:
    """Claim one workload by its id.

    Refused in this order: WORKLOAD_NOT_FOUND, WORKLOAD_TIMED_OUT (and timed out), WORKLOAD_ATTEMPTS_EXHAUSTED (and
    buried), WORKLOAD_APPROVAL_PENDING, WORKLOAD_REJECTED, WORKLOAD_NOT_READY (also while dependencies are not met),
    WORKLOAD_NOT_YET_ELIGIBLE, CONTROL_PLANE_MISMATCH (the namespace's claims are stopped), WORKLOAD_UNAUTHORIZED (and
    buried), MESH_PLACEMENT_DENIED (a registered worker that is not ready, was not granted it or is full),
    WORKLOAD_CAPABILITY_DENIED.
    """
    validation.lease(command.lease_ms)
    validation.name(command.worker_id, "/worker_id", limits.MAX_NAME_CHARS)
    row = load(command.namespace, command.workload_id)
    if command.capabilities is not None:
        _check_capabilities_known(command.capabilities)
    row = in_time(row, now_ms)
    _check_claimable(row, now_ms)
    lane = _lane(row)
    _check_authority(row, lane, now_ms)
    worker = placement.placeable(command.namespace, command.worker_id, now_ms=now_ms)
    if not placement.takes(worker, lane):
        raise errors.placement_denied("the worker was granted no such capability, or does not take this kind")
    if command.capabilities is not None:
        missing = sorted(set(lane.capabilities) - command.capabilities)
        if missing:
            raise errors.capability_denied(missing)
    move = _claimed(row, command, now_ms)
    request = _requests([row])[row.pk]
    with transaction.atomic():
        if not placement.room(worker, 1):
            raise errors.placement_denied("the worker has no capacity left")
        move.commit_or_lose()
        statements.insert([_attempt(move.after)])
    return _claim(move.after, lane, request)


@deciding_anew
def claim_next(command: ClaimNext, *, now_ms: int) -> list[Claim]:
    """Claim up to `max` workloads of the namespace that this worker can run, best first; none is an empty list.

    A registered worker gets no more than its capacity leaves; while it is not ready it is MESH_PLACEMENT_DENIED. While
    the namespace's claims are stopped it is CONTROL_PLANE_MISMATCH.
    """
    validation.lease(command.lease_ms)
    validation.name(command.worker_id, "/worker_id", limits.MAX_NAME_CHARS)
    _check_capabilities_known(command.capabilities)
    if not 1 <= command.max <= limits.MAX_BATCH:
        raise errors.invalid(f"must be 1 to {limits.MAX_BATCH}", pointer="/max")
    narrowed: dict[str, Any] = {} if command.definitions is None else {"definition_id": list(command.definitions)}
    open_lanes = statements.fetch(Lane, _OPEN, [now_ms], namespace=command.namespace, **narrowed)
    lanes = [lane for lane in open_lanes if command.capabilities.issuperset(lane.capabilities)]
    worker = placement.placeable(command.namespace, command.worker_id, now_ms=now_ms)
    lanes = [lane for lane in authority.standing_lanes(lanes, now_ms=now_ms) if placement.takes(worker, lane)]
    if not lanes:
        holds.check(command.namespace)
        return []
    with transaction.atomic():
        rows = _take(lanes, placement.room(worker, command.max), now_ms)
        moves = [_claimed(row, command, now_ms) for row in rows]
        if command.start:
            for move in moves:
                move.step("start", command.worker_id).set(started_at_ms=now_ms)
        claimed = [move.after for move in commit_together(moves)]
        statements.insert([_attempt(row) for row in claimed])
    requests = _requests(claimed)
    by_id = {lane.pk: lane for lane in lanes}
    return [_claim(row, by_id[row.lane_id], requests[row.pk]) for row in claimed]


def ready_definitions(
    *,
    now_ms: int,
    capabilities: frozenset[str],
    declared: Callable[[str, str], bool],
    namespaces: Collection[str] | None = None,
) -> dict[str, frozenset[str]]:
    """Return, for each namespace where something is ready that a process can run, its definitions that are.

    The one with the best priority comes first. A process runs what it has installed (`capabilities`) and what the
    namespace itself declares: `declared(namespace, definition)`.
    """
    narrowed: dict[str, Any] = {} if namespaces is None else {"namespace": list(namespaces)}
    found: dict[str, set[str]] = {}
    for lane in statements.fetch(Lane, _OPEN, [now_ms], **narrowed):
        needed = set(lane.capabilities) - capabilities
        if lane.definition_id not in capabilities:
            if not needed <= {lane.definition_id} or not declared(lane.namespace, lane.definition_id):
                continue
        elif needed:
            continue
        found.setdefault(lane.namespace, set()).add(lane.definition_id)
    return {namespace: frozenset(names) for namespace, names in found.items()}


def _lane(row: Workload) -> Lane:
    """Return the work's lane; raises the refusal while its namespace is held."""
    found = statements.fetch(Lane, holds.NOT_HELD, id=row.lane_id)
    if not found:
        holds.check(row.namespace)
    return found[0] if found else statements.get(Lane, id=row.lane_id)


def _take(lanes: Iterable[Lane], most: int, now_ms: int) -> list[Workload]:
    """Return the best claimable rows of the lanes, locked where the database locks rows, passing over locked ones."""
    taken: list[Workload] = []
    if not most:
        return taken
    for _, equals in groupby(lanes, key=lambda lane: lane.priority):
        heads: list[Workload] = []
        for lane in equals:
            heads += statements.fetch(Workload, _HEAD, [now_ms, most - len(taken)], skip_locked=True, lane_id=lane.pk)
        heads.sort(key=lambda row: (row.eligible_at_ms, row.pk))
        # Work whose time is up or whose budget is gone is the sweep's: it never goes to a worker.
        good = [row for row in heads if row.budget_used < row.max_attempts and not deadlines.passed(row, now_ms)]
        taken += good[: most - len(taken)]
        if len(taken) >= most:
            break
    return taken


def _check_capabilities_known(capabilities: frozenset[str]) -> None:
    validation.names(capabilities, "/capabilities", limits.MAX_WORKER_CAPABILITIES)


def _check_claimable(row: Workload, now_ms: int) -> None:
    if row.state == State.READY and row.budget_used >= row.max_attempts:
        _bury_exhausted(row, now_ms)
    if row.state == State.AWAITING_APPROVAL:
        raise errors.approval_pending()
    if row.state == State.REJECTED:
        raise errors.rejected()
    if row.state != State.READY:
        raise errors.not_ready(row.state)
    if row.approval == Approval.PENDING:
        raise errors.approval_pending()
    if row.waiting_on:
        open_ = Dependency.objects.filter(child=row, met_at_ms__isnull=True)
        raise errors.not_ready(row.state, list(open_.values_list("parent__workload_id", flat=True)))
    if row.eligible_at_ms > now_ms:
        raise errors.not_yet_eligible(row.eligible_at_ms)


def _check_authority(row: Workload, lane: Lane, now_ms: int) -> None:
    move = authority.bury(row, lane, now_ms=now_ms)
    if move is None:
        return
    with transaction.atomic():
        move.commit_or_lose()
    authority.check_lane(lane, now_ms=now_ms)


def _bury_exhausted(row: Workload, now_ms: int) -> None:
    move = Move(row, now_ms).step(
        "bury",
        ACTOR,
        reason="attempt_budget_exhausted",
        attempts_used=row.budget_used,
        attempt_budget=row.max_attempts,
    )
    with transaction.atomic():
        move.commit_or_lose()
    raise errors.attempts_exhausted(row.budget_used, row.max_attempts)


def _claimed(row: Workload, command: ClaimById | ClaimNext, now_ms: int) -> Move:
    token = row.fencing_token + 1
    return (
        Move(row, now_ms)
        .step("claim", command.worker_id, fencing_token=token)
        .set(
            fencing_token=token,
            attempt_count=row.attempt_count + 1,
            budget_used=row.budget_used + 1,
            worker_id=command.worker_id,
            claimed_by=command.principal,
            claimed_at_ms=now_ms,
            heartbeat_at_ms=now_ms,
            lease_expires_at_ms=now_ms + command.lease_ms,
        )
    )


def _attempt(row: Workload) -> Attempt:
    if row.worker_id is None or row.claimed_by is None or row.claimed_at_ms is None:
        raise AssertionError("a claimed row carries its claim")
    return statements.new(
        Attempt,
        workload_id=row.pk,
        namespace=row.namespace,
        number=row.attempt_count,
        claim_id=identity.claim_id(row.workload_id, row.fencing_token, row.worker_id),
        worker_id=row.worker_id,
        claimed_by=row.claimed_by,
        claimed_at_ms=row.claimed_at_ms,
        started_at_ms=row.started_at_ms,
        status=AttemptStatus.CLAIMED if row.started_at_ms is None else AttemptStatus.RUNNING,
    )


def _requests(rows: Iterable[Workload]) -> dict[int, Request]:
    wanted = [row.pk for row in rows]
    return {request.pk: request for request in statements.fetch(Request, workload_id=wanted)}


def _claim(row: Workload, lane: Lane, request: Request) -> Claim:
    if row.worker_id is None or row.claimed_by is None or row.claimed_at_ms is None or row.lease_expires_at_ms is None:
        raise AssertionError("a claimed row carries its claim")
    return Claim(
        namespace=row.namespace,
        workload_id=row.workload_id,
        worker_id=row.worker_id,
        principal=row.claimed_by,
        claim_id=identity.claim_id(row.workload_id, row.fencing_token, row.worker_id),
        lease_id=f"lease_{row.fencing_token}",
        attempt_id=attempt_id(row),
        fencing_token=row.fencing_token,
        definition_id=row.definition_id,
        definition_revision=request.definition_revision,
        environment=request.environment,
        grant_id=lane.grant_id,
        trigger=row.trigger,
        capability_snapshot=tuple(lane.capabilities),
        connection_scopes=tuple(request.connection_scopes),
        traceparent=request.traceparent,
        input=request.input,
        timeouts=row.timeouts or {},
        claimed_at_ms=row.claimed_at_ms,
        expires_at_ms=row.lease_expires_at_ms,
    )
