"""Which grants there are, for those who may see them: one's own, or with `grants:write` all of the namespace."""

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from apps.keys.grants import limits
from apps.keys.grants.errors import GrantNotFound
from apps.keys.grants.form import is_id
from apps.keys.grants.holding import grant_subject
from apps.keys.grants.models import IssuedGrant
from apps.keys.principal import Principal


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantPage:
    """Some grants, newest first, and the number to continue below; None at the end."""

    rows: list[IssuedGrant]
    below: int | None


def find(grant_id: str, *, reader: Principal, tenant_id: str, lock: bool = False) -> IssuedGrant:
    """Return the grant. Raises GrantNotFound alike for none and for one that `reader` may not see."""
    rows = visible(reader, tenant_id) if is_id(grant_id) else IssuedGrant.objects.none()
    row = (rows.select_for_update(of=("self",)) if lock else rows).filter(grant_id=grant_id).first()
    if row is None:
        raise GrantNotFound("there is no such grant")
    return row


def page(
    reader: Principal,
    tenant_id: str,
    *,
    below: int | None = None,
    limit: int = limits.DEFAULT_PAGE,
    subject: str | None = None,
    live_at_ms: int | None = None,
) -> GrantPage:
    """Return grants `reader` may see, newest first: of `subject` (`kind:id`) only, and only those not yet ended."""
    rows = visible(reader, tenant_id)
    if subject is not None:
        kind, _, subject_id = subject.partition(":")
        if not subject.isprintable():
            return GrantPage(rows=[], below=None)
        rows = rows.filter(subject_kind=kind, subject_id=subject_id)
    if live_at_ms is not None:
        rows = rows.filter(revoked_at_ms__isnull=True, expires_at_ms__gt=live_at_ms)
    if below is not None:
        rows = rows.filter(pk__lt=below)
    found = list(rows.order_by("-pk")[: limit + 1])
    return GrantPage(rows=found[:limit], below=found[limit - 1].pk if len(found) > limit else None)


def visible(reader: Principal, tenant_id: str) -> QuerySet[IssuedGrant]:
    """Return the namespace's grants that `reader` may see."""
    rows = IssuedGrant.objects.filter(namespace=tenant_id)
    if not reader.may_enter(tenant_id):
        return rows.none()
    if reader.has("grants:write"):
        return rows
    me = grant_subject(reader)
    return rows.filter(Q(subject_kind=me.kind, subject_id=me.id) | Q(issuer_kind=me.kind, issuer_id=me.id))
