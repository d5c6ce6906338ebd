"""What the OpenAPI document says of each route of this room: one decorator a method, in the order of `views.py`."""

from collections.abc import Callable
from typing import Any, TypeVar

from apps.http.openapi import Answer, describe, path_parameter, query_parameter, ref
from apps.state.limits import PAGE_DEFAULT, PAGE_MAX
from apps.triggers.api import schemas

F = TypeVar("F", bound=Callable[..., Any])

_TAG = "Triggers"
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

_ID = path_parameter("trigger", "The trigger's id.", schemas.ID)
_LIMIT = query_parameter(
    "limit", "Items at most.", {"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": PAGE_DEFAULT}
)
_CURSOR = query_parameter("cursor", "`next_cursor` of the page before.")
_PAGE = ("VALIDATION_ERROR", "INVALID_CURSOR")
_WRITE = ("TRIGGER_STORAGE_FAILURE", "TRIGGER_STATE_REPLAY_FAILED", "STORAGE_ERROR", "STORAGE_REBUILDING")
_DEFINE = ("TRIGGER_INVALID", "TRIGGER_UNAUTHORIZED", "CONFLICT", "CONTROL_PLANE_MISMATCH", *_WRITE)
_ONE = Answer("The trigger as it stands now.", ref("Trigger"), _TRIGGER)

list_triggers = describe(
    "list_triggers",
    "List triggers",
    tag=_TAG,
    parameters=[_LIMIT, _CURSOR],
    answers={200: Answer("A page, by id.", ref("TriggerPage"), {"triggers": [_TRIGGER], "next_cursor": None})},
    errors=_PAGE,
)
define_trigger = describe(
    "define_trigger",
    "Define a trigger",
    tag=_TAG,
    description="A known id is defined again: the new definition holds for every change not yet evaluated.",
    body=ref("NewTrigger"),
    body_examples={"large paid orders": _NEW},
    answers={201: Answer("Defined.", ref("Trigger"), _TRIGGER), 200: _ONE},
    errors=_DEFINE,
)
read_trigger = describe(
    "read_trigger", "Read a trigger", tag=_TAG, parameters=[_ID], answers={200: _ONE}, errors=["TRIGGER_NOT_FOUND"]
)
put_trigger = describe(
    "put_trigger",
    "Define a trigger as a whole",
    tag=_TAG,
    parameters=[_ID],
    body=ref("WholeTrigger"),
    body_examples={"large paid orders": {name: value for name, value in _NEW.items() if name != "trigger_id"}},
    answers={201: Answer("Defined.", ref("Trigger"), _TRIGGER), 200: _ONE},
    errors=_DEFINE,
)
patch_trigger = describe(
    "patch_trigger",
    "Change a trigger",
    tag=_TAG,
    description="Changes the members named; null takes a member back to its default.",
    parameters=[_ID],
    body=ref("TriggerPatch"),
    body_examples={"another threshold": {"predicate": {"field": "amount", "op": "gte", "value": 200}}},
    answers={200: _ONE},
    errors=["TRIGGER_NOT_FOUND", *_DEFINE],
)
delete_trigger = describe(
    "delete_trigger",
    "Archive a trigger",
    tag=_TAG,
    description="It is evaluated and listed no more. Its id stays: defining it again revives it.",
    parameters=[_ID],
    answers={204: Answer("Archived.")},
    errors=["TRIGGER_NOT_FOUND", "TRIGGER_STORAGE_FAILURE"],
)


def _operation(
    name: str, summary: str, body: str, example: dict[str, Any], description: str, errors: list[str]
) -> Callable[[F], F]:
    return describe(
        f"{name}_trigger",
        summary,
        tag=_TAG,
        description=description,
        parameters=[_ID],
        body=ref(body),
        body_examples={"with a reason": example},
        answers={200: _ONE},
        errors=["TRIGGER_NOT_FOUND", *errors],
    )


