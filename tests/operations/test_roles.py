"""Viewer, operator, administrator: what each sees, what each can do, and who makes them."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from apps.keys.models import Operator
from apps.keys.principal import operator as principal
from apps.operations.services import operators
from apps.operations.services.operators import OperatorRefused
from apps.operations.services.roles import PERMISSIONS, Role, ensure_roles, role_of
from apps.workloads.models import Workload
from tests.operations.offered import press
from tests.operations.test_pages import PAGES

PASSWORD = "correct horse battery"


def person(name: str, role: Role) -> Operator:
    return operators.create_operator(name=name, password=PASSWORD, role=role, by=principal("tests"))


def signed_in(someone: Operator, namespace: str) -> Client:
    client = Client()
    client.force_login(someone)
    session = client.session
    session["console_namespace"] = namespace
    session.save()
    return client


@pytest.mark.django_db
def test_roles_hold_exactly_what_the_table_says_also_after_somebody_changed_a_group() -> None:
    ensure_roles()
    Group.objects.get(name="viewer").permissions.set(Permission.objects.all())
    ensure_roles()
    held = {
        f"{each.content_type.app_label}.{each.codename}" for each in Group.objects.get(name="viewer").permissions.all()
    }
    assert held == set(PERMISSIONS[Role.VIEWER])
    assert [role_of(person(role.value, role)) for role in Role] == list(Role)


def test_a_viewer_sees_every_page_of_work_and_is_offered_nothing(namespace: str, make_dead: Any) -> None:
    dead = make_dead()
    client = signed_in(person("vera", Role.VIEWER), namespace)
    page = f"/admin/workloads/workload/{dead.workload_id}/change/"
    for path in ("/admin/", "/admin/dead-letters/", "/admin/workloads/workload/", page, "/admin/triggers/trigger/"):
        answer = client.get(path)
        assert answer.status_code == 200, path
        text = answer.content.decode()
        for offer in ("Retry", "Cancel the work", "Discard", "Define a trigger", ">Define one here<"):
            assert offer not in text, (path, offer)
    for path in ("/admin/triggers/trigger/add/", "/admin/keys/apikey/add/", "/admin/keys/operator/add/"):
        assert client.get(path).status_code == 403, path


def test_a_viewer_who_sends_the_forms_all_the_same_is_refused(namespace: str, make_dead: Any) -> None:
    dead = make_dead()
    client = signed_in(person("vera", Role.VIEWER), namespace)
    sent = [
        (f"/admin/workloads/workload/{dead.workload_id}/retry/", {"seen": dead.history_length}),
        (f"/admin/workloads/workload/{dead.workload_id}/cancel/", {"seen": dead.history_length}),
        ("/admin/workloads/bulkorder/choose/", {"id": dead.workload_id, "act": "retry"}),
        ("/admin/workloads/bulkorder/choose/?all=1", {"act": "cancel"}),
        (f"/admin/workloads/workload/{dead.workload_id}/again/", {"input": "1", "key": "k"}),
        ("/admin/workloads/registeredworker/1/do/drain/", {}),
        ("/admin/workloads/schedule/1/do/pause/", {}),
        ("/admin/triggers/trigger/1/rebase/", {}),
        ("/admin/triggers/trigger/1/replay/", {}),
        ("/admin/triggers/triggerquarantine/1/do/retry/", {}),
        ("/admin/triggers/trigger/add/", {"trigger_id": "t"}),
        ("/admin/triggers/trigger/1/do/disable/", {}),
        ("/admin/keys/operator/1/do/role/", {"role": "administrator"}),
    ]
    for path, form in sent:
        assert client.post(path, form).status_code == 403, path
    assert Workload.objects.get(pk=dead.pk).state == "DEAD_LETTER"


def test_an_operator_retries_work_and_makes_neither_keys_nor_operators(namespace: str, make_dead: Any) -> None:
    dead = make_dead()
    client = signed_in(person("otto", Role.OPERATOR), namespace)
    form = {"seen": dead.history_length}
    assert client.post(f"/admin/workloads/workload/{dead.workload_id}/retry/", form).status_code == 302
    assert Workload.objects.get(pk=dead.pk).events.order_by("-sequence")[0].actor == "human:otto"
    assert client.get("/admin/keys/apikey/add/").status_code == 403
    assert client.post("/admin/keys/operator/add/", {}).status_code == 403


@pytest.mark.django_db
def test_who_has_no_role_sees_no_page() -> None:
    client = Client()
    client.force_login(Operator.objects.create_user("nobody", password=PASSWORD))
    for path in PAGES:
        assert client.get(path).status_code == 302, path


def page_of(person: Operator) -> str:
    """Return the address of a person's page."""
    return f"/admin/keys/operator/{person.pk}/change/"


def test_an_administrator_makes_an_operator_changes_the_role_and_stops_the_account(console: Client) -> None:
    form = {"name": "otto", "role": "operator", "password": "short"}
    refused = console.post("/admin/keys/operator/add/", form)
    assert refused.status_code == 422 and "too short" in refused.content.decode()
    made = console.post("/admin/keys/operator/add/", form | {"password": PASSWORD}, follow=True)
    assert "otto can sign in now, as operator" in made.content.decode()
    otto = Operator.objects.get(username="otto")
    theirs = Client()
    assert theirs.login(username="otto", password=PASSWORD)
    assert theirs.get("/admin/triggers/trigger/add/").status_code == 200
    press(console, page_of(otto), "role", role="viewer")
    assert theirs.get("/admin/triggers/trigger/add/").status_code == 403
    press(console, page_of(otto), "stop")
    assert theirs.get("/admin/").status_code == 302
    history = console.get(f"/admin/keys/operator/{otto.pk}/history/").content.decode()
    assert "role is now viewer" in history and "is stopped" in history


def test_a_name_twice_and_a_malformed_name_are_refused_beside_the_field(console: Client) -> None:
    for name, said in (("admin", "There is somebody named admin already"), ("a b", "letters, digits")):
        form = {"name": name, "role": "viewer", "password": PASSWORD}
        answer = console.post("/admin/keys/operator/add/", form)
        assert answer.status_code == 422 and said in answer.content.decode()


def test_the_last_administrator_stays_one(console: Client, operator: Operator) -> None:
    for action, form in (("role", {"role": "viewer"}), ("stop", {})):
        answer = press(console, page_of(operator), action, **form)
        assert answer.status_code == 409 and "last administrator" in answer.content.decode()
    second = person("second", Role.ADMINISTRATOR)
    operators.set_active(operator.pk, False, by=principal("tests"))
    with pytest.raises(OperatorRefused):
        operators.set_role(second.pk, Role.VIEWER, by=principal("tests"))
