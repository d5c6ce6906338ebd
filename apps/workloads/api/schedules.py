"""The schedules' routes: shapes, documentation and views. Thin: what happens is in `services/scheduling.py`."""

from typing import Any, ClassVar

from rest_framework.response import Response

from apps.http.addresses import location
from apps.http.openapi import Answer, add_schemas, describe, query_parameter, ref
from apps.keys.views import KeyedRequest, KeyedView
from apps.state import cursors
from apps.workloads import cron, limits
from apps.workloads.api import inputs
from apps.workloads.api.paging import limit_of, only_known
from apps.workloads.api.schemas import CREATE, INSTANT, TEXT, Schema, an_object, array, maybe
from apps.workloads.clock import now_ms
from apps.workloads.models import Schedule
from apps.workloads.services import scheduling
from apps.workloads.services.scheduling import ScheduleDefinition
from apps.workloads.states import MissedRuns, ScheduleState

_TAG = "Schedules"
_WORK = (
    "input",
    "application_id",
    "environment",
    "definition_revision",
    "capability_snapshot",
    "connection_scopes",
    "priority",
    "retry_policy",
    "timeouts",
    "approval",
)
WORK: Schema = an_object({"definition_id": TEXT}, {name: CREATE["properties"][name] for name in _WORK})
DEFINE: Schema = an_object(
    {
        "schedule_id": TEXT,
        "expression": {**TEXT, "description": "Five cron fields: minute, hour, day of month, month, day of week."},
        "work": WORK,
    },
    {
        "time_zone": {**TEXT, "default": "UTC", "description": "An IANA name, such as Europe/Berlin."},
        "missed": {
            "type": "string",
            "enum": list(MissedRuns),
            "default": "one",
            "description": "Due times that pass while no worker runs: the last is made up for, all are, or none is.",
        },
    },
)
REASON: Schema = an_object({}, {"reason": TEXT})
SCHEDULE: Schema = an_object(
    {
        "schedule_id": TEXT,
        "tenant_id": TEXT,
        "expression": TEXT,
        "time_zone": TEXT,
        "missed": {"type": "string", "enum": list(MissedRuns)},
        "work": WORK,
        "requested_by": an_object({"kind": TEXT, "id": TEXT}),
        "state": {"type": "string", "enum": list(ScheduleState)},
        "next_at_ms": maybe(INSTANT),
        "upcoming_at_ms": array(INSTANT),
        "last_at_ms": maybe(INSTANT),
        "last_workload_id": maybe(TEXT),
        "failure": {**maybe(TEXT), "description": "Why the last due time made no work."},
        "revision": {"type": "integer"},
        "created_at_ms": INSTANT,
        "updated_at_ms": INSTANT,
    }
)
add_schemas(
    {
        "ScheduleDefine": DEFINE,
        "ScheduleReason": REASON,
        "Schedule": SCHEDULE,
        "SchedulePage": an_object({"schedules": array(ref("Schedule")), "next_cursor": maybe(TEXT)}),
    }
)
DEFINITION = inputs.Body(DEFINE)
_REASON = inputs.Body(REASON)


def shown(row: Schedule, now: int) -> dict[str, Any]:
    """Return a schedule with its next due times."""
    upcoming: list[int] = []
    if row.next_at_ms is not None:
        upcoming = cron.upcoming(row.expression, row.time_zone, max(row.next_at_ms - 1, now), limits.UPCOMING)
    return {
        "schedule_id": row.schedule_id,
        "tenant_id": row.namespace,
        "expression": row.expression,
        "time_zone": row.time_zone,
        "missed": row.missed,
        "work": row.work,
        "requested_by": {"kind": row.requester_kind, "id": row.requester_id},
        "state": row.state,
        "next_at_ms": row.next_at_ms,
        "upcoming_at_ms": upcoming,
        "last_at_ms": row.last_at_ms,
        "last_workload_id": row.last_workload_id or None,
        "failure": row.failure or None,
        "revision": row.revision,
        "created_at_ms": row.created_at_ms,
        "updated_at_ms": row.updated_at_ms,
    }


def definition(data: Any, namespace: str) -> ScheduleDefinition:
    """Return what a body defines. Raises VALIDATION_ERROR."""
    body = DEFINITION.read(data)
    return ScheduleDefinition(
        namespace=namespace,
        schedule_id=body["schedule_id"],
        expression=body["expression"],
        work=body["work"],
        time_zone=body.get("time_zone", "UTC"),
        missed=MissedRuns(body.get("missed", MissedRuns.ONE)),
    )