enable_trigger = _operation(
    "enable",
    "Enable a trigger",
    "TriggerStart",
    {"reason": "the importer is fixed", "start_from": "now"},
    "A disabled trigger is evaluated again, from `start_from` (default `now`); others keep their place.",
    ["TRIGGER_INVALID", "CONTROL_PLANE_MISMATCH", *_WRITE],
)
disable_trigger = _operation(
    "disable", "Disable a trigger", "TriggerReason", {"reason": "no longer wanted"}, "Changes pass it by.", [*_WRITE]
)
pause_trigger = _operation(
    "pause",
    "Pause a trigger",
    "TriggerPause",
    {"reason": "maintenance", "resumes_at_ms": 1_700_000_600_000},
    "It keeps its cursor, and catches up when it is resumed.",
    ["CONFLICT", *_WRITE],
)
resume_trigger = _operation(
    "resume",
    "Resume a trigger",
    "TriggerReason",
    {"reason": "done"},
    "It goes on from its cursor.",
    ["CONFLICT", *_WRITE],
)
_CHANGE = "0f3a9c5e7b1d4f60a2c8e4b6d8f01234:18"
_REPLAY = {
    "number": 1,
    "from_sequence": 0,
    "to_sequence": 17,
    "position": 0,
    "made": 0,
    "author": "service:k7",
    "reason": "the program was wrong",
    "created_at_ms": 1_700_000_000_000,
    "ended_at_ms": None,
    "outcome": None,
    "message": "",
}
_SAMPLED = {"matched": 0, "samples": []}
_DRY_RUN = {
    "from": "0f3a9c5e7b1d4f60a2c8e4b6d8f01234-0",
    "to": "0f3a9c5e7b1d4f60a2c8e4b6d8f01234-18",
    "next_from": None,
    "operations": 18,
    "changes": 12,
    "first_at_ms": 1_700_000_000_000,
    "last_at_ms": 1_700_000_060_000,
    "matched": 1,
    "samples": [
        {
            "source_change_id": _CHANGE,
            "record_key": "orders:o-1",
            "change_kind": "insert",
            "at_ms": 1_700_000_060_000,
        }
    ],
    "refused": {**_SAMPLED, "codes": {}},
    "against": {"matched": 1, "only_new": _SAMPLED, "only_old": _SAMPLED},
}
_EXPLAINED = {
    "trigger_id": "big-order",
    "revision": 1,
    "change": {
        "source_change_id": _CHANGE,
        "record_key": "orders:o-1",
        "change_kind": "insert",
        "transaction_id": None,
        "at_ms": 1_700_000_000_000,
    },
    "matched": False,
    "reason": "predicate_value_mismatch",
    "checks": [{"check": "state", "passes": True, "wanted": "active", "found": "active"}],
    "predicate": {
        "says": "predicate_value_mismatch",
        "clause": {"field": "amount", "op": "gte", "value": 100},
        "found": 99,
    },
    "input_digest": "sha256:b1dc57f75ee3ad3847e3060748a6da1ef72e0818e3f46ca2f97af6157d4bf6ae",
    "evaluated": True,
    "outcome": {"kind": "no_match", "because": "the predicate does not hold"},
}

