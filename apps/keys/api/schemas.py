"""The JSON shapes of keys for the OpenAPI document, and how a request for a key is read."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.http.errors import ApiError
from apps.http.openapi import Schema, add_schemas
from apps.keys.limits import MAX_GRACE_S
from apps.keys.principal import EVERY_NAMESPACE, Principal
from apps.keys.scopes import SCOPES

_LATEST_MS = 253_402_300_799_999  # the last millisecond of the year 9999
_INSTANT: Schema = {"type": ["integer", "null"], "description": "Milliseconds since 1970."}
_NAMES: Schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_SCOPES: Schema = {"type": "array", "items": {"enum": list(SCOPES)}, "minItems": 1}

KEY: Schema = {
    "type": "object",
    "required": ["id", "name", "kind", "namespaces", "scopes"],
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "kind": {"enum": ["service", "worker", "human", "agent"]},
        "worker_id": {"type": ["string", "null"]},
        "namespaces": _NAMES,
        "scopes": _SCOPES,
        "collections": {"type": ["array", "null"], "items": {"type": "string"}},
        "expires_at_ms": _INSTANT,
        "created_at_ms": _INSTANT,
        "created_by": {"type": "string"},
        "revoked_at_ms": _INSTANT,
        "revoked_by": {"type": ["string", "null"]},
        "last_used_at_ms": _INSTANT,
    },
}

NEW_KEY: Schema = {
    "type": "object",
    "required": ["name", "scopes"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "scopes": _SCOPES,
        "namespaces": {**_NAMES, "description": "Left out: the only namespace of the key that asks."},
        "kind": {"enum": ["service", "agent"], "default": "service"},
        "worker_id": {"type": ["string", "null"], "description": "Makes it the key of exactly this worker."},
        "collections": {"type": ["array", "null"], "items": {"type": "string"}, "description": "Null for all."},
        "expires_at_ms": _INSTANT,
    },
}

CREATED_KEY: Schema = {
    "type": "object",
    "required": ["id", "secret", "name", "namespaces", "scopes", "worker_id", "expires_at_ms"],
    "properties": {
        "secret": {"type": "string", "description": "Shown this once."},
        **{name: KEY["properties"][name] for name in ("id", "name", "namespaces", "scopes", "worker_id")},
        "expires_at_ms": _INSTANT,
    },
}

ROTATION: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "grace_ms": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_GRACE_S * 1000,
            "default": 0,
            "description": "Milliseconds that the old secret goes on.",
        },
    },
}

ROTATED_KEY: Schema = {
    **CREATED_KEY,
    "properties": {
        **CREATED_KEY["properties"],
        "old_secret_ends_at_ms": {**_INSTANT, "description": "Null where it has ended already."},
    },
}

KEY_DETAIL: Schema = {
    **KEY,
    "properties": {
        **KEY["properties"],
        "secrets": {
            "type": "array",
            "description": "Those that open the key now; never what they are.",
            "items": {
                "type": "object",
                "properties": {"created_at_ms": _INSTANT, "ends_at_ms": {**_INSTANT, "description": "Null: current."}},
            },
        },
        "scopes_used": {
            "type": "object",
            "description": "Each scope that was used, and when last, to the minute.",
            "additionalProperties": {"type": "integer"},
        },
    },
}

add_schemas(
    {
        "Key": KEY,
        "KeyDetail": KEY_DETAIL,
        "NewKey": NEW_KEY,
        "CreatedKey": CREATED_KEY,
        "KeyRotation": ROTATION,
        "RotatedKey": ROTATED_KEY,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewKey:
    """A request for a key, its types checked; what it may be is the service's to say."""

    name: str
    scopes: list[str]
    namespaces: list[str]
    kind: str
    worker_id: str | None
    collections: list[str] | None
    expires_at: datetime | None


def read_new_key(body: Any, asking: Principal) -> NewKey:
    """Return the request in `body`. Raises ApiError VALIDATION_ERROR naming the field."""
    if not isinstance(body, dict):
        raise _wrong("", "send an object")
    unknown = sorted(set(body) - set(NEW_KEY["properties"]))
    if unknown:
        raise _wrong(unknown[0], "there is no such member")
    kind = _text(body, "kind", "service")
    if kind not in ("service", "agent"):
        raise _wrong("kind", "a kind is service or agent")
    only = [name for name in asking.namespaces if name != EVERY_NAMESPACE]
    return NewKey(
        name=_text(body, "name", None),
        scopes=_texts(body, "scopes"),
        namespaces=_texts(body, "namespaces") if "namespaces" in body else only if len(only) == 1 else [],
        kind=kind,
        worker_id=None if body.get("worker_id") is None else _text(body, "worker_id", None),
        collections=None if body.get("collections") is None else _texts(body, "collections"),
        expires_at=_instant(body.get("expires_at_ms")),
    )


def read_grace(body: Any) -> timedelta:
    """Return the grace that `body` asks for. Raises ApiError VALIDATION_ERROR naming the field."""
    if not isinstance(body, dict):
        raise _wrong("", "send an object")
    unknown = sorted(set(body) - set(ROTATION["properties"]))
    if unknown:
        raise _wrong(unknown[0], "there is no such member")
    grace_ms = body.get("grace_ms", 0)
    if type(grace_ms) is not int or not 0 <= grace_ms <= MAX_GRACE_S * 1000:
        raise _wrong("grace_ms", f"send 0 to {MAX_GRACE_S * 1000}")
    return timedelta(milliseconds=grace_ms)


def _text(body: dict[str, Any], field: str, default: str | None) -> str:
    value = body.get(field, default)
    if not isinstance(value, str):
        raise _wrong(field, "send a string")
    return value


def _texts(body: dict[str, Any], field: str) -> list[str]:
    value = body.get(field)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(field, "send a list of strings")
    return value


def _instant(value: Any) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LATEST_MS:
        raise _wrong("expires_at_ms", "send milliseconds since 1970")
    return datetime.fromtimestamp(value / 1000, tz=UTC)


def _wrong(field: str, message: str) -> ApiError:
    return ApiError("VALIDATION_ERROR", f"{field or 'body'}: {message}.", details={"field": field})
