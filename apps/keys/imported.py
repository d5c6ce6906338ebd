"""Tokens of keys imported from the reference: which imported secret a token is.

Such a token names no key. Once it was used here it is kept like any other, as a digest under a pepper, and found by
it; before, as its plain SHA-256, found as well; or as Argon2 of it, which has to be tried one after the other. That
is dear, so it is tried last, behind the gate, and only as long as there are such secrets. Not here: the import itself
(`importing.py`).
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime

import argon2

from apps.http import budget
from apps.keys import bookkeeping, rows
from apps.keys.limits import MAX_ARGON2_SECRETS
from apps.keys.memory_hard import computed
from apps.keys.rows import SecretRow

_HASHER = argon2.PasswordHasher()


def matching(text: str, digests: Mapping[int, bytes], *, now: datetime) -> SecretRow | None:
    """Return the imported secret that the token is, or None. Raises ApiError SERVICE_OVERLOADED (see `memory_hard`)."""
    plain = hashlib.sha256(text.encode("ascii")).digest()
    kept = {0: plain, **digests}
    match: SecretRow | None = None
    for row in rows.imported_with([plain, *digests.values()]):
        if hmac.compare_digest(row.digest, kept.get(row.pepper_version, b"")):
            match = row
    if match is not None:
        return match
    for row in rows.kept_as_argon2(MAX_ARGON2_SECRETS):
        if _over(row, now):
            continue
        noted = bookkeeping.noted_digest(row.secret_id)
        if noted is not None:
            if noted in digests.values():
                return row
        elif _tried(row, text):
            return row
    return None


def _tried(row: SecretRow, text: str) -> bool:
    """Compute the hash in turn. Whoever waits for that holds no permit: unknown tokens would take them from others."""
    with budget.waiting(0):
        return computed(f"key:{row.key_id}", lambda: _is(row.encoded, text))


def _over(row: SecretRow, now: datetime) -> bool:
    return row.revoked or any(end is not None and now >= end for end in (row.ends_at, row.expires_at))


def _is(encoded: str, text: str) -> bool:
    try:
        return _HASHER.verify(encoded, text)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False
