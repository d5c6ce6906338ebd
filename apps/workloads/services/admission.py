"""How requests become work, each exactly once.

`prepare` does all that needs no database: checking, measuring, hashing. `admit_many` then writes a batch inside the
caller's transaction; `admit` is one request in a transaction of its own. The id of the work is made from the
idempotency scope (tenant, application, requester, key), so asking again finds what the first asking made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import IntegrityError, transaction

from apps.http import canonical_json
from apps.keys.principal import Principal
from apps.workloads import bell, deadlines, errors, identity, limits, statements
from apps.workloads.commands import Admission, CreateWorkload
from apps.workloads.errors import WorkloadError
from apps.workloads.fields import Text
from apps.workloads.machine import Transition, move
from apps.workloads.models import Dependency, Event, Lane, Request, Workload
from apps.workloads.services import authority, validation
from apps.workloads.services.moving import Lost, deciding_anew
from apps.workloads.states import FINAL, Approval, State

ACTOR = "admission"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A request that was checked and is ready to be written."""

    command: CreateWorkload
    workload_id: str
    fingerprint: str
    input_text: str
    input_hash: str

    @property
    def lane_key(self) -> tuple[str, str]:
        """Return the namespace and digest of the lane the work belongs to."""
        command = self.command
        capabilities = sorted(command.capability_snapshot)
        return command.namespace, identity.lane_digest(
            command.definition_id, capabilities, command.priority, command.grant_id
        )


def prepare(command: CreateWorkload) -> Prepared:
    """Check a request and compute all that depends on it alone.

    Raises WORKLOAD_SECRET_REJECTED, WORKLOAD_INVALID or WORKLOAD_UNAUTHORIZED.
    """
    raw, given = validation.check(command)
    command = replace(command, capability_snapshot=command.capability_snapshot or frozenset({command.definition_id}))
    input_hash = canonical_json.sha256_hex(given)
    return Prepared(
        command=command,
        workload_id=identity.workload_id(
            tenant=command.namespace,
            application=command.application_id,
            requester_kind=command.requested_by.kind,
            requester_id=command.requested_by.id,
            key=command.idempotency_key,
        ),
        fingerprint=canonical_json.sha256_hex(_comparable(command, input_hash)),
        input_text=raw.decode(),
        input_hash=input_hash,
    )


def admit(command: CreateWorkload, *, now_ms: int, by: Principal | None = None) -> Admission:
    """Make work of one request, or find what it made before. `by` is whose request it is; None is the instance itself.

    Raises what `prepare` raises, WORKLOAD_UNAUTHORIZED where the grant it names does not allow it, and CONFLICT
    (details.reason IDEMPOTENCY_KEY_REUSED) when the key is known with another request; then nothing is written.
    """
    prepared = prepare(command)
    if by is not None:
        command = authority.given(prepared.command, prepared.workload_id, by=by, now_ms=now_ms)
        prepared = replace(prepared, command=command)
    admission = _admit_one(prepared, now_ms)
    if admission.conflict is not None:
        raise admission.conflict
    return admission


@deciding_anew
def _admit_one(prepared: Prepared, now_ms: int) -> Admission:
    try:
        with transaction.atomic():
            return admit_many([prepared], now_ms=now_ms)[0]
    except IntegrityError as error:
        if not Workload.objects.filter(workload_id=prepared.workload_id).exists():
            raise
        raise Lost from error  # another process admitted the same scope between our look and our insert: look again


def admit_many(commands: Sequence[CreateWorkload | Prepared], *, now_ms: int) -> list[Admission]:
    """Make work of a batch, in order, inside the caller's transaction. One `Admission` per request.

    A key known with another request gives that row a `conflict` and does not hinder the others. A row that is refused
    by itself (what `prepare` raises, an unknown dependency) raises: prepare rows one by one to tell them apart. When
    two transactions race for one key the later one gets IntegrityError and must be repeated as a whole.
    """
    batch = [row if isinstance(row, Prepared) else prepare(row) for row in commands]
    if len(batch) > limits.MAX_BATCH:
        raise errors.invalid(f"a batch holds at most {limits.MAX_BATCH} requests")
    # In one order and once each: batches of one size share a statement.
    asked = list(dict.fromkeys(row.workload_id for row in batch))
    known = {row.workload_id: row for row in statements.fetch(Workload, workload_id=asked)}
    if known:
        _with_requests(known.values())
    fresh: dict[str, Prepared] = {}
    for row in batch:
        if row.workload_id not in known:
            fresh.setdefault(row.workload_id, row)
    created = _insert(list(fresh.values()), now_ms) if fresh else {}
    admissions = []
    for row in batch:
        if fresh.get(row.workload_id) is row:
            admissions.append(Admission(workload=created[row.workload_id], created=True))
        else:
            workload = known.get(row.workload_id) or created[row.workload_id]
            admissions.append(Admission(workload=workload, created=False, conflict=_conflict(row, workload)))
    if created:
        transaction.on_commit(bell.ring, robust=True)
    return admissions


