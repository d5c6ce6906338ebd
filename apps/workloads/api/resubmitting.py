"""Asking again, with something changed, for work that ended: shape, documentation and view of the one route."""

from typing import Any

from rest_framework.response import Response

from apps.http import trace
from apps.http.addresses import location
from apps.http.openapi import Answer, add_schemas, describe, ref
from apps.keys.views import KeyedRequest, KeyedView
from apps.workloads import services, wanted
from apps.workloads.api import inputs, schemas, shapes
from apps.workloads.clock import now_ms
from apps.workloads.services import reading

_EDITABLE = (
    "input",
    "definition_id",
    "definition_revision",
    "capability_snapshot",
    "priority",
    "retry_policy",
    "timeouts",
    "not_before_at_ms",
)
RESUBMIT: schemas.Schema = schemas.an_object(
    {"idempotency_key": schemas.TEXT}, {name: schemas.CREATE["properties"][name] for name in _EDITABLE}
)
add_schemas({"WorkloadResubmit": RESUBMIT})
_BODY = inputs.Body(RESUBMIT)


class ResubmitView(KeyedView):
    """New work of what an ended one was asked for. Its answer shows the input, so it needs `workload:read` too."""

    scopes = {"POST": "workload:create"}
    also = {"POST": ("workload:read",)}

    @describe(
        "resubmit_workload",
        "Ask again, with something changed, for work that ended",
        tag="Workloads",
        description="Makes new work; the old one stays as it is. Members left out are as they were, save dependencies "
        "and `not_before_at_ms`. Needs `workload:read` too.",
        body=RESUBMIT,
        body_examples={"another input": {"idempotency_key": "order-7-again", "input": {"order": 7, "printer": "b"}}},
        answers={201: Answer("The new work.", ref("Workload"), headers=("Location", "Idempotent-Replay"))},
        errors=[
            "WORKLOAD_NOT_FOUND",
            "WORKLOAD_TRANSITION_DENIED",
            "WORKLOAD_SECRET_REJECTED",
            "WORKLOAD_INVALID",
            "WORKLOAD_UNAUTHORIZED",
            "CONFLICT",
            "WORKLOAD_CONFLICT",
            "DATABASE_UNAVAILABLE",
        ],
    )
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Make the new work, or give what the same request made before."""
        body: dict[str, Any] = _BODY.read(request.data)
        admission = services.resubmit(
            request.namespace,
            workload_id,
            by=request.principal,
            requested_by=inputs.subject_of(request.principal),
            idempotency_key=body["idempotency_key"],
            edits=wanted.members({name: body[name] for name in _EDITABLE if name in body}),
            now_ms=now_ms(),
            traceparent=trace.parent(request.META),
        )
        made = admission.workload.workload_id
        headers = {**location("workloads", made), **({} if admission.created else shapes.REPLAYED)}
        return Response(shapes.workload(reading.get(request.namespace, made)), status=201, headers=headers)
