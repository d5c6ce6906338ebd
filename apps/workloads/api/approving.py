"""Approving and rejecting over HTTP: shapes, documentation and views of the two routes."""

from typing import Any, ClassVar

from rest_framework.response import Response

from apps.http.openapi import Answer, add_schemas, describe, ref
from apps.keys.views import KeyedRequest, KeyedView
from apps.workloads import services
from apps.workloads.api.inputs import Body
from apps.workloads.api.schemas import INSTANT, TEXT, Schema, an_object, maybe
from apps.workloads.api.shapes import REPLAYED, decision
from apps.workloads.clock import now_ms
from apps.workloads.states import DECIDED, Approval

APPROVE: Schema = an_object({"input_hash": TEXT}, {"reason": TEXT})
REJECT: Schema = an_object({"input_hash": TEXT, "reason": TEXT})
DECISION: Schema = an_object(
    {
        "outcome": {"type": "string", "enum": [str(outcome) for outcome in DECIDED]},
        "decided_by": an_object({"kind": TEXT, "id": TEXT}),
        "decided_at_ms": INSTANT,
        "reason": maybe(TEXT),
        "input_hash": TEXT,
    }
)
SCHEMAS: dict[str, Schema] = {
    "WorkloadApprove": APPROVE,
    "WorkloadReject": REJECT,
    "WorkloadDecision": DECISION,
    "WorkloadDecided": an_object({"decision": ref("WorkloadDecision"), "state": TEXT}),
}
add_schemas(SCHEMAS)

_HASH = "037c9214eef74cc3887f3a4f085b4e17d76280dafd273b0ee160c09c4ba1cfd4"
_ERRORS = (
    "WORKLOAD_NOT_FOUND",
    "WORKLOAD_INVALID",
    "WORKLOAD_SECRET_REJECTED",
    "WORKLOAD_APPROVAL_NOT_REQUIRED",
    "WORKLOAD_APPROVER_NOT_PERMITTED",
    "WORKLOAD_APPROVAL_STALE",
    "WORKLOAD_APPROVAL_DECIDED",
    "WORKLOAD_TIMED_OUT",
    "WORKLOAD_APPROVAL_NOT_ACTIONABLE",
    "WORKLOAD_CONFLICT",
    "DATABASE_UNAVAILABLE",
)
_ANSWERS = {
    200: Answer(
        "The decision, the first one where it was made before.", ref("WorkloadDecided"), headers=("Idempotent-Replay",)
    )
}


class _DecisionView(KeyedView):
    """A decision on work that waits for one. Names the hash of the input that was looked at."""

    scopes = {"POST": "workload:approve"}
    outcome: ClassVar[Approval]
    body: ClassVar[Body]

    def decide(self, request: KeyedRequest, workload_id: str) -> Response:
        """Decide, or answer the decision that was made before."""
        given: dict[str, Any] = self.body.read(request.data)
        row, made, new = services.decide_approval(
            request.namespace,
            workload_id,
            self.outcome,
            by=request.principal,
            input_hash=given["input_hash"],
            reason=given.get("reason", ""),
            now_ms=now_ms(),
        )
        headers = {} if new else REPLAYED
        return Response({"decision": decision(made), "state": row.state}, headers=headers)


class ApproveView(_DecisionView):
    """Approval."""

    outcome = Approval.APPROVED
    body = Body(APPROVE)

    @describe(
        "approve_workload",
        "Approve work that waits for approval",
        tag="Workloads",
        body=APPROVE,
        body_examples={"as seen": {"input_hash": _HASH}},
        answers=_ANSWERS,
        errors=_ERRORS,
    )
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Approve it."""
        return self.decide(request, workload_id)


class RejectView(_DecisionView):
    """Rejection."""

    outcome = Approval.REJECTED
    body = Body(REJECT)

    @describe(
        "reject_workload",
        "Reject work that waits for approval, for good",
        tag="Workloads",
        body=REJECT,
        body_examples={"with a reason": {"input_hash": _HASH, "reason": "over budget"}},
        answers=_ANSWERS,
        errors=_ERRORS,
    )
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Reject it."""
        return self.decide(request, workload_id)