def _with_requests(rows: Iterable[Workload]) -> None:
    """Read what requests are compared by: not their inputs."""
    by_pk = {row.pk: row for row in rows}
    for request in Request.objects.filter(pk__in=by_pk).defer("input", "authorization_snapshot"):
        by_pk[request.pk].request = request


def _insert(batch: list[Prepared], now_ms: int) -> dict[str, Workload]:
    lanes = _lanes(batch)
    rows = {row.workload_id: _workload(row, lanes[row.lane_key], now_ms) for row in batch}
    waits = _dependencies(batch, rows, now_ms)
    for row in rows.values():
        row.waiting_on = sum(met_at_ms is None for _, _, met_at_ms in waits.get(row.workload_id, ()))
        row.due_at_ms = deadlines.due_at_ms(row)
    statements.insert_named(list(rows.values()), "workload_id")
    statements.insert([_request(row, rows[row.workload_id]) for row in batch])
    statements.insert([_event(row, rows[row.workload_id], now_ms) for row in batch])
    statements.insert(
        [
            statements.new(
                Dependency,
                child_id=rows[child].pk,
                parent_id=parent.pk,
                namespace=parent.namespace,
                required_state=required,
                met_at_ms=met_at_ms,
            )
            for child, found in waits.items()
            for parent, required, met_at_ms in found
        ]
    )
    return rows


def _lanes(batch: list[Prepared]) -> dict[tuple[str, str], Lane]:
    """Return the lane of each key, made where there was none."""
    wanted = {row.lane_key: row.command for row in batch}
    found = _find_lanes(wanted)
    missing = wanted.keys() - found.keys()
    if missing:
        Lane.objects.bulk_create(
            [
                Lane(
                    namespace=key[0],
                    digest=key[1],
                    definition_id=wanted[key].definition_id,
                    capabilities=sorted(wanted[key].capability_snapshot),
                    priority=wanted[key].priority,
                    grant_id=wanted[key].grant_id,
                )
                for key in sorted(missing)
            ],
            ignore_conflicts=True,
        )
        found = _find_lanes(wanted)
    return found


def _find_lanes(wanted: dict[tuple[str, str], CreateWorkload]) -> dict[tuple[str, str], Lane]:
    namespaces, digests = sorted({key[0] for key in wanted}), sorted({key[1] for key in wanted})
    found = statements.fetch(Lane, namespace=namespaces, digest=digests)
    return {(lane.namespace, lane.digest): lane for lane in found}


def _workload(row: Prepared, lane: Lane, now_ms: int) -> Workload:
    command = row.command
    made = statements.new(
        Workload,
        workload_id=row.workload_id,
        namespace=command.namespace,
        application_id=command.application_id,
        definition_id=command.definition_id,
        trigger=command.trigger,
        lane_id=lane.pk,
        priority=command.priority,
        state=_admitted(command).target,
        approval=Approval.NONE if command.approval is None else Approval.PENDING,
        eligible_at_ms=max(now_ms, command.not_before_at_ms or 0),
        when_unreachable=command.when_unreachable,
        timeouts=command.timeouts.as_json() or None,
        max_attempts=command.retry_policy.max_attempts,
        history_length=1,
        armed_at_ms=now_ms,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
    )
    made.lane = lane
    return made


def _request(row: Prepared, workload: Workload) -> Request:
    command = row.command
    made = statements.new(
        Request,
        workload_id=workload.pk,
        namespace=command.namespace,
        application_id=command.application_id,
        requester_kind=command.requested_by.kind,
        requester_id=command.requested_by.id,
        idempotency_key=command.idempotency_key,
        fingerprint=row.fingerprint,
        environment=command.environment,
        definition_revision=command.definition_revision,
        session_id=command.session_id,
        capability_snapshot=sorted(command.capability_snapshot),
        connection_scopes=sorted(command.connection_scopes),
        retry_policy=command.retry_policy.as_json(),
        approval=None if command.approval is None else command.approval.as_json(),
        not_before_at_ms=command.not_before_at_ms,
        authorization_snapshot=command.authorization_snapshot,
        traceparent=command.traceparent,
        input_hash=row.input_hash,
        input=Text(row.input_text),
    )
    made.workload = workload
    return made


