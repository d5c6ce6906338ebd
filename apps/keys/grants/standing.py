"""Grants asked by their id: the one to carry along unasked, whether one stands, what one allows. For work and triggers.

What was found to hold is remembered in this process until the first end in the grant's chain, for as long as nobody's
rights were taken away anywhere (`apps/keys/trust.py`). A refusal is never remembered.
"""

import threading
from dataclasses import dataclass
from typing import TypeAlias

from apps.keys import trust
from apps.keys.grants import checking, limits, resources, services
from apps.keys.grants.checking import Question
from apps.keys.grants.errors import GrantRefused
from apps.keys.grants.keyring import shared_ring
from apps.keys.grants.models import IssuedGrant
from apps.keys.grants.rules import Context
from apps.keys.principal import Principal


@dataclass(frozen=True, slots=True)
class _Held:
    grant_id: str
    moment: trust.Moment
    until_ms: int


_Key: TypeAlias = tuple[object, ...]
_held: dict[_Key, _Held] = {}
_turn = threading.Lock()


def carried_by(principal: Principal, *, tenant_id: str, application_id: str, now_ms: int) -> str:
    """Return the id of the principal's grant to itself for all it holds, issued where there is none yet.

    Before the caller's transaction begins: it may write. Raises GrantScopeDenied for a namespace not held.
    """
    key = ("carried", principal, tenant_id, application_id)
    current = trust.present()
    known = _recall(key, current, now_ms)
    if known is not None:
        return known
    signed = services.issue_for(principal, tenant_id=tenant_id, application_id=application_id, now_ms=now_ms)
    _remember(key, signed.grant.id, current, signed.grant.expires_at * 1000)
    return signed.grant.id


def refusal(tenant_id: str, grant_id: str, *, now_ms: int) -> GrantRefused | None:
    """Return why the grant holds for nothing any more, or None while it stands."""
    key = ("stands", tenant_id, grant_id)
    current = trust.present()
    if _recall(key, current, now_ms) is not None:
        return None
    try:
        row = _row(tenant_id, grant_id)
        ends_at_ms = checking.check_standing(row, ring=shared_ring(now_ms=now_ms), now_ms=now_ms)
    except GrantRefused as refused:
        return refused
    _remember(key, grant_id, current, ends_at_ms)
    return None


def check_allows(
    tenant_id: str,
    grant_id: str,
    *,
    capability: str,
    segments: tuple[str, ...],
    environment: str,
    workload_id: str,
    now_ms: int,
) -> None:
    """Raise GrantRefused unless the grant lets its own subject do this to `flow://{application}/{segments}`."""
    key = ("allows", tenant_id, grant_id, capability, segments, environment)
    current = trust.present()
    if _recall(key, current, now_ms) is not None:
        return
    row = _row(tenant_id, grant_id)
    signed = row.signed()
    grant = signed.grant
    question = Question(
        subject=grant.subject,
        tenant_id=tenant_id,
        application_id=grant.application_id,
        capability=capability,
        resource=resources.address(grant.application_id, *segments),
        context=Context(environment=environment, workload_id=workload_id),
    )
    ring = shared_ring(now_ms=now_ms)
    checking.check_allows(signed, question, ring=ring, now_ms=now_ms, presented=False)
    ends_at_ms = checking.check_standing(row, ring=ring, now_ms=now_ms)
    if grant.constraints.workload_id is None:  # else the answer is this work's alone
        _remember(key, grant_id, current, ends_at_ms)


def forget_all() -> None:
    """Drop what this process remembers."""
    with _turn:
        _held.clear()


def _row(tenant_id: str, grant_id: str) -> IssuedGrant:
    row = checking.stored(tenant_id, grant_id)
    if row is None:
        raise checking.absent(tenant_id, grant_id)
    return row


def _recall(key: _Key, current: trust.Moment | None, now_ms: int) -> str | None:
    known = _held.get(key)
    if known is None or now_ms >= known.until_ms or not known.moment.holds(current):
        return None
    return known.grant_id


def _remember(key: _Key, grant_id: str, current: trust.Moment | None, until_ms: int) -> None:
    if current is None:
        return
    with _turn:
        if len(_held) >= limits.MAX_REMEMBERED:
            _held.clear()
        _held[key] = _Held(grant_id, current, until_ms)
