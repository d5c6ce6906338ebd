"""From rows to the JSON clients see. The same shapes as JSON Schema: `schemas.py`; a test holds them together."""

from typing import Any

from apps.workloads.commands import Claim, ExecutionContext, Heartbeat
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Attempt, Checkpoint, Decision, Result, Workload
from apps.workloads.services.fencing import current_claim_id
from apps.workloads.services.reading import Details, History

CONTRACT_VERSION = 2
REPLAYED = {"Idempotent-Replay": "true"}


def summary(row: Workload) -> dict[str, Any]:
    """Return a workload as lists show it."""
    request = row.request
    return {
        "contract_version": CONTRACT_VERSION,
        "workload_id": row.workload_id,
        "tenant_id": row.namespace,
        "application_id": row.application_id,
        "environment": request.environment,
        "definition_id": row.definition_id,
        "definition_revision": request.definition_revision,
        "trigger": row.trigger,
        "requested_by": {"kind": request.requester_kind, "id": request.requester_id},
        "session_id": request.session_id or None,
        "traceparent": request.traceparent,
        "idempotency_key": request.idempotency_key,
        "input_hash": request.input_hash,
        "capability_snapshot": request.capability_snapshot,
        "connection_scopes": request.connection_scopes,
        "priority": row.priority,
        "retry_policy": request.retry_policy,
        "timeouts": row.timeouts or {},
        "when_unreachable": row.when_unreachable,
        "not_before_at_ms": request.not_before_at_ms,
        "approval": None if request.approval is None else {"policy": request.approval, "standing": row.approval},
        "next_attempt_at_ms": row.eligible_at_ms,
        "state": row.state,
        "waiting_on": row.waiting_on,
        "attempt_count": row.attempt_count,
        "attempts_left": row.max_attempts - row.budget_used,
        "retry_count": row.retry_count,
        "operator_retry_count": row.operator_retry_count,
        "last_failure": row.last_failure or None,
        "fencing_token": row.fencing_token,
        "current_claim": _current_claim(row),
        "created_at_ms": row.created_at_ms,
        "updated_at_ms": row.updated_at_ms,
    }


def _current_claim(row: Workload) -> dict[str, Any] | None:
    if row.worker_id is None:
        return None
    return {
        "claim_id": current_claim_id(row),
        "worker_id": row.worker_id,
        "fencing_token": row.fencing_token,
        "claimed_at_ms": row.claimed_at_ms,
        "last_heartbeat_at_ms": row.heartbeat_at_ms,
        "expires_at_ms": row.lease_expires_at_ms,
        "cancel_deadline_at_ms": row.cancel_deadline_at_ms,
    }


def workload(details: Details) -> dict[str, Any]:
    """Return a workload with everything that belongs to it."""
    row = details.workload
    return {
        **summary(row),
        "grant_id": row.lane.grant_id or None,
        "input": row.request.input,
        "dependencies": [
            {
                "workload_id": each.parent.workload_id,
                "required_state": each.required_state,
                "met_at_ms": each.met_at_ms,
            }
            for each in details.dependencies
        ],
        "attempts": [attempt(row.workload_id, each) for each in details.attempts],
        "decision": None if details.decision is None else decision(details.decision),
        "result": None if details.result is None else result(row.workload_id, details.result),
    }


def decision(row: Decision) -> dict[str, Any]:
    """Return the decision on a workload."""
    return {
        "outcome": row.outcome,
        "decided_by": {"kind": row.decider_kind, "id": row.decider_id},
        "decided_at_ms": row.decided_at_ms,
        "reason": row.reason or None,
        "input_hash": row.input_hash,
    }


def attempt(workload_id: str, row: Attempt) -> dict[str, Any]:
    """Return one attempt."""
    return {
        "attempt_id": f"attempt_{workload_id}_{row.number}",
        "worker_id": row.worker_id,
        "claim_id": row.claim_id,
        "fencing_token": row.number,
        "claimed_at_ms": row.claimed_at_ms,
        "started_at_ms": row.started_at_ms,
        "ended_at_ms": row.ended_at_ms,
        "status": row.status,
        "failure_kind": row.failure_kind or None,
        "error": row.error or None,
        "effect": row.effect or None,
        "result_hash": row.result_hash or None,
    }


