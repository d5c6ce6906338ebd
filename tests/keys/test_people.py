"""What a person holds is the same by every door, and what they gave dies with it."""

import pytest

from apps.keys.audit.models import AuditEvent
from apps.keys.grants import services as grants
from apps.keys.grants import standing
from apps.keys.models import Operator
from apps.keys.people import PERMISSION_SCOPES, principal_of, scopes_of
from apps.keys.principal import operator
from apps.keys.scopes import EVERYTHING, SCOPES
from apps.operations.services import operators
from apps.operations.services.roles import PERMISSIONS, Role
from apps.workloads.clock import now_ms

pytestmark = pytest.mark.django_db

ROOT = operator("root")
READING = {"state:read", "events:read", "capabilities:read", "operator:read", "audit:read"}
READING |= {"triggers:read", "workload:read"}
ACTING = {"triggers:write", "workload:create", "workload:cancel", "workload:retry", "workload:approve"}


def person(role, name="ada"):
    made = operators.create_operator(name=name, password="a long enough pass phrase", role=role, by=ROOT)
    return Operator.objects.get(pk=made.pk)


@pytest.mark.parametrize(
    ("role", "scopes"),
    [(Role.VIEWER, READING), (Role.OPERATOR, READING | ACTING), (Role.ADMINISTRATOR, {EVERYTHING})],
)
def test_a_role_is_the_same_rights_in_scopes(role, scopes):
    assert scopes_of(person(role)) == scopes


def test_every_permission_named_is_some_roles_and_every_scope_is_one():
    given = {name for names in PERMISSIONS.values() for name in names}
    assert set(PERMISSION_SCOPES) <= given
    assert {scope for scopes in PERMISSION_SCOPES.values() for scope in scopes} <= set(SCOPES)


def test_a_stopped_person_holds_nothing_and_stays_themselves():
    ada = person(Role.VIEWER)
    operators.set_active(ada.pk, False, by=ROOT)
    stopped = principal_of(Operator.objects.get(pk=ada.pk))
    assert stopped.scopes == frozenset() and stopped.label == "human:ada" and stopped.runs_the_instance


@pytest.mark.parametrize("ended", ["stopped", "narrowed"])
def test_a_grant_of_a_person_dies_when_they_are_stopped_or_hold_less(namespace, ended):
    ada = person(Role.OPERATOR)
    by = principal_of(ada)
    grant_id = standing.carried_by(by, tenant_id=namespace, application_id="app", now_ms=now_ms())
    assert grant_id == standing.carried_by(by, tenant_id=namespace, application_id="app", now_ms=now_ms())
    assert standing.refusal(namespace, grant_id, now_ms=now_ms()) is None
    if ended == "stopped":
        operators.set_active(ada.pk, False, by=ROOT)
    else:
        operators.set_role(ada.pk, Role.VIEWER, by=ROOT)
    refused = standing.refusal(namespace, grant_id, now_ms=now_ms())
    assert refused is not None and refused.code == "GRANT_REVOKED" and "person" in refused.message


def test_two_people_never_share_a_grant(namespace):
    made = {
        standing.carried_by(
            principal_of(person(Role.OPERATOR, name)), tenant_id=namespace, application_id="app", now_ms=now_ms()
        )
        for name in ("ada", "bea")
    }
    assert len(made) == 2
    assert AuditEvent.objects.filter(action="grant.issued").count() == 2
    signed = grants.issue_for(ROOT, tenant_id=namespace, application_id="app", now_ms=now_ms())
    assert signed.grant.id not in made
