"""The workers' routes, with their documentation. Thin: what happens is in `services/registry.py` and `placement.py`."""

from typing import Any, ClassVar

from rest_framework.response import Response

from apps.http.addresses import location
from apps.http.openapi import Answer, describe, query_parameter, ref
from apps.keys.views import KeyedRequest, KeyedView
from apps.state import cursors
from apps.workloads import limits
from apps.workloads.api import inputs, worker_schemas
from apps.workloads.api.paging import limit_of, only_known
from apps.workloads.clock import now_ms
from apps.workloads.commands import ReportedClaim, WorkerRegistration
from apps.workloads.lifecycle import Health
from apps.workloads.models import RegisteredWorker
from apps.workloads.services import placement, registry

_TAG = "Workers"
_INCARNATION = "incarnation_0d2c4a1f9b7e48c6a5d3f210"
_CLAIM = {
    "workload_id": "workload_000000000000000000000000",
    "claim_id": "claim_7db209eb4f86bcd108b6",
    "fencing_token": 1,
}
_REGISTER = inputs.Body(worker_schemas.REGISTER)
_HEARTBEAT = inputs.Body(worker_schemas.HEARTBEAT)
_RECONCILE = inputs.Body(worker_schemas.RECONCILE)
_REASON = inputs.Body(worker_schemas.REASON)


def _shown(worker: RegisteredWorker) -> dict[str, Any]:
    return worker_schemas.worker(worker, placement.active(worker))


def _claims(body: dict[str, Any]) -> list[ReportedClaim]:
    return [ReportedClaim(**each) for each in body.get("claims", ())]


class WorkersView(KeyedView):
    """The registered workers of a namespace."""

    scopes = {"GET": "workload:read"}

    @describe(
        "list_workers",
        "List registered workers in the order of their names",
        tag=_TAG,
        answers={200: Answer("A page of workers.", ref("WorkerPage"))},
        errors=["INVALID_CURSOR", "DATABASE_UNAVAILABLE"],
        parameters=[
            query_parameter(
                "limit",
                "Workers at most.",
                {"type": "integer", "minimum": 1, "maximum": limits.MAX_PAGE, "default": limits.DEFAULT_PAGE},
            ),
            query_parameter("cursor", "`next_cursor` of the page before."),
        ],
    )
    def get(self, request: KeyedRequest) -> Response:
        """Page through them."""
        only_known(request.query_params, "limit", "cursor")
        bound = cursors.binding("workers", request.namespace)
        after = cursors.decode(bound, request.query_params.get("cursor")) or ""
        limit = limit_of(request.query_params)
        rows, following = registry.page(request.namespace, after_id=after, limit=limit)
        held = placement.actives(request.namespace)
        shown = [worker_schemas.worker(row, held.get(row.worker_id, 0)) for row in rows]
        return Response({"workers": shown, "next_cursor": cursors.encode(bound, following)})


class RegisterView(KeyedView):
    """A worker that says what it is."""

    scopes = {"POST": "worker:register"}

    @describe(
        "register_worker",
        "Register a worker, or a new incarnation of it",
        tag=_TAG,
        description="A restart under the same name is another incarnation: what the earlier one held goes back at once "
        "and its word counts no more. Registering is optional; whoever has registered is held to it by every claim.",
        body=worker_schemas.REGISTER,
        body_examples={
            "four at once": {"worker_id": "packer-1", "capabilities": ["pack"], "capacity": {"concurrency": 4}}
        },
        answers={201: Answer("The worker, with its incarnation.", ref("Worker"), headers=("Location",))},
        errors=["WORKER_INVALID", "WORKER_UNAUTHORIZED", "WORKLOAD_CONFLICT", "DATABASE_UNAVAILABLE", "FORBIDDEN"],
    )
    def post(self, request: KeyedRequest) -> Response:
        """Register it."""
        body = _REGISTER.read(request.data)
        command = WorkerRegistration(
            namespace=request.namespace,
            worker_id=inputs.acting_worker(body, request.principal),
            capabilities=frozenset(body.get("capabilities", ())),
            workload_kinds=frozenset(body.get("workload_kinds", ())),
            concurrency=body.get("capacity", {}).get("concurrency", 1),
            application_id=body.get("application_id", "default"),
            grant=body.get("grant"),
        )
        made = registry.register(command, by=request.principal, now_ms=now_ms())
        return Response(_shown(made), status=201, headers=location("workers", made.worker_id))


class WorkerView(KeyedView):
    """One registered worker."""

    scopes = {"GET": "workload:read", "DELETE": "worker:manage"}

    @describe(
        "read_worker",
        "Read one registered worker",
        tag=_TAG,
        answers={200: Answer("The worker.", ref("Worker"))},
        errors=["WORKER_NOT_FOUND", "DATABASE_UNAVAILABLE"],
    )
    def get(self, request: KeyedRequest, worker_id: str) -> Response:
        """Read it."""
        return Response(_shown(registry.find(request.namespace, worker_id)))

    @describe(
        "remove_worker",
        "Forget a worker that holds nothing",
        tag=_TAG,
        answers={204: Answer("Forgotten.")},
        errors=["WORKER_NOT_FOUND", "WORKER_BUSY", "WORKLOAD_CONFLICT", "DATABASE_UNAVAILABLE"],
    )
    def delete(self, request: KeyedRequest, worker_id: str) -> Response:
        """Forget it."""
        registry.remove(request.namespace, worker_id, by=request.principal, now_ms=now_ms())
        return Response(status=204)


