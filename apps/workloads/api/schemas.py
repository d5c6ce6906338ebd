"""The shapes of this room's bodies and answers, as JSON Schema: checked against on the way in, published as they are.

Types, members and plain bounds are said here (400 VALIDATION_ERROR); what only the room's rules can tell, such as the
bounds of a lease or a secret in the input, the services refuse (422). Answers are built in `shapes.py`.
"""

from typing import Any

from apps.http.openapi import add_schemas, ref
from apps.workloads import limits
from apps.workloads.states import APPROVER_KINDS, REQUIRABLE, RESTING, Approval, AttemptStatus, State, WhenUnreachable

Schema = dict[str, Any]

INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": limits.MAX_NAME_CHARS}
NAMES: Schema = {"type": "array", "items": NAME, "maxItems": limits.MAX_CAPABILITIES}
ANY: Schema = {"description": "Any JSON value."}
OBJECT: Schema = {"type": "object", "additionalProperties": True}
INSTANT: Schema = {"type": "integer", "description": "Milliseconds since 1970, by the server's clock."}


def maybe(schema: Schema) -> Schema:
    """Return the schema that also allows null."""
    return {**schema, "type": [schema["type"], "null"]}


def an_object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Return an object's schema that allows no other members."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


def array(items: Schema) -> Schema:
    """Return a list's schema."""
    return {"type": "array", "items": items}


RETRY_POLICY: Schema = an_object(
    {},
    {
        "max_attempts": {"type": "integer", "default": 3},
        "initial_delay_ms": {"type": "integer", "default": 1_000},
        "max_delay_ms": {"type": "integer", "default": 300_000},
        "backoff": {"type": "string", "enum": ["exponential", "fixed"], "default": "exponential"},
        "retry_on": {**NAMES, "description": "Failure kinds that are tried again; a lost worker is `worker_failure`."},
    },
)
TIMEOUTS: Schema = an_object(
    {}, {f"{name}_ms": maybe(INTEGER) for name in ("queue", "claim", "execution", "heartbeat", "overall", "approval")}
)
DEPENDENCY: Schema = an_object(
    {"workload_id": NAME},
    {"required_state": {"type": "string", "enum": list(REQUIRABLE), "default": "SUCCEEDED"}},
)
APPROVAL: Schema = an_object(
    {},
    {
        "approver_kinds": {
            **array({"type": "string", "enum": list(APPROVER_KINDS)}),
            "default": ["human"],
            "description": "The kinds of subject that may decide; the requester itself never may.",
        },
        "approvers": array(an_object({"kind": TEXT, "id": NAME})),
    },
)

CREATE: Schema = an_object(
    {"definition_id": TEXT, "idempotency_key": TEXT},
    {
        "input": ANY,
        "tenant_id": {**TEXT, "description": "The namespace; may be left out."},
        "application_id": {**TEXT, "default": "default"},
        "environment": {**TEXT, "default": "production"},
        "definition_revision": {**TEXT, "default": "1"},
        "trigger": {**TEXT, "default": "manual"},
        "session_id": {"type": ["string", "null"]},
        "requested_by": {**OBJECT, "description": "Ignored: it is always the caller."},
        "authorization_snapshot": {"type": ["object", "null"], "description": "A grant bound to this request."},
        "capability_snapshot": {**NAMES, "description": "What a worker must hold; default the definition itself."},
        "connection_scopes": NAMES,
        "priority": {"type": "integer", "default": 0},
        "retry_policy": RETRY_POLICY,
        "timeouts": TIMEOUTS,
        "dependencies": array(DEPENDENCY),
        "when_unreachable": {"type": "string", "enum": list(WhenUnreachable), "default": "dead_letter"},
        "not_before_at_ms": maybe(INSTANT),
        "approval": {"oneOf": [APPROVAL, {"type": "null"}]},
    },
)
_WORKER = {"worker_id": NAME}
_LEASE = {"lease_ms": {"type": "integer", "default": limits.DEFAULT_LEASE_MS}}
_CAPABILITIES = {"type": "array", "items": NAME, "maxItems": limits.MAX_WORKER_CAPABILITIES}
CLAIM_BY_ID: Schema = an_object(_WORKER, {**_LEASE, "capabilities": _CAPABILITIES})
CLAIM_NEXT: Schema = an_object(
    {**_WORKER, "capabilities": _CAPABILITIES},
    {
        **_LEASE,
        "max": {"type": "integer", "default": 1},
        "wait_ms": {"type": "integer", "minimum": 0, "maximum": limits.MAX_WAIT_MS, "default": 0},
    },
)
_FENCE = {**_WORKER, "claim_id": NAME, "fencing_token": {"type": "integer", "minimum": 1}}
FENCE: Schema = an_object(_FENCE)
HEARTBEAT: Schema = an_object({**_FENCE, "extend_ms": INTEGER})
CHECKPOINT: Schema = an_object({**_FENCE, "state": ANY})
CONTEXT: Schema = an_object(_FENCE, {"secret_references": {**array(TEXT), "maxItems": limits.MAX_SECRET_REFERENCES}})
COMPLETE: Schema = an_object(
    {**_FENCE, "result_id": TEXT, "output": ANY},
    {"artifacts": array(TEXT), "schema_version": {"type": "integer", "default": 1}},
)
FAIL: Schema = an_object(
    {**_FENCE, "kind": TEXT},
    {
        "error": TEXT,
        "effect": {"type": ["string", "null"], "enum": ["none", "unknown", None]},
        "retry_after_ms": {"type": "integer", "description": "If it is tried again, not before this has passed."},
    },
)
_REPORT = {"workload_id": NAME, "claim_id": NAME, "fencing_token": _FENCE["fencing_token"]}


