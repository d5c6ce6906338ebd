"""What can happen to a person's session. Every door calls these."""

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection, transaction

from apps.http.errors import ApiError, authentication_required
from apps.keys import limits, people, peppers, token, trust
from apps.keys.audit.services import record
from apps.keys.models import Operator
from apps.keys.principal import EVERY_NAMESPACE, Principal
from apps.keys.scopes import EVERYTHING
from apps.keys.sessions import attempts
from apps.keys.sessions.models import HumanSession

ENVIRONMENT = "session"
"""The word in a session's token where a key's has its environment; no key has it."""

_NOBODYS, _OTHERS = secrets.token_bytes(32), secrets.token_bytes(32)
"""Compared where there is no session, and where the pepper is lost: no digest is ever either, and they differ."""

# S608: the text is made of names from our own model alone; values are always parameters.
_TABLE = HumanSession._meta.db_table
_NEXT = f"""
WITH own AS (SELECT id, 0 AS place FROM {_TABLE} WHERE id >= %s ORDER BY id LIMIT 1),
     others AS (SELECT id, 1 AS place FROM {_TABLE} WHERE id > '' ORDER BY id LIMIT 1),
     wanted AS (SELECT id, place FROM own UNION ALL SELECT id, place FROM others ORDER BY place LIMIT 1)
SELECT s.id, s.digest, s.pepper_version FROM wanted w JOIN {_TABLE} s ON s.id = w.id
"""  # noqa: S608


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Opened:
    """A session just opened, and its token, which is kept nowhere and shown this once."""

    session: HumanSession
    principal: Principal
    secret: str

    def __repr__(self) -> str:
        return f"Opened(session={self.session.pk!r})"


def sign_in(
    username: str,
    password: str,
    *,
    address: str,
    now_ms: int,
    scopes: Sequence[str] | None = None,
    namespaces: Sequence[str] | None = None,
) -> Opened:
    """Open a session for a person of this instance; `scopes` and `namespaces` None for all the person has.

    Raises ApiError AUTHENTICATION_REQUIRED (unknown, wrong and stopped alike), RATE_LIMITED, SERVICE_OVERLOADED, and
    FORBIDDEN for scopes the person does not hold.
    """
    person = attempts.signed_in(username, password, address=address, now_ms=now_ms)
    if person is None:
        raise ApiError(
            "AUTHENTICATION_REQUIRED",
            "This name and password are nobody's who may sign in.",
            headers=authentication_required().headers,
        )
    return open_session(person, now_ms=now_ms, scopes=scopes, namespaces=namespaces)


def open_session(
    person: Operator, *, now_ms: int, scopes: Sequence[str] | None = None, namespaces: Sequence[str] | None = None
) -> Opened:
    """Open a session for somebody who has proved who they are. Raises ApiError FORBIDDEN for scopes not held."""
    held = people.principal_of(person)
    missing = sorted(scope for scope in scopes or () if not held.has(scope))
    if missing:
        raise ApiError(
            "FORBIDDEN", f"This person does not hold {missing[0]}.", reason="MISSING_SCOPE", required_scope=missing[0]
        )
    session_id = token.new_key_id()
    secret = token.new_token(session_id, ENVIRONMENT).text
    known = peppers.known()
    session = HumanSession(
        id=session_id,
        person=person,
        person_mark=_mark(person),
        digest=known.digests(secret)[known.current],
        pepper_version=known.current,
        scopes=sorted(held.scopes if scopes is None else set(scopes)),
        namespaces=sorted({EVERY_NAMESPACE} if namespaces is None else set(namespaces)),
        created_at_ms=now_ms,
        expires_at_ms=now_ms + limits.SESSION_MS,
    )
    principal = _principal(session, person)
    with transaction.atomic():
        session.save(force_insert=True)
        # Ended sessions say nothing that the audit trail does not.
        HumanSession.objects.filter(expires_at_ms__lte=now_ms).delete()
        record(principal, "session.opened", target=session.pk, at_ms=now_ms)
    return Opened(session=session, principal=principal, secret=secret)


def sign_out(principal: Principal, *, now_ms: int) -> None:
    """End the session in every process before this returns. Raises ApiError CONFLICT for a caller without one."""
    if principal.session_id is None:
        raise ApiError("CONFLICT", "This is a key, not a session; keys are revoked.")
    _end(principal.session_id, principal, now_ms=now_ms)


def end(session: HumanSession, *, by: Principal, now_ms: int) -> bool:
    """End somebody's session in every process before this returns; False where it had ended. Not in a transaction."""
    return _end(session.pk, by, now_ms=now_ms)


def _end(session_id: str, by: Principal, *, now_ms: int) -> bool:
    with trust.shrinking():
        ended = HumanSession.objects.filter(pk=session_id, ended_at_ms__isnull=True).update(ended_at_ms=now_ms)
        if ended:
            record(by, "session.ended", target=session_id, at_ms=now_ms)
    return bool(ended)


def state_of(session: HumanSession, *, now_ms: int) -> str:
    """Return ended, expired, void (the person was stopped, or has another password since) or live."""
    if session.ended_at_ms is not None:
        return "ended"
    if now_ms >= session.expires_at_ms:
        return "expired"
    person = session.person
    return "live" if person.is_active and hmac.compare_digest(session.person_mark, _mark(person)) else "void"


def looked_up(given: token.Token, *, now_ms: int) -> tuple[Principal, int] | None:
    """Return whom a session's token is and when that ends (milliseconds), or None: unknown, wrong, ended.

    Before the digest matches, a known id costs what an unknown one does: one statement that always gives one row.
    """
    digests = peppers.known().digests(given.text)
    session_id, kept, version = _next_to(given.key_id)
    if not hmac.compare_digest(kept, digests.get(version, _OTHERS)):
        return None
    session = HumanSession.objects.select_related("person").filter(pk=session_id).first()
    if session is None or state_of(session, now_ms=now_ms) != "live":
        return None
    return _principal(session, session.person), session.expires_at_ms


def _next_to(session_id: str) -> tuple[str, bytes, int]:
    """Return id, digest and pepper version of the session, or where there is none of another: no digest is its.

    It is the next in the order of ids, or the first of all beyond the last; as `apps.keys.rows` finds a key's secrets.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, [session_id])
        found = cursor.fetchone()
    return ("", _NOBODYS, 0) if found is None else (found[0], bytes(found[1]), found[2])


def _principal(session: HumanSession, person: Operator) -> Principal:
    """Return the session's principal: what was asked for, as far as the person holds it now."""
    held, asked = people.principal_of(person), frozenset(session.scopes)
    return Principal(
        kind="human",
        key_id="",
        identity=held.identity,
        person_id=person.pk,
        session_id=session.pk,
        scopes=held.scopes if EVERYTHING in asked else frozenset(scope for scope in asked if held.has(scope)),
        namespaces=frozenset(session.namespaces),
        expires_at_ms=session.expires_at_ms,
    )


def _mark(person: Operator) -> str:
    """Return what changes with the person's password."""
    return person.get_session_auth_hash()[:64]
