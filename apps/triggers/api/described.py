"""What the OpenAPI document says of each route of this room: one decorator a method, in the order of `views.py`."""

from collections.abc import Callable
from typing import Any, TypeVar

from apps.http.openapi import Answer, describe, path_parameter, query_parameter, ref
from apps.state.limits import PAGE_DEFAULT, PAGE_MAX
from apps.triggers.api import schemas

F = TypeVar("F", bound=Callable[..., Any])

TAG = "Triggers"
_NEW: dict[str, Any] = {
    "trigger_id": "big-order",
    "source_collection": "orders",
    "change_kind": ["insert", "update"],
    "predicate": {"all": [{"field": "amount", "op": "gte", "value": 100}, {"field": "status", "equals": "paid"}]},
    "target_capability": "identity",
}
_TRIGGER: dict[str, Any] = {
    **_NEW,
    "tenant_id": "default",
    "application_id": "default",
    "environment": "production",
    "definition_revision": "trigger",
    "requested_by": {"kind": "service", "id": "k7"},
    "authorization_snapshot": None,
    "capability_snapshot": [],
    "connection_scopes": [],
    "priority": 0,
    "retry_policy": {"max_attempts": 3},
    "timeouts": {},
    "not_before_at_ms": None,
    "delay_ms": None,
    "enabled": True,
    "start_from": "now",
    "max_lag_operations": 1_000_000,
    "depth_limit": None,
    "state": "active",
    "reason": None,
    "resumes_at_ms": None,
    "revision": 1,
    "cursor": "0f3a9c5e7b1d4f60a2c8e4b6d8f01234-17",
    "created_at_ms": 1_700_000_000_000,
    "updated_at_ms": 1_700_000_000_000,
}
_QUARANTINED = {
    "source_change_id": "0f3a9c5e7b1d4f60a2c8e4b6d8f01234:18",
    "record_key": "orders:o-1",
    "change_kind": "insert",
    "trigger_revision": 1,
    "code": "WORKLOAD_SECRET_REJECTED",
    "message": "/input/record/password looks like a secret",
    "at_ms": 1_700_000_000_000,
}
_REVISION = {
    "revision": 2,
    "action": "revise",
    "author": "service:k7",
    "reason": "",
    "at_ms": 1_700_000_000_000,
    "diff": {"priority": [0, 5]},
}

ID = path_parameter("trigger", "The trigger's id.", schemas.ID)
LIMIT = query_parameter(
    "limit", "Items at most.", {"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": PAGE_DEFAULT}
)
CURSOR = query_parameter("cursor", "`next_cursor` of the page before.")
PAGE = ("VALIDATION_ERROR", "INVALID_CURSOR")
WRITE = ("TRIGGER_STORAGE_FAILURE", "TRIGGER_STATE_REPLAY_FAILED", "STORAGE_ERROR", "STORAGE_REBUILDING")
_DEFINE = ("TRIGGER_INVALID", "TRIGGER_UNAUTHORIZED", "CONFLICT", "CONTROL_PLANE_MISMATCH", *WRITE)
_ONE = Answer("The trigger as it stands now.", ref("Trigger"), _TRIGGER)

list_triggers = describe(
    "list_triggers",
    "List triggers",
    tag=TAG,
    parameters=[LIMIT, CURSOR],
    answers={200: Answer("A page, by id.", ref("TriggerPage"), {"triggers": [_TRIGGER], "next_cursor": None})},
    errors=PAGE,
)
define_trigger = describe(
    "define_trigger",
    "Define a trigger",
    tag=TAG,
    description="A known id is defined again: the new definition holds for every change not yet evaluated.",
    body=ref("NewTrigger"),
    body_examples={"large paid orders": _NEW},
    answers={201: Answer("Defined.", ref("Trigger"), _TRIGGER), 200: _ONE},
    errors=_DEFINE,
)
read_trigger = describe(
    "read_trigger", "Read a trigger", tag=TAG, parameters=[ID], answers={200: _ONE}, errors=["TRIGGER_NOT_FOUND"]
)
put_trigger = describe(
    "put_trigger",
    "Define a trigger as a whole",
    tag=TAG,
    parameters=[ID],
    body=ref("WholeTrigger"),
    body_examples={"large paid orders": {name: value for name, value in _NEW.items() if name != "trigger_id"}},
    answers={201: Answer("Defined.", ref("Trigger"), _TRIGGER), 200: _ONE},
    errors=_DEFINE,
)
patch_trigger = describe(
    "patch_trigger",
    "Change a trigger",
    tag=TAG,
    description="Changes the members named; null takes a member back to its default.",
    parameters=[ID],
    body=ref("TriggerPatch"),
    body_examples={"another threshold": {"predicate": {"field": "amount", "op": "gte", "value": 200}}},
    answers={200: _ONE},
    errors=["TRIGGER_NOT_FOUND", *_DEFINE],
)
delete_trigger = describe(
    "delete_trigger",
    "Archive a trigger",
    tag=TAG,
    description="It is evaluated and listed no more. Its id stays: defining it again revives it.",
    parameters=[ID],
    answers={204: Answer("Archived.")},
    errors=["TRIGGER_NOT_FOUND", "TRIGGER_STORAGE_FAILURE"],
)