def _many(required: dict[str, Schema], of: Schema) -> Schema:
    """Return a batch of what `of` says of one, all by one worker."""
    own = {name: each for name, each in of["properties"].items() if name not in _FENCE and name not in required}
    reports = {**array(an_object({**_REPORT, **required}, own)), "minItems": 1, "maxItems": limits.MAX_BATCH}
    return an_object({**_WORKER, "reports": reports})


COMPLETE_MANY: Schema = _many({"result_id": TEXT, "output": ANY}, COMPLETE)
FAIL_MANY: Schema = _many({"kind": TEXT}, FAIL)
_REFUSED: Schema = an_object({"code": TEXT, "message": TEXT, "details": {"type": ["object", "null"]}})
CANCEL: Schema = an_object({}, {"reason": TEXT, "grace_ms": {"type": "integer", "default": limits.DEFAULT_GRACE_MS}})
RETRY: Schema = an_object({}, {"reason": TEXT})

_ATTEMPT = an_object(
    {
        "attempt_id": TEXT,
        "worker_id": TEXT,
        "claim_id": TEXT,
        "fencing_token": COUNT,
        "claimed_at_ms": INSTANT,
        "started_at_ms": maybe(INSTANT),
        "ended_at_ms": maybe(INSTANT),
        "status": {"type": "string", "enum": list(AttemptStatus)},
        "failure_kind": maybe(TEXT),
        "error": maybe(TEXT),
        "effect": maybe(TEXT),
        "result_hash": maybe(TEXT),
    }
)
_SUMMARY: dict[str, Schema] = {
    "contract_version": COUNT,
    "workload_id": TEXT,
    "tenant_id": TEXT,
    "application_id": TEXT,
    "environment": TEXT,
    "definition_id": TEXT,
    "definition_revision": TEXT,
    "trigger": TEXT,
    "requested_by": an_object({"kind": TEXT, "id": TEXT}),
    "session_id": maybe(TEXT),
    "traceparent": maybe({**TEXT, "description": "That of the request, or of the change, that made the work."}),
    "idempotency_key": TEXT,
    "input_hash": TEXT,
    "capability_snapshot": array(TEXT),
    "connection_scopes": array(TEXT),
    "priority": INTEGER,
    "retry_policy": RETRY_POLICY,
    "timeouts": TIMEOUTS,
    "when_unreachable": TEXT,
    "not_before_at_ms": maybe(INSTANT),
    "approval": {
        "oneOf": [
            an_object({"policy": APPROVAL, "standing": {"type": "string", "enum": list(Approval)}}),
            {"type": "null"},
        ]
    },
    "next_attempt_at_ms": INSTANT,
    "state": {"type": "string", "enum": [str(state) for state in RESTING]},
    "waiting_on": COUNT,
    "attempt_count": COUNT,
    "attempts_left": COUNT,
    "retry_count": COUNT,
    "operator_retry_count": COUNT,
    "last_failure": maybe(TEXT),
    "fencing_token": COUNT,
    "current_claim": {
        "oneOf": [
            an_object(
                {
                    "claim_id": TEXT,
                    "worker_id": TEXT,
                    "fencing_token": COUNT,
                    "claimed_at_ms": INSTANT,
                    "last_heartbeat_at_ms": INSTANT,
                    "expires_at_ms": INSTANT,
                    "cancel_deadline_at_ms": maybe(INSTANT),
                }
            ),
            {"type": "null"},
        ]
    },
    "created_at_ms": INSTANT,
    "updated_at_ms": INSTANT,
}
RESULT: Schema = an_object(
    {
        "result_id": TEXT,
        "workload_id": TEXT,
        "attempt_id": TEXT,
        "status": TEXT,
        "output": ANY,
        "output_hash": TEXT,
        "artifacts": array(TEXT),
        "provenance": an_object({"claim_id": TEXT, "fencing_token": COUNT}),
        "produced_by": TEXT,
        "created_at_ms": INSTANT,
        "schema_version": COUNT,
    }
)
_CHECKPOINTED: dict[str, Schema] = {
    "checkpoint_id": TEXT,
    "attempt_id": TEXT,
    "sequence": COUNT,
    "state_hash": TEXT,
    "created_at_ms": INSTANT,
    "produced_by": TEXT,
}
_MAYBE_RESULT: Schema = {"oneOf": [ref("WorkloadResult"), {"type": "null"}]}

