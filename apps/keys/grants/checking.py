"""One grant against one request: the decision. Nothing here writes; whatever is presented, the worst is a refusal.

The order is fixed, and the first thing that does not hold is the answer:

     1 form                strict reading (`form.read_signed`)          GRANT_INVALID
     2 signature           key of the ring, digest, Ed25519             GRANT_INVALID
     3 known               issued here                                  GRANT_INVALID
     4 binding             subject, tenant, application                 GRANT_SCOPE_DENIED
     5 address             the one spelling, in this application        GRANT_INVALID
     6 time and status     not from the future *, not past, ACTIVE      GRANT_INVALID, _EXPIRED, _REVOKED
     7 record              this instance's own: not revoked, this form  GRANT_REVOKED, GRANT_INVALID
     8 authority           capability (literal) and a covering scope    GRANT_SCOPE_DENIED
     9 constraints         against the whole context                    GRANT_SCOPE_DENIED
    10 origin              the key or person it came from still holds   GRANT_REVOKED, GRANT_EXPIRED
    11 its parent          2, 3, 6 to 10 for the parent's own subject, and the child is narrower; and so on upwards

The walk upwards is a loop with a bound on its length; an ancestor met twice ends it.

* Asked of a grant that somebody presents. One that this instance looks up among its own was issued by its own clock: if
that was set back since, the grant is as good as it was, and neither triggers are blocked nor work is buried for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.http import canonical_json
from apps.http.errors import ApiError
from apps.keys.clock import milliseconds
from apps.keys.grants import rules
from apps.keys.grants.errors import GrantExpired, GrantInvalid, GrantRefused, GrantRevoked, GrantScopeDenied
from apps.keys.grants.form import GrantSubject, SignedGrant, read_signed
from apps.keys.grants.holding import check_holds
from apps.keys.grants.keyring import Ring
from apps.keys.grants.limits import MAX_DEPTH
from apps.keys.grants.models import IssuedGrant, SpentGrantId, mark_of
from apps.keys.grants.resources import SCHEME, check_address
from apps.keys.grants.signing import check_signature
from apps.keys.people import principal_of
from apps.keys.verify import principal_for

POLICY = "feltdb.resource-authorization.v1"
ALLOWED = "GRANT_ALLOWED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked of a grant: may this subject do this, to this, under these circumstances?"""

    subject: GrantSubject
    tenant_id: str
    application_id: str
    capability: str
    resource: str
    context: rules.Context


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The answer. `decision_id` is a function of question, instant and answer: whoever logs it can recompute it."""

    allowed: bool
    code: str
    reason: str
    grant_id: str | None
    decision_id: str
    request_hash: str
    decided_at_ms: int
    policy: str = POLICY

    def require(self) -> None:
        """Raise ApiError with the decision's code unless it allows."""
        if not self.allowed:
            raise ApiError(self.code, f"{self.reason[:1].upper()}{self.reason[1:]}.", decision_id=self.decision_id)


@dataclass(frozen=True, slots=True)
class _Link:
    """A grant of the chain, with this instance's record of it."""

    signed: SignedGrant
    row: IssuedGrant


def decide(value: Any, question: Question, *, ring: Ring, now_ms: int) -> Decision:
    """Return the decision on a presented grant: a JSON value or a SignedGrant."""
    grant_id: str | None = None
    try:
        signed = read_signed(value)
        grant_id = signed.grant.id
        check_allows(signed, question, ring=ring, now_ms=now_ms, presented=True)
    except GrantRefused as refused:
        return _decision(question, now_ms, grant_id, code=refused.code, reason=refused.message)
    return _decision(question, now_ms, grant_id, code=ALLOWED, reason="the grant allows this")


def check_standing(row: IssuedGrant, *, ring: Ring, now_ms: int) -> int:
    """Return when the first of the stored grant and all it stands on ends (milliseconds, exclusive).

    Raises GrantRefused unless they all hold at `now_ms`, whatever they are for.
    """
    ends_at_ms = row.expires_at_ms
    for link, child in _chain(row.signed(), row):
        check_signature(link.signed, ring)
        _check_link(link, now_ms, presented=False)
        _check_origin(link, now_ms)
        if child is not None:
            rules.check_narrower(child.signed.grant, link.signed.grant)
        key = link.row.key
        ends = [ends_at_ms, link.signed.grant.expires_at * 1000]
        if key is not None and key.expires_at is not None:
            ends.append(milliseconds(key.expires_at))
        ends_at_ms = min(ends)
    return ends_at_ms


def stored(tenant_id: str, grant_id: str) -> IssuedGrant | None:
    """Return this instance's record of a grant, with the key or person it came from."""
    found = IssuedGrant.objects.select_related("key", "person").filter(namespace=tenant_id, grant_id=grant_id)
    return next(iter(found.order_by()[:1]), None)


def absent(tenant_id: str, grant_id: str) -> GrantRefused:
    """Return why there is no record of a grant: it ended long ago and was removed, or there never was one."""
    if SpentGrantId.objects.filter(pk=mark_of(tenant_id, grant_id)).exists():
        return GrantExpired("the grant has expired")
    return GrantInvalid("this server issued no such grant")


