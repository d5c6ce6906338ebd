"""What the OpenAPI document says of each route of this room: one decorator a method, in the order of `views.py`."""

from apps.http.openapi import Answer, describe, query_parameter, ref
from apps.workloads import limits
from apps.workloads.api import schemas
from apps.workloads.services.reading import FILTERS

_TAG = "Workloads"
_FENCE = {"worker_id": "packer-1", "claim_id": "claim_7db209eb4f86bcd108b6", "fencing_token": 1}
_LIMIT = query_parameter(
    "limit",
    "Workloads at most.",
    {"type": "integer", "minimum": 1, "maximum": limits.MAX_PAGE, "default": limits.DEFAULT_PAGE},
)
_CURSOR = query_parameter("cursor", "`next_cursor` of the page before.")
_FILTERS = [query_parameter(name, f"Only work with exactly this `{name}`.") for name in FILTERS]
_HELD = (
    "WORKLOAD_NOT_FOUND",
    "WORKLOAD_TIMED_OUT",
    "WORKLOAD_CLAIM_INVALID",
    "WORKLOAD_STALE_FENCE",
    "WORKLOAD_UNAUTHORIZED",
    "WORKLOAD_LEASE_EXPIRED",
    "WORKLOAD_TRANSITION_DENIED",
    "WORKLOAD_CONFLICT",
    "DATABASE_UNAVAILABLE",
    "FORBIDDEN",
)
_MOVED = ("WORKLOAD_NOT_FOUND", "WORKLOAD_TRANSITION_DENIED", "WORKLOAD_CONFLICT", "DATABASE_UNAVAILABLE")
_CLAIMING = ("WORKLOAD_INVALID", "WORKLOAD_CONFLICT", "CONTROL_PLANE_MISMATCH", "DATABASE_UNAVAILABLE", "FORBIDDEN")

