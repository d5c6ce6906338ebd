"""Every door of `/v1` against every wrong key. How to write a row: `tests/boundary_rows.py`."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.signals import request_finished
from django.db import close_old_connections
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from apps.keys import authentication, services, token
from apps.keys.clock import now_ms
from apps.keys.principal import operator
from apps.keys.scopes import EVERYTHING, SCOPES
from apps.keys.sessions import services as sessions
from tests.boundary_rows import PUBLIC, ROWS, Row
from tests.conftest import ApiClient

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
KEYED = [row for row in ROWS if row.scope != PUBLIC]
OTHER_WORKER = "somebody-else"
COLLECTION = "orders"
ROOT = operator("tests")
FOR_PEOPLE: tuple[str, ...] = ()


def name_of(row: Row) -> str:
    return f"{row.method} {row.path}"


def routes(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Give every pattern below `/v1`, with its whole route."""
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif route.startswith(("v1/", "^v1/")):
            yield route, pattern


def doors() -> set[tuple[str, str]]:
    """Return every method and route there is."""
    found = set()
    for route, pattern in routes(get_resolver().url_patterns):
        view = getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
        methods = [method for method in METHODS if hasattr(view, method.lower())] if view else ["GET"]
        found.update((method, route) for method in methods)
    return found


def send(client: ApiClient, row: Row) -> Any:
    """Send the row's request; a stream is given up at once, without the end of a request closing the connection."""
    answer = client.call(row.method, row.path, row.body, content_type=row.media)
    if answer.streaming:
        request_finished.disconnect(close_old_connections)
        answer.close()
        request_finished.connect(close_old_connections)
    return answer


def test_every_route_and_method_has_its_row() -> None:
    rows = {(row.method, resolve(row.path).route) for row in ROWS}
    assert doors() - rows == set(), "these have no row in tests/boundary_rows.py"
    assert rows - doors() == set(), "these rows name no route and method there is"


def test_the_walk_finds_the_doors_of_this_room() -> None:
    assert ("GET", "v1/keys/current") in doors()


def test_every_route_that_acts_as_a_worker_says_as_which() -> None:
    acting = {"workload:claim", "workload:execute", "worker:heartbeat"}
    assert [name_of(row) for row in ROWS if row.scope in acting and not row.worker] == []


@pytest.mark.parametrize("row", KEYED, ids=name_of)
def test_no_malformed_unknown_expired_or_revoked_key_passes_and_all_get_one_answer(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    now = services.utc_now()
    expired = make_key(expires_at=now - timedelta(seconds=1), now=now - timedelta(days=1))
    revoked = make_key()
    services.revoke_key(revoked.key.id, by=ROOT)
    live = make_key()
    callers: dict[str, str | None] = {
        "none": None,
        "malformed": "fdb_live_short",
        "mistyped": live.secret[:-1] + ("A" if live.secret[-1] != "A" else "B"),
        "unknown": token.new_token(token.new_key_id(), "live").text,
        "wrong secret": token.new_token(live.key.id, "live").text,
        "expired": expired.secret,
        "revoked": revoked.secret,
    }
    answers = {}
    for caller, secret in callers.items():
        answer = send(api(secret), row)
        body = answer.json()
        assert body.pop("request_id") == answer["X-Request-ID"]
        answers[caller] = (answer.status_code, answer["WWW-Authenticate"], str(body))
        assert (answer.status_code, body["code"]) == (401, "AUTHENTICATION_REQUIRED"), caller
    assert len(set(answers.values())) == 1, answers


@pytest.mark.parametrize("path", sorted({row.path for row in KEYED}))
def test_head_and_options_tell_nothing_without_a_key(path: str, api: Callable[..., ApiClient], db: None) -> None:
    for method in ("HEAD", "OPTIONS"):
        answer = api(None).generic(method, path)
        assert answer.status_code == 401 and "Allow" not in answer.headers, (method, answer.headers)


@pytest.mark.parametrize("row", [row for row in KEYED if row.scope], ids=name_of)
def test_a_key_with_every_scope_but_the_one_is_refused(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    others = [scope for scope in SCOPES if scope not in (row.scope, EVERYTHING)]
    body = send(api(make_key(scopes=others, worker_id=row.worker)), row).json()
    assert (body["code"], body.get("reason"), body.get("required_scope")) == ("FORBIDDEN", "MISSING_SCOPE", row.scope)


@pytest.mark.parametrize("row", [row for row in KEYED if row.namespaced], ids=name_of)
def test_a_key_of_another_namespace_is_refused_as_if_there_were_none(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any], namespace: str
) -> None:
    key = make_key(namespaces=["another"], worker_id=row.worker)
    answers = []
    for asked in (namespace, "never-made"):
        body = send(api(key, namespace=asked), row).json()
        assert (body["code"], body.get("reason")) == ("FORBIDDEN", "NAMESPACE_DENIED")
        answers.append({**body, "request_id": None})
    assert answers[0] == answers[1]


@pytest.mark.parametrize("row", [row for row in KEYED if row.namespaced], ids=name_of)
def test_a_key_of_several_namespaces_must_say_which(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any], namespace: str
) -> None:
    for namespaces in ([namespace, "another"], ["*"]):
        body = send(api(make_key(namespaces=namespaces, worker_id=row.worker)), row).json()
        assert body["code"] == "NAMESPACE_REQUIRED"


