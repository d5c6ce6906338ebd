"""A key as JSON, the same from every door. Never a secret, except where one was just made."""

from typing import Any

from apps.keys.clock import milliseconds
from apps.keys.models import ApiKey


def created(key: ApiKey, secret: str | None) -> dict[str, Any]:
    """Return the answer to making a key; `secret` None where it went into a file."""
    return {
        "id": key.id,
        "secret": secret,
        "name": key.name,
        "namespaces": key.namespaces,
        "scopes": key.scopes,
        "worker_id": key.worker_id or None,
        "expires_at_ms": _milliseconds(key.expires_at),
    }


def summary(key: ApiKey) -> dict[str, Any]:
    """Return everything about a key but its secrets."""
    return {
        "id": key.id,
        "name": key.name,
        "kind": key.kind,
        "worker_id": key.worker_id or None,
        "namespaces": key.namespaces,
        "scopes": key.scopes,
        "collections": key.collections,
        "expires_at_ms": _milliseconds(key.expires_at),
        "created_at_ms": _milliseconds(key.created_at),
        "created_by": key.created_by,
        "revoked_at_ms": _milliseconds(key.revoked_at),
        "revoked_by": key.revoked_by or None,
        "last_used_at_ms": _milliseconds(key.last_used_at),
    }


def _milliseconds(instant: Any) -> int | None:
    return None if instant is None else milliseconds(instant)
