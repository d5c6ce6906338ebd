"""People over HTTP: signing in, what a session may do, how it ends, and how often anybody may fail."""

import contextlib
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.http.errors import ApiError
from apps.keys import clock, limits, verify
from apps.keys.audit import refusals
from apps.keys.audit.models import AuditEvent
from apps.keys.clock import now_ms, utc_now
from apps.keys.models import Operator
from apps.keys.principal import operator
from apps.keys.sessions import attempts
from apps.keys.sessions.models import FailedSignIn, HumanSession
from apps.operations.services import operators
from apps.operations.services.roles import Role
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db

ROOT = operator("root")
PASSWORD = "a long enough pass phrase"


@pytest.fixture
def ada() -> Operator:
    return operators.create_operator(name="ada", password=PASSWORD, role=Role.OPERATOR, by=ROOT)


def sign_in(password: str = PASSWORD, username: str = "ada", **members: Any) -> Any:
    client = ApiClient(None)
    return client.post_json("/v1/auth/signin", {"username": username, "password": password, **members})


def test_somebody_signs_in_sees_who_they_are_and_signs_out(ada: Operator, namespace: str) -> None:
    opened = sign_in(namespaces=[namespace])
    assert opened.status_code == 200 and opened["Cache-Control"] == "no-store"
    body = opened.json()
    secret = body.pop("access_token")
    assert re.fullmatch(r"fdb_session_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}", secret)
    assert body.pop("token_type") == "Bearer"
    assert body["subject"] == {"kind": "human", "id": "ada"} and "workload:approve" in body["scopes"]
    assert 0 < body["expires_at_ms"] - now_ms() <= limits.SESSION_MS
    client = ApiClient(secret)
    assert client.get("/v1/auth/session").json() == body
    assert client.get("/v1/workloads").status_code == 200
    assert client.get("/v1/keys").json()["reason"] == "MISSING_SCOPE"
    assert client.get("/v1/keys/current").status_code == 404
    assert client.post_json("/v1/auth/signout", {}).status_code == 204
    assert client.get("/v1/auth/session").json()["code"] == "AUTHENTICATION_REQUIRED"
    actions = list(AuditEvent.objects.filter(action__startswith="session.").values_list("action", "subject"))
    assert sorted(actions) == [("session.ended", "human:ada"), ("session.opened", "human:ada")]


def test_no_secret_is_kept(ada: Operator) -> None:
    secret = sign_in().json()["access_token"]
    (row,) = HumanSession.objects.values()
    assert secret not in repr(row) and secret.rpartition("_")[2][:20] not in repr(row)
    assert not AuditEvent.objects.filter(target__contains=secret[-20:]).exists()


def test_unknown_wrong_and_stopped_get_one_answer(ada: Operator) -> None:
    stopped = operators.create_operator(name="bea", password=PASSWORD, role=Role.VIEWER, by=ROOT)
    operators.set_active(stopped.pk, False, by=ROOT)
    answers = set()
    for username, password in (("nobody", PASSWORD), ("ada", "wrong"), ("bea", PASSWORD)):
        answer = sign_in(password, username)
        body = answer.json()
        body.pop("request_id")
        answers.add((answer.status_code, answer["WWW-Authenticate"], str(body)))
    assert len(answers) == 1 and answers.pop()[0] == 401


def test_a_session_holds_what_was_asked_for_and_never_more_than_the_person(ada: Operator, namespace: str) -> None:
    narrow = ApiClient(sign_in(scopes=["workload:read"], namespaces=[namespace]).json()["access_token"])
    assert narrow.get("/v1/workloads").status_code == 200
    assert narrow.get("/v1/triggers").json()["reason"] == "MISSING_SCOPE"
    refused = sign_in(scopes=["keys:admin"])
    assert (refused.status_code, refused.json()["required_scope"]) == (403, "keys:admin")
    whole = ApiClient(sign_in(namespaces=[namespace]).json()["access_token"])
    assert whole.post_json("/v1/triggers", {}).json()["code"] != "FORBIDDEN"
    operators.set_role(ada.pk, Role.VIEWER, by=ROOT)
    assert whole.post_json("/v1/triggers", {}).json()["reason"] == "MISSING_SCOPE"
    assert whole.get("/v1/triggers").status_code == 200


