"""How this room's routes are described in the OpenAPI document. Not here: what they do (`views.py`)."""

from apps.http.openapi import Answer, Schema, add_schemas, describe, ref

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}


def _object(required: list[str], properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


_REASON = _object(
    ["code", "severity", "next_step"],
    {
        "code": {**_TEXT, "description": "Stable; docs/runbook.md has a section for each."},
        "severity": {"enum": ["blocking", "attention"], "description": "`blocking` makes the instance not ready."},
        "next_step": {**_TEXT, "description": "What an operator does next."},
        "subject": {**_TEXT, "description": "Where; for operators only."},
        "message": {**_TEXT, "description": "What was seen; for operators only."},
    },
)
_REASONS: Schema = {"type": "array", "items": ref("Reason")}
_WORD: Schema = {"enum": ["healthy", "attention-required"]}

add_schemas(
    {
        "Reason": _REASON,
        "Liveness": _object(
            ["status", "version", "storage", "writes", "membership", "clock", "reasons"],
            {
                "status": {"enum": ["healthy", "degraded"]},
                "version": _TEXT,
                "storage": {**_TEXT, "description": "An observation such as `clean`, never a promise."},
                "writes": {"enum": ["available", "unavailable"]},
                "membership": _WORD,
                "clock": _WORD,
                "reasons": _REASONS,
            },
        ),
        "Readiness": _object(
            ["ready", "state", "storage", "durable_format", "reads", "writes", "probe_ms", "reasons"],
            {
                "ready": {"type": "boolean"},
                "state": {"enum": ["healthy", "degraded", "recovering", "unavailable", "recovery-required"]},
                "storage": _TEXT,
                "durable_format": {"type": ["integer", "null"]},
                "reads": {"enum": ["available", "unavailable"]},
                "writes": {"enum": ["available", "unavailable"]},
                "probe_ms": _COUNT,
                "reasons": _REASONS,
            },
        ),
        "Status": _object(
            ["status", "version", "ready", "state", "checked_at_ms", "stores", "reasons"],
            {
                "status": {"enum": ["available", "degraded"]},
                "version": _TEXT,
                "ready": {"type": "boolean"},
                "state": _TEXT,
                "checked_at_ms": _COUNT,
                "membership": _WORD,
                "clock": _WORD,
                "probe_ms": _COUNT,
                "stores": {"type": "array", "items": {"type": "object"}},
                "reasons": _REASONS,
            },
        ),
    }
)

health = describe(
    "health",
    "Is the process alive",
    tag="Operations",
    description="Process liveness: 200 as long as the process answers. `status` is `healthy` where workers, clock "
    "and storage are, and writes are available. Never refused for load.",
    answers={200: Answer("Alive.", ref("Liveness"))},
    public=True,
)
ready = describe(
    "health_ready",
    "Can the instance serve",
    tag="Operations",
    description="Readiness: a bounded read and a forced write of nothing in every store, and the database, within four "
    "seconds. 503 carries the same members beside the refusal's. Never refused for load.",
    answers={200: Answer("Ready.", ref("Readiness"))},
    errors=["STORAGE_UNAVAILABLE", "STORAGE_PROBE_FAILED", "STORAGE_STALLED", "DATABASE_UNAVAILABLE"],
    public=True,
)
status = describe(
    "status",
    "How the whole instance stands",
    tag="Operations",
    description="For operators: every store, every reason with where and what. 503 where it is not ready, with "
    "the same members beside the refusal's.",
    answers={200: Answer("The instance is ready.", ref("Status"))},
    errors=["STORAGE_UNAVAILABLE", "STORAGE_PROBE_FAILED", "STORAGE_STALLED", "DATABASE_UNAVAILABLE"],
)