class HeartbeatView(KeyedView):
    """A worker's sign of life, for itself and all it holds."""

    scopes = {"POST": "worker:heartbeat"}

    @describe(
        "heartbeat_worker",
        "Show that a worker lives, and learn how its claims stand",
        tag=_TAG,
        body=worker_schemas.HEARTBEAT,
        body_examples={
            "half a minute more for one claim": {
                "incarnation_id": _INCARNATION,
                "claims": [_CLAIM],
                "extend_ms": 30_000,
            }
        },
        answers={200: Answer("The worker, and its claims in the order given.", ref("WorkerBeat"))},
        errors=[
            "WORKER_NOT_FOUND",
            "WORKER_HEARTBEAT_REJECTED",
            "WORKER_RECOVERY_REQUIRED",
            "WORKLOAD_INVALID",
            "WORKLOAD_CONFLICT",
            "DATABASE_UNAVAILABLE",
            "FORBIDDEN",
        ],
    )
    def post(self, request: KeyedRequest, worker_id: str) -> Response:
        """Take it in."""
        body = _HEARTBEAT.read(request.data)
        beat = registry.heartbeat(
            request.namespace,
            inputs.acting_worker({"worker_id": worker_id}, request.principal),
            incarnation_id=body["incarnation_id"],
            health=Health(body.get("health", Health.HEALTHY)),
            claims=_claims(body),
            extend_ms=body.get("extend_ms"),
            now_ms=now_ms(),
        )
        return Response(
            {"worker": _shown(beat.worker), "claims": [worker_schemas.standing(row) for row in beat.claims]}
        )


class ReconcileView(KeyedView):
    """A worker that was away compares what it holds."""

    scopes = {"POST": "worker:heartbeat"}

    @describe(
        "reconcile_worker",
        "Compare what a worker runs with what it holds",
        tag=_TAG,
        body=worker_schemas.RECONCILE,
        body_examples={"one claim": {"incarnation_id": _INCARNATION, "claims": [_CLAIM]}},
        answers={200: Answer("How each claim stands, and what it holds and did not name.", ref("WorkerReconciled"))},
        errors=[
            "WORKER_NOT_FOUND",
            "WORKER_RECONCILIATION_DENIED",
            "WORKER_RECOVERY_REQUIRED",
            "WORKLOAD_CONFLICT",
            "DATABASE_UNAVAILABLE",
            "FORBIDDEN",
        ],
    )
    def post(self, request: KeyedRequest, worker_id: str) -> Response:
        """Compare."""
        body = _RECONCILE.read(request.data)
        found = registry.reconcile(
            request.namespace,
            inputs.acting_worker({"worker_id": worker_id}, request.principal),
            incarnation_id=body["incarnation_id"],
            claims=_claims(body),
            now_ms=now_ms(),
        )
        return Response(
            {
                "worker": _shown(found.worker),
                "claims": [worker_schemas.standing(row) for row in found.claims],
                "unreported": [worker_schemas.standing(row) for row in found.unreported],
            }
        )


class _OperatedView(KeyedView):
    """The base of what an operator does to a worker."""

    scopes = {"POST": "worker:manage"}
    empty_body: ClassVar[Any] = {}


_OPERATED: dict[str, Any] = {
    "tag": _TAG,
    "body": worker_schemas.REASON,
    "body_examples": {"with a reason": {"reason": "the host is to be updated"}},
    "answers": {200: Answer("The worker as it stands now.", ref("Worker"))},
    "errors": ["WORKER_NOT_FOUND", "WORKER_TRANSITION_DENIED", "WORKLOAD_CONFLICT", "DATABASE_UNAVAILABLE"],
}


class DrainView(_OperatedView):
    """No more work for this worker."""

    @describe("drain_worker", "Give a worker no more work; it goes OFFLINE once it holds none", **_OPERATED)
    def post(self, request: KeyedRequest, worker_id: str) -> Response:
        """Drain it."""
        reason = _REASON.read(request.data).get("reason", "")
        return Response(
            _shown(registry.drain(request.namespace, worker_id, by=request.principal, now_ms=now_ms(), reason=reason))
        )


class RecoverView(_OperatedView):
    """A worker that was offline may come back."""

    @describe("recover_worker", "Let a worker that is OFFLINE come back without registering anew", **_OPERATED)
    def post(self, request: KeyedRequest, worker_id: str) -> Response:
        """Let it."""
        reason = _REASON.read(request.data).get("reason", "")
        return Response(
            _shown(registry.recover(request.namespace, worker_id, by=request.principal, now_ms=now_ms(), reason=reason))
        )


class EligibleWorkersView(KeyedView):
    """Who could be given a workload now."""

    scopes = {"GET": "workload:read"}

    @describe(
        "eligible_workers",
        "List the registered workers that could be given one workload now",
        tag=_TAG,
        answers={200: Answer("The workers, least loaded first.", ref("WorkerList"))},
        errors=["WORKLOAD_NOT_FOUND", "DATABASE_UNAVAILABLE"],
    )
    def get(self, request: KeyedRequest, workload_id: str) -> Response:
        """List them."""
        found = placement.eligible(request.namespace, workload_id, now_ms=now_ms())
        return Response({"workers": [worker_schemas.worker(each.worker, each.active) for each in found]})
