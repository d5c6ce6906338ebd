"""A secret with its key, read by one statement kept as text: the query that every first use of a key makes.

Django would build the statement's text and every column's value anew each time, at several times the cost of running
it, and would do more for a row that is there than for none. Here nothing of a row is read before it is the right one.
SQL that SQLite and PostgreSQL both know. Not for what people ask now and then: that is Django's.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import connection

from apps.keys.clock import milliseconds
from apps.keys.models import ApiKey, KeySecret
from apps.keys.principal import Principal


class SecretRow(NamedTuple):
    """A secret and its key as the driver gives them; the properties read what is text there."""

    secret_id: int
    scheme: str
    raw_digest: Any
    encoded: str
    pepper_version: int
    raw_ends_at: str | None
    key_id: str
    kind: str
    worker_id: str
    raw_namespaces: str
    raw_scopes: str
    raw_collections: str | None
    raw_expires_at: str | None
    raw_revoked_at: str | None

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
    """Return `most` secrets: those of the key where there is one, filled up with others'.

    They are read in the order of keys' ids, from where this one is or would be, and from the oldest on where that ends
    too soon. So the database does the same for an id that is no key's, for a key's only secret and for a rotated key's
    two; of no key are there more than `most`.
    """
    return _fetch(_OF_KEY_ID, [key_id, most, most, most])


def unchanged(row: SecretRow) -> bool:
    """Tell whether secret and key are in the database just as they were read: a fraction of what finding them costs."""
    return [row] == _fetch(f"{_ALL} WHERE s.id = %s", [row.secret_id])


def imported_with(digests: Sequence[bytes]) -> Sequence[SecretRow]:
    """Return the imported secrets of which one of the digests is kept."""
    return _fetch(f"{_ALL} WHERE s.imported AND s.digest IN ({', '.join(['%s'] * len(digests))})", list(digests))


def kept_as_argon2(most: int) -> Sequence[SecretRow]:
    """Return the imported secrets that only Argon2 can tell, newest first."""
    return _fetch(f"{_ALL} WHERE s.scheme = 'argon2' ORDER BY s.id DESC LIMIT %s", [most])


def _fetch(statement: str, parameters: list[Any]) -> list[SecretRow]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [SecretRow._make(row) for row in cursor.fetchall()]


# S608: the texts are made of names from our own models alone; values are always parameters. Casts leave it to
# `SecretRow` to read what is needed, where a driver would make objects of every column.
_COLUMNS = ", ".join(
    [
        *("s.id", "s.scheme", "s.digest", "s.encoded", "s.pepper_version", "CAST(s.ends_at AS text)"),
        *("k.id", "k.kind", "k.worker_id"),
        *(f"CAST(k.{name} AS text)" for name in ("namespaces", "scopes", "collections", "expires_at", "revoked_at")),
    ]
)
_SECRETS, _KEYS = KeySecret._meta.db_table, ApiKey._meta.db_table
_ALL = f"SELECT {_COLUMNS} FROM {_SECRETS} s JOIN {_KEYS} k ON k.id = s.key_id"  # noqa: S608
_OF_KEY_ID = f"""
WITH own AS (SELECT id, 0 AS place FROM {_SECRETS} WHERE key_id >= %s ORDER BY key_id LIMIT %s),
     others AS (SELECT id, 1 AS place FROM {_SECRETS} WHERE id > 0 ORDER BY id LIMIT %s),
     wanted AS (SELECT id, place FROM own UNION ALL SELECT id, place FROM others ORDER BY place LIMIT %s)
SELECT {_COLUMNS} FROM wanted w JOIN {_SECRETS} s ON s.id = w.id JOIN {_KEYS} k ON k.id = s.key_id ORDER BY w.place
"""  # noqa: S608


def _instant(text: str | None) -> datetime | None:
    """Return the instant: PostgreSQL gives it with its zone, SQLite without, in UTC."""
    if text is None:
        return None
    given = datetime.fromisoformat(text)
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)
