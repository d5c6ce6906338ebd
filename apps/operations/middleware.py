"""What every request passes on this room's account: counted and logged, admitted or refused, given a deadline."""

import logging
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.http import budget, envelope, measures, trace
from apps.http.errors import ApiError
from apps.operations.admission import Admission, Lane, lane_of, overloaded
from apps.operations.statements import bounded_statements

access = logging.getLogger("feltdb.access")
logger = logging.getLogger("feltdb.operations")

GetResponse = Callable[[HttpRequest], HttpResponseBase]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


def arrived() -> float:
    """Return when the request on this thread had come in whole: the time it queued for a thread counts."""
    return budget.arrived_at.get() or time.monotonic()


@cache
def _measures(route: str, method: str, status: int) -> tuple[Any, Any]:
    """Return the measures of requests like this one, looked up once: there are few kinds."""
    return measures.REQUESTS.labels(route, method, status), measures.DURATION.labels(route)


class ObservationMiddleware:
    """Counts every request by route, method and status, measures it, and logs it as one event where asked to."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._log = settings.ACCESS_LOG

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = arrived()
        answer = self.get_response(request)
        seconds = time.monotonic() - started
        match = request.resolver_match
        route = "/" + match.route if match is not None else "none"
        method = request.method if request.method in _METHODS else "OTHER"
        requests, duration = _measures(route, method, answer.status_code)
        requests.inc()
        duration.observe(seconds)
        refusal: ApiError | None = getattr(answer, "refusal", None)
        if refusal is not None:
            measures.REFUSALS.labels(refusal.code).inc()
        if self._log:
            self._event(request, answer, route, seconds, refusal)
        return answer

    def _event(
        self, request: HttpRequest, answer: HttpResponseBase, route: str, seconds: float, refusal: ApiError | None
    ) -> None:
        principal = getattr(request, "principal", None)
        members = {
            "method": request.method,
            "path": request.path,
            "route": route,
            "status": answer.status_code,
            "duration_ms": round(seconds * 1000, 1),
            "remote": request.META.get("REMOTE_ADDR", ""),
            "key_id": getattr(principal, "key_id", None),
            "code": refusal.code if refusal is not None else None,
            "traceparent": trace.parent(request.META),
        }
        access.info("request", extra={name: value for name, value in members.items() if value is not None})


class AdmissionMiddleware:
    """Gives each request a permit, tried and never waited for, and a deadline that everything it does can see.

    A read that is done only after its deadline is refused like one that was cut off; a write that is done late is
    answered truly, since it may have changed something.
    """

    def __init__(self, get_response: GetResponse, *, admission: Admission | None = None) -> None:
        self.get_response = get_response
        self._deadline_s = settings.REQUEST_DEADLINE_MS / 1000
        self._admission = admission or Admission(
            permits=settings.IN_FLIGHT_PERMITS,
            console_permits=settings.CONSOLE_PERMITS,
            sign_in_permits=settings.SIGN_IN_PERMITS,
        )

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        lane = lane_of(request)
        deadline = arrived() + self._deadline_s
        if lane is not Lane.PROBE and time.monotonic() >= deadline:
            measures.DEADLINES.labels(lane, "queued").inc()
            return envelope.response(request, budget.late(committed=False))
        if not self._admission.enter(lane):
            measures.SHED.labels(lane).inc()
            return envelope.response(request, overloaded())
        with budget.spending(budget.Budget(deadline, lambda: self._admission.leave(lane))) as spent:
            request.deadline = deadline  # type: ignore[attr-defined]
            with bounded_statements():
                answer = self.get_response(request)
            return self._in_time(request, answer, lane, spent)

    def _in_time(
        self, request: HttpRequest, answer: HttpResponseBase, lane: Lane, spent: budget.Budget
    ) -> HttpResponseBase:
        refusal: ApiError | None = getattr(answer, "refusal", None)
        if refusal is not None and refusal.members.get("reason") == budget.DEADLINE:
            measures.DEADLINES.labels(lane, "refused").inc()
        elif refusal is not None and refusal.code == "COMMIT_UNKNOWN" and spent.left_s() <= 0:
            measures.DEADLINES.labels(lane, "unknown").inc()
        elif spent.left_s() <= 0 and lane is not Lane.PROBE:
            if request.method in _READS and answer.status_code < 500:
                measures.DEADLINES.labels(lane, "refused").inc()
                if answer.streaming:
                    answer.close()
                return envelope.response(request, budget.late())
            measures.DEADLINES.labels(lane, "late").inc()
            logger.warning("answered %.0f ms after the deadline", -spent.left_s() * 1000, extra={"path": request.path})
        return answer
