"""Nobody gives what they do not hold; a grant lives as long as its key; grants nobody named."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.keys.audit.models import AuditEvent
from apps.keys.grants import limits, services
from apps.keys.grants.errors import (
    GrantConflict,
    GrantInvalid,
    GrantRevoked,
    GrantScopeDenied,
)
from apps.keys.grants.form import GrantSubject, Resource
from apps.keys.grants.models import IssuedGrant
from apps.keys.models import ApiKey
from tests.keys.grants.conftest import (
    AGENT,
    HOUR_S,
    NOW,
    NOW_MS,
    NOW_S,
    ORDERS,
    Ask,
    Give,
    Holder,
    child_of,
    worker,
)


@pytest.mark.parametrize(
    "asked",
    [
        {"capabilities": ["state:read", "state:write"]},
        {"capabilities": ["keys:admin"]},
        {"capabilities": ["connection:use"]},
        {"tenant_id": "another"},
        {"scopes": [Resource("APPLICATION", "flow://app")]},
        {"scopes": [Resource("RESOURCE_PREFIX", "flow://app/state")]},
        {"scopes": [Resource("COLLECTION", "flow://app/state/customers")]},
        {"expires_at": NOW_S + 2 * HOUR_S + 1},
    ],
    ids=str,
)
def test_nobody_issues_what_their_key_does_not_hold(holder: Holder, give: Give, asked: dict[str, Any]) -> None:
    limited = holder(
        scopes=["grants:write", "state:read"], collections=["orders"], expires_at=NOW + timedelta(hours=2)
    ).principal
    held = {"capabilities": ["state:read"], "scopes": [Resource("COLLECTION", ORDERS)]}
    give(limited, **held)
    with pytest.raises(GrantScopeDenied):
        give(limited, **held | asked)
    assert IssuedGrant.objects.count() == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"expires_at": NOW_S},
        {"expires_at": NOW_S - 1},
        {"expires_at": NOW_S + limits.MAX_LIFETIME_S + 1},
        {"capabilities": ["*"]},
        {"capabilities": []},
        {"scopes": []},
        {"scopes": [Resource("WORKLOAD", "flow://app/workloads/*")]},
        {"scopes": [Resource("RESOURCE", "flow://app/%2e%2e")]},
        {"scopes": [Resource("RESOURCE", "flow://other/x")]},
        {"subject": GrantSubject("root", "r")},
        {"grant_id": "a b"},
        {"grant_id": "x" * 129},
    ],
    ids=str,
)
def test_a_grant_that_could_not_be_read_or_never_match_is_not_signed(
    holder: Holder, give: Give, asked: dict[str, Any]
) -> None:
    with pytest.raises(GrantInvalid):
        give(holder().principal, **asked)


def test_the_issuer_is_who_asks_and_the_instant_is_the_servers(holder: Holder, give: Give) -> None:
    held = holder()
    grant = give(held.principal).signed().grant
    assert grant.issuer == GrantSubject("service", held.key.id)
    assert grant.issued_at == NOW_S


def test_an_id_is_used_once_in_a_namespace_and_tells_nothing_about_another(
    holder: Holder, give: Give, make_key: Callable[..., Any]
) -> None:
    held = holder(namespaces=["test", "another"])
    give(held.principal, grant_id="g1")
    with pytest.raises(GrantConflict):
        give(held.principal, grant_id="g1")
    give(held.principal, grant_id="g1", tenant_id="another")


def test_a_grant_dies_the_moment_the_key_it_came_from_is_revoked(holder: Holder, give: Give, ask: Ask) -> None:
    held = holder()
    grant = give(held.principal)
    child = child_of(grant, worker(holder))
    assert ask(grant).allowed and ask(child, subject=AGENT).allowed
    ApiKey.objects.filter(pk=held.key.id).update(revoked_at=NOW, revoked_by="ops")
    assert ask(grant).code == ask(child, subject=AGENT).code == "GRANT_REVOKED"
    assert isinstance(services.standing(grant.signed().wire(), now_ms=NOW_MS), GrantRevoked)


def test_a_grant_dies_when_its_keys_end_is_moved_nearer(holder: Holder, give: Give, ask: Ask) -> None:
    held = holder()
    grant = give(held.principal)
    ApiKey.objects.filter(pk=held.key.id).update(expires_at=NOW + timedelta(seconds=60))
    assert ask(grant, now_ms=NOW_MS + 59_999).allowed
    assert ask(grant, now_ms=NOW_MS + 60_000).code == "GRANT_EXPIRED"


@pytest.mark.parametrize(
    "narrowed",
    [{"scopes": ["state:read"]}, {"namespaces": ["another"]}, {"collections": ["customers"]}],
    ids=str,
)
def test_a_grant_dies_when_its_key_no_longer_holds_what_it_says(
    holder: Holder, give: Give, ask: Ask, narrowed: dict[str, Any]
) -> None:
    held = holder()
    grant = give(held.principal)
    ApiKey.objects.filter(pk=held.key.id).update(**narrowed)
    assert ask(grant).code == "GRANT_REVOKED"


def test_a_delegated_grant_dies_with_the_delegating_key_but_needs_no_scopes_of_it(
    holder: Holder, give: Give, ask: Ask
) -> None:
    by = worker(holder, scopes=["grants:write"])
    child = child_of(give(holder().principal), by)
    assert ask(child, subject=AGENT).allowed
    ApiKey.objects.filter(pk=by.key.id).update(revoked_at=NOW, revoked_by="ops")
    assert ask(child, subject=AGENT).code == "GRANT_REVOKED"


def test_a_key_is_not_removed_from_under_its_grants(holder: Holder, give: Give) -> None:
    held = holder()
    give(held.principal)
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiKey.objects.filter(pk=held.key.id).delete()


def test_issue_for_gives_exactly_what_the_key_holds(holder: Holder, namespace: str, ask: Ask) -> None:
    held = holder(scopes=["state:read", "workload:create"], collections=["orders"])
    signed = services.issue_for(held.principal, tenant_id=namespace, application_id="app", now_ms=NOW_MS)
    me = GrantSubject("service", held.key.id)
    assert signed.grant.issuer == signed.grant.subject == me
    assert signed.grant.capabilities == {"state:read", "workload:create"}
    wire = signed.wire()
    assert ask(wire, subject=me).allowed
    assert ask(wire, subject=me, capability="workload:create", resource="flow://app/workloads").allowed
    assert not ask(wire, subject=me, resource="flow://app/state/customers").allowed
    assert not ask(wire, subject=me, capability="state:write").allowed


def test_issue_for_names_no_wildcard_and_may_be_asked_for_less(holder: Holder, namespace: str) -> None:
    held = holder(scopes=["*"])
    everything = services.issue_for(held.principal, tenant_id=namespace, application_id="app", now_ms=NOW_MS)
    assert "*" not in everything.grant.capabilities and "keys:admin" in everything.grant.capabilities
    less = services.issue_for(
        held.principal, tenant_id=namespace, application_id="app", now_ms=NOW_MS, capabilities=["workload:create"]
    )
    assert less.grant.capabilities == {"workload:create"} and less.grant.id != everything.grant.id
    with pytest.raises(GrantScopeDenied):
        services.issue_for(
            holder(scopes=["state:read"]).principal,
            tenant_id=namespace,
            application_id="app",
            now_ms=NOW_MS,
            capabilities=["workload:create"],
        )


def test_any_amount_of_work_shares_one_such_grant_until_it_is_revoked(holder: Holder, namespace: str) -> None:
    held = holder()

    def again(now_ms: int = NOW_MS, application_id: str = "app") -> str:
        return services.issue_for(
            held.principal, tenant_id=namespace, application_id=application_id, now_ms=now_ms
        ).grant.id

    first = again()
    assert {again(NOW_MS + second * 1000) for second in range(5)} == {first}
    assert again(application_id="other") != first
    services.revoke(first, held.principal, tenant_id=namespace, now_ms=NOW_MS)
    assert again() != first


def test_two_that_ask_at_the_same_moment_get_the_same_grant(
    holder: Holder, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = holder()
    first = services.issue_for(held.principal, tenant_id=namespace, application_id="app", now_ms=NOW_MS)
    look, blind = services._shared, iter([True])
    # The second one looked before the first had stored.
    monkeypatch.setattr(services, "_shared", lambda *arguments: None if next(blind, False) else look(*arguments))
    with transaction.atomic():
        second = services.issue_for(held.principal, tenant_id=namespace, application_id="app", now_ms=NOW_MS)
        assert IssuedGrant.objects.count() == 1
    assert second == first
    assert AuditEvent.objects.filter(action="grant.issued").count() == 1


def test_such_a_grant_ends_with_its_key_and_a_key_without_end_gets_one_years_away(
    holder: Holder, namespace: str
) -> None:
    ends = holder(expires_at=NOW + timedelta(seconds=90)).principal
    endless = holder().principal
    made = [
        services.issue_for(principal, tenant_id=namespace, application_id="app", now_ms=NOW_MS).grant.expires_at
        for principal in (ends, endless)
    ]
    assert made[0] == NOW_S + 90
    assert NOW_S + 9 * 365 * 86_400 < made[1] <= NOW_S + limits.MAX_LIFETIME_S


def test_issue_for_within_a_callers_transaction_leaves_nothing_when_that_is_undone(
    holder: Holder, namespace: str
) -> None:
    held = holder()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        services.issue_for(held.principal, tenant_id=namespace, application_id="app", now_ms=NOW_MS)
        raise ZeroDivisionError
    assert not IssuedGrant.objects.exists()
    assert not AuditEvent.objects.filter(action="grant.issued").exists()
