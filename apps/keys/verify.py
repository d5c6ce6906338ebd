"""From the text of a bearer token to its principal, or to nobody.

Unknown id, wrong secret, revoked and expired take one path and do the same work: one query by the key's id, the
digest under every pepper there is, two comparisons in constant time. A verified token is remembered in this process
(by a keyed hash, never by text) for as long as nobody's rights were taken away anywhere (`trust.py`). What is written
about a use is written later, elsewhere (`bookkeeping.py`).
Tokens of keys imported from the reference name no key: they are looked up by digest (`imported.py`).
"""

import hashlib
import hmac
import logging
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.keys import bookkeeping, imported, peppers, rows, token, trust
from apps.keys.clock import instant, milliseconds
from apps.keys.limits import MAX_CACHED_KEYS
from apps.keys.models import ApiKey, KeySecret
from apps.keys.principal import Principal
from apps.keys.rows import SecretRow
from apps.keys.sessions import services as sessions

logger = logging.getLogger("feltdb.keys")

MAX_LIVE_SECRETS = 2
"""Secrets that open one key at once: the current one and, for its grace, the one before."""

_NOBODYS, _OTHERS = secrets.token_bytes(32), secrets.token_bytes(32)
"""Compared where there is no row, and where the pepper is lost: no digest is ever either, and they differ."""

_MARK_KEY = secrets.token_bytes(32)


@dataclass(slots=True)
class _Remembered:
    principal: Principal
    moment: trust.Moment | None
    ends_at: datetime | None
    row: SecretRow | None  # none for a person's session


_remembered: dict[bytes, _Remembered] = {}
_turn = threading.Lock()


def principal_of(text: str, *, now: datetime) -> Principal | None:
    """Return whom the bearer token `text` authenticates at `now`, or None: unknown, wrong, revoked or expired.

    Raises ApiError SERVICE_OVERLOADED where only a memory-hard hash could tell and too many are being computed.
    """
    mark = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=_MARK_KEY).digest()
    known = _remembered.get(mark)
    if known is None or _ended(known.ends_at, now) or not _still_true(known):
        known = _looked_up(text, now=now)
        if known is None:
            return None
        with _turn:
            if len(_remembered) >= MAX_CACHED_KEYS:
                _remembered.clear()
            _remembered[mark] = known
    bookkeeping.note_use(known.principal.key_id, now=now)
    return known.principal


def forget_all() -> None:
    """Drop what this process remembers."""
    with _turn:
        _remembered.clear()


def _looked_up(text: str, *, now: datetime) -> _Remembered | None:
    given = token.parse(text)
    if given is not None and given.environment == sessions.ENVIRONMENT:
        return _session(given, now=now)
    if given is not None:
        moment = trust.present()
        digests = peppers.known().digests(text)
        found = rows.of_key(given.key_id, MAX_LIVE_SECRETS)
        match = _matching(found, digests)
        _tell_of_lost_peppers(given.key_id, found, digests)
    elif token.is_imported_form(text):
        moment = trust.present()
        digests = peppers.known().digests(text)
        match = imported.matching(text, digests, now=now)
    else:
        return None
    if match is None or match.revoked:
        return None
    ends = [end for end in (match.ends_at, match.expires_at) if end is not None]
    ends_at = min(ends) if ends else None
    if _ended(ends_at, now):
        return None
    bookkeeping.note_old_form(match, digests)
    return _Remembered(match.principal(), moment, ends_at, match)


def _still_true(known: _Remembered) -> bool:
    """Tell whether nobody's rights were taken away since, or else the row still is what it was."""
    if trust.still(known.moment):
        return True
    moment = trust.present()
    if known.row is None or not rows.unchanged(known.row):
        return False
    known.moment = moment
    return True


def _session(given: token.Token, *, now: datetime) -> _Remembered | None:
    moment = trust.present()
    found = sessions.looked_up(given, now_ms=milliseconds(now))
    if found is None:
        return None
    principal, ends_at_ms = found
    return _Remembered(principal, moment, instant(ends_at_ms), None)


def _matching(found: Sequence[SecretRow], digests: Mapping[int, bytes]) -> SecretRow | None:
    """Return the row that keeps one of the digests; always the same number of comparisons of the same length.

    Rows of other keys are among those found (`rows.of_key`): a token's digest is none of theirs.
    """
    match: SecretRow | None = None
    for place in range(MAX_LIVE_SECRETS):
        row = found[place] if place < len(found) else None
        version = 0 if row is None else row.pepper_version
        kept = _NOBODYS if row is None else row.digest
        if hmac.compare_digest(kept, digests.get(version, _OTHERS)):
            match = row
    return match


def _tell_of_lost_peppers(key_id: str, found: Sequence[SecretRow], digests: Mapping[int, bytes]) -> None:
    for row in found:
        if row.key_id == key_id and row.scheme == KeySecret.Scheme.HMAC and row.pepper_version not in digests:
            logger.error("key %s is kept under pepper version %d, which is not here", row.key_id, row.pepper_version)


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