def result(workload_id: str, row: Result) -> dict[str, Any]:
    """Return a stored result."""
    return {
        "result_id": row.result_id,
        "workload_id": workload_id,
        "attempt_id": f"attempt_{workload_id}_{row.attempt.number}",
        "status": "succeeded",
        "output": row.output,
        "output_hash": row.output_hash,
        "artifacts": row.artifacts,
        "provenance": {"claim_id": row.attempt.claim_id, "fencing_token": row.attempt.number},
        "produced_by": row.produced_by,
        "created_at_ms": row.created_at_ms,
        "schema_version": row.schema_version,
    }


def history(found: History) -> dict[str, Any]:
    """Return what happened to a workload."""
    return {
        "workload_id": found.workload_id,
        "events": [
            {
                "sequence": event.sequence,
                "event_type": event.event_type,
                "from": event.from_state,
                "to": event.to_state,
                "actor": event.actor,
                "at_ms": event.at_ms,
                "evidence": event.evidence,
            }
            for event in found.events
        ],
        "attempts": [attempt(found.workload_id, each) for each in found.attempts],
        "checkpoints": [checkpoint(found.workload_id, each) for each in found.checkpoints],
    }


def checkpointed(workload_id: str, row: Checkpoint) -> dict[str, Any]:
    """Return a checkpoint that was kept, without what its holder has just sent."""
    return {
        "checkpoint_id": f"checkpoint_{workload_id}_{row.sequence}",
        "attempt_id": f"attempt_{workload_id}_{row.attempt.number}",
        "sequence": row.sequence,
        "state_hash": row.state_hash,
        "created_at_ms": row.created_at_ms,
        "produced_by": row.produced_by,
    }


def checkpoint(workload_id: str, row: Checkpoint) -> dict[str, Any]:
    """Return a checkpoint with what it holds."""
    return {**checkpointed(workload_id, row), "state": row.state}


def context(found: ExecutionContext) -> dict[str, Any]:
    """Return what the holder of a claim goes on with."""
    return {
        "workload_id": found.workload_id,
        "attempt_id": found.attempt_id,
        "worker_id": found.worker_id,
        "capabilities": list(found.capabilities),
        "connection_scopes": list(found.connection_scopes),
        "secret_references": list(found.secret_references),
        "expires_at_ms": found.expires_at_ms,
        "fencing_token": found.fencing_token,
        "input": found.input,
        "checkpoints": [checkpoint(found.workload_id, each) for each in found.checkpoints],
    }


def claim(made: Claim) -> dict[str, Any]:
    """Return a claim that was made."""
    return {
        "workload_id": made.workload_id,
        "attempt_id": made.attempt_id,
        "worker_id": made.worker_id,
        "lease_id": made.lease_id,
        "claim_id": made.claim_id,
        "fencing_token": made.fencing_token,
        "definition_id": made.definition_id,
        "definition_revision": made.definition_revision,
        "capability_snapshot": list(made.capability_snapshot),
        "connection_scopes": list(made.connection_scopes),
        "traceparent": made.traceparent,
        "input": made.input,
        "timeouts": dict(made.timeouts),
        "issued_at_ms": made.claimed_at_ms,
        "expires_at_ms": made.expires_at_ms,
    }


def refused(error: WorkloadError) -> dict[str, Any]:
    """Return why one of several was refused."""
    return {"code": error.code, "message": error.message, "details": error.details}


def heartbeat(answer: Heartbeat) -> dict[str, Any]:
    """Return the answer to a sign of life."""
    return {
        "claim_id": answer.claim_id,
        "fencing_token": answer.fencing_token,
        "last_heartbeat_at_ms": answer.last_heartbeat_at_ms,
        "expires_at_ms": answer.expires_at_ms,
        "cancel_requested": answer.cancel_requested,
        "cancel_deadline_at_ms": answer.cancel_deadline_at_ms,
    }