list_workloads = describe(
    "list_workloads",
    "List work, newest first",
    tag=_TAG,
    answers={200: Answer("A page of work, without inputs.", ref("WorkloadPage"))},
    errors=["INVALID_CURSOR", "DATABASE_UNAVAILABLE"],
    parameters=[_LIMIT, _CURSOR, *_FILTERS],
)
create_workload = describe(
    "create_workload",
    "Create work",
    tag=_TAG,
    description="Durable before it is answered. The same request under the same `idempotency_key` gives the work it "
    "made, as it stands now; another request under it is refused with every member that differs.",
    body=schemas.CREATE,
    body_examples={"an e-mail": {"definition_id": "identity", "idempotency_key": "order-7", "input": {"order": 7}}},
    answers={201: Answer("The work.", ref("Workload"), headers=("Location", "Idempotent-Replay"))},
    errors=[
        "WORKLOAD_SECRET_REJECTED",
        "WORKLOAD_INVALID",
        "WORKLOAD_UNAUTHORIZED",
        "CONFLICT",
        "WORKLOAD_CONFLICT",
        "DATABASE_UNAVAILABLE",
    ],
)
read_workload = describe(
    "read_workload",
    "Read one workload",
    tag=_TAG,
    answers={200: Answer("The work with input, attempts and result.", ref("Workload"))},
    errors=["WORKLOAD_NOT_FOUND", "DATABASE_UNAVAILABLE"],
)
read_history = describe(
    "read_workload_history",
    "Read what happened to one workload",
    tag=_TAG,
    answers={200: Answer("Transitions, attempts and checkpoints, oldest first.", ref("WorkloadHistory"))},
    errors=["WORKLOAD_NOT_FOUND", "DATABASE_UNAVAILABLE"],
)
count_workloads = describe(
    "count_workloads",
    "Count the work of the namespace by state",
    tag=_TAG,
    answers={200: Answer("How many workloads rest in each state.", ref("WorkloadCounts"))},
    errors=["DATABASE_UNAVAILABLE"],
)
read_result = describe(
    "read_workload_result",
    "Read the result of one workload",
    tag=_TAG,
    answers={200: Answer("The result, null where there is none.", ref("WorkloadResultAnswer"))},
    errors=["WORKLOAD_NOT_FOUND", "DATABASE_UNAVAILABLE"],
)
claim_workload = describe(
    "claim_workload",
    "Claim one workload by its id",
    tag=_TAG,
    body=schemas.CLAIM_BY_ID,
    body_examples={"half a minute": {"worker_id": "packer-1", "lease_ms": 30_000}},
    answers={200: Answer("The claim.", ref("WorkloadClaim"))},
    errors=[
        "WORKLOAD_NOT_FOUND",
        "WORKLOAD_TIMED_OUT",
        "WORKLOAD_ATTEMPTS_EXHAUSTED",
        "WORKLOAD_APPROVAL_PENDING",
        "WORKLOAD_REJECTED",
        "WORKLOAD_NOT_READY",
        "WORKLOAD_NOT_YET_ELIGIBLE",
        "WORKLOAD_CAPABILITY_DENIED",
        *_CLAIMING,
    ],
)
claim_next = describe(
    "claim_next_workloads",
    "Claim the next work",
    tag=_TAG,
    description="The highest priority first, then what has been eligible longest. With `wait_ms` an answer without "
    "claims is held back until there is work or the time is over.",
    body=schemas.CLAIM_NEXT,
    body_examples={"up to ten": {"worker_id": "packer-1", "capabilities": ["pack"], "max": 10, "wait_ms": 5_000}},
    answers={200: Answer("The claims, best first; none is an empty list.", ref("WorkloadClaims"))},
    errors=_CLAIMING,
)
start_workload = describe(
    "start_workload",
    "Say that the attempt has begun",
    tag=_TAG,
    body=schemas.FENCE,
    body_examples={"the claim": _FENCE},
    answers={204: Answer("Running.")},
    errors=_HELD,
)
heartbeat_workload = describe(
    "heartbeat_workload",
    "Extend the lease, and learn whether to give up",
    tag=_TAG,
    body=schemas.HEARTBEAT,
    body_examples={"half a minute more": {**_FENCE, "extend_ms": 30_000}},
    answers={200: Answer("The lease as it is now.", ref("WorkloadHeartbeatAnswer"))},
    errors=[*_HELD, "WORKLOAD_INVALID"],
)
checkpoint_workload = describe(
    "checkpoint_workload",
    "Keep something for whoever goes on after this attempt",
    tag=_TAG,
    description=f"The newest {limits.MAX_CHECKPOINTS} of a workload are kept. A sign of life, but the lease stays.",
    body=schemas.CHECKPOINT,
    body_examples={"half of it": {**_FENCE, "state": {"packed": 3}}},
    answers={200: Answer("Kept.", ref("WorkloadCheckpointed"))},
    errors=[*_HELD, "WORKLOAD_INVALID", "WORKLOAD_SECRET_REJECTED"],
)
read_context = describe(
    "read_workload_context",
    "Read what the holder of a claim goes on with",
    tag=_TAG,
    description="Input and checkpoints, those of earlier attempts included. POST because it carries the claim; "
    "nothing is changed.",
    body=schemas.CONTEXT,
    body_examples={"the claim": _FENCE},
    answers={200: Answer("The context.", ref("WorkloadContext"))},
    errors=[*_HELD, "WORKLOAD_INVALID"],
)
complete_workload = describe(
    "complete_workload",
    "Record the success",
    tag=_TAG,
    body=schemas.COMPLETE,
    body_examples={"done": {**_FENCE, "result_id": "parcel-7", "output": {"weight": 3}}},
    answers={200: Answer("The stored result.", ref("WorkloadResult"), headers=("Idempotent-Replay",))},
    errors=[
        *_HELD,
        "WORKLOAD_INVALID",
        "WORKLOAD_SECRET_REJECTED",
        "WORKLOAD_RESULT_CONFLICT",
        "WORKLOAD_RESULT_DUPLICATE",
    ],
)
complete_workloads = describe(
    "complete_workloads",
    "Record many successes in one transaction",
    tag=_TAG,
    description="Each is judged on its own, as by its own route: one that is refused hinders no other. Answers stand "
    "in the order of the reports. Safe to repeat as a whole.",
    body=schemas.COMPLETE_MANY,
    body_examples={
        "done": {
            "worker_id": "packer-1",
            "reports": [
                {
                    "workload_id": "workload_000000000000000000000000",
                    "claim_id": "claim_7db209eb4f86bcd108b6",
                    "fencing_token": 1,
                    "result_id": "parcel-7",
                    "output": {"weight": 3},
                }
            ],
        }
    },
    answers={200: Answer("A result or a refusal for each report.", ref("WorkloadCompletedMany"))},
    errors=["WORKLOAD_CONFLICT", "DATABASE_UNAVAILABLE", "FORBIDDEN"],
)
fail_workloads = describe(
    "fail_workloads",
    "Record many failures",
    tag=_TAG,
    description="Each is judged on its own, as by its own route. Answers stand in the order of the reports.",
    body=schemas.FAIL_MANY,
    body_examples={
        "to be tried again": {
            "worker_id": "packer-1",
            "reports": [
                {
                    "workload_id": "workload_000000000000000000000000",
                    "claim_id": "claim_7db209eb4f86bcd108b6",
                    "fencing_token": 1,
                    "kind": "transient_connection",
                }
            ],
        }
    },
    answers={200: Answer("A state or a refusal for each report.", ref("WorkloadFailedMany"))},
    errors=["WORKLOAD_CONFLICT", "DATABASE_UNAVAILABLE", "FORBIDDEN"],
)
fail_workload = describe(
    "fail_workload",
    "Record a failure",
    tag=_TAG,
    body=schemas.FAIL,
    body_examples={"to be tried again": {**_FENCE, "kind": "transient_connection", "error": "connection refused"}},
    answers={200: Answer("READY (tried again later) or DEAD_LETTER.", ref("WorkloadState"))},
    errors=[*_HELD, "WORKLOAD_INVALID", "WORKLOAD_SECRET_REJECTED"],
)
confirm_cancellation = describe(
    "confirm_workload_cancellation",
    "Say that the work was given up as asked",
    tag=_TAG,
    body=schemas.FENCE,
    body_examples={"the claim": _FENCE},
    answers={204: Answer("Cancelled.")},
    errors=_HELD,
)
cancel_workload = describe(
    "cancel_workload",
    "Cancel work, or ask its worker to give it up",
    tag=_TAG,
    body=schemas.CANCEL,
    body_examples={"at once or within ten seconds": {"reason": "ordered twice", "grace_ms": 10_000}},
    answers={200: Answer("CANCELLED or CANCELLATION_REQUESTED.", ref("WorkloadState"))},
    errors=[*_MOVED, "WORKLOAD_INVALID", "WORKLOAD_SECRET_REJECTED"],
)
retry_workload = describe(
    "retry_workload",
    "Arm a dead letter again, with a fresh budget of attempts",
    tag=_TAG,
    body=schemas.RETRY,
    body_examples={"with a reason": {"reason": "the printer is back"}},
    answers={204: Answer("Ready.")},
    errors=[*_MOVED, "WORKLOAD_RETRY_EXHAUSTED", "WORKLOAD_SECRET_REJECTED"],
)
