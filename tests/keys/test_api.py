"""`/v1/keys` over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.keys import bookkeeping, clock, reading
from apps.keys.models import ApiKey
from apps.keys.principal import operator
from tests.conftest import ApiClient

Api = Callable[..., ApiClient]
Make = Callable[..., Any]


def test_a_key_is_made_used_listed_and_revoked(api: Api, namespace: str) -> None:
    admin = api()
    answer = admin.post_json("/v1/keys", {"name": "k", "scopes": ["state:read", "keys:admin"], "worker_id": "w1"})
    made = answer.json()
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    assert list(made) == ["id", "secret", "name", "namespaces", "scopes", "worker_id", "expires_at_ms"]
    assert (made["namespaces"], made["worker_id"]) == ([namespace], "w1")
    holder = api(made["secret"])
    current = holder.get("/v1/keys/current").json()
    assert (current["id"], current["kind"]) == (made["id"], "worker")
    assert made["id"] in {key["id"] for key in admin.get("/v1/keys").json()["keys"]}
    for _ in range(2):
        assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
        assert holder.get("/v1/keys/current").status_code == 401
    assert admin.get(f"/v1/keys/{made['id']}").json()["revoked_at_ms"] is not None


def test_no_answer_but_the_first_holds_a_secret(api: Api) -> None:
    admin = api()
    made = admin.post_json("/v1/keys", {"name": "k", "scopes": ["state:read"]}).json()
    for path in ("/v1/keys", f"/v1/keys/{made['id']}", "/v1/keys/current"):
        assert b"fdb_" not in admin.get(path).content


def test_a_key_is_rotated_and_the_rest_of_its_grace_given_up(api: Api, make_key: Make) -> None:
    admin, old = api(), make_key(scopes=["state:read"])
    began_ms = clock.milliseconds(clock.utc_now())
    answer = admin.post_json(f"/v1/keys/{old.key.id}/rotate", {"grace_ms": 60_000})
    made = answer.json()
    assert (answer.status_code, answer["Cache-Control"], made["id"]) == (201, "no-store", old.key.id)
    assert 60_000 <= made["old_secret_ends_at_ms"] - began_ms < 120_000
    assert [api(secret).get("/v1/keys/current").status_code for secret in (old, made["secret"])] == [200, 200]
    shown = admin.get(f"/v1/keys/{old.key.id}")
    assert [row["ends_at_ms"] for row in shown.json()["secrets"]] == [made["old_secret_ends_at_ms"], None]
    assert b"fdb_" not in shown.content
    for _ in range(2):
        assert admin.delete(f"/v1/keys/{old.key.id}/old-secret").status_code == 204
        assert [api(secret).get("/v1/keys/current").status_code for secret in (old, made["secret"])] == [401, 200]


def test_a_rotation_without_a_body_ends_the_old_secret_at_once(api: Api, make_key: Make) -> None:
    old = make_key()
    made = api().post_json(f"/v1/keys/{old.key.id}/rotate").json()
    assert made["old_secret_ends_at_ms"] is None
    assert [api(secret).get("/v1/keys/current").status_code for secret in (old, made["secret"])] == [401, 200]


@pytest.mark.parametrize(
    "body", [[], {"grace": 1}, {"grace_ms": -1}, {"grace_ms": True}, {"grace_ms": 1.5}, {"grace_ms": 7_776_000_001}]
)
def test_a_malformed_rotation_changes_nothing(api: Api, make_key: Make, body: Any) -> None:
    key = make_key()
    assert api().post_json(f"/v1/keys/{key.key.id}/rotate", body).json()["code"] == "VALIDATION_ERROR"
    assert api(key).get("/v1/keys/current").status_code == 200


def test_a_key_shows_which_of_its_rights_it_used(api: Api, make_key: Make) -> None:
    key = make_key(scopes=["keys:admin", "state:read"])
    api(key).get("/v1/keys")
    bookkeeping.flush(now=clock.utc_now())
    assert list(api().get(f"/v1/keys/{key.key.id}").json()["scopes_used"]) == ["keys:admin"]


def test_a_list_can_leave_out_the_dead(api: Api, make_key: Make) -> None:
    admin, dead = api(), make_key()
    admin.delete(f"/v1/keys/{dead.key.id}")
    ids = [{key["id"] for key in admin.get(path).json()["keys"]} for path in ("/v1/keys", "/v1/keys?live=true")]
    assert ids[0] - ids[1] == {dead.key.id}


def test_nobody_gives_or_ends_over_http_what_they_do_not_hold(api: Api, make_key: Make, namespace: str) -> None:
    small = api(make_key(scopes=["keys:admin", "state:read"]))
    strong = make_key()
    for body in ({"scopes": ["state:write"]}, {"scopes": ["*"]}, {"scopes": ["state:read"], "namespaces": ["*"]}):
        answer = small.post_json("/v1/keys", {"name": "k", **body})
        assert (answer.status_code, answer.json()["reason"]) == (403, "PRIVILEGE_ESCALATION_DENIED")
    for refused in (
        small.delete(f"/v1/keys/{strong.key.id}"),
        small.post_json(f"/v1/keys/{strong.key.id}/rotate"),
        small.delete(f"/v1/keys/{strong.key.id}/old-secret"),
    ):
        assert refused.json()["reason"] == "PRIVILEGE_ESCALATION_DENIED"
    assert api(strong).get("/v1/keys/current").status_code == 200


def test_keys_of_other_namespaces_are_not_there(api: Api, make_key: Make) -> None:
    other = make_key(namespaces=["other"])
    both = make_key(namespaces=["other", "test"])
    admin = api()
    listed = {key["id"] for key in admin.get("/v1/keys").json()["keys"]}
    assert not listed & {other.key.id, both.key.id}
    for key_id in (other.key.id, both.key.id, "nobody"):
        for answer in (admin.get(f"/v1/keys/{key_id}"), admin.delete(f"/v1/keys/{key_id}")):
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
    assert ApiKey.objects.filter(revoked_at__isnull=False).count() == 0


def test_pages_go_through_all_keys_once(api: Api, make_key: Make) -> None:
    made = {make_key().key.id for _ in range(5)}
    client = api()
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get("/v1/keys", {"limit": "2", **({"cursor": cursor} if cursor else {})}).json()
        assert 1 <= len(page["keys"]) <= 2
        seen += [key["id"] for key in page["keys"]]
        cursor = page["next_cursor"]
    assert len(seen) == len(set(seen)) == 6 and made < set(seen)


@pytest.mark.parametrize(
    ("query", "code"), [("limit=0", 400), ("limit=1001", 400), ("limit=x", 400), ("cursor=x", 422)]
)
def test_a_page_that_cannot_be_is_refused(query: str, code: int, api: Api) -> None:
    assert api().get(f"/v1/keys?{query}").status_code == code


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], ""),
        ({"scopes": ["*"]}, "name"),
        ({"name": 1, "scopes": ["*"]}, "name"),
        ({"name": "k"}, "scopes"),
        ({"name": "k", "scopes": "*"}, "scopes"),
        ({"name": "k", "scopes": [1]}, "scopes"),
        ({"name": "k", "scopes": ["made:up"]}, "scopes"),
        ({"name": "k", "scopes": ["*"], "namespaces": []}, "namespaces"),
        ({"name": "k", "scopes": ["*"], "kind": "human"}, "kind"),
        ({"name": "k", "scopes": ["*"], "worker_id": "*"}, "worker_id"),
        ({"name": "k", "scopes": ["*"], "collections": []}, "collections"),
        ({"name": "k", "scopes": ["*"], "expires_at_ms": True}, "expires_at_ms"),
        ({"name": "k", "scopes": ["*"], "expires_at_ms": 1.5}, "expires_at_ms"),
        ({"name": "k", "scopes": ["*"], "expires_at_ms": 2**64 - 1}, "expires_at_ms"),
        ({"name": "k", "scopes": ["*"], "expires_at_ms": 0}, "expires_at_ms"),
        ({"name": "k", "scopes": ["*"], "created_by": "me"}, "created_by"),
    ],
)
def test_a_malformed_request_names_its_field(body: Any, field: str, api: Api) -> None:
    answer = api().post_json("/v1/keys", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"] == {"field": field}
    assert ApiKey.objects.count() == 1


def test_an_expiry_is_kept_to_the_millisecond(api: Api) -> None:
    ends = 4_102_444_800_123
    made = api().post_json("/v1/keys", {"name": "k", "scopes": ["*"], "expires_at_ms": ends}).json()
    assert made["expires_at_ms"] == ends
    assert reading.get_key(made["id"], reader=operator("tests")).expires_at is not None