def why_dead(value: Any, *, ring: Ring, now_ms: int) -> GrantRefused | None:
    """Return why a presented grant holds for nothing any more, or None while it stands."""
    try:
        signed = read_signed(value)
        check_signature(signed, ring)
        check_standing(_known(signed), ring=ring, now_ms=now_ms)
    except GrantRefused as refused:
        return refused
    return None


def check_allows(signed: SignedGrant, question: Question, *, ring: Ring, now_ms: int, presented: bool) -> None:
    """Raise GrantRefused unless the grant allows what is asked, by the order above."""
    check_signature(signed, ring)
    row = _known(signed)
    _check_binding(signed, question)
    for link, child in _chain(signed, row):
        grant = link.signed.grant
        if child is not None:
            check_signature(link.signed, ring)
        _check_link(link, now_ms, presented=presented)
        rules.check_authority(grant, question.capability, question.resource)
        rules.check_constraints(grant.constraints, grant.subject, question.context)
        _check_origin(link, now_ms)
        if child is not None:
            rules.check_narrower(child.signed.grant, grant)


def _known(signed: SignedGrant) -> IssuedGrant:
    """Return this instance's record of the grant. Raises GrantInvalid for one it never issued."""
    row = stored(signed.grant.tenant_id, signed.grant.id)
    if row is None:
        raise absent(signed.grant.tenant_id, signed.grant.id)
    return row


def _check_binding(signed: SignedGrant, question: Question) -> None:
    grant = signed.grant
    if grant.subject != question.subject:
        raise GrantScopeDenied("the grant is for another subject")
    if grant.tenant_id != question.tenant_id:
        raise GrantScopeDenied("the grant is for another tenant")
    if grant.application_id != question.application_id:
        raise GrantScopeDenied("the grant is for another application")
    check_address(question.resource, question.application_id)
    segments = question.resource[len(SCHEME) :].split("/")
    if segments[1:2] == ["state"] and len(segments) > 2 and segments[2].startswith("_"):
        raise GrantScopeDenied("no grant opens a system collection")


def _chain(signed: SignedGrant, row: IssuedGrant) -> Iterator[tuple[_Link, _Link | None]]:
    """Give the grant and then its ancestors, each with the link below it. Raises GrantInvalid for a broken chain."""
    link, child = _Link(signed, row), None
    for _ in range(MAX_DEPTH + 1):
        yield link, child
        parent_id = link.signed.grant.parent_grant
        if parent_id is None:
            return
        row_above = stored(link.signed.grant.tenant_id, parent_id)
        if row_above is None:
            raise GrantInvalid("a grant that this one stands on is missing")
        link, child = _Link(row_above.signed(), row_above), link
    raise GrantInvalid(f"the grant stands on more than {MAX_DEPTH} others")


def _check_link(link: _Link, now_ms: int, *, presented: bool) -> None:
    """Check time, status and revocation; and that the stored form is the one that was given."""
    if presented:
        rules.check_begun(link.signed.grant, now_ms)
    rules.check_time_and_status(link.signed.grant, now_ms)
    if link.row.revoked_at_ms is not None:
        raise GrantRevoked("the grant is revoked")
    if link.row.digest != link.signed.digest:
        raise GrantInvalid("this server issued no such grant")


def _check_origin(link: _Link, now_ms: int) -> None:
    """Hold that a grant dies with the key or the person it came from, their end or their narrowing."""
    row, grant = link.row, link.signed.grant
    key, person = row.key, row.person
    if key is not None:
        if key.revoked_at is not None:
            raise GrantRevoked("the key that the grant came from is revoked")
        if key.expires_at is not None and milliseconds(key.expires_at) <= now_ms:
            raise GrantExpired("the key that the grant came from has expired")
        origin, giver = principal_for(key), "key"
    elif person is not None:
        if not person.is_active:
            raise GrantRevoked("the person that the grant came from was stopped")
        origin, giver = principal_of(person), "person"
    else:
        return
    # A delegated grant's authority is its parent's, not the delegating key's: there the key only has to be alive.
    first = row.depth == 0
    try:
        check_holds(
            origin,
            tenant_id=grant.tenant_id,
            application_id=grant.application_id,
            capabilities=grant.capabilities if first else (),
            resources=grant.resources if first else (),
        )
    except GrantScopeDenied as refused:
        raise GrantRevoked(f"the {giver} that the grant came from holds less now") from refused


def _decision(question: Question, now_ms: int, grant_id: str | None, *, code: str, reason: str) -> Decision:
    context = question.context
    request_hash = _hash(
        {
            "subject": question.subject.wire(),
            "tenant_id": question.tenant_id,
            "application_id": question.application_id,
            "capability": question.capability,
            "resource": question.resource,
            "context": {name: getattr(context, name) for name in context.__dataclass_fields__},
            "grant_id": grant_id,
        }
    )
    allowed = code == ALLOWED
    decision_id = _hash([request_hash, now_ms, allowed, code, reason])[:24]
    return Decision(
        allowed=allowed,
        code=code,
        reason=reason,
        grant_id=grant_id,
        decision_id=f"decision_{decision_id}",
        request_hash=request_hash,
        decided_at_ms=now_ms,
    )


def _hash(value: Any) -> str:
    return canonical_json.sha256_hex(_sayable(value))


def _sayable(value: Any) -> Any:
    """Return the value with nothing in it that has no canonical JSON: a refusal must not fail for what it refuses."""
    if isinstance(value, Mapping):
        return {_sayable(key): _sayable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sayable(item) for item in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