def operation(
    name: str, summary: str, body: str, example: dict[str, Any], description: str, errors: list[str]
) -> Callable[[F], F]:
    return describe(
        f"{name}_trigger",
        summary,
        tag=TAG,
        description=description,
        parameters=[ID],
        body=ref(body),
        body_examples={"with a reason": example},
        answers={200: _ONE},
        errors=["TRIGGER_NOT_FOUND", *errors],
    )


enable_trigger = operation(
    "enable",
    "Enable a trigger",
    "TriggerStart",
    {"reason": "the importer is fixed", "start_from": "now"},
    "A disabled trigger is evaluated again, from `start_from` (default `now`); others keep their place.",
    ["TRIGGER_INVALID", "CONTROL_PLANE_MISMATCH", *WRITE],
)
disable_trigger = operation(
    "disable", "Disable a trigger", "TriggerReason", {"reason": "no longer wanted"}, "Changes pass it by.", [*WRITE]
)
pause_trigger = operation(
    "pause",
    "Pause a trigger",
    "TriggerPause",
    {"reason": "maintenance", "resumes_at_ms": 1_700_000_600_000},
    "It keeps its cursor, and catches up when it is resumed.",
    ["CONFLICT", *WRITE],
)
resume_trigger = operation(
    "resume",
    "Resume a trigger",
    "TriggerReason",
    {"reason": "done"},
    "It goes on from its cursor.",
    ["CONFLICT", *WRITE],
)
trigger_standing = describe(
    "trigger_standing",
    "Say how far behind a trigger is",
    tag=TAG,
    parameters=[ID],
    answers={
        200: Answer(
            "Lag, and what stands aside.",
            ref("TriggerStanding"),
            {"lag_operations": 0, "lag_ms": 0, "quarantined": 0, "open_replays": 0},
        )
    },
    errors=["TRIGGER_NOT_FOUND"],
)
trigger_status = describe(
    "trigger_status",
    "Say how the namespace's triggers stand",
    tag=TAG,
    answers={
        200: Answer(
            "Counts, cursors, lag, and what is held up.",
            ref("TriggerStatus"),
            {
                "namespace": "default",
                "triggers": 1,
                "states": {"active": 1, "paused": 0, "disabled": 0, "blocked": 0},
                "cursors": {"big-order": {"0f3a9c5e7b1d4f60a2c8e4b6d8f01234": 17}},
                "lag_operations": {"big-order": 0},
                "lag_ms": {"big-order": 0},
                "quarantined": 0,
                "held_up": [],
                "head": "0f3a9c5e7b1d4f60a2c8e4b6d8f01234-17",
                "mismatch": None,
            },
        )
    },
    errors=[],
)
list_quarantine = describe(
    "list_quarantined_changes",
    "List changes that could not become work",
    tag=TAG,
    parameters=[ID, LIMIT, CURSOR],
    answers={
        200: Answer(
            "A page, newest first.", ref("QuarantinePage"), {"quarantined": [_QUARANTINED], "next_cursor": None}
        )
    },
    errors=["TRIGGER_NOT_FOUND", *PAGE],
)
list_revisions = describe(
    "list_trigger_revisions",
    "List a trigger's revisions",
    tag=TAG,
    parameters=[ID, LIMIT, CURSOR],
    answers={
        200: Answer(
            "A page, newest first.", ref("TriggerRevisionPage"), {"revisions": [_REVISION], "next_cursor": None}
        )
    },
    errors=["TRIGGER_NOT_FOUND", *PAGE],
)
