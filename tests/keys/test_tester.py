"""What the tester says of a call is what the call gets: every route, by keys that lack one thing each."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.keys import services, tester, token
from apps.keys.principal import operator
from tests.boundary_rows import PUBLIC, ROWS, Row
from tests.conftest import ApiClient

KEYED = [row for row in ROWS if row.scope != PUBLIC]
NOW = services.utc_now()
HOUR = timedelta(hours=1)


def name_of(row: Row) -> str:
    return f"{row.method} {row.path}"


def said(secret: str, row: Row, namespace: str | None = None) -> tester.Verdict:
    return tester.would_pass(secret, row.method, row.path, namespace=namespace, now=services.utc_now())[1]


@pytest.mark.parametrize("row", KEYED, ids=name_of)
def test_the_verdict_is_the_answer(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any], namespace: str
) -> None:
    other = "events:read" if row.scope != "events:read" else "audit:read"
    callers: dict[str, tuple[str, str | None]] = {
        "right": (make_key(worker_id=row.worker).secret, None),
        "another scope": (make_key(scopes=[other], worker_id=row.worker).secret, None),
        "another namespace": (make_key(namespaces=["another"], worker_id=row.worker).secret, namespace),
        "which namespace": (make_key(namespaces=["another", namespace], worker_id=row.worker).secret, None),
        "another collection": (make_key(collections=["other"], worker_id=row.worker).secret, None),
        "unknown": (token.new_token(token.new_key_id(), "live").text, None),
    }
    for caller, (secret, asked) in callers.items():
        verdict = said(secret, row, asked)
        answer = api(secret, namespace=asked).call(row.method, row.path, row.body)
        body = answer.json() if answer.status_code >= 400 else {}
        if not verdict.passes:
            assert (answer.status_code, body.get("code")) == (verdict.status, verdict.code), (caller, verdict, body)
        elif not verdict.left:
            refused = answer.status_code == 401 or (
                answer.status_code == 403 and body.get("reason") in ("MISSING_SCOPE", "NAMESPACE_DENIED")
            )
            assert not refused and body.get("code") != "NAMESPACE_REQUIRED", (caller, verdict, body)


@pytest.mark.parametrize("row", [row for row in KEYED if row.also], ids=name_of)
def test_a_scope_that_is_needed_besides_is_asked_for(
    row: Row, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    for left_out in row.also:
        scopes = [scope for scope in (str(row.scope), *row.also) if scope != left_out]
        secret = make_key(scopes=scopes).secret
        verdict = said(secret, row)
        body = api(secret).call(row.method, row.path, row.body).json()
        assert (verdict.passes, verdict.rule) == (False, "scope") and left_out in verdict.why
        assert (body["reason"], body["required_scope"]) == ("MISSING_SCOPE", left_out)
    held = said(make_key(scopes=[str(row.scope), *row.also]).secret, row)
    assert held.passes and all(scope in held.why for scope in (row.scope, *row.also) if scope)


def test_no_view_names_a_scope_that_it_needs_besides_without_a_row_that_says_so() -> None:
    for row in KEYED:
        try:
            view, _ = tester._route(row.method, row.path)
        except tester._Decided:
            continue  # metrics ask for their scope themselves
        assert view.also.get(row.method, ()) == row.also, row


@pytest.mark.parametrize("row", [row for row in ROWS if row.scope == PUBLIC], ids=name_of)
def test_a_public_route_asks_for_no_key(row: Row, db: None) -> None:
    assert said("anything", row).rule == "public"


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/nowhere", 404), ("PUT", "/v1/keys", 405), ("GET", "/admin/", 403)]
)
def test_what_is_no_route_of_the_api_is_said_so(
    method: str, path: str, status: int, make_key: Callable[..., Any]
) -> None:
    verdict = tester.would_pass(make_key().secret, method, path, namespace=None, now=NOW)[1]
    assert (verdict.passes, verdict.rule, verdict.status) == (False, "route", status)


def test_what_only_the_body_tells_is_named(make_key: Callable[..., Any]) -> None:
    worker = make_key(worker_id="w1").secret
    limited = make_key(collections=["orders"]).secret
    by_path = {row.path: row for row in KEYED if row.method == "POST"}
    assert "worker" in said(worker, by_path["/v1/workloads/claim"]).left[0]
    assert "collection" in said(limited, by_path["/v1/query"]).left[0]
    assert said(make_key().secret, by_path["/v1/query"]).left == ()


DRY_RUN = ("POST", "/v1/triggers/t1/dry-run", {"definition": {"source_collection": "orders"}})
QUESTION = {"grant": {}, "application_id": "app", "capability": "state:read", "resource": "flow://app"}
ELSEWHERE: dict[str, Any] = {"collections": ["other"]}


@pytest.mark.parametrize(
    ("call", "key", "named"),
    [
        (DRY_RUN, {"scopes": ["triggers:read"]}, "state:read"),
        (DRY_RUN, {"scopes": ["triggers:read", "state:read"], **ELSEWHERE}, "collection"),
        (
            ("POST", "/v1/triggers", {"source_collection": "orders"}),
            {"scopes": ["triggers:write"], **ELSEWHERE},
            "coll",
        ),
        (("GET", "/v1/changes?after=start&collections=orders", None), {"scopes": ["events:read"], **ELSEWHERE}, "coll"),
        (("POST", "/v1/query", {"collection": "orders"}), {"scopes": ["state:read"], **ELSEWHERE}, "collection"),
        (
            ("POST", "/v1/authorization/check", {**QUESTION, "subject": {"kind": "agent", "id": "a"}}),
            {"scopes": ["state:read"]},
            "grants:write",
        ),
    ],
)
def test_a_call_that_is_refused_for_what_it_names_is_not_said_to_pass_without_a_word(
    call: tuple[str, str, Any],
    key: dict[str, Any],
    named: str,
    api: Callable[..., ApiClient],
    make_key: Callable[..., Any],
) -> None:
    secret = make_key(**key).secret
    body = api(secret).call(*call).json()
    assert body["code"] == "FORBIDDEN" and body["reason"] in ("MISSING_SCOPE", "COLLECTION_DENIED"), body
    verdict = tester.would_pass(secret, *call[:2], namespace=None, now=services.utc_now())[1]
    assert named in (" ".join(verdict.left) if verdict.passes else verdict.why), verdict
    whole = tester.would_pass(make_key().secret, *call[:2], namespace=None, now=services.utc_now())[1]
    assert whole.passes and whole.left == ()


def test_an_action_and_the_record_of_that_name_share_a_path(make_key: Callable[..., Any]) -> None:
    path = "/v1/collections/orders/search"
    reader = make_key(scopes=["state:read"]).secret
    for method, passes in (("POST", True), ("GET", True), ("HEAD", True), ("PUT", False)):
        verdict = tester.would_pass(reader, method, path, namespace=None, now=NOW)[1]
        assert verdict.passes == passes, (method, verdict)


def test_whoever_runs_the_instance_is_told_why_a_secret_opens_nothing(make_key: Callable[..., Any]) -> None:
    live, revoked, rotated = make_key(), make_key(), make_key(now=NOW - HOUR)
    services.revoke_key(revoked.key.id, by=operator("tests"))
    services.rotate_key(rotated.key.id, by=operator("tests"), grace=HOUR / 2, now=NOW - HOUR)
    expired = make_key(expires_at=NOW - HOUR, now=NOW - HOUR * 2)
    cases = {
        live.secret[:-1]: "no well-formed key",
        "fdb_live_" + "a" * 48: "no imported key",
        token.new_token("a" * 12, "live").text: "there is no key",
        token.new_token(live.key.id, "live").text: "one of its secrets",
        revoked.secret: "is revoked since",
        expired.secret: "expired at",
        rotated.secret: "the grace of this secret ended",
    }
    for secret, why in cases.items():
        assert why in tester.why_nobody(secret, now=NOW), why
        assert secret not in tester.why_nobody(secret, now=NOW)
