"""What can happen to grants. Every door (HTTP, command, trigger, work) calls these; no rule lives elsewhere.

Who issues holds what they give (`holding.py`); who delegates gives on what a grant gave them. A grant dies with the
key it came from, that key's expiry or its narrowing: nothing is swept, every verification looks (`checking.py`).
Reading is in `reading.py`.
"""

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction

from apps.http import strict_json
from apps.keys import trust
from apps.keys.audit.services import record
from apps.keys.grants import checking, holding, limits, resources, rules, signing
from apps.keys.grants.checking import Decision, Question
from apps.keys.grants.errors import (
    DelegationInvalid,
    GrantConflict,
    GrantInvalid,
    GrantRefused,
    GrantScopeDenied,
    ReauthorizationRequired,
)
from apps.keys.grants.form import Constraints, Grant, GrantSubject, Resource, SignedGrant, read_grant
from apps.keys.grants.keyring import shared_ring
from apps.keys.grants.models import IssuedGrant, SpentGrantId, mark_of
from apps.keys.grants.reading import find
from apps.keys.models import ApiKey
from apps.keys.principal import Principal


def issue(
    principal: Principal,
    *,
    tenant_id: str,
    application_id: str,
    subject: GrantSubject,
    capabilities: Iterable[str],
    scopes: Iterable[Resource],
    expires_at: int,
    now_ms: int,
    constraints: Constraints | None = None,
    grant_id: str | None = None,
    revision: int = 1,
) -> IssuedGrant:
    """Give `subject` authority that `principal` itself holds, until `expires_at` (seconds, exclusive).

    Raises GrantScopeDenied for anything not held, GrantInvalid for malformed members, GrantConflict for a used id.
    """
    grant = Grant(
        id=grant_id or new_grant_id(),
        issuer=holding.grant_subject(principal),
        subject=subject,
        tenant_id=tenant_id,
        application_id=application_id,
        capabilities=frozenset(capabilities),
        resources=tuple(scopes),
        constraints=constraints or Constraints(),
        issued_at=now_ms // 1000,
        expires_at=expires_at,
        revision=revision,
    )
    _check_form(grant)
    _check_life(grant, principal)
    holding.check_holds(
        principal,
        tenant_id=tenant_id,
        application_id=application_id,
        capabilities=grant.capabilities,
        resources=grant.resources,
    )
    with transaction.atomic():
        row = _store(grant, principal, now_ms=now_ms)
        record(principal, "grant.issued", target=grant.id, namespace=tenant_id, after=grant.wire(), at_ms=now_ms)
    return row


def issue_for(
    principal: Principal,
    *,
    tenant_id: str,
    application_id: str,
    now_ms: int,
    capabilities: Iterable[str] | None = None,
) -> SignedGrant:
    """Return a grant of `principal` to itself for exactly what it holds, or for those `capabilities` of it.

    For work and triggers that name no grant. Asked again for the same, the same grant is returned, so that work
    in any amount shares one. It may be called within the caller's transaction. Raises GrantScopeDenied for what
    is not held.
    """
    held = holding.capabilities_of(principal)
    wanted = held if capabilities is None else frozenset(capabilities)
    scopes = holding.resources_of(principal, application_id)
    holding.check_holds(
        principal, tenant_id=tenant_id, application_id=application_id, capabilities=wanted, resources=scopes
    )
    me = holding.grant_subject(principal)
    grant = Grant(
        id=new_grant_id(),
        issuer=me,
        subject=me,
        tenant_id=tenant_id,
        application_id=application_id,
        capabilities=wanted,
        resources=scopes,
        constraints=Constraints(),
        issued_at=now_ms // 1000,
        expires_at=_shared_end(principal, now_ms),
    )
    _check_form(grant)
    shared_as = hashlib.sha256(replace(grant, id="-", issued_at=0).signed_bytes()).hexdigest()
    row = _shared(grant, principal, shared_as)
    if row is None:
        row = _store_shared(grant, principal, shared_as, now_ms)
    return row.signed()


