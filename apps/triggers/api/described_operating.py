"""What the OpenAPI document says of the routes by which triggers are operated: one decorator a method."""

from apps.http.openapi import Answer, describe, path_parameter, query_parameter, ref
from apps.triggers.api.described import CURSOR, ID, LIMIT, PAGE, TAG, WRITE, operation

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

rebase_trigger = operation(
    "rebase",
    "Move a trigger's cursor",
    "TriggerRebase",
    {"to": "now", "reason": "history was compacted"},
    "To `now`, `beginning` or a cursor. A blocked trigger goes on from there. What is gone back over finds its work.",
    ["CONFLICT", "TRIGGER_INVALID", "CONTROL_PLANE_MISMATCH", *WRITE],
)
skip_change = describe(
    "skip_trigger_change",
    "Pass one change over",
    tag=TAG,
    description="A change in quarantine is given up; one the trigger has not come to yet will make no work.",
    parameters=[ID],
    body=ref("TriggerChange"),
    body_examples={"one change": {"change": _CHANGE, "reason": "a test record"}},
    answers={200: Answer("Passed over.", ref("ChangeName"), {"source_change_id": _CHANGE})},
    errors=["TRIGGER_NOT_FOUND", "NOT_FOUND", "FEED_COMPACTED", "CONFLICT", *WRITE],
)
retry_change = describe(
    "retry_trigger_change",
    "Make the work of a quarantined change",
    tag=TAG,
    description="By the trigger as it is defined now. Answers the refusal where it still cannot become work.",
    parameters=[ID],
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
        *WRITE,
    ],
)
replay_trigger = describe(
    "replay_trigger",
    "Evaluate old changes once more",
    tag=TAG,
    description="Each change after `from` up to `to` that matches makes work once more, under a key of its own.",
    parameters=[ID],
    body=ref("NewTriggerReplay"),
    body_examples={"everything": {"from": "beginning", "to": "now", "reason": "the program was wrong"}},
    answers={202: Answer("Ordered.", ref("TriggerReplay"), _REPLAY)},
    errors=["TRIGGER_NOT_FOUND", "CONFLICT", "TRIGGER_INVALID", "CONTROL_PLANE_MISMATCH", *WRITE],
)
cancel_replay = describe(
    "cancel_trigger_replay",
    "End a replay where it stands",
    tag=TAG,
    parameters=[ID, path_parameter("number", "The replay's number.", {"type": "integer", "minimum": 0})],
    body=ref("TriggerReason"),
    body_examples={"with a reason": {"reason": "enough"}},
    answers={200: Answer("Ended.", ref("TriggerReplay"), {**_REPLAY, "outcome": "cancelled", "ended_at_ms": 1})},
    errors=["TRIGGER_NOT_FOUND", "NOT_FOUND", "CONFLICT", "TRIGGER_STORAGE_FAILURE"],
)
list_replays = describe(
    "list_trigger_replays",
    "List a trigger's replays",
    tag=TAG,
    parameters=[ID, LIMIT, CURSOR],
    answers={
        200: Answer("A page, newest first.", ref("TriggerReplayPage"), {"replays": [_REPLAY], "next_cursor": None})
    },
    errors=["TRIGGER_NOT_FOUND", *PAGE],
)
dry_run_trigger = describe(
    "dry_run_trigger",
    "Try a definition on the real feed",
    tag=TAG,
    description="`definition` changes the trigger of this id, or is a whole one. A stored trigger that says something "
    "else is run beside it. Bounded: `next_from` goes on. Needs `state:read` on the collection.",
    parameters=[ID],
    body=ref("TriggerDryRun"),
    body_examples={"another threshold": {"definition": {"predicate": {"field": "amount", "op": "gte", "value": 200}}}},
    answers={200: Answer("What it would have fired for.", ref("TriggerDryRunResult"), _DRY_RUN)},
    errors=["TRIGGER_INVALID", "TRIGGER_STATE_REPLAY_FAILED", "STORAGE_ERROR", "STORAGE_REBUILDING"],
)
explain_trigger = describe(
    "explain_trigger",
    "Say why a trigger did or did not fire",
    tag=TAG,
    description="Each check, each clause with the value it found, and what became of the change. Needs `state:read` on "
    "the collection.",
    parameters=[
        ID,
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
