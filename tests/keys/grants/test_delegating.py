"""Grants that stand on grants; revocation and rotation."""

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
from apps.keys.grants.errors import (
    DelegationInvalid,
    GrantExpired,
    GrantNotFound,
    GrantRefused,
    GrantRevoked,
    GrantScopeDenied,
)
from apps.keys.grants.form import Constraints, GrantSubject, read_signed
from apps.keys.grants.models import IssuedGrant
from apps.keys.grants.signing import check_signature, sign
from apps.keys.models import ApiKey
from apps.keys.principal import operator
from apps.keys.verify import principal_for
from tests.keys.grants.conftest import (
    AGENT,
    LATER_MS,
    NOW,
    NOW_MS,
    NOW_S,
    WORKER,
    Ask,
    Give,
    Held,
    Holder,
    child_of,
    worker,
)


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