class SchedulesView(KeyedView):
    """The schedules of a namespace."""

    scopes = {"GET": "workload:read", "POST": "workload:create"}

    @describe(
        "list_schedules",
        "List schedules in the order of their ids",
        tag=_TAG,
        answers={200: Answer("A page of schedules.", ref("SchedulePage"))},
        errors=["INVALID_CURSOR", "DATABASE_UNAVAILABLE"],
        parameters=[
            query_parameter(
                "limit",
                "Schedules at most.",
                {"type": "integer", "minimum": 1, "maximum": limits.MAX_PAGE, "default": limits.DEFAULT_PAGE},
            ),
            query_parameter("cursor", "`next_cursor` of the page before."),
        ],
    )
    def get(self, request: KeyedRequest) -> Response:
        """Page through them."""
        only_known(request.query_params, "limit", "cursor")
        bound = cursors.binding("schedules", request.namespace)
        after = cursors.decode(bound, request.query_params.get("cursor")) or ""
        rows, following = scheduling.page(request.namespace, after_id=after, limit=limit_of(request.query_params))
        now = now_ms()
        return Response(
            {"schedules": [shown(row, now) for row in rows], "next_cursor": cursors.encode(bound, following)}
        )

    @describe(
        "define_schedule",
        "Define a schedule, new or again",
        tag=_TAG,
        description="It goes on from now: due times that have passed make no work. Every due time makes one workload "
        "under the idempotency key `schedule:{schedule_id}:{due time in ms}`, with that instant as `not_before_at_ms`.",
        body=DEFINE,
        body_examples={
            "every working day at six in Berlin": {
                "schedule_id": "daily-report",
                "expression": "0 6 * * 1-5",
                "time_zone": "Europe/Berlin",
                "work": {"definition_id": "search", "input": {"collection": "orders", "query": "open"}},
            }
        },
        answers={
            200: Answer("The schedule, changed or as it was.", ref("Schedule")),
            201: Answer("The new schedule.", ref("Schedule"), headers=("Location",)),
        },
        errors=[
            "SCHEDULE_INVALID",
            "WORKLOAD_INVALID",
            "WORKLOAD_SECRET_REJECTED",
            "WORKLOAD_UNAUTHORIZED",
            "WORKLOAD_CONFLICT",
            "DATABASE_UNAVAILABLE",
        ],
    )
    def post(self, request: KeyedRequest) -> Response:
        """Define it."""
        now = now_ms()
        done = scheduling.define(
            definition(request.data, request.namespace),
            by=request.principal,
            requested_by=inputs.subject_of(request.principal),
            now_ms=now,
        )
        headers = location("schedules", done.schedule.schedule_id) if done.created else {}
        return Response(shown(done.schedule, now), status=201 if done.created else 200, headers=headers)


class ScheduleView(KeyedView):
    """One schedule."""

    scopes = {"GET": "workload:read", "DELETE": "workload:create"}

    @describe(
        "read_schedule",
        "Read one schedule and its next due times",
        tag=_TAG,
        answers={200: Answer("The schedule.", ref("Schedule"))},
        errors=["SCHEDULE_NOT_FOUND", "DATABASE_UNAVAILABLE"],
    )
    def get(self, request: KeyedRequest, schedule_id: str) -> Response:
        """Read it."""
        return Response(shown(scheduling.find(request.namespace, schedule_id), now_ms()))

    @describe(
        "delete_schedule",
        "Delete one schedule; the work it made stays",
        tag=_TAG,
        answers={204: Answer("Deleted.")},
        errors=["SCHEDULE_NOT_FOUND", "DATABASE_UNAVAILABLE"],
    )
    def delete(self, request: KeyedRequest, schedule_id: str) -> Response:
        """Delete it."""
        scheduling.delete(request.namespace, schedule_id, by=request.principal, now_ms=now_ms())
        return Response(status=204)


_OPERATED: dict[str, Any] = {
    "tag": _TAG,
    "body": REASON,
    "body_examples": {"with a reason": {"reason": "the printer is away"}},
    "answers": {200: Answer("The schedule as it stands now.", ref("Schedule"))},
    "errors": ["SCHEDULE_NOT_FOUND", "WORKLOAD_UNAUTHORIZED", "WORKLOAD_CONFLICT", "DATABASE_UNAVAILABLE"],
}


class _OperatedView(KeyedView):
    """The base of what is done to a schedule."""

    scopes = {"POST": "workload:create"}
    empty_body: ClassVar[Any] = {}


class PauseView(_OperatedView):
    """Due times that pass."""

    @describe("pause_schedule", "Let due times pass", **_OPERATED)
    def post(self, request: KeyedRequest, schedule_id: str) -> Response:
        """Pause it."""
        now, reason = now_ms(), _REASON.read(request.data).get("reason", "")
        row = scheduling.pause(request.namespace, schedule_id, by=request.principal, now_ms=now, reason=reason)
        return Response(shown(row, now))


class ResumeView(_OperatedView):
    """Going on."""

    @describe("resume_schedule", "Go on from now", **_OPERATED)
    def post(self, request: KeyedRequest, schedule_id: str) -> Response:
        """Resume it."""
        now, reason = now_ms(), _REASON.read(request.data).get("reason", "")
        row = scheduling.resume(request.namespace, schedule_id, by=request.principal, now_ms=now, reason=reason)
        return Response(shown(row, now))
