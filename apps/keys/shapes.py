"""A key as JSON, the same from every door. Never a secret, except where one was just made."""

from datetime import datetime
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


def rotated(key: ApiKey, secret: str | None, old_ends_at: datetime | None) -> dict[str, Any]:
    """Return the answer to rotating a key; `old_ends_at` None where the old secret has ended already."""
    return {**created(key, secret), "old_secret_ends_at_ms": _milliseconds(old_ends_at)}


def detail(key: ApiKey, *, now: datetime) -> dict[str, Any]:
    """Return the summary, the secrets that open the key now, and when each right was last used. Reads the database."""
    used = {use.scope: use.last_at for use in key.uses.all()}
    live = [row for row in key.secrets.order_by("pk") if row.ends_at is None or row.ends_at > now]
    return {
        **summary(key),
        "secrets": [
            {"created_at_ms": _milliseconds(row.created_at), "ends_at_ms": _milliseconds(row.ends_at)} for row in live
        ],
        "scopes_used": {scope: _milliseconds(used[scope]) for scope in sorted(used)},
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


def _milliseconds(instant: datetime | None) -> int | None:
    return None if instant is None else milliseconds(instant)
