"""Work that ended, asked for again with something changed: new work, with its own key, history and authority."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from apps.keys.principal import Principal
from apps.workloads.commands import Admission, ApprovalPolicy, CreateWorkload, RetryPolicy, Subject, Timeouts
from apps.workloads.errors import transition_denied
from apps.workloads.models import Request, Workload
from apps.workloads.services.admission import admit
from apps.workloads.services.moving import load
from apps.workloads.states import REQUIRABLE

PROVENANCE = "resubmit:"
"""How `trigger` of the new work begins; the id of the old one follows."""


def resubmit(
    namespace: str,
    workload_id: str,
    *,
    by: Principal,
    requested_by: Subject,
    idempotency_key: str,
    edits: Mapping[str, Any],
    now_ms: int,
    traceparent: str | None = None,
) -> Admission:
    """Make new work of what was asked for in work that has ended, with `edits` (members of `CreateWorkload`) changed.

    The old work stays as it is. What it waited for and when it might begin is not asked for again; approval, where it
    was needed, is needed anew. Raises WORKLOAD_NOT_FOUND, WORKLOAD_TRANSITION_DENIED for work that goes on, and what
    `admit` raises.
    """
    row = load(namespace, workload_id)
    if row.state not in REQUIRABLE:
        raise transition_denied(row.state, "resubmit")
    asked = _asked(row, Request.objects.get(pk=row.pk), requested_by, idempotency_key)
    if edits.get("definition_id", row.definition_id) != row.definition_id:
        asked = replace(asked, capability_snapshot=frozenset())  # what the old definition needed
    return admit(replace(asked, traceparent=traceparent, **edits), now_ms=now_ms, by=by)


def _asked(row: Workload, request: Request, requested_by: Subject, idempotency_key: str) -> CreateWorkload:
    return CreateWorkload(
        namespace=row.namespace,
        definition_id=row.definition_id,
        requested_by=requested_by,
        idempotency_key=idempotency_key,
        input=request.input,
        application_id=row.application_id,
        environment=request.environment,
        definition_revision=request.definition_revision,
        trigger=f"{PROVENANCE}{row.workload_id}",
        capability_snapshot=frozenset(request.capability_snapshot),
        connection_scopes=frozenset(request.connection_scopes),
        priority=row.priority,
        retry_policy=RetryPolicy.from_json(request.retry_policy),
        timeouts=Timeouts(**(row.timeouts or {})),
        approval=None if request.approval is None else ApprovalPolicy.from_json(request.approval),
    )