@pytest.mark.parametrize("row", [row for row in KEYED if row.worker], ids=name_of)
@pytest.mark.parametrize("caller", ["another worker", "a service", "an agent", "a worker without identity"])
def test_only_the_key_of_that_worker_acts_as_it(
    row: Row, caller: str, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    members: dict[str, Any] = {
        "another worker": {"worker_id": OTHER_WORKER},
        "a service": {"scopes": [row.scope]},
        "an agent": {"kind": "agent", "scopes": [row.scope]},
        "a worker without identity": {"kind": "worker"},
    }[caller]
    body = send(api(make_key(**members)), row).json()
    assert (body["code"], body.get("reason")) == ("FORBIDDEN", "WORKER_MISMATCH"), body


@pytest.mark.parametrize("row", [row for row in KEYED if row.worker], ids=name_of)
def test_a_key_that_manages_workers_may_name_one(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    answer = send(api(make_key(scopes=[str(row.scope), "worker:manage"])), row)
    assert answer.status_code not in (401, 403) and answer.status_code < 500, answer.content


@pytest.mark.parametrize("row", KEYED, ids=name_of)
def test_the_right_key_is_not_refused_for_what_it_is(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    assert passes(api(make_key(scopes=right(row), worker_id=row.worker)), row)


def passes(client: ApiClient, row: Row) -> bool:
    """Tell whether the door let the key in; what lies behind it may say what it likes, but never fail."""
    answer = send(client, row)
    assert answer.status_code < 500, answer.content
    return answer.status_code not in (401, 403)


def is_refused(client: ApiClient, row: Row) -> bool:
    """Tell whether the door does not know the key."""
    answer = send(client, row)
    return bool(answer.status_code == 401 and answer.json()["code"] == "AUTHENTICATION_REQUIRED")


def right(row: Row) -> list[str]:
    """Return the scopes that the row asks for."""
    return [row.scope, *row.also] if row.scope else ["state:read"]


@pytest.mark.parametrize("row", [row for row in KEYED if COLLECTION in f"{row.path} {row.body}"], ids=name_of)
def test_a_key_for_another_collection_is_refused(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    scopes = [*right(row), "workload:create"]
    body = send(api(make_key(scopes=scopes, collections=["invoices"])), row).json()
    assert (body["code"], body.get("reason")) == ("FORBIDDEN", "COLLECTION_DENIED"), body
    assert passes(api(make_key(scopes=scopes, collections=[COLLECTION])), row)


@pytest.mark.parametrize("row", KEYED, ids=name_of)
def test_a_key_that_passed_a_moment_ago_is_refused_the_moment_it_ends(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"scopes": right(row), "worker_id": row.worker}
    ends = services.utc_now() + timedelta(hours=1)
    dying, revoked = make_key(**members, expires_at=ends), make_key(**members)
    assert not is_refused(api(dying), row) and passes(api(revoked), row)
    services.revoke_key(revoked.key.id, by=ROOT)
    assert is_refused(api(revoked), row)
    monkeypatch.setattr(authentication, "utc_now", lambda: ends)
    assert is_refused(api(dying), row)


@pytest.mark.parametrize("row", KEYED, ids=name_of)
def test_an_old_secret_passes_until_the_very_end_of_its_grace(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_key(scopes=right(row), worker_id=row.worker)
    now, grace = services.utc_now(), timedelta(hours=1)
    new = services.rotate_key(old.key.id, by=ROOT, grace=grace, now=now)
    assert passes(api(old), row) and passes(api(new), row)
    monkeypatch.setattr(authentication, "utc_now", lambda: now + grace - timedelta(microseconds=1))
    assert passes(api(old), row)
    monkeypatch.setattr(authentication, "utc_now", lambda: now + grace)
    assert is_refused(api(old), row) and passes(api(new), row)


@pytest.mark.parametrize("row", [row for row in KEYED if not row.worker], ids=name_of)
def test_an_agent_passes_where_its_scopes_let_it(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    assert passes(api(make_key(kind="agent", scopes=right(row))), row) is (row.path not in FOR_PEOPLE)


@pytest.mark.parametrize("row", [row for row in KEYED if not row.worker], ids=name_of)
def test_a_persons_session_passes_where_its_scopes_let_it_and_nowhere_else(
    row: Row, api: Callable[..., ApiClient], namespace: str, django_user_model: Any
) -> None:
    ada = django_user_model.objects.create_superuser("ada")

    def session(scopes: list[str]) -> ApiClient:
        return ApiClient(sessions.open_session(ada, now_ms=now_ms(), scopes=scopes, namespaces=[namespace]).secret)

    assert passes(session(right(row)), row)
    if row.scope:
        others = session([scope for scope in SCOPES if scope not in (row.scope, EVERYTHING)])
        assert send(others, row).json().get("required_scope") == row.scope
    leaving = session(right(row))
    assert leaving.post_json("/v1/auth/signout", {}).status_code == 204
    assert is_refused(leaving, row)


@pytest.mark.parametrize("row", [row for row in ROWS if row.scope == PUBLIC], ids=name_of)
def test_a_public_route_asks_for_no_key(row: Row, api: Callable[..., ApiClient], db: None) -> None:
    assert send(api(None), row).status_code not in (401, 403)


@pytest.mark.parametrize("row", KEYED, ids=name_of)
def test_the_consoles_session_opens_nothing(row: Row, db: None, django_user_model: Any) -> None:
    client = ApiClient(None)
    client.force_login(django_user_model.objects.create_superuser("operator", password="a long password"))
    assert send(client, row).json()["code"] == "AUTHENTICATION_REQUIRED"