SCHEMAS: dict[str, Schema] = {
    "WorkloadCreate": CREATE,
    "WorkloadSummary": an_object(_SUMMARY),
    "Workload": an_object(
        {
            **_SUMMARY,
            "grant_id": {**maybe(TEXT), "description": "The grant it runs under; null for the instance's own work."},
            "input": ANY,
            "dependencies": array(
                an_object({"workload_id": TEXT, "required_state": TEXT, "met_at_ms": maybe(INSTANT)})
            ),
            "attempts": array(ref("WorkloadAttempt")),
            "decision": {"oneOf": [ref("WorkloadDecision"), {"type": "null"}]},
            "result": _MAYBE_RESULT,
        }
    ),
    "WorkloadPage": an_object({"workloads": array(ref("WorkloadSummary")), "next_cursor": maybe(TEXT)}),
    "WorkloadAttempt": _ATTEMPT,
    "WorkloadResult": RESULT,
    "WorkloadResultAnswer": an_object({"workload_id": TEXT, "state": TEXT, "result": _MAYBE_RESULT}),
    "WorkloadCounts": an_object({"states": an_object({state.value: COUNT for state in RESTING})}),
    "WorkloadHistory": an_object(
        {
            "workload_id": TEXT,
            "events": array(
                an_object(
                    {
                        "sequence": COUNT,
                        "event_type": TEXT,
                        "from": {"type": "string", "enum": list(State)},
                        "to": {"type": "string", "enum": list(State)},
                        "actor": TEXT,
                        "at_ms": INSTANT,
                        "evidence": OBJECT,
                    }
                )
            ),
            "attempts": array(ref("WorkloadAttempt")),
            "checkpoints": array(ref("WorkloadCheckpoint")),
        }
    ),
    "WorkloadCheckpoint": an_object({**_CHECKPOINTED, "state": ANY}),
    "WorkloadCheckpointed": an_object(_CHECKPOINTED),
    "WorkloadContext": an_object(
        {
            "workload_id": TEXT,
            "attempt_id": TEXT,
            "worker_id": TEXT,
            "capabilities": array(TEXT),
            "connection_scopes": array(TEXT),
            "secret_references": array(TEXT),
            "expires_at_ms": INSTANT,
            "fencing_token": COUNT,
            "input": ANY,
            "checkpoints": array(ref("WorkloadCheckpoint")),
        }
    ),
    "WorkloadClaim": an_object(
        {
            "workload_id": TEXT,
            "attempt_id": TEXT,
            "worker_id": TEXT,
            "lease_id": TEXT,
            "claim_id": TEXT,
            "fencing_token": COUNT,
            "definition_id": TEXT,
            "definition_revision": TEXT,
            "capability_snapshot": array(TEXT),
            "connection_scopes": array(TEXT),
            "traceparent": maybe(TEXT),
            "input": ANY,
            "timeouts": TIMEOUTS,
            "issued_at_ms": INSTANT,
            "expires_at_ms": INSTANT,
        }
    ),
    "WorkloadClaims": an_object({"claims": array(ref("WorkloadClaim"))}),
    "WorkloadClaimById": CLAIM_BY_ID,
    "WorkloadClaimNext": CLAIM_NEXT,
    "WorkloadFence": FENCE,
    "WorkloadHeartbeat": HEARTBEAT,
    "WorkloadHeartbeatAnswer": an_object(
        {
            "claim_id": TEXT,
            "fencing_token": COUNT,
            "last_heartbeat_at_ms": INSTANT,
            "expires_at_ms": INSTANT,
            "cancel_requested": {"type": "boolean"},
            "cancel_deadline_at_ms": maybe(INSTANT),
        }
    ),
    "WorkloadCheckpointWrite": CHECKPOINT,
    "WorkloadContextRead": CONTEXT,
    "WorkloadComplete": COMPLETE,
    "WorkloadFail": FAIL,
    "WorkloadCancel": CANCEL,
    "WorkloadRetry": RETRY,
    "WorkloadCompleteMany": COMPLETE_MANY,
    "WorkloadCompletedMany": an_object(
        {"answers": array(an_object({"workload_id": TEXT}, {"result": ref("WorkloadResult"), "error": _REFUSED}))}
    ),
    "WorkloadFailMany": FAIL_MANY,
    "WorkloadFailedMany": an_object(
        {"answers": array(an_object({"workload_id": TEXT}, {"state": TEXT, "error": _REFUSED}))}
    ),
    "WorkloadState": an_object({"state": TEXT}),
}

add_schemas(SCHEMAS)
