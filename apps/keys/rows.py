"""A secret with its key, read by one statement kept as text: the query that every first use of a key makes.

Django would build the statement's text and every column's value anew each time, at several times the cost of running
it, and would do more for a row that is there than for none. Here nothing of a row is read before it is the right one.
SQL that SQLite and PostgreSQL both know. Not for what people ask now and then: that is Django's.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import connection

from apps.keys.clock import milliseconds
from apps.keys.models import ApiKey, KeySecret
from apps.keys.principal import Principal

_OF_SECRET = ("id", "scheme", "digest", "encoded", "pepper_version", "ends_at")
_OF_KEY = ("id", "kind", "worker_id", "namespaces", "scopes", "collections", "expires_at", "revoked_at")


class SecretRow(NamedTuple):
    """A secret and its key as the driver gives them; the properties read what is text there."""

    secret_id: int
    scheme: str
    raw_digest: Any
    encoded: str
    pepper_version: int
    raw_ends_at: datetime | None
    key_id: str
    kind: str
    worker_id: str
    raw_namespaces: str
    raw_scopes: str
    raw_collections: str | None
    raw_expires_at: datetime | None
    raw_revoked_at: datetime | None

    @property
    def digest(self) -> bytes:
        """Return what is kept of the secret, where that is a digest."""
        return bytes(self.raw_digest)

    @property
    def ends_at(self) -> datetime | None:
        """Return when the secret ends."""
        return _instant(self.raw_ends_at)

    @property
    def expires_at(self) -> datetime | None:
        """Return when the key ends."""
        return _instant(self.raw_expires_at)

    @property
    def revoked(self) -> bool:
        """Tell whether the key is revoked."""
        return self.raw_revoked_at is not None

    def principal(self) -> Principal:
        """Return the key's principal."""
        expires_at = self.expires_at
        collections = None if self.raw_collections is None else json.loads(self.raw_collections)
        return Principal(
            kind=self.kind,
            key_id=self.key_id,
            worker_id=self.worker_id or None,
            scopes=frozenset(json.loads(self.raw_scopes)),
            namespaces=frozenset(json.loads(self.raw_namespaces)),
            collections=None if collections is None else frozenset(collections),
            expires_at_ms=None if expires_at is None else milliseconds(expires_at),
        )


def of_key(key_id: str, most: int) -> Sequence[SecretRow]:
    """Return the newest secrets of the key."""
    return _fetch("s.key_id = %s ORDER BY s.id DESC LIMIT %s", [key_id, most])


def imported_with(digests: Sequence[bytes]) -> Sequence[SecretRow]:
    """Return the imported secrets of which one of the digests is kept."""
    places = ", ".join(["%s"] * len(digests))
    return _fetch(f"s.imported AND s.digest IN ({places})", list(digests))


def kept_as_argon2(most: int) -> Sequence[SecretRow]:
    """Return the imported secrets that only Argon2 can tell, newest first."""
    return _fetch("s.scheme = 'argon2' ORDER BY s.id DESC LIMIT %s", [most])


def _fetch(where: str, parameters: list[Any]) -> Sequence[SecretRow]:
    with connection.cursor() as cursor:
        cursor.execute(_statement(where), parameters)
        return [SecretRow._make(row) for row in cursor.fetchall()]


@cache
def _statement(where: str) -> str:
    columns = ", ".join([*(f"s.{name}" for name in _OF_SECRET), *(f"k.{name}" for name in _OF_KEY)])
    secrets, keys = KeySecret._meta.db_table, ApiKey._meta.db_table
    # The text is made of names from our own models and of the constants above; values are always parameters.
    return f"SELECT {columns} FROM {secrets} s JOIN {keys} k ON k.id = s.key_id WHERE {where}"  # noqa: S608


def _instant(value: datetime | None) -> datetime | None:
    """Return the instant: PostgreSQL gives it with its zone, SQLite without, in UTC."""
    return value if value is None or value.tzinfo is not None else value.replace(tzinfo=UTC)
