"""The one table from a stable code to its HTTP status and title. The documentation is made from it.

A refusal whose code is not here is a defect: `ApiError` refuses to be built.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A stable code's HTTP status and its short, fixed title."""

    status: int
    title: str


CODES: dict[str, Code] = {
    # The request as such
    "JSON_INVALID": Code(400, "The body is not valid JSON"),
    "JSON_TOO_DEEP": Code(400, "The body is nested too deeply"),
    "VALIDATION_ERROR": Code(400, "The request is not valid"),
    "NAMESPACE_REQUIRED": Code(400, "The request must name a namespace"),
    "HOST_INVALID": Code(400, "The Host header is not one this server answers to"),
    "REQUEST_REFUSED": Code(400, "The request was refused"),
    "TRIGGER_INVALID": Code(400, "The trigger is not valid"),
    "TRIGGER_UNAUTHORIZED": Code(400, "The trigger's grant does not bind it"),
    "GRANT_INVALID": Code(400, "The grant is not valid"),
    "METHOD_NOT_ALLOWED": Code(405, "The method is not allowed here"),
    "NOT_ACCEPTABLE": Code(406, "Only JSON can be given"),
    "REQUEST_TIMEOUT": Code(408, "The request did not come in in time"),
    "BODY_TOO_LARGE": Code(413, "The body is too large"),
    "TARGET_TOO_LONG": Code(414, "The request's target is too long"),
    "UNSUPPORTED_MEDIA_TYPE": Code(415, "The body must be plain JSON"),
    "EXPECTATION_FAILED": Code(417, "The request expects what this server does not do"),
    "PROTOCOL_UNSUPPORTED": Code(426, "The protocol version is not supported"),
    "HEADERS_TOO_LARGE": Code(431, "The request's headers are too large"),
    # Who is asking
    "AUTHENTICATION_REQUIRED": Code(401, "A valid key is required"),
    "FORBIDDEN": Code(403, "The key may not do this"),
    "WORKLOAD_UNAUTHORIZED": Code(403, "The work is not this caller's"),
    "WORKLOAD_CAPABILITY_DENIED": Code(403, "The worker does not have the capability"),
    "WORKLOAD_APPROVER_NOT_PERMITTED": Code(403, "The caller may not approve this work"),
    "WORKER_UNAUTHORIZED": Code(403, "The grant does not cover this worker"),
    "MESH_PLACEMENT_DENIED": Code(403, "The worker may not be given work now"),
    "GRANT_SCOPE_DENIED": Code(403, "The grant does not reach this"),
    "GRANT_EXPIRED": Code(403, "The grant has expired"),
    "GRANT_REVOKED": Code(403, "The grant is revoked"),
    "GRANT_DELEGATION_INVALID": Code(403, "The grant cannot be delegated so"),
    "REAUTHORIZATION_REQUIRED": Code(403, "What was authorized has changed since"),
    "RATE_LIMITED": Code(429, "Too many requests"),
    # What is not there
    "NOT_FOUND": Code(404, "Not found"),
    "WORKLOAD_NOT_FOUND": Code(404, "There is no such work"),
    "SCHEDULE_NOT_FOUND": Code(404, "There is no such schedule"),
    "WORKER_NOT_FOUND": Code(404, "There is no such worker"),
    "TRIGGER_NOT_FOUND": Code(404, "There is no such trigger"),
    "FEED_COMPACTED": Code(410, "That part of the feed is gone"),
    "CURSOR_UNKNOWN": Code(410, "The cursor is of another timeline"),
    "CURSOR_AHEAD": Code(410, "The cursor lies beyond the feed"),
    # What stands against it
    "CONFLICT": Code(409, "The request conflicts with what is there"),
    "VERSION_CONFLICT": Code(409, "The record has another version"),
    "FENCE_BROKEN": Code(409, "What was read has changed since"),
    "CONTRACT_BROKEN": Code(409, "Stored records break the contract"),
    "CONTRACT_CONFLICT": Code(409, "The contract changed meanwhile"),
    "CONTROL_PLANE_MISMATCH": Code(409, "Store and control plane do not belong together"),
    "PRECONDITION_FAILED": Code(409, "A precondition did not hold"),
    "IDEMPOTENCY_CONFLICT": Code(409, "The id is known with other content"),
    "IDEMPOTENCY_KEY_REUSED": Code(409, "The idempotency key is known with other content"),
    "WORKLOAD_STALE_FENCE": Code(409, "The claim is no longer the current one"),
    "WORKLOAD_TRANSITION_DENIED": Code(409, "The work is not in a state for this"),
    "WORKLOAD_NOT_READY": Code(409, "The work is not ready"),
    "WORKLOAD_NOT_YET_ELIGIBLE": Code(409, "The work may not run yet"),
    "WORKLOAD_ATTEMPTS_EXHAUSTED": Code(409, "The work has used all its attempts"),
    "WORKLOAD_RETRY_EXHAUSTED": Code(409, "The work has used all its retries"),
    "WORKLOAD_RESULT_CONFLICT": Code(409, "Another result is already stored"),
    "WORKLOAD_TIMED_OUT": Code(409, "The work ran out of time"),
    "WORKLOAD_APPROVAL_PENDING": Code(409, "The work waits for approval"),
    "WORKLOAD_APPROVAL_DECIDED": Code(409, "The approval was already decided"),
    "WORKLOAD_APPROVAL_STALE": Code(409, "Another input was reviewed"),
    "WORKLOAD_APPROVAL_NOT_ACTIONABLE": Code(409, "The work does not wait for approval"),
    "WORKLOAD_APPROVAL_NOT_REQUIRED": Code(409, "The work needs no approval"),
    "WORKLOAD_REJECTED": Code(409, "The work was rejected"),
    "WORKLOAD_CONFLICT": Code(409, "The work changed meanwhile"),
    "WORKER_TRANSITION_DENIED": Code(409, "The worker is not in a state for this"),
    "WORKER_BUSY": Code(409, "The worker holds work"),
    "IF_MATCH_FAILED": Code(412, "The record has another version than If-Match names"),
    # What was understood and cannot be done
    "VALIDATION_FAILED": Code(422, "The value breaks the contract"),
    "CONTRACT_INVALID": Code(422, "The contract is not valid"),
    "INVALID_QUERY": Code(422, "The query cannot be run"),
    "INVALID_CURSOR": Code(422, "The cursor is not one of this query"),
    "SCAN_LIMIT_EXCEEDED": Code(422, "The query would read too much"),
    "TRANSACTION_TOO_LARGE": Code(422, "The transaction is too large"),
    "WORKLOAD_INVALID": Code(422, "The work is not valid"),
    "WORKLOAD_SECRET_REJECTED": Code(422, "The work carries something that looks like a secret"),
    "SCHEDULE_INVALID": Code(422, "The schedule is not valid"),
    "WORKER_INVALID": Code(422, "The worker is not valid"),
    "WORKER_HEARTBEAT_REJECTED": Code(422, "Another incarnation of the worker is current"),
    "WORKER_RECOVERY_REQUIRED": Code(422, "The worker must be recovered first"),
    "WORKER_RECONCILIATION_DENIED": Code(422, "Another incarnation of the worker is current"),
    "WORKLOAD_CLAIM_INVALID": Code(422, "There is no such claim"),
    "WORKLOAD_LEASE_EXPIRED": Code(422, "The lease has run out"),
    "WORKLOAD_RESULT_DUPLICATE": Code(422, "The result id belongs to other work"),
    # What went wrong here
    "INTERNAL_ERROR": Code(500, "The server failed"),
    "NOT_IMPLEMENTED": Code(501, "The server does not know how to do this"),
    "SERVICE_OVERLOADED": Code(503, "The server is busy"),
    "COMMIT_UNKNOWN": Code(503, "Whether the transaction was committed is not known"),
    "DATABASE_UNAVAILABLE": Code(503, "The control plane's database did not answer"),
    "STORAGE_ERROR": Code(503, "The store cannot be used"),
    "STORAGE_UNAVAILABLE": Code(503, "The store is not available"),
    "STORAGE_STALLED": Code(503, "A store did not answer in time"),
    "STORAGE_PROBE_FAILED": Code(503, "The check of the stores failed"),
    "STORAGE_REBUILDING": Code(503, "The store is being rebuilt"),
    "STORAGE_READ_ONLY": Code(503, "The store is open for reading only"),
    "STORAGE_WRITE_FAILED": Code(503, "The write failed and was undone"),
    "STORAGE_FAILED": Code(503, "The store refuses writes until it is recovered"),
    "STORAGE_CORRUPT": Code(503, "The store is damaged"),
    "STORAGE_FULL": Code(507, "There is no room left"),
    "TRIGGER_STATE_REPLAY_FAILED": Code(503, "The feed could not be read"),
    "TRIGGER_STORAGE_FAILURE": Code(503, "The trigger could not be stored"),
    "WORKLOAD_STORAGE_FAILURE": Code(503, "The work could not be stored"),
}

BY_STATUS: dict[int, str] = {
    400: "REQUEST_REFUSED",
    401: "AUTHENTICATION_REQUIRED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    406: "NOT_ACCEPTABLE",
    409: "CONFLICT",
    413: "BODY_TOO_LARGE",
    414: "TARGET_TOO_LONG",
    415: "UNSUPPORTED_MEDIA_TYPE",
    417: "EXPECTATION_FAILED",
    426: "PROTOCOL_UNSUPPORTED",
    429: "RATE_LIMITED",
    431: "HEADERS_TOO_LARGE",
    500: "INTERNAL_ERROR",
    501: "NOT_IMPLEMENTED",
    503: "SERVICE_OVERLOADED",
}
"""The code for a bare status that somebody else (the server, Django, a library) answered with."""


def code_for(status: int) -> str:
    """Return the code for a bare status of 400 or above."""
    return BY_STATUS.get(status, "INTERNAL_ERROR" if status >= 500 else "REQUEST_REFUSED")
