"""The shapes of this room's bodies and answers, as JSON Schema for the OpenAPI document.

The code for the same shapes: `definition.py` and `services/showing.py`; a test holds them together.
"""

from typing import Any

from apps.http.openapi import add_schemas, ref
from apps.triggers import limits
from apps.triggers.contract import CHANGE_KINDS, Reason
from apps.triggers.models import SUBJECT_KINDS, Trigger, TriggerReplay
from apps.triggers.predicate import OPERATORS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": limits.MAX_TEXT_CHARS}
ID: Schema = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:-]*$", "maxLength": limits.MAX_ID_CHARS}
COUNT: Schema = {"type": "integer", "minimum": 0}
INSTANT: Schema = {"type": ["integer", "null"], "minimum": 0, "description": "Milliseconds since 1970."}
CURSOR: Schema = {"type": ["string", "null"], "description": "Opaque; where to go on from, null at the end."}
REASON: Schema = {"type": "string", "minLength": 1, "maxLength": limits.MAX_REASON_CHARS}
ANY: Schema = {"description": "Any JSON value."}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


def _array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


_FIELD: Schema = {
    "type": "string",
    "maxLength": limits.MAX_FIELD_CHARS,
    "description": "A path split at dots through objects; empty for the whole record.",
}
_KIND: Schema = {"type": "string", "enum": list(CHANGE_KINDS)}
_NAMES: Schema = _array(TEXT, maxItems=limits.MAX_CAPABILITIES)
_MEMBERS: dict[str, Schema] = {
    "change_kind": {"oneOf": [_KIND, _array(_KIND, minItems=1)]},
    "source_collection": {**TEXT, "maxLength": limits.MAX_COLLECTION_CHARS},
    "target_capability": TEXT,
}
_OPTIONAL: dict[str, Schema] = {
    "predicate": {"oneOf": [ref("Predicate"), {"type": "null"}]},
    "tenant_id": {**TEXT, "description": "The namespace; no other is accepted."},
    "application_id": TEXT,
    "environment": TEXT,
    "definition_revision": TEXT,
    "requested_by": ref("Subject"),
    "authorization_snapshot": {"type": ["object", "null"], "additionalProperties": True},
    "capability_snapshot": {**_NAMES, "description": "Empty: the target capability."},
    "connection_scopes": _NAMES,
    "priority": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "retry_policy": {"type": "object", "additionalProperties": True},
    "timeouts": {"type": "object", "additionalProperties": True},
    "not_before_at_ms": INSTANT,
    "delay_ms": {"type": ["integer", "null"], "minimum": 0, "maximum": limits.MAX_DELAY_MS},
    "enabled": {"type": "boolean"},
    "start_from": {"type": "string", "description": "`now`, `beginning`, or a cursor of the feed."},
    "max_lag_operations": {"type": "integer", "minimum": 1, "maximum": limits.MAX_LAG_OPERATIONS},
    "depth_limit": {"type": ["integer", "null"], "minimum": 1, "maximum": limits.MAX_DEPTH},
}
_GIVEN_ONLY: dict[str, Schema] = {
    "not_before": {"type": ["integer", "null"], "minimum": 0, "description": "As in the reference: seconds."}
}

_WHY: dict[str, Schema] = {"reason": REASON}
_UNKNOWN: Schema = {"type": ["integer", "null"], "minimum": 0, "description": "Null: unknown, or it means nothing."}
_SAMPLES: dict[str, Schema] = {"matched": COUNT, "samples": _array(ref("TriggerSample"))}

