"""G1 to G7: the reference's own tests of grants, each named for what it shows."""

from dataclasses import replace
from typing import Any

import pytest

from apps.keys.grants import keyring, services
from apps.keys.grants.checking import ALLOWED
from apps.keys.grants.errors import (
    DelegationInvalid,
    GrantInvalid,
)
from apps.keys.grants.form import Constraints, GrantSubject, Resource, read_signed
from apps.keys.grants.rules import Context
from apps.keys.grants.signing import check_signature, sign
from apps.keys.principal import operator
from tests.keys.grants.conftest import (
    AGENT,
    CLAIM,
    HOUR_S,
    LATER_MS,
    NOW_MS,
    NOW_S,
    ORDERS,
    WORKER,
    Ask,
    Give,
    Holder,
    child_of,
    worker,
)


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