def delegate(
    parent_id: str,
    principal: Principal,
    *,
    tenant_id: str,
    subject: GrantSubject,
    now_ms: int,
    capabilities: Iterable[str] | None = None,
    scopes: Iterable[Resource] | None = None,
    constraints: Constraints | None = None,
    expires_at: int | None = None,
    grant_id: str | None = None,
) -> IssuedGrant:
    """Give on what a grant gave `principal`, narrower or the same; what is left out stays the parent's.

    Raises GrantNotFound; GrantExpired, GrantRevoked or GrantInvalid where the parent no longer holds;
    DelegationInvalid where the child would be wider, too deep, or have an id that is used.
    """
    parent = find(parent_id, reader=principal, tenant_id=tenant_id)
    checking.check_standing(parent, ring=shared_ring(now_ms=now_ms), now_ms=now_ms)
    above = parent.signed().grant
    if parent.depth >= limits.MAX_DEPTH:
        raise DelegationInvalid(f"a grant is delegated at most {limits.MAX_DEPTH} times")
    ends = min(above.expires_at, _end_of(principal, above.expires_at))
    child = Grant(
        id=grant_id or new_grant_id(),
        issuer=holding.grant_subject(principal),
        subject=subject,
        tenant_id=above.tenant_id,
        application_id=above.application_id,
        capabilities=above.capabilities if capabilities is None else frozenset(capabilities),
        resources=above.resources if scopes is None else tuple(scopes),
        constraints=above.constraints if constraints is None else constraints,
        issued_at=max(now_ms // 1000, above.issued_at),
        expires_at=ends if expires_at is None else expires_at,
        parent_grant=above.id,
    )
    rules.check_narrower(child, above)
    _check_form(child)
    _check_life(child, principal)
    try:
        with transaction.atomic():
            row = _store(child, principal, now_ms=now_ms, parent=parent)
            record(principal, "grant.delegated", target=child.id, namespace=tenant_id, after=child.wire(), at_ms=now_ms)
    except GrantConflict as used:
        raise DelegationInvalid("the id is used; a delegated grant has a new one", field="id") from used
    return row


def revoke(grant_id: str, principal: Principal, *, tenant_id: str, now_ms: int, reason: str = "") -> IssuedGrant:
    """End the grant, and with it everything delegated from it, at once; again is no error and changes nothing.

    Whoever holds the scope `grants:write` may: ending authority gives none. Not inside a transaction.
    Raises GrantNotFound, GrantScopeDenied.
    """
    if not principal.has("grants:write"):
        raise GrantScopeDenied("this needs the scope grants:write")
    with trust.shrinking():
        row = find(grant_id, reader=principal, tenant_id=tenant_id, lock=True)
        if row.revoked_at_ms is not None:
            return row
        before = row.signed().grant
        ended = signing.sign(replace(before, status="REVOKED"), shared_ring(now_ms=now_ms).current)
        row.document = strict_json.dumps(ended.wire()).decode()
        row.revoked_at_ms = now_ms
        row.revoked_by = principal.label[: limits.MAX_TEXT_CHARS]
        row.save(update_fields=["document", "revoked_at_ms", "revoked_by"])
        record(
            principal,
            "grant.revoked",
            target=grant_id,
            namespace=tenant_id,
            reason=reason,
            before=before.wire(),
            after=ended.grant.wire(),
            at_ms=now_ms,
        )
    return row


def verify(
    signed: Any,
    *,
    subject: GrantSubject,
    tenant_id: str,
    application_id: str,
    capability: str,
    resource: str,
    context: rules.Context,
    now_ms: int,
) -> Decision:
    """Decide whether the grant lets `subject` do `capability` to `resource` in `context`. Never raises for its input.

    `signed` is what was presented: JSON of any shape, or a SignedGrant. `subject`, tenant and `context` come from
    the server's own knowledge. `decision.require()` turns a refusal into its ApiError.
    """
    question = Question(
        subject=subject,
        tenant_id=tenant_id,
        application_id=application_id,
        capability=capability,
        resource=resource,
        context=context,
    )
    return checking.decide(signed, question, ring=shared_ring(now_ms=now_ms), now_ms=now_ms)


def reauthorize(signed: Any, *, authorized_revision: int, current_revision: int, **question: Any) -> Decision:
    """Decide again about something allowed earlier, offline: as `verify`, and nothing may have changed since.

    A revision other than the authorized one is REAUTHORIZATION_REQUIRED even where the grant still holds.
    """
    decision = verify(signed, **question)
    if decision.allowed and authorized_revision != current_revision:
        moved = ReauthorizationRequired("the application changed since this was authorized; ask again")
        return replace(decision, allowed=False, code=moved.code, reason=moved.message)
    return decision


def standing(signed: Any, *, now_ms: int) -> GrantRefused | None:
    """Return why the grant no longer holds for anything at all, or None while it does. For health and `blocked`."""
    return checking.why_dead(signed, ring=shared_ring(now_ms=now_ms), now_ms=now_ms)


def new_grant_id() -> str:
    """Return a fresh id: `grant_` and 32 hex digits."""
    return f"grant_{uuid.uuid4().hex}"


def _check_form(grant: Grant) -> None:
    """Hold a grant about to be signed to what the strict reader will demand of it, and its scopes to what matches."""
    for resource in grant.resources:
        resources.check_scope(resource, grant.application_id)
    read_grant(grant.wire())


def _check_life(grant: Grant, principal: Principal) -> None:
    if not grant.issued_at < grant.expires_at <= grant.issued_at + limits.MAX_LIFETIME_S:
        raise GrantInvalid(f"a grant ends after it began, within {limits.MAX_LIFETIME_S} seconds", field="expires_at")
    if grant.expires_at > _end_of(principal, grant.expires_at):
        raise GrantScopeDenied("a grant cannot outlive the key it comes from", field="expires_at")


def _end_of(principal: Principal, otherwise: int) -> int:
    """Return the last second a grant of this principal may end at."""
    return otherwise if principal.gives_until_ms is None else principal.gives_until_ms // 1000


def _shared_end(principal: Principal, now_ms: int) -> int:
    """Return when a grant issued without being asked for ends: with the key, or far off, on a coarse grid."""
    step = limits.IMPLICIT_STEP_S
    far = (now_ms // 1000 // step + limits.MAX_LIFETIME_S // step) * step
    return min(far, _end_of(principal, far))


def _shared(grant: Grant, principal: Principal, shared_as: str) -> IssuedGrant | None:
    found = IssuedGrant.objects.filter(
        namespace=grant.tenant_id,
        key_id=principal.key_id or None,
        person_id=principal.person_id,
        shared_as=shared_as,
        revoked_at_ms__isnull=True,
    )
    return next(iter(found.order_by()[:1]), None)


def _store_shared(grant: Grant, principal: Principal, shared_as: str, now_ms: int) -> IssuedGrant:
    """Store a shared grant, or return the one that somebody else stored meanwhile."""
    try:
        with transaction.atomic():
            row = _store(grant, principal, now_ms=now_ms, shared_as=shared_as)
            record(
                principal,
                "grant.issued",
                target=grant.id,
                namespace=grant.tenant_id,
                reason="for work or triggers that name no grant",
                after=grant.wire(),
                at_ms=now_ms,
            )
    except GrantConflict:
        stored = _shared(grant, principal, shared_as)
        if stored is None:
            raise
        return stored
    return row


def _store(
    grant: Grant, principal: Principal, *, now_ms: int, parent: IssuedGrant | None = None, shared_as: str = ""
) -> IssuedGrant:
    """Sign and insert. Raises GrantConflict for a used id, GrantScopeDenied for a caller whose key is not there."""
    if principal.key_id and not ApiKey.objects.filter(pk=principal.key_id).exists():
        raise GrantScopeDenied("only the holder of a key gives grants")
    signed = signing.sign(grant, shared_ring(now_ms=now_ms).current)
    row = IssuedGrant(
        namespace=grant.tenant_id,
        grant_id=grant.id,
        application_id=grant.application_id,
        issuer_kind=grant.issuer.kind,
        issuer_id=grant.issuer.id,
        subject_kind=grant.subject.kind,
        subject_id=grant.subject.id,
        key_id=principal.key_id or None,
        person_id=principal.person_id,
        parent=parent,
        depth=0 if parent is None else parent.depth + 1,
        issued_at_ms=grant.issued_at * 1000,
        expires_at_ms=grant.expires_at * 1000,
        digest=signed.digest,
        document=strict_json.dumps(signed.wire()).decode(),
        shared_as=shared_as,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            # After it: an insertion waits for whoever is just removing a grant of this id.
            if SpentGrantId.objects.filter(pk=mark_of(grant.tenant_id, grant.id)).exists():
                raise GrantConflict("there was a grant of this id already", field="id")
    except IntegrityError as error:
        raise GrantConflict("there is a grant of this id already", field="id") from error
    return row