SCHEMAS: dict[str, Schema] = {
    "Subject": _object({"kind": {"type": "string", "enum": list(SUBJECT_KINDS)}, "id": TEXT}),
    "Predicate": {
        "description": "What must hold of the change.",
        "oneOf": [
            _object({"field": _FIELD, "equals": ANY}),
            _object({"field": _FIELD, "op": {"type": "string", "enum": list(OPERATORS)}, "value": ANY}),
            _object({"all": _array(ref("Predicate"), minItems=1)}),
            _object({"any": _array(ref("Predicate"), minItems=1)}),
            _object({"not": ref("Predicate")}),
            _object({"changed": {**_FIELD, "description": "Holds where the field is not what it was."}}),
            _object({"was": {**ref("Predicate"), "description": "Asked of the record before the change."}}),
        ],
    },
    "NewTrigger": _object({"trigger_id": ID, **_MEMBERS}, {**_OPTIONAL, **_GIVEN_ONLY}),
    "WholeTrigger": _object(_MEMBERS, {"trigger_id": ID, **_OPTIONAL, **_GIVEN_ONLY}),
    "TriggerPatch": _object({}, {"trigger_id": ID, **_MEMBERS, **_OPTIONAL, **_GIVEN_ONLY}),
    "Trigger": _object(
        {
            "trigger_id": ID,
            **_MEMBERS,
            **_OPTIONAL,
            "state": {"type": "string", "enum": [state.value for state in Trigger.State if state.value != "archived"]},
            "reason": {
                "oneOf": [_object({"code": {"type": "string"}, "message": {"type": "string"}}), {"type": "null"}],
                "description": "Why the trigger is paused or blocked.",
            },
            "resumes_at_ms": INSTANT,
            "revision": {**COUNT, "description": "Grows with every change of definition or state."},
            "cursor": {"type": "string", "description": "How far the feed has been evaluated for it."},
            "created_at_ms": COUNT,
            "updated_at_ms": COUNT,
        }
    ),
    "TriggerPage": _object({"triggers": _array(ref("Trigger")), "next_cursor": CURSOR}),
    "TriggerReason": _object({}, {"reason": REASON}),
    "TriggerStart": _object({}, {"reason": REASON, "start_from": {"type": "string"}}),
    "TriggerPause": _object({}, {"reason": REASON, "resumes_at_ms": INSTANT}),
    "TriggerRebase": _object({"to": {"type": "string", "description": "`now`, `beginning`, or a cursor."}}, _WHY),
    "TriggerChange": _object({"change": {"type": "string", "description": "`source_change_id`, or a sequence."}}, _WHY),
    "ChangeName": _object({"source_change_id": {"type": "string"}}),
    "TriggeredWorkload": _object(
        {
            "trigger_id": ID,
            "source_change_id": {"type": "string"},
            "workload_id": {"type": "string"},
            "duplicate": {"type": "boolean", "description": "The work was there already."},
        }
    ),
    "NewTriggerReplay": _object(
        {
            "from": {"type": "string", "description": "`beginning`, or a cursor: the changes after it."},
            "to": {"type": "string", "description": "`now`, or a cursor: the changes up to it."},
        },
        _WHY,
    ),
    "TriggerReplay": _object(
        {
            "number": {**COUNT, "description": "It stands in the key of its work: `...:r1`."},
            "from_sequence": COUNT,
            "to_sequence": COUNT,
            "position": {**COUNT, "description": "How far it has come."},
            "made": {**COUNT, "description": "Work it has made."},
            "author": {"type": "string"},
            "reason": {"type": "string"},
            "created_at_ms": COUNT,
            "ended_at_ms": INSTANT,
            "outcome": {"enum": [*(outcome.value for outcome in TriggerReplay.Outcome), None]},
            "message": {"type": "string"},
        }
    ),
    "TriggerReplayPage": _object({"replays": _array(ref("TriggerReplay")), "next_cursor": CURSOR}),
    "TriggerDryRun": _object(
        {},
        {
            "definition": {"type": "object", "additionalProperties": True},
            "from": {"type": "string", "description": "`recent` (the default), `beginning`, or a cursor."},
            "samples": {"type": "integer", "minimum": 0, "maximum": limits.DRY_RUN_MAX_SAMPLES},
        },
    ),
    "TriggerSample": _object(
        {
            "source_change_id": {"type": "string"},
            "record_key": {"type": "string"},
            "change_kind": _KIND,
            "at_ms": COUNT,
        }
    ),
    "TriggerDryRunCount": _object(_SAMPLES),
    "TriggerDryRunResult": _object(
        {
            "from": {"type": "string"},
            "to": {"type": "string"},
            "next_from": CURSOR,
            "operations": {**COUNT, "description": "Of the whole feed, looked past or at."},
            "changes": {**COUNT, "description": "Of the collections concerned."},
            "first_at_ms": INSTANT,
            "last_at_ms": INSTANT,
            **_SAMPLES,
            "refused": _object({**_SAMPLES, "codes": {"type": "object", "additionalProperties": COUNT}}),
            "against": {
                "oneOf": [
                    _object(
                        {
                            "matched": COUNT,
                            "only_new": ref("TriggerDryRunCount"),
                            "only_old": ref("TriggerDryRunCount"),
                        }
                    ),
                    {"type": "null"},
                ],
                "description": "The stored trigger, where it says something else.",
            },
        }
    ),
    "PredicateAccount": {
        "type": "object",
        "required": ["says"],
        "properties": {
            "says": {"type": "string", "description": "`matched` where it holds, else why not."},
            "clause": {"type": "object", "additionalProperties": True},
            "found": ANY,
            "changed": {"type": "string"},
            "before": ANY,
            "after": ANY,
            "all": _array(ref("PredicateAccount")),
            "any": _array(ref("PredicateAccount")),
            "not": ref("PredicateAccount"),
            "was": ref("PredicateAccount"),
        },
        "additionalProperties": False,
    },
    "TriggerExplanation": _object(
        {
            "trigger_id": ID,
            "revision": COUNT,
            "change": _object(
                {
                    "source_change_id": {"type": "string"},
                    "record_key": {"type": "string"},
                    "change_kind": _KIND,
                    "transaction_id": {"type": ["string", "null"]},
                    "at_ms": COUNT,
                }
            ),
            "matched": {"type": "boolean", "description": "By the definition as it stands now."},
            "reason": {"type": "string", "enum": [reason.value for reason in Reason]},
            "checks": _array(
                _object(
                    {
                        "check": {"type": "string"},
                        "passes": {"type": "boolean"},
                        "wanted": {"type": "string"},
                        "found": {"type": "string"},
                    }
                )
            ),
            "predicate": {"oneOf": [ref("PredicateAccount"), {"type": "null"}]},
            "input_digest": {"type": "string"},
            "evaluated": {"type": "boolean", "description": "The trigger's cursor has passed it."},
            "outcome": _object(
                {"kind": {"type": "string"}, "because": {"type": "string"}},
                {"code": {"type": "string"}, "workload_id": {"type": "string"}},
            ),
        }
    ),
    "TriggerStanding": _object(
        {"lag_operations": _UNKNOWN, "lag_ms": _UNKNOWN, "quarantined": COUNT, "open_replays": COUNT}
    ),
    "TriggerStatus": _object(
        {
            "namespace": {"type": "string"},
            "triggers": COUNT,
            "states": {"type": "object", "additionalProperties": COUNT},
            "cursors": {
                "type": "object",
                "additionalProperties": {"type": "object", "additionalProperties": COUNT},
            },
            "lag_operations": {"type": "object", "additionalProperties": _UNKNOWN},
            "lag_ms": {"type": "object", "additionalProperties": _UNKNOWN},
            "quarantined": COUNT,
            "held_up": _array(
                _object({"trigger_id": ID, **{name: {"type": "string"} for name in ("state", "code", "message")}})
            ),
            "head": {"type": ["string", "null"]},
            "mismatch": {
                "oneOf": [_object({"code": {"type": "string"}, "message": {"type": "string"}}), {"type": "null"}]
            },
        }
    ),
    "QuarantinedChange": _object(
        {
            "source_change_id": {"type": "string"},
            "record_key": {"type": "string"},
            "change_kind": _KIND,
            "trigger_revision": COUNT,
            "code": {"type": "string"},
            "message": {"type": "string"},
            "at_ms": COUNT,
        }
    ),
    "QuarantinePage": _object({"quarantined": _array(ref("QuarantinedChange")), "next_cursor": CURSOR}),
    "TriggerRevision": _object(
        {
            "revision": COUNT,
            "action": {"type": "string"},
            "author": {"type": "string"},
            "reason": {"type": "string"},
            "at_ms": COUNT,
            "diff": {"type": "object", "additionalProperties": _array(ANY, minItems=2, maxItems=2)},
        }
    ),
    "TriggerRevisionPage": _object({"revisions": _array(ref("TriggerRevision")), "next_cursor": CURSOR}),
}

add_schemas(SCHEMAS)
