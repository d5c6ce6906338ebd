"""The audit trail and the grants in the console: seen by those who may look, changed by nobody, safe to show."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from apps.keys.audit.services import record
from apps.keys.grants import services
from apps.keys.models import IssuedGrant
from apps.keys.principal import operator
from apps.keys.verify import principal_for
from apps.operations.services.roles import ensure_roles

HOSTILE = "<script>alert(1)</script>"
AUDIT = "/admin/keys/auditevent/"
GRANTS = "/admin/keys/issuedgrant/"


@pytest.fixture
def viewer(client: Client, django_user_model: Any, db: None) -> Client:
    """A client signed in as a viewer."""
    ensure_roles()
    person = django_user_model.objects.create_user("v", password="a long password", is_staff=True)
    person.groups.add(Group.objects.get(name="viewer"))
    client.force_login(person)
    return client


@pytest.fixture
def grant(make_key: Callable[..., Any], namespace: str) -> IssuedGrant:
    """A grant that is there."""
    signed = services.issue_for(
        principal_for(make_key(name=HOSTILE).key),
        tenant_id=namespace,
        application_id=HOSTILE.replace("/", ""),
        now_ms=time.time_ns() // 1_000_000,
    )
    return IssuedGrant.objects.get(grant_id=signed.grant.id)


def test_a_viewer_searches_events_and_reads_one_whole(viewer: Client) -> None:
    event = record(operator(HOSTILE), "a.done", target=HOSTILE, reason=HOSTILE, namespace="test")
    record(operator("ops"), "b.done", target="other")
    page = viewer.get(AUDIT, {"action": "a.done"}).content.decode()
    assert "a.done" in page and "b.done" not in page
    whole = viewer.get(f"{AUDIT}{event.pk}/change/")
    assert whole.status_code == 200 and "&lt;script&gt;" in whole.content.decode()
    for answer in (page, whole.content.decode()):
        assert HOSTILE not in answer


def test_a_viewer_reads_a_grant_and_never_its_signature_or_key_material(viewer: Client, grant: IssuedGrant) -> None:
    page = viewer.get(GRANTS, {"namespace": "test"}).content.decode()
    whole = viewer.get(f"{GRANTS}{grant.pk}/change/", {"namespace": "test"}).content.decode()
    assert grant.grant_id in page and grant.grant_id in whole and "workload:create" in whole
    for answer in (page, whole):
        assert HOSTILE not in answer and grant.signed().signature not in answer


@pytest.mark.parametrize("where", [AUDIT, GRANTS])
def test_nothing_is_added_changed_or_deleted_and_a_stranger_sees_nothing(
    viewer: Client, grant: IssuedGrant, where: str, django_user_model: Any
) -> None:
    for door in ("add/", f"{grant.pk}/delete/"):
        assert viewer.post(f"{where}{door}", {"post": "yes"}).status_code in (302, 403, 404)
    stranger = Client()
    assert stranger.get(where).status_code == 302
    without_role = django_user_model.objects.create_user("n", password="a long password", is_staff=True)
    stranger.force_login(without_role)
    assert stranger.get(where).status_code == 403
