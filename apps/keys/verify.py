"""From the text of a bearer token to its principal, or to nobody.

Unknown id, wrong secret, revoked and expired take one path and do the same work. A verified token is remembered in
this process (by digest, never by text) under the revocation epoch; on a database other than SQLite, which several
hosts may share, every request reads the row.
"""

import hmac
import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import OperationalError, connection, transaction
from django.db.models import Q

from apps.keys import epoch, token
from apps.keys.limits import LAST_USED_STEP_S, MAX_CACHED_KEYS
from apps.keys.models import ApiKey, KeySecret
from apps.keys.principal import Principal

logger = logging.getLogger("feltdb.keys")

_NO_DIGEST = bytes(32)
_MAX_LIVE_SECRETS = 2


@dataclass(slots=True)
class _Remembered:
    principal: Principal
    epoch: int
    ends_at: datetime | None
    last_used_at: datetime | None


_remembered: dict[bytes, _Remembered] = {}
_turn = threading.Lock()


def principal_of(text: str, *, now: datetime) -> Principal | None:
    """Return whom the bearer token `text` authenticates at `now`, or None: unknown, wrong, revoked or expired."""
    current = epoch.shared().read() if connection.vendor == "sqlite" else None
    digest = token.digest(text)
    known = _remembered.get(digest)
    if known is None or known.epoch != current or _ended(known.ends_at, now):
        given = token.parse(text)
        known = None if given is None else _look_up(given, digest, now=now, current=current)
    if known is None:
        return None
    _note_use(known, now)
    return known.principal


def forget_all() -> None:
    """Drop what this process remembers."""
    with _turn:
        _remembered.clear()


def _look_up(given: token.Token, digest: bytes, *, now: datetime, current: int | None) -> _Remembered | None:
    rows = list(KeySecret.objects.filter(key_id=given.key_id).select_related("key").order_by("-pk")[:_MAX_LIVE_SECRETS])
    match: KeySecret | None = None
    for place in range(_MAX_LIVE_SECRETS):
        row = rows[place] if place < len(rows) else None
        if hmac.compare_digest(bytes(row.digest) if row else _NO_DIGEST, _digest_for(row, given, digest)):
            match = row
    if match is None or match.key.revoked_at is not None:
        return None
    ends = [end for end in (match.ends_at, match.key.expires_at) if end is not None]
    ends_at = min(ends) if ends else None
    if _ended(ends_at, now):
        return None
    found = _Remembered(principal_for(match.key), -1 if current is None else current, ends_at, match.key.last_used_at)
    if current is not None:
        with _turn:
            if len(_remembered) >= MAX_CACHED_KEYS:
                _remembered.clear()
            _remembered[digest] = found
    return found


def _digest_for(row: KeySecret | None, given: token.Token, digest: bytes) -> bytes:
    """Return the digest to compare a row with: under the row's own pepper where that is another version."""
    if row is None or row.pepper_version == token.PEPPER_VERSION:
        return digest
    try:
        return token.digest(given.text, row.pepper_version)
    except KeyError:
        logger.error("key %s is kept under pepper version %d, which is not here", given.key_id, row.pepper_version)
        return b""  # the same as no digest


def _ended(ends_at: datetime | None, now: datetime) -> bool:
    return ends_at is not None and now >= ends_at


def principal_for(key: ApiKey) -> Principal:
    """Return the principal of a key."""
    return Principal(
        kind=key.kind,
        key_id=key.id,
        worker_id=key.worker_id or None,
        scopes=frozenset(key.scopes),
        namespaces=frozenset(key.namespaces),
        collections=None if key.collections is None else frozenset(key.collections),
        expires_at_ms=None if key.expires_at is None else milliseconds(key.expires_at),
    )


def _note_use(known: _Remembered, now: datetime) -> None:
    """Write the time of use, at most once in `LAST_USED_STEP_S` over all processes. A busy database only skips it."""
    before = now - timedelta(seconds=LAST_USED_STEP_S)
    if known.last_used_at is not None and known.last_used_at > before:
        return
    known.last_used_at = now
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=before)
    try:
        with transaction.atomic():
            ApiKey.objects.filter(stale, pk=known.principal.key_id).update(last_used_at=now)
    except OperationalError:
        logger.info("last use of key %s not written: the database is busy", known.principal.key_id)


def milliseconds(instant: datetime) -> int:
    """Return the instant in milliseconds since 1970."""
    return int((instant - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