@pytest.mark.parametrize("how", ["stopped", "another password", "expired"])
def test_a_session_ends_at_once(ada: Operator, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = sign_in().json()["access_token"]
    client = ApiClient(secret)
    assert client.get("/v1/auth/session").status_code == 200
    if how == "stopped":
        operators.set_active(ada.pk, False, by=ROOT)
    elif how == "another password":
        operators.set_password(ada.pk, "another long pass phrase", by=ROOT)
    else:
        session = HumanSession.objects.get()
        end = clock.instant(session.expires_at_ms)
        assert verify.principal_of(secret, now=end - timedelta(milliseconds=1)) is not None
        assert verify.principal_of(secret, now=end) is None
        return
    assert client.get("/v1/auth/session").json()["code"] == "AUTHENTICATION_REQUIRED"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"password": ""}, "password"),
        ({"password": 7}, "password"),
        ({"password": "x" * (limits.MAX_PASSWORD_CHARS + 1)}, "password"),
        ({"username": "x" * (limits.MAX_USERNAME_CHARS + 1)}, "username"),
        ({"scopes": []}, "scopes"),
        ({"scopes": "state:read"}, "scopes"),
        ({"scopes": ["state:fly"]}, "scopes"),
        ({"namespaces": ["Not A Name"]}, "namespaces"),
        ({"remember": True}, "remember"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(members: dict[str, Any], field: str) -> None:
    answer = ApiClient(None).post_json("/v1/auth/signin", {"username": "ada", "password": PASSWORD, **members})
    assert (answer.status_code, answer.json()["details"]["field"]) == (400, field)
    assert not FailedSignIn.objects.exists()


def test_after_too_many_failures_of_an_account_from_an_address_not_even_the_right_password_is_looked_at(
    ada: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(limits.FAILURES_OF_A_PAIR):
        assert sign_in("wrong").status_code == 401
    refused = sign_in()
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
    assert 0 < int(refused["Retry-After"]) <= (limits.FAILURE_WINDOW_MS + limits.FAILURE_STEP_MS) // 1000
    counts = set(FailedSignIn.objects.values_list("kind", "count"))
    assert counts == {(kind, limits.FAILURES_OF_A_PAIR) for kind in attempts.MOST}
    later = now_ms() + int(refused["Retry-After"]) * 1000
    assert attempts.signed_in("ada", PASSWORD, address="127.0.0.1", now_ms=later) == ada


def test_the_limit_is_one_for_every_spelling_of_a_name_and_every_door(ada: Operator) -> None:
    for number in range(limits.FAILURES_OF_A_PAIR):
        sign_in("wrong", "ADA" if number % 2 else "ada")
    page = Client().post("/admin/login/", {"username": "ada", "password": PASSWORD})
    assert page.status_code == 429 and int(page["Retry-After"]) > 0
    assert "Signing in failed too often" in page.content.decode()


def test_an_address_that_tries_names_is_stopped_and_others_are_not(ada: Operator) -> None:
    at = now_ms()
    for number in range(limits.FAILURES_OF_AN_ADDRESS):
        assert attempts.signed_in(f"name{number}", "x", address="2001:db8::1", now_ms=at) is None
    with pytest.raises(Exception, match="too often"):
        attempts.signed_in("ada", PASSWORD, address="2001:db8::2", now_ms=at)  # the same /64
    assert attempts.signed_in("ada", PASSWORD, address="2001:db8:0:1::1", now_ms=at) == ada


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Client-IP", "True-Client-IP"])
def test_whoever_names_another_address_in_a_header_is_counted_at_their_own(ada: Operator, header: str) -> None:
    client = ApiClient(None)
    for attempt in range(attempts.MOST["pair"] + 1):
        told = f"for=203.0.113.{attempt}" if header == "Forwarded" else f"203.0.113.{attempt}"
        body = {"username": "ada", "password": "wrong"}
        answer = client.post_json("/v1/auth/signin", body, headers={header: told})
    assert answer.status_code == 429


def test_a_success_clears_the_count_of_its_account_and_address(ada: Operator) -> None:
    for _ in range(limits.FAILURES_OF_A_PAIR - 1):
        sign_in("wrong")
    assert sign_in().status_code == 200
    for _ in range(limits.FAILURES_OF_A_PAIR - 1):
        assert sign_in("wrong").status_code == 401


def test_no_five_minutes_have_more_failures_than_stated_wherever_they_begin(ada: Operator) -> None:
    began = now_ms()
    failed_at: list[int] = []
    for at in range(began, began + 3 * limits.FAILURE_WINDOW_MS, 7_000):
        try:
            assert attempts.signed_in("ada", "wrong", address="127.0.0.1", now_ms=at) is None
        except ApiError:
            continue
        failed_at.append(at)
    assert len(failed_at) > 2 * limits.FAILURES_OF_A_PAIR
    for number, at in enumerate(failed_at[: -limits.FAILURES_OF_A_PAIR]):
        assert failed_at[number + limits.FAILURES_OF_A_PAIR] - at > limits.FAILURE_WINDOW_MS


def test_an_attempt_counts_while_its_password_is_looked_at(ada: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    at, tried = now_ms(), 0

    def while_looking(*_: Any, **__: Any) -> None:
        nonlocal tried
        tried += 1
        with contextlib.suppress(ApiError):
            attempts.signed_in("ada", "wrong", address="127.0.0.1", now_ms=at)

    monkeypatch.setattr(attempts, "authenticate", while_looking)
    assert attempts.signed_in("ada", "wrong", address="127.0.0.1", now_ms=at) is None
    assert tried == limits.FAILURES_OF_A_PAIR


def test_an_attempt_that_had_no_turn_is_no_failure(ada: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_turn(*_: Any, **__: Any) -> None:
        raise ApiError("SERVICE_OVERLOADED", "full")

    with monkeypatch.context() as patched:
        patched.setattr(attempts, "authenticate", no_turn)
        for _ in range(2 * limits.FAILURES_OF_A_PAIR):
            with pytest.raises(ApiError, match="full"):
                attempts.signed_in("ada", PASSWORD, address="127.0.0.1", now_ms=now_ms())
    assert sign_in().status_code == 200
    assert not FailedSignIn.objects.filter(count__gt=0).exists()


def test_counts_of_windows_gone_by_are_dropped(ada: Operator) -> None:
    at = now_ms()
    attempts.signed_in("ada", "wrong", address="127.0.0.1", now_ms=at)
    attempts.signed_in("ada", "wrong", address="127.0.0.1", now_ms=at + 2 * limits.FAILURE_WINDOW_MS)
    assert FailedSignIn.objects.values("window").distinct().count() == 1


def test_signing_in_to_the_console_is_in_the_audit_trail_and_so_is_failing(ada: Operator) -> None:
    refusals.write_rest()  # a minute afresh
    Client().post("/admin/login/", {"username": "ada", "password": "hunter2 hunter2"})
    Client().post("/admin/login/", {"username": "ada", "password": PASSWORD})
    assert AuditEvent.objects.get(action="console.signed_in").subject == "human:ada"
    failed = AuditEvent.objects.get(action="authentication.refused", target="POST /admin/login/")
    assert "ada" not in failed.reason


def test_no_key_is_ever_taken_for_a_session_or_a_session_for_a_key(ada: Operator, make_key: Any) -> None:
    secret = sign_in().json()["access_token"]
    key = make_key()
    body = secret.removeprefix("fdb_session_")
    assert verify.principal_of(f"fdb_live_{body}", now=utc_now()) is None
    answer = ApiClient(key.secret).post_json("/v1/auth/signout", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
    assert ApiClient(key.secret).get("/v1/auth/session").status_code == 404
