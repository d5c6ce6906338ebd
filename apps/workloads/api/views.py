"""The routes of this room. Thin: read the request, call one service function, give its result a shape."""

import threading
import time
from typing import Any, ClassVar

from rest_framework.response import Response

from apps.http import budget, stopping, trace
from apps.http.addresses import location
from apps.keys.views import KeyedRequest, KeyedView
from apps.state import cursors
from apps.workloads import limits, services
from apps.workloads.api import described, inputs, shapes
from apps.workloads.api.paging import invalid_parameter, limit_of, only_known
from apps.workloads.bell import bell
from apps.workloads.clock import now_ms
from apps.workloads.commands import Claim, ClaimNext, Fence, Report
from apps.workloads.errors import WorkloadError
from apps.workloads.services import reading
from apps.workloads.states import RESTING

_waiting = threading.BoundedSemaphore(limits.MAX_WAITING_CLAIMS)


class WorkloadsView(KeyedView):
    """All work of a namespace."""

    scopes = {"GET": "workload:read", "POST": "workload:create"}

    @described.list_workloads
    def get(self, request: KeyedRequest) -> Response:
        """Page through the work, newest first."""
        given = request.query_params
        only_known(given, *reading.FILTERS, "limit", "cursor")
        filters = {name: given[name] for name in reading.FILTERS if name in given}
        if "state" in filters and filters["state"] not in RESTING:
            raise invalid_parameter("state", f"Must be one of {', '.join(RESTING)}.")
        bound = cursors.binding("workloads", request.namespace, sorted(filters.items()))
        position = cursors.decode_number(bound, given.get("cursor"))
        rows, after = reading.page(
            request.namespace,
            filters=filters,
            after=position,
            limit=limit_of(given),
        )
        cursor = cursors.encode(bound, None if after is None else str(after))
        return Response({"workloads": [shapes.summary(row) for row in rows], "next_cursor": cursor})

    @described.create_workload
    def post(self, request: KeyedRequest) -> Response:
        """Create work, or give what the same request made before."""
        traceparent = trace.parent(request.META)
        command = inputs.create(
            request.data, namespace=request.namespace, principal=request.principal, traceparent=traceparent
        )
        admission = services.admit(command, now_ms=now_ms(), by=request.principal)
        workload_id = admission.workload.workload_id
        headers = {**location("workloads", workload_id), **({} if admission.created else shapes.REPLAYED)}
        found = reading.get(request.namespace, workload_id)
        return Response(shapes.workload(found), status=201, headers=headers)


class CountsView(KeyedView):
    """How much work there is."""

    scopes = {"GET": "workload:read"}

    @described.count_workloads
    def get(self, request: KeyedRequest) -> Response:
        """Count it by state."""
        return Response({"states": reading.counts(request.namespace)})


class WorkloadView(KeyedView):
    """One workload."""

    scopes = {"GET": "workload:read"}

    @described.read_workload
    def get(self, request: KeyedRequest, workload_id: str) -> Response:
        """Read it."""
        return Response(shapes.workload(reading.get(request.namespace, workload_id)))


class HistoryView(KeyedView):
    """What happened to one workload."""

    scopes = {"GET": "workload:read"}

    @described.read_history
    def get(self, request: KeyedRequest, workload_id: str) -> Response:
        """Read it."""
        return Response(shapes.history(reading.history(request.namespace, workload_id)))


class ResultView(KeyedView):
    """The result of one workload."""

    scopes = {"GET": "workload:read"}

    @described.read_result
    def get(self, request: KeyedRequest, workload_id: str) -> Response:
        """Read it."""
        row, found = reading.result(request.namespace, workload_id)
        result = None if found is None else shapes.result(workload_id, found)
        return Response({"workload_id": workload_id, "state": row.state, "result": result})


class ClaimView(KeyedView):
    """A claim of one workload."""

    scopes = {"POST": "workload:claim"}

    @described.claim_workload
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Claim it."""
        body = inputs.CLAIM_BY_ID.read(request.data)
        command = inputs.claim_by_id(body, workload_id, namespace=request.namespace, principal=request.principal)
        return Response(shapes.claim(services.claim(command, now_ms=now_ms())))


class ClaimNextView(KeyedView):
    """Claims of whatever is next."""

    scopes = {"POST": "workload:claim"}

    @described.claim_next
    def post(self, request: KeyedRequest) -> Response:
        """Claim the next work, waiting for some where asked to."""
        body = inputs.CLAIM_NEXT.read(request.data)
        command = inputs.claim_next(body, namespace=request.namespace, principal=request.principal)
        claims = _claim_waiting(request, command, body.get("wait_ms", 0))
        return Response({"claims": [shapes.claim(each) for each in claims]})


class WorkerView(KeyedView):
    """The base of what a worker says about a claim it holds."""

    scopes = {"POST": "workload:execute"}

    @staticmethod
    def read(request: KeyedRequest, workload_id: str, body: inputs.Body) -> tuple[dict[str, Any], Fence]:
        """Return the body and the claim it speaks for, which must be the caller's to speak for."""
        data = body.read(request.data)
        return data, inputs.fence(data, workload_id, namespace=request.namespace, principal=request.principal)


class StartView(WorkerView):
    """Begun."""

    @described.start_workload
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Start the attempt."""
        _, fence = self.read(request, workload_id, inputs.FENCE)
        services.start(fence, now_ms=now_ms())
        return Response(status=204)


class HeartbeatView(WorkerView):
    """Still alive."""

    @described.heartbeat_workload
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Extend the lease."""
        body, fence = self.read(request, workload_id, inputs.HEARTBEAT)
        answer = services.heartbeat(fence, extend_ms=body["extend_ms"], now_ms=now_ms())
        return Response(shapes.heartbeat(answer))