def _event(row: Prepared, workload: Workload, now_ms: int) -> Event:
    transition = _admitted(row.command)
    evidence = {
        "not_before_at_ms": row.command.not_before_at_ms,
        "approval": None if row.command.approval is None else "required",
    }
    return statements.new(
        Event,
        workload_id=workload.pk,
        namespace=workload.namespace,
        sequence=1,
        event_type=transition.event_type,
        from_state=transition.source,
        to_state=transition.target,
        actor=ACTOR,
        at_ms=now_ms,
        evidence={name: value for name, value in evidence.items() if value is not None},
    )


def _admitted(command: CreateWorkload) -> Transition:
    return move(State.CREATED, "admit" if command.approval is None else "await_approval")


def _dependencies(
    batch: list[Prepared], rows: dict[str, Workload], now_ms: int
) -> dict[str, list[tuple[Workload, str, int | None]]]:
    """Return per child its parents, the state each must reach, and when it did (now) or None.

    Parents must exist, so that a cycle cannot be made: nothing can name what does not exist yet. Their rows are
    locked, so that none ends between this look and our commit.
    """
    wanted = {need.workload_id for row in batch for need in row.command.dependencies}
    if not wanted:
        return {}
    # In one order, so that two admissions never wait for each other.
    locked = Workload.objects.select_for_update().filter(workload_id__in=wanted).order_by("pk")
    parents = {row.workload_id: row for row in locked}
    found: dict[str, list[tuple[Workload, str, int | None]]] = {}
    earlier: dict[str, Workload] = {}
    for row in batch:
        for index, need in enumerate(row.command.dependencies):
            parent = parents.get(need.workload_id) or earlier.get(need.workload_id)
            if parent is None or parent.namespace != row.command.namespace:
                raise errors.invalid(
                    f"there is no workload {need.workload_id} to wait for", pointer=f"/dependencies/{index}"
                )
            met = parent.state == need.required_state
            if not met and parent.state in FINAL:
                raise errors.invalid(
                    f"{need.workload_id} is {parent.state} for good and can never be {need.required_state}",
                    pointer=f"/dependencies/{index}",
                )
            found.setdefault(row.workload_id, []).append((parent, need.required_state, now_ms if met else None))
        earlier[row.workload_id] = rows[row.workload_id]
    return found


def _comparable(command: CreateWorkload, input_hash: str) -> dict[str, Any]:
    """Return everything two equal requests must agree on, normalised, in the order conflicts are reported."""
    return {
        "requested_by": {"kind": command.requested_by.kind, "id": command.requested_by.id},
        "definition_id": command.definition_id,
        "definition_revision": command.definition_revision,
        "environment": command.environment,
        "input": input_hash,
        "capability_snapshot": sorted(command.capability_snapshot),
        "connection_scopes": sorted(command.connection_scopes),
        "priority": command.priority,
        "retry_policy": command.retry_policy.as_json(),
        "timeouts": command.timeouts.as_json(),
        "dependencies": sorted([need.workload_id, str(need.required_state)] for need in command.dependencies),
        "when_unreachable": str(command.when_unreachable),
        "not_before_at_ms": command.not_before_at_ms,
        "approval": None if command.approval is None else command.approval.as_json(),
    }


def _stored_comparable(workload: Workload) -> dict[str, Any]:
    request = workload.request
    dependencies = Dependency.objects.filter(child=workload).values_list("parent__workload_id", "required_state")
    return {
        "requested_by": {"kind": request.requester_kind, "id": request.requester_id},
        "definition_id": workload.definition_id,
        "definition_revision": request.definition_revision,
        "environment": request.environment,
        "input": request.input_hash,
        "capability_snapshot": request.capability_snapshot,
        "connection_scopes": request.connection_scopes,
        "priority": workload.priority,
        "retry_policy": request.retry_policy,
        "timeouts": workload.timeouts or {},
        "dependencies": sorted([parent, required] for parent, required in dependencies),
        "when_unreachable": workload.when_unreachable,
        "not_before_at_ms": request.not_before_at_ms,
        "approval": request.approval,
    }


def _conflict(row: Prepared, workload: Workload) -> WorkloadError | None:
    """Return None where the request is the one that made `workload`, else the refusal naming what differs."""
    if workload.request.fingerprint == row.fingerprint:
        return None
    asked, stored = _comparable(row.command, row.input_hash), _stored_comparable(workload)
    return errors.key_reused(row.workload_id, [name for name in asked if asked[name] != stored[name]] or ["request"])