rebase_trigger = _operation(
    "rebase",
    "Move a trigger's cursor",
    "TriggerRebase",
    {"to": "now", "reason": "history was compacted"},
    "To `now`, `beginning` or a cursor. A blocked trigger goes on from there. What is gone back over finds its work.",
    ["CONFLICT", "TRIGGER_INVALID", "CONTROL_PLANE_MISMATCH", *_WRITE],
)
skip_change = describe(
    "skip_trigger_change",
    "Pass one change over",
    tag=_TAG,
    description="A change in quarantine is given up; one the trigger has not come to yet will make no work.",
    parameters=[_ID],
    body=ref("TriggerChange"),
    body_examples={"one change": {"change": _CHANGE, "reason": "a test record"}},
    answers={200: Answer("Passed over.", ref("ChangeName"), {"source_change_id": _CHANGE})},
    errors=["TRIGGER_NOT_FOUND", "NOT_FOUND", "FEED_COMPACTED", "CONFLICT", *_WRITE],
)
retry_change = describe(
    "retry_trigger_change",
    "Make the work of a quarantined change",
    tag=_TAG,
    description="By the trigger as it is defined now. Answers the refusal where it still cannot become work.",
    parameters=[_ID],
    body=ref("TriggerChange"),
    body_examples={"one change": {"change": _CHANGE, "reason": "the limit was raised"}},
    answers={
        200: Answer(
            "Its work.",
            ref("TriggeredWorkload"),
            {
                "trigger_id": "big-order",
                "source_change_id": _CHANGE,
                "workload_id": "workload_3ae811f17c504652af3a94c5",
                "duplicate": False,
            },
        )
    },
    errors=[
        "TRIGGER_NOT_FOUND",
        "NOT_FOUND",
        "FEED_COMPACTED",
        "CONFLICT",
        "CONTROL_PLANE_MISMATCH",
        "WORKLOAD_INVALID",
        "WORKLOAD_SECRET_REJECTED",
        "WORKLOAD_UNAUTHORIZED",
        *_WRITE,
    ],
)
replay_trigger = describe(
    "replay_trigger",
    "Evaluate old changes once more",
    tag=_TAG,
    description="Each change after `from` up to `to` that matches makes work once more, under a key of its own.",
    parameters=[_ID],
    body=ref("NewTriggerReplay"),
    body_examples={"everything": {"from": "beginning", "to": "now", "reason": "the program was wrong"}},
    answers={202: Answer("Ordered.", ref("TriggerReplay"), _REPLAY)},
    errors=["TRIGGER_NOT_FOUND", "CONFLICT", "TRIGGER_INVALID", "CONTROL_PLANE_MISMATCH", *_WRITE],
)
cancel_replay = describe(
    "cancel_trigger_replay",
    "End a replay where it stands",
    tag=_TAG,
    parameters=[_ID, path_parameter("number", "The replay's number.", {"type": "integer", "minimum": 0})],
    body=ref("TriggerReason"),
    body_examples={"with a reason": {"reason": "enough"}},
    answers={200: Answer("Ended.", ref("TriggerReplay"), {**_REPLAY, "outcome": "cancelled", "ended_at_ms": 1})},
    errors=["TRIGGER_NOT_FOUND", "NOT_FOUND", "CONFLICT", "TRIGGER_STORAGE_FAILURE"],
)
list_replays = describe(
    "list_trigger_replays",
    "List a trigger's replays",
    tag=_TAG,
    parameters=[_ID, _LIMIT, _CURSOR],
    answers={
        200: Answer("A page, newest first.", ref("TriggerReplayPage"), {"replays": [_REPLAY], "next_cursor": None})
    },
    errors=["TRIGGER_NOT_FOUND", *_PAGE],
)
dry_run_trigger = describe(
    "dry_run_trigger",
    "Try a definition on the real feed",
    tag=_TAG,
    description="`definition` changes the trigger of this id, or is a whole one. A stored trigger that says something "
    "else is run beside it. Bounded: `next_from` goes on. Needs `state:read` on the collection.",
    parameters=[_ID],
    body=ref("TriggerDryRun"),
    body_examples={"another threshold": {"definition": {"predicate": {"field": "amount", "op": "gte", "value": 200}}}},
    answers={200: Answer("What it would have fired for.", ref("TriggerDryRunResult"), _DRY_RUN)},
    errors=["TRIGGER_INVALID", "TRIGGER_STATE_REPLAY_FAILED", "STORAGE_ERROR", "STORAGE_REBUILDING"],
)
explain_trigger = describe(
    "explain_trigger",
    "Say why a trigger did or did not fire",
    tag=_TAG,
    description="Each check, each clause with the value it found, and what became of the change. Needs `state:read` on "
    "the collection.",
    parameters=[
        _ID,
        query_parameter("change", "The change: its `source_change_id`, or its sequence.", {"type": "string"}),
    ],
    answers={200: Answer("The decision, taken apart.", ref("TriggerExplanation"), _EXPLAINED)},
    errors=[
        "VALIDATION_ERROR",
        "TRIGGER_NOT_FOUND",
        "NOT_FOUND",
        "FEED_COMPACTED",
        "TRIGGER_STATE_REPLAY_FAILED",
        "STORAGE_ERROR",
        "STORAGE_REBUILDING",
    ],
)
trigger_standing = describe(
    "trigger_standing",
    "Say how far behind a trigger is",
    tag=_TAG,
    parameters=[_ID],
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
    tag=_TAG,
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
    tag=_TAG,
    parameters=[_ID, _LIMIT, _CURSOR],
    answers={
        200: Answer(
            "A page, newest first.", ref("QuarantinePage"), {"quarantined": [_QUARANTINED], "next_cursor": None}
        )
    },
    errors=["TRIGGER_NOT_FOUND", *_PAGE],
)
list_revisions = describe(
    "list_trigger_revisions",
    "List a trigger's revisions",
    tag=_TAG,
    parameters=[_ID, _LIMIT, _CURSOR],
    answers={
        200: Answer(
            "A page, newest first.", ref("TriggerRevisionPage"), {"revisions": [_REVISION], "next_cursor": None}
        )
    },
    errors=["TRIGGER_NOT_FOUND", *_PAGE],
)