class CheckpointView(WorkerView):
    """Something to go on from."""

    @described.checkpoint_workload
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Keep it."""
        body, fence = self.read(request, workload_id, inputs.CHECKPOINT)
        made = services.checkpoint(fence, body["state"], now_ms=now_ms())
        return Response(shapes.checkpointed(workload_id, made))


class ContextView(WorkerView):
    """What to go on with."""

    @described.read_context
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Read it; POST because it carries the claim."""
        body, fence = self.read(request, workload_id, inputs.CONTEXT)
        names = tuple(body.get("secret_references", ()))
        return Response(shapes.context(services.context(fence, now_ms=now_ms(), secret_references=names)))


class CompleteView(WorkerView):
    """Done."""

    @described.complete_workload
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Record the success."""
        body, fence = self.read(request, workload_id, inputs.COMPLETE)
        result, stored = services.complete(fence, inputs.completion(body), now_ms=now_ms())
        return Response(shapes.result(workload_id, result), headers={} if stored else shapes.REPLAYED)


class CompleteManyView(KeyedView):
    """Many done at once."""

    scopes = {"POST": "workload:execute"}

    @described.complete_workloads
    def post(self, request: KeyedRequest) -> Response:
        """Record the successes together."""
        body = inputs.COMPLETE_MANY.read(request.data)
        told = inputs.reports(body, namespace=request.namespace, principal=request.principal)
        reports = [Report(fence=fence, completion=inputs.completion(each)) for fence, each in told]
        answers = services.complete_many(reports, now_ms=now_ms())
        return Response(
            {
                "answers": [
                    {"workload_id": fence.workload_id, "error": shapes.refused(answer)}
                    if isinstance(answer, WorkloadError)
                    else {"workload_id": fence.workload_id, "result": shapes.result(fence.workload_id, answer)}
                    for (fence, _), answer in zip(told, answers, strict=True)
                ]
            }
        )


class FailManyView(KeyedView):
    """Many failed at once."""

    scopes = {"POST": "workload:execute"}

    @described.fail_workloads
    def post(self, request: KeyedRequest) -> Response:
        """Record the failures."""
        body = inputs.FAIL_MANY.read(request.data)
        told = inputs.reports(body, namespace=request.namespace, principal=request.principal)
        answers = services.fail_many([(fence, inputs.failure(each)) for fence, each in told], now_ms=now_ms())
        return Response(
            {
                "answers": [
                    {"workload_id": fence.workload_id, "error": shapes.refused(answer)}
                    if isinstance(answer, WorkloadError)
                    else {"workload_id": fence.workload_id, "state": answer.state}
                    for (fence, _), answer in zip(told, answers, strict=True)
                ]
            }
        )


class FailView(WorkerView):
    """Failed."""

    @described.fail_workload
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Record the failure."""
        body, fence = self.read(request, workload_id, inputs.FAIL)
        row = services.fail(fence, inputs.failure(body), now_ms=now_ms())
        return Response({"state": row.state})


class CancelledView(WorkerView):
    """Given up as asked."""

    @described.confirm_cancellation
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Confirm the cancellation."""
        _, fence = self.read(request, workload_id, inputs.FENCE)
        services.confirm_cancel(fence, now_ms=now_ms())
        return Response(status=204)


class CancelView(KeyedView):
    """A wish to end work."""

    scopes = {"POST": "workload:cancel"}
    empty_body: ClassVar[Any] = {}

    @described.cancel_workload
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Cancel it, or ask its worker to give it up."""
        body = inputs.CANCEL.read(request.data)
        row = services.cancel(
            request.namespace,
            workload_id,
            actor=request.principal.label,
            now_ms=now_ms(),
            reason=body.get("reason", ""),
            grace_ms=body.get("grace_ms", limits.DEFAULT_GRACE_MS),
        )
        return Response({"state": row.state})


class RetryView(KeyedView):
    """A wish to try dead work again."""

    scopes = {"POST": "workload:retry"}
    empty_body: ClassVar[Any] = {}

    @described.retry_workload
    def post(self, request: KeyedRequest, workload_id: str) -> Response:
        """Arm it again."""
        body = inputs.RETRY.read(request.data)
        services.retry(
            request.namespace,
            workload_id,
            actor=request.principal.label,
            now_ms=now_ms(),
            reason=body.get("reason", ""),
        )
        return Response(status=204)


def _claim_waiting(request: KeyedRequest, command: ClaimNext, wait_ms: int) -> list[Claim]:
    """Claim now or, within `wait_ms`, as soon as there is work; at once where too many wait in this process.

    Raises ApiError AUTHENTICATION_REQUIRED where the key ended meanwhile: it claims nothing then.
    """
    until = time.monotonic() + wait_ms / 1000
    heard = bell().number()
    claims = services.claim_next(command, now_ms=now_ms())
    if claims or not wait_ms or not _waiting.acquire(blocking=False):
        return claims
    try:
        with budget.waiting(wait_ms / 1000):
            while not claims and not stopping.begun() and (left := until - time.monotonic()) > 0:
                bell().wait(heard, min(left, limits.WAITING_LOOK_S))
                heard = bell().number()
                request.require_still_held()
                claims = services.claim_next(command, now_ms=now_ms())
        return claims
    finally:
        _waiting.release()
