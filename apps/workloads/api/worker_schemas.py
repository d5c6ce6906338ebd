"""The shapes of the workers' routes, as JSON Schema, and what is shown of a worker. The routes: `workers.py`."""

from collections.abc import Mapping
from typing import Any

from apps.http.openapi import add_schemas, ref
from apps.workloads import limits
from apps.workloads.api.schemas import COUNT, INSTANT, NAME, OBJECT, TEXT, Schema, an_object, array, maybe
from apps.workloads.commands import ClaimStanding
from apps.workloads.lifecycle import BUSY, HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, Health, Lifecycle
from apps.workloads.models import RegisteredWorker

_NAMES: Schema = {**array(NAME), "maxItems": limits.MAX_WORKER_CAPABILITIES}
_CLAIMS: Schema = {
    **array(an_object({"workload_id": NAME, "claim_id": NAME, "fencing_token": {"type": "integer", "minimum": 1}})),
    "maxItems": limits.MAX_BATCH,
}
_HEALTH: Schema = {"type": "string", "enum": list(Health)}

REGISTER: Schema = an_object(
    {"worker_id": NAME},
    {
        "capabilities": _NAMES,
        "workload_kinds": {**_NAMES, "description": "Definitions it takes; none for all."},
        "capacity": an_object({"concurrency": {"type": "integer", "default": 1}}),
        "application_id": {**NAME, "default": "default"},
        "grant": {
            **OBJECT,
            "description": "A signed grant: of what is declared, only `worker:capability:<name>` it names is granted.",
        },
    },
)
HEARTBEAT: Schema = an_object(
    {"incarnation_id": NAME},
    {
        "health": {**_HEALTH, "default": "HEALTHY"},
        "claims": _CLAIMS,
        "extend_ms": {"type": "integer", "description": "Extend the leases of `claims` by this from now."},
    },
)
RECONCILE: Schema = an_object({"incarnation_id": NAME, "claims": _CLAIMS})
REASON: Schema = an_object({}, {"reason": TEXT})

_WORKER: dict[str, Schema] = {
    "worker_id": TEXT,
    "tenant_id": TEXT,
    "incarnation_id": TEXT,
    "lifecycle": {"type": "string", "enum": [*Lifecycle, BUSY]},
    "health": _HEALTH,
    "declared_capabilities": array(TEXT),
    "granted_capabilities": array(TEXT),
    "workload_kinds": array(TEXT),
    "capacity": an_object({"concurrency": COUNT, "active": COUNT}),
    "registered_by": TEXT,
    "registered_at_ms": INSTANT,
    "last_seen_at_ms": INSTANT,
    "heartbeat_interval_ms": COUNT,
    "heartbeat_timeout_ms": COUNT,
}
SCHEMAS: dict[str, Schema] = {
    "WorkerRegister": REGISTER,
    "WorkerHeartbeat": HEARTBEAT,
    "WorkerReconcile": RECONCILE,
    "WorkerReason": REASON,
    "Worker": an_object(_WORKER),
    "WorkerPage": an_object({"workers": array(ref("Worker")), "next_cursor": maybe(TEXT)}),
    "WorkerList": an_object({"workers": array(ref("Worker"))}),
    "WorkerClaimStanding": an_object(
        {
            "workload_id": TEXT,
            "claim_id": TEXT,
            "standing": {
                "type": "string",
                "enum": ["held", "cancel", "lost"],
                "description": "cancel: give it up by `cancel_deadline_at_ms`; lost: drop it at once.",
            },
            "expires_at_ms": maybe(INSTANT),
            "cancel_deadline_at_ms": maybe(INSTANT),
        }
    ),
    "WorkerBeat": an_object({"worker": ref("Worker"), "claims": array(ref("WorkerClaimStanding"))}),
    "WorkerReconciled": an_object(
        {
            "worker": ref("Worker"),
            "claims": array(ref("WorkerClaimStanding")),
            "unreported": array(ref("WorkerClaimStanding")),
        }
    ),
}
add_schemas(SCHEMAS)


def worker(row: RegisteredWorker, active: int) -> dict[str, Any]:
    """Return a worker that holds `active` claims as it is shown."""
    full = row.lifecycle == Lifecycle.READY and active >= row.concurrency
    return {
        "worker_id": row.worker_id,
        "tenant_id": row.namespace,
        "incarnation_id": row.incarnation_id,
        "lifecycle": BUSY if full else row.lifecycle,
        "health": row.health,
        "declared_capabilities": row.declared_capabilities,
        "granted_capabilities": row.granted_capabilities,
        "workload_kinds": row.workload_kinds,
        "capacity": {"concurrency": row.concurrency, "active": active},
        "registered_by": row.registered_by,
        "registered_at_ms": row.registered_at_ms,
        "last_seen_at_ms": row.seen_at_ms,
        "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        "heartbeat_timeout_ms": HEARTBEAT_TIMEOUT_MS,
    }


def standing(found: ClaimStanding) -> Mapping[str, Any]:
    """Return how a claim stands."""
    return {
        "workload_id": found.workload_id,
        "claim_id": found.claim_id,
        "standing": found.standing,
        "expires_at_ms": found.expires_at_ms,
        "cancel_deadline_at_ms": found.cancel_deadline_at_ms,
    }
