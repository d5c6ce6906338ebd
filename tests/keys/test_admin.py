"""Keys in the console: listed, issued with the secret shown once, revoked by the service, never edited."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.keys import bookkeeping, services, verify
from apps.keys.models import ApiKey, Operator
from apps.keys.principal import operator

pytestmark = pytest.mark.django_db

LIST = reverse("admin:keys_apikey_changelist")
ADD = reverse("admin:keys_apikey_add")
PASSWORD = "a long enough password"


@pytest.fixture
def console() -> Client:
    """A superuser at the console."""
    client = Client()
    client.force_login(Operator.objects.create_superuser("alice", password=PASSWORD))
    return client


@pytest.fixture
def onlooker() -> Client:
    """A member of staff who may look at everything and no more."""
    from django.contrib.auth.models import Permission

    person = Operator.objects.create_user("bob", password=PASSWORD, is_staff=True)
    person.user_permissions.set(Permission.objects.filter(content_type__app_label="keys"))
    client = Client()
    client.force_login(person)
    return client


def wanted(**fields: Any) -> dict[str, Any]:
    return {"name": "import", "namespaces": "a, b", "scopes": ["state:read"], "kind": "service", **fields}


def issue(**members: Any) -> services.IssuedKey:
    return services.issue_key(
        **{"name": "k", "namespaces": ["a"], "scopes": ["state:read"], "issuer": operator("tests"), **members}
    )


def holds(secret: str) -> bool:
    return verify.principal_of(secret, now=services.utc_now()) is not None


def test_an_operator_signs_in_with_an_argon2_password() -> None:
    person = Operator.objects.create_superuser("carol", password=PASSWORD)
    assert person.password.startswith("argon2")
    client = Client()
    page = client.post("/admin/login/?next=/admin/", {"username": "carol", "password": PASSWORD})
    assert (page.status_code, page["Location"]) == (302, "/admin/")
    assert client.get("/admin/").status_code == 200


def test_issuing_shows_the_secret_once_and_never_again(console: Client) -> None:
    assert console.get(ADD).status_code == 200
    page = console.post(ADD, wanted(worker_id="w1", collections="flights", expires_at="2999-01-01 00:00"))
    secret = re.search(r"fdb_live_\w+", page.content.decode())
    assert secret is not None and holds(secret.group()) and "no-store" in page["Cache-Control"]
    key = ApiKey.objects.get()
    assert (key.namespaces, key.worker_id, key.collections) == (["a", "b"], "w1", ["flights"])
    assert key.created_by == "human:alice"
    for url in (LIST, ADD, reverse("admin:keys_apikey_change", args=[key.pk]), "/admin/"):
        page = console.get(url)
        assert page.status_code == 200 and b"fdb_live" not in page.content
    assert "fdb_live" not in str(console.cookies) and "fdb_live" not in str(dict(console.session))


def test_rotating_shows_the_new_secret_once_and_keeps_the_old_for_its_grace(console: Client) -> None:
    old = issue()
    url = reverse("admin:keys_apikey_rotate", args=[old.key.pk])
    assert b"keeps its id and all its rights" in console.get(url).content
    page = console.post(url, {"grace": "3600"})
    secret = re.search(r"fdb_live_\w+", page.content.decode())
    assert secret is not None and holds(secret.group()) and holds(old.secret) and "no-store" in page["Cache-Control"]
    shown = console.get(reverse("admin:keys_apikey_change", args=[old.key.pk])).content.decode()
    assert "fdb_live" not in shown and "current" in shown and shown.count("Made ") == 2
    console.post(url, {"grace": "0"})
    assert not holds(secret.group()) and not holds(old.secret)


def test_a_dead_key_or_a_made_up_grace_is_not_rotated(console: Client) -> None:
    live, dead = issue(), issue()
    services.revoke_key(dead.key.pk, by=operator("tests"))
    page = console.post(reverse("admin:keys_apikey_rotate", args=[dead.key.pk]), {"grace": "0"})
    assert b"the key is revoked" in page.content and b"fdb_live" not in page.content
    page = console.post(reverse("admin:keys_apikey_rotate", args=[live.key.pk]), {"grace": "7"})
    assert b"Select a valid choice" in page.content and holds(live.secret)
    assert console.get(reverse("admin:keys_apikey_rotate", args=["nobody"])).status_code == 404


def test_a_key_shows_the_rights_it_holds_beside_those_it_used(console: Client) -> None:
    issued = issue(scopes=["state:read", "state:write"])
    bookkeeping.note_use(issued.key.pk, "state:read", now=datetime(2031, 5, 6, 7, 8, tzinfo=UTC))
    bookkeeping.flush(now=services.utc_now())
    page = console.get(reverse("admin:keys_apikey_change", args=[issued.key.pk])).content.decode()
    rows = dict(re.findall(r'<th scope="row" class="mono">([^<]+)</th>.*?class="nowrap">([^<]+)</td>', page))
    assert rows == {"state:read": "2031-05-06 07:08 UTC", "state:write": "never"}


@pytest.mark.parametrize(
    ("by", "path", "said"),
    [
        ("id", "/v1/collections/flights", "The call passes."),
        ("secret", "/v1/collections/flights", "The call passes."),
        ("id", "/v1/keys", "403 FORBIDDEN"),
        ("id", "/v1/nowhere", "404 NOT_FOUND"),
        ("old secret", "/v1/collections/flights", "401 AUTHENTICATION_REQUIRED"),
        ("nobody", "/v1/keys", "there is no key"),
    ],
)
def test_the_tester_says_whether_a_call_would_pass_and_shows_no_secret(
    console: Client, by: str, path: str, said: str
) -> None:
    issued = issue()
    old, new = issued.secret, services.rotate_key(issued.key.pk, by=operator("tests")).secret
    whose = {"id": {"key": issued.key.pk}, "secret": {"secret": new}, "old secret": {"secret": old}}
    page = console.post(
        reverse("admin:keys_apikey_tester"), {"method": "GET", "path": path, **whose.get(by, {"key": by})}
    ).content.decode()
    assert said in page and "fdb_live" not in page


def test_the_tester_asks_for_an_id_or_a_secret_and_not_for_both(console: Client) -> None:
    for whose in ({}, {"key": "a", "secret": "b"}):
        page = console.post(reverse("admin:keys_apikey_tester"), {"method": "GET", "path": "/v1/keys", **whose})
        assert b"or a secret" in page.content


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": ""}, "This field is required"),
        ({"namespaces": "../up"}, "is no namespace name"),
        ({"worker_id": "a b"}, "a worker id has"),
        ({"scopes": []}, "This field is required"),
        ({"scopes": ["root"]}, "Select a valid choice"),
        ({"expires_at": "2001-01-01 00:00"}, "lies in the past"),
    ],
)
def test_what_the_service_refuses_comes_back_on_the_form(console: Client, fields: dict[str, Any], reason: str) -> None:
    page = console.post(ADD, wanted(**fields))
    assert page.status_code == 200 and reason in page.content.decode()
    assert not ApiKey.objects.exists()


def test_revoking_asks_once_more_and_then_ends_the_keys(console: Client) -> None:
    one, other = issue(), issue()
    assert holds(one.secret)
    chosen = {"action": "revoke", "_selected_action": [one.key.pk]}
    asked = console.post(LIST, chosen)
    assert b"cannot be brought back" in asked.content and holds(one.secret)
    done = console.post(LIST, {**chosen, "confirmed": "yes"}, follow=True)
    assert "Revoked" in done.content.decode()
    assert not holds(one.secret) and holds(other.secret)
    assert ApiKey.objects.get(pk=one.key.pk).revoked_by == "human:alice"
    again = console.post(LIST, {**chosen, "confirmed": "yes"}, follow=True)
    assert "revoked already" in again.content.decode()


def test_no_key_is_changed_or_deleted_by_hand(console: Client) -> None:
    key = issue().key
    page = reverse("admin:keys_apikey_change", args=[key.pk])
    assert console.post(page, wanted(name="other")).status_code == 403
    assert console.post(reverse("admin:keys_apikey_delete", args=[key.pk]), {"post": "yes"}).status_code == 403
    console.post(LIST, {"action": "delete_selected", "_selected_action": [key.pk], "post": "yes"})
    assert ApiKey.objects.get().name == "k"


def test_staff_who_do_not_run_the_instance_neither_issue_nor_revoke(onlooker: Client) -> None:
    key = issue().key
    assert onlooker.get(LIST).status_code == 200
    assert onlooker.post(ADD, wanted()).status_code == 403
    for url in (reverse("admin:keys_apikey_rotate", args=[key.pk]), reverse("admin:keys_apikey_tester")):
        assert onlooker.get(url).status_code == onlooker.post(url, {"grace": "0"}).status_code == 403
    onlooker.post(LIST, {"action": "revoke", "_selected_action": [key.pk], "confirmed": "yes"})
    assert ApiKey.objects.get().revoked_at is None


def test_keys_are_found_by_name_worker_namespace_and_state(console: Client) -> None:
    issue(name="needle", namespaces=["haystack"], worker_id="worker-seven")
    revoked = issue(name="straw")
    services.revoke_key(revoked.key.pk, by=operator("tests"))
    for query in ("q=needle", "q=haystack", "q=worker-seven", "state=live", "kind__exact=worker"):
        page = console.get(f"{LIST}?{query}").content.decode()
        assert "needle" in page and "straw" not in page, query
    assert "straw" in console.get(f"{LIST}?state=revoked").content.decode()
    assert "needle" not in console.get(f"{LIST}?state=expired").content.decode()


def test_namespaces_and_operators_are_listed(console: Client) -> None:
    issue(namespaces=["seen"])
    assert b"seen" in console.get(reverse("admin:keys_namespace_changelist")).content
    assert b"alice" in console.get(reverse("admin:keys_operator_changelist")).content
    assert console.get(reverse("admin:keys_operator_add")).status_code == 200
