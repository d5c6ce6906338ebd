"""Issuing, delegating, revoking and verifying over a real database. G1 to G7 are the reference's own tests."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.keys import services as keys
from apps.keys.audit.models import AuditEvent
from apps.keys.audit.services import digest
from apps.keys.grants import keyring, limits, reading, services
from apps.keys.grants.checking import ALLOWED, Decision
from apps.keys.grants.errors import (
    DelegationInvalid,
    GrantConflict,
    GrantExpired,
    GrantInvalid,
    GrantNotFound,
    GrantRefused,
    GrantRevoked,
    GrantScopeDenied,
)
from apps.keys.grants.form import Constraints, GrantSubject, Resource, read_signed
from apps.keys.grants.models import IssuedGrant
from apps.keys.grants.rules import Context
from apps.keys.grants.signing import check_signature, sign
from apps.keys.models import ApiKey
from apps.keys.principal import operator
from apps.keys.verify import principal_for
from tests.keys.grants.conftest import CLAIM, HOUR_S, NOW, NOW_MS, NOW_S, ORDERS, WORKER, Held

Give = Callable[..., IssuedGrant]
Ask = Callable[..., Decision]
Holder = Callable[..., Held]

AGENT = GrantSubject("agent", "a")
LATER_MS = NOW_MS + HOUR_S * 1000


def child_of(parent: IssuedGrant, by: Held, **members: Any) -> IssuedGrant:
    asked = {"tenant_id": parent.namespace, "subject": AGENT, "now_ms": NOW_MS, **members}
    return services.delegate(parent.grant_id, by.principal, **asked)


def worker(holder: Holder, **members: Any) -> Held:
    return holder(worker_id="w1", scopes=members.pop("scopes", ["grants:write"]), **members)


# --- the reference's tests ---------------------------------------------------------------------------------------


def test_g1_a_signed_scope_verifies_and_a_widened_copy_is_invalid(holder: Holder, give: Give, ask: Ask) -> None:
    grant = give(holder().principal)
    wire = grant.signed().wire()
    assert ask(wire).code == ALLOWED
    widened = {**wire, "grant": {**wire["grant"], "capabilities": ["keys:admin", "state:read", "workload:claim"]}}
    assert ask(widened, capability="keys:admin").code == "GRANT_INVALID"
    again = {**widened, "digest": sign(read_signed(widened).grant, keyring.key_from_seed(b"x" * 32, now_ms=0)).digest}
    assert ask(again, capability="keys:admin").code == "GRANT_INVALID"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"subject": GrantSubject("worker", "w2")}, "GRANT_SCOPE_DENIED"),
        ({"subject": GrantSubject("service", "w1")}, "GRANT_SCOPE_DENIED"),
        ({"tenant_id": "another"}, "GRANT_SCOPE_DENIED"),
        ({"application_id": "app2", "resource": "flow://app2/state/orders"}, "GRANT_SCOPE_DENIED"),
        ({"resource": "flow://app2/state/orders"}, "GRANT_INVALID"),
        ({"resource": "flow://app/state/customers"}, "GRANT_SCOPE_DENIED"),
        ({"resource": "flow://app/state"}, "GRANT_SCOPE_DENIED"),
        ({"resource": "flow://app/state/orders/%2e%2e/customers"}, "GRANT_INVALID"),
        ({"capability": "state:write"}, "GRANT_SCOPE_DENIED"),
        ({"context": Context(environment="staging")}, "GRANT_SCOPE_DENIED"),
        ({"context": Context()}, "GRANT_SCOPE_DENIED"),
    ],
    ids=str,
)
def test_g2_another_subject_tenant_application_resource_or_context_is_denied(
    holder: Holder, give: Give, ask: Ask, change: dict[str, Any], code: str
) -> None:
    grant = give(
        holder().principal,
        scopes=[Resource("RESOURCE_PREFIX", f"{ORDERS}/*")],
        constraints=Constraints(environments=frozenset({"production"})),
    )
    here = {"context": Context(environment="production")}
    assert ask(grant, **here).allowed
    assert ask(grant, **{**here, **change}).code == code


def test_g3_delegation_only_narrows_and_the_child_is_bound_to_the_new_subject(
    holder: Holder, give: Give, ask: Ask
) -> None:
    parent = give(holder().principal)
    by = worker(holder)
    child = child_of(parent, by, capabilities=["state:read"], scopes=[Resource("COLLECTION", ORDERS)])
    assert ask(child, subject=AGENT).allowed
    assert not ask(child).allowed and not ask(parent, subject=AGENT).allowed
    assert ask(child, subject=AGENT, capability="workload:claim").code == "GRANT_SCOPE_DENIED"
    for wider in (
        {"capabilities": ["state:read", "state:write"]},
        {"scopes": [Resource("APPLICATION", "flow://app"), Resource("RESOURCE", "flow://app2")]},
        {"expires_at": NOW_S + HOUR_S + 1},
    ):
        with pytest.raises((DelegationInvalid, GrantInvalid)):
            child_of(parent, by, **wider)


def test_g4_expiration_and_a_parents_revocation_reach_every_child(holder: Holder, give: Give, ask: Ask) -> None:
    parent = give(holder().principal)
    child = child_of(parent, worker(holder))
    assert ask(child, subject=AGENT, now_ms=LATER_MS - 1).allowed
    assert ask(child, subject=AGENT, now_ms=LATER_MS).code == "GRANT_EXPIRED"
    services.revoke(parent.grant_id, operator("ops"), tenant_id=parent.namespace, now_ms=NOW_MS)
    assert ask(child, subject=AGENT).code == "GRANT_REVOKED"
    assert ask(parent.signed().wire()).code == "GRANT_REVOKED"


def test_g5_using_a_connection_never_implies_reading_its_secret(holder: Holder, give: Give, ask: Ask) -> None:
    grant = give(holder().principal, capabilities=["connection:use"])
    assert ask(grant, capability="connection:use").allowed
    for other in ("connection", "connection:us", "connection:use:secret", "secret:read", "connection:used"):
        assert ask(grant, capability=other).code == "GRANT_SCOPE_DENIED"


def test_g6_what_was_allowed_offline_is_decided_again_by_revision_and_revocation(
    holder: Holder, give: Give, namespace: str
) -> None:
    grant = give(holder().principal)
    question: dict[str, Any] = {
        "subject": WORKER,
        "tenant_id": namespace,
        "application_id": "app",
        "capability": "state:read",
        "resource": ORDERS,
        "context": Context(),
        "now_ms": NOW_MS,
    }
    wire = grant.signed().wire()
    assert services.reauthorize(wire, authorized_revision=4, current_revision=4, **question).allowed
    moved = services.reauthorize(wire, authorized_revision=4, current_revision=5, **question)
    assert (moved.allowed, moved.code) == (False, "REAUTHORIZATION_REQUIRED")
    services.revoke(grant.grant_id, operator("ops"), tenant_id=namespace, now_ms=NOW_MS)
    assert services.reauthorize(wire, authorized_revision=4, current_revision=4, **question).code == "GRANT_REVOKED"


def test_g7_who_has_only_public_keys_verifies_but_cannot_sign_and_an_assignment_is_for_one_worker_and_one_workload(
    holder: Holder, give: Give, ask: Ask
) -> None:
    grant = give(holder().principal, constraints=Constraints(workload_id="workload_1"))
    current = keyring.shared_ring(now_ms=NOW_MS).current
    public_only = keyring.Ring(keys=(replace(current, seed=None),))
    check_signature(grant.signed(), public_only)
    with pytest.raises(keyring.KeyRingRefused):
        sign(grant.signed().grant, public_only.current)
    claim = {"capability": "workload:claim", "resource": CLAIM, "context": Context(workload_id="workload_1")}
    assert ask(grant, **claim).allowed
    assert not ask(grant, **claim | {"subject": GrantSubject("worker", "w2")}).allowed
    elsewhere = {"context": Context(workload_id="workload_2"), "resource": "flow://app/workloads/workload_2"}
    assert not ask(grant, **claim | elsewhere).allowed


# --- nobody gives what they do not hold ---------------------------------------------------------------------------


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


# --- a grant dies with its key ------------------------------------------------------------------------------------


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


# --- grants nobody named ------------------------------------------------------------------------------------------


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


# --- delegation ---------------------------------------------------------------------------------------------------


def test_only_the_subject_of_a_grant_delegates_it_not_its_issuer_nor_an_operator(holder: Holder, give: Give) -> None:
    issuer = holder()
    parent = give(issuer.principal)
    for somebody in (issuer, Held(None, operator("ops")), holder(worker_id="w2"), holder(kind="agent")):
        with pytest.raises(DelegationInvalid):
            child_of(parent, somebody)
    child_of(parent, worker(holder))


def test_what_a_delegation_leaves_out_stays_the_parents(holder: Holder, give: Give) -> None:
    parent = give(holder().principal, constraints=Constraints(network="private")).signed().grant
    row = IssuedGrant.objects.get(grant_id=parent.id)
    child = child_of(row, worker(holder)).signed().grant
    assert (child.capabilities, child.resources) == (parent.capabilities, parent.resources)
    assert (child.constraints, child.expires_at) == (parent.constraints, parent.expires_at)
    assert (child.parent_grant, child.issuer, child.revision) == (parent.id, parent.subject, 1)


@pytest.mark.parametrize("dead", ["expired", "revoked", "its key revoked", "its parent revoked"])
def test_a_dead_grant_is_not_delegated(holder: Holder, give: Give, dead: str) -> None:
    issuer, by = holder(), worker(holder)
    root = give(issuer.principal)
    now_ms = LATER_MS if dead == "expired" else NOW_MS
    parent = root
    if dead == "its parent revoked":
        parent = child_of(root, by, subject=WORKER)
    if dead in ("revoked", "its parent revoked"):
        services.revoke(root.grant_id, operator("ops"), tenant_id=root.namespace, now_ms=NOW_MS)
    if dead == "its key revoked":
        ApiKey.objects.filter(pk=issuer.key.id).update(revoked_at=NOW, revoked_by="ops")
    with pytest.raises(GrantExpired if dead == "expired" else GrantRevoked):
        child_of(parent, by, now_ms=now_ms)


def test_delegation_is_possible_to_the_stated_depth_and_not_one_beyond(holder: Holder, give: Give, ask: Ask) -> None:
    by = worker(holder)
    grant = give(holder().principal)
    for _ in range(limits.MAX_DEPTH):
        grant = child_of(grant, by, subject=WORKER)
    assert ask(grant).allowed and grant.depth == limits.MAX_DEPTH
    with pytest.raises(DelegationInvalid):
        child_of(grant, by, subject=WORKER)
    with pytest.raises(IntegrityError), transaction.atomic():
        IssuedGrant.objects.filter(pk=grant.pk).update(depth=limits.MAX_DEPTH + 1)


def test_a_delegation_ends_with_the_delegating_key(holder: Holder, give: Give) -> None:
    by = worker(holder, expires_at=NOW + timedelta(seconds=90))
    parent = give(holder().principal)
    assert child_of(parent, by).signed().grant.expires_at == NOW_S + 90
    with pytest.raises(GrantScopeDenied):
        child_of(parent, by, expires_at=NOW_S + 91)


# --- revocation, rotation, reading --------------------------------------------------------------------------------


def test_a_revoked_grant_is_signed_again_as_revoked_and_revoking_twice_changes_nothing(
    holder: Holder, give: Give, ask: Ask
) -> None:
    held = holder()
    grant = give(held.principal)
    given = grant.signed().wire()
    ended = services.revoke(grant.grant_id, held.principal, tenant_id=grant.namespace, now_ms=NOW_MS, reason="over")
    check_signature(ended.signed(), keyring.shared_ring(now_ms=NOW_MS))
    assert ended.signed().grant == replace(read_signed(given).grant, status="REVOKED")
    again = services.revoke(grant.grant_id, operator("ops"), tenant_id=grant.namespace, now_ms=NOW_MS + 1)
    assert (again.revoked_at_ms, again.revoked_by) == (NOW_MS, held.principal.label)
    assert ask(given).code == ask(ended).code == "GRANT_REVOKED"


def test_revoking_needs_the_scope_and_a_grant_one_may_see(holder: Holder, give: Give) -> None:
    grant = give(holder().principal)
    with pytest.raises(GrantScopeDenied):
        services.revoke(grant.grant_id, holder(scopes=["state:read"]).principal, tenant_id="test", now_ms=NOW_MS)
    for tenant_id in ("another", "test"):
        stranger = holder(namespaces=["another"]).principal
        with pytest.raises(GrantNotFound):
            services.revoke(grant.grant_id, stranger, tenant_id=tenant_id, now_ms=NOW_MS)


def test_grants_survive_a_rotation_and_end_when_their_key_is_dropped(
    holder: Holder, give: Give, ask: Ask, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring_file = keyring.KeyRingFile(tmp_path / "grant_keys.json")
    monkeypatch.setattr(keyring, "shared_file", lambda: ring_file)
    before = give(holder().principal)
    old = before.signed().key_id
    ring_file.rotate(now_ms=NOW_MS)
    after = give(holder().principal)
    assert after.signed().key_id != old
    assert ask(before).allowed and ask(after).allowed
    ring_file.drop(old)
    assert ask(before).code == "GRANT_INVALID" and ask(after).allowed


def test_a_grant_this_database_does_not_know_is_invalid_however_well_it_is_signed(
    holder: Holder, give: Give, ask: Ask
) -> None:
    grant = give(holder().principal)
    current = keyring.shared_ring(now_ms=NOW_MS).current
    unknown = sign(replace(grant.signed().grant, id="never-issued"), current)
    other_form = sign(replace(grant.signed().grant, capabilities=frozenset({"state:write"})), current)
    assert ask(unknown.wire()).code == ask(other_form.wire(), capability="state:write").code == "GRANT_INVALID"


def test_no_grant_opens_a_system_collection(holder: Holder, give: Give, ask: Ask) -> None:
    grant = give(holder().principal)
    assert ask(grant, resource="flow://app/state/_flow_capabilities").code == "GRANT_SCOPE_DENIED"


def test_a_decision_can_be_recomputed_and_tells_its_question_apart_from_others(
    holder: Holder, give: Give, ask: Ask
) -> None:
    grant = give(holder().principal)
    first, again, other = ask(grant), ask(grant), ask(grant, capability="state:write")
    assert first == again and first.decision_id != other.decision_id and first.request_hash != other.request_hash
    assert (first.policy, first.decided_at_ms) == ("feltdb.resource-authorization.v1", NOW_MS)


def test_a_question_nobody_can_ask_is_refused_and_not_a_crash(holder: Holder, give: Give, ask: Ask) -> None:
    grant = give(holder().principal)
    for change in ({"resource": "\ud800"}, {"capability": "\ud800"}, {"subject": GrantSubject("worker", "\ud800")}):
        assert not ask(grant, **change).allowed


def test_who_may_see_which_grants(holder: Holder, give: Give) -> None:
    issuer = holder(scopes=["grants:write", "state:read"])
    for number in range(3):
        give(issuer.principal, grant_id=f"w{number}", capabilities=["state:read"])
    give(issuer.principal, grant_id="other", capabilities=["state:read"], subject=AGENT)
    the_worker = holder(worker_id="w1", scopes=["workload:claim"]).principal
    nobody = holder(scopes=["state:read"]).principal
    seen = {
        name: [row.grant_id for row in reading.page(reader, "test").rows]
        for name, reader in {"issuer": issuer.principal, "worker": the_worker, "nobody": nobody}.items()
    }
    assert seen == {"issuer": ["other", "w2", "w1", "w0"], "worker": ["w2", "w1", "w0"], "nobody": []}
    with pytest.raises(GrantNotFound):
        reading.find("other", reader=the_worker, tenant_id="test")
    for shape in ("no\x00such", "", "x" * 200):
        with pytest.raises(GrantNotFound):
            reading.find(shape, reader=issuer.principal, tenant_id="test")


def test_what_is_done_with_grants_is_in_the_audit_trail_and_what_is_refused_is_not_done(
    holder: Holder, give: Give
) -> None:
    held = holder()
    parent = give(held.principal)
    child = child_of(parent, worker(holder))
    child_wire = child.signed().grant.wire()
    services.revoke(child.grant_id, held.principal, tenant_id="test", now_ms=NOW_MS, reason="no longer needed")
    with pytest.raises(GrantRefused):
        give(held.principal, capabilities=["*"])
    events = AuditEvent.objects.filter(action__startswith="grant.").order_by("id")
    assert [(event.action, event.target, event.namespace) for event in events] == [
        ("grant.issued", parent.grant_id, "test"),
        ("grant.delegated", child.grant_id, "test"),
        ("grant.revoked", child.grant_id, "test"),
    ]
    assert events[2].reason == "no longer needed" and events[2].before_digest != events[2].after_digest
    assert events[1].subject == "worker:w1" and events[1].after_digest == digest(child_wire)


def test_the_keys_service_revokes_and_its_grants_are_dead_when_it_returns(
    make_key: Callable[..., Any], transactional_db: None, give: Give, ask: Ask
) -> None:
    issued = make_key(now=NOW)
    grant = give(principal_for(issued.key))
    assert ask(grant).allowed
    keys.revoke_key(issued.key.id, by=operator("ops"), now=NOW)
    assert ask(grant).code == "GRANT_REVOKED"
