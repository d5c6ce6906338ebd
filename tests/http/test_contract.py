"""The one refusal, whoever refuses: ours, the engine's, DRF's, Django's, the database's, a bug."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from apps.http.codes import BY_STATUS, CODES
from apps.http.errors import ApiError
from apps.http.exceptions import ENGINE_CODES
from feltdb_engine import errors as engine
from tests.conftest import ApiClient

pytestmark = pytest.mark.usefixtures("probe")

EXPECTED: dict[str, tuple[int, str]] = {
    "ours": (409, "WORKLOAD_STALE_FENCE"),
    "engine": (410, "FEED_COMPACTED"),
    "full": (507, "STORAGE_FULL"),
    "unknown-commit": (503, "COMMIT_UNKNOWN"),
    "drf-validation": (400, "VALIDATION_ERROR"),
    "drf-throttled": (429, "RATE_LIMITED"),
    "http404": (404, "NOT_FOUND"),
    "denied": (403, "FORBIDDEN"),
    "suspicious": (400, "REQUEST_REFUSED"),
    "database": (503, "DATABASE_UNAVAILABLE"),
    "database-full": (507, "STORAGE_FULL"),
    "integrity": (500, "INTERNAL_ERROR"),
    "bug": (500, "INTERNAL_ERROR"),
}


def envelope(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Check that the answer is the envelope, whole, and give it."""
    assert answer["Content-Type"] == "application/json", answer.content
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["status"], body["code"], body["error"]) == (status, status, code, code), body
    assert body["title"] == CODES[code].title
    assert body["type"] == "urn:feltdb:code:" + code.lower().replace("_", "-")
    assert body["message"] and body["request_id"] == answer["X-Request-ID"]
    assert b"secret" not in answer.content and b"Traceback" not in answer.content and b"<" not in answer.content
    return body


@pytest.mark.parametrize("kind", EXPECTED)
@pytest.mark.parametrize("debug", [False, True])
def test_every_failure_of_a_view_is_the_envelope_and_tells_no_secret(
    kind: str, debug: bool, api: Callable[..., ApiClient], settings: Any
) -> None:
    settings.DEBUG = debug
    envelope(api().get(f"/probe/fail/{kind}"), *EXPECTED[kind])


def test_details_members_and_headers_of_a_refusal_go_out(api: Callable[..., ApiClient]) -> None:
    answer = api().get("/probe/fail/ours")
    body = answer.json()
    assert (body["details"], body["committed"], answer["X-Probe"]) == ({"token": 3}, False, "1")
    assert api().get("/probe/fail/engine").json()["details"] == {"floor": 7, "head": 9}
    assert api().get("/probe/fail/full").json()["committed"] is False
    unknown = api().get("/probe/fail/unknown-commit").json()
    assert (unknown["committed"], unknown["details"]) == ("unknown", {"transaction_id": "t1"})
    assert api().get("/probe/fail/drf-throttled")["Retry-After"] == "3"
    assert api().get("/probe/fail/database")["Retry-After"] == "1"


@pytest.mark.parametrize("debug", [False, True])
def test_failures_outside_any_view_are_the_envelope_too(
    debug: bool, api: Callable[..., ApiClient], settings: Any
) -> None:
    settings.DEBUG = debug
    client = api()
    envelope(client.get("/nowhere"), 404, "NOT_FOUND")
    envelope(client.get("/v1/nowhere"), 404, "NOT_FOUND")
    envelope(client.get("/v1/keys/current/"), 404, "NOT_FOUND")
    envelope(client.get("/probe/plain-bug"), 500, "INTERNAL_ERROR")
    page = client.get("/probe/plain-page")
    envelope(page, 405, "METHOD_NOT_ALLOWED")
    assert page["Allow"] == "GET"
    code = "REQUEST_REFUSED" if debug else "HOST_INVALID"  # with DEBUG Django answers that itself
    assert envelope(client.get("/probe/host", headers={"Host": "evil.example"}), 400, code)


def test_a_body_over_djangos_own_limit_is_the_envelope(api: Callable[..., ApiClient], settings: Any) -> None:
    from django.core.exceptions import RequestDataTooBig

    from apps.http.handlers import suspicious

    assert suspicious(RequestDataTooBig("too big")).code == "BODY_TOO_LARGE"


@pytest.mark.parametrize("method", ["DELETE", "TRACE", "BREW", "dispatch"])
def test_a_wrong_method_is_405_with_the_right_ones(method: str, api: Callable[..., ApiClient]) -> None:
    answer = api().generic(method, "/probe/echo")
    envelope(answer, 405, "METHOD_NOT_ALLOWED")
    assert {"GET", "POST", "PUT"} <= set(re.split(r", *", answer["Allow"]))


def test_options_and_head_behave(api: Callable[..., ApiClient]) -> None:
    options = api().options("/probe/echo")
    assert (options.status_code, options.content) == (204, b"")
    assert "POST" in options["Allow"]
    head = api().head("/probe/echo")
    assert (head.status_code, head.content) == (200, b"")
    envelope(api(None).get("/probe/echo"), 401, "AUTHENTICATION_REQUIRED")


def test_head_needs_the_scope_that_get_needs(api: Callable[..., ApiClient], make_key: Callable[..., Any]) -> None:
    assert api(make_key(scopes=["state:write"])).head("/probe/echo").status_code == 403


def test_a_view_whose_author_forgot_scopes_lets_nobody_in(api: Callable[..., ApiClient]) -> None:
    envelope(api().get("/probe/unscoped"), 403, "FORBIDDEN")
    envelope(api(None).get("/probe/unscoped"), 401, "AUTHENTICATION_REQUIRED")


def test_a_wellformed_request_id_is_kept_and_any_other_replaced(api: Callable[..., ApiClient]) -> None:
    client = api()
    assert client.get("/nowhere", headers={"X-Request-ID": "abc-1.2:3_4"})["X-Request-ID"] == "abc-1.2:3_4"
    assert client.get("/nowhere", headers={"X-Request-ID": "a" * 128})["X-Request-ID"] == "a" * 128
    for bad in ("", "a b", "a" * 129, "ü", "a\r\nSet-Cookie: x=1", '"><script>'):
        given = client.get("/nowhere", headers={"X-Request-ID": bad})["X-Request-ID"]
        assert re.fullmatch(r"req_[0-9a-f]{32}", given), bad
    assert client.get("/probe/echo")["X-Request-ID"] != client.get("/probe/echo")["X-Request-ID"]


@pytest.mark.parametrize("asked", ["", "0", "2", "1.0", "01", "one"])
def test_another_protocol_is_426_and_names_the_right_one(asked: str, api: Callable[..., ApiClient]) -> None:
    answer = api().get("/probe/echo", headers={"FeltDB-Protocol": asked})
    envelope(answer, 426, "PROTOCOL_UNSUPPORTED")
    assert answer["FeltDB-Protocol"] == "1"
    assert api().get("/probe/echo", headers={"FeltDB-Protocol": "1"}).status_code == 200


@pytest.mark.parametrize("target", ["/admin/login/?next=%00", "/admin/%00"])
def test_nul_in_the_consoles_target_is_refused_before_any_view(target: str, api: Callable[..., ApiClient]) -> None:
    envelope(api().get(target), 400, "REQUEST_REFUSED")


@pytest.mark.parametrize("target", ["/v1/keys/a%00b", "/%00"])
def test_nul_elsewhere_names_nothing_that_is_there(target: str, api: Callable[..., ApiClient]) -> None:
    envelope(api().get(target), 404, "NOT_FOUND")


def test_a_lookup_by_nul_is_the_callers_mistake_whatever_the_database(api: Callable[..., ApiClient]) -> None:
    answer = api().get("/probe/lookup/a%00b")
    assert (answer.status_code, answer.json()["code"]) in {(404, "NOT_FOUND"), (400, "VALIDATION_ERROR")}


def test_the_console_keeps_its_own_pages(api: Callable[..., ApiClient]) -> None:
    answer = api().get("/admin/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/login/?next=/admin/")
    assert api().get("/admin/login/")["Content-Type"].startswith("text/html")


def test_the_namespace_is_the_keys_only_one_or_the_one_named(
    api: Callable[..., ApiClient], make_key: Callable[..., Any], namespace: str
) -> None:
    assert api().get("/probe/echo").json()["namespace"] == namespace
    both = make_key(namespaces=[namespace, "second"])
    assert api(both, namespace="second").get("/probe/echo").json()["namespace"] == "second"
    every = make_key(namespaces=["*"])
    assert api(every, namespace="second").get("/probe/echo").json()["namespace"] == "second"
    envelope(api(every, namespace="third").get("/probe/echo"), 403, "FORBIDDEN")
    envelope(api(every).get("/probe/echo"), 400, "NAMESPACE_REQUIRED")


def test_every_engine_error_has_a_code_over_http_and_every_code_is_in_the_table() -> None:
    def tree(kind: type[engine.EngineError]) -> set[str]:
        return {kind.code}.union(*(tree(child) for child in kind.__subclasses__()))

    assert tree(engine.EngineError) == set(ENGINE_CODES)
    assert set(ENGINE_CODES.values()) | set(BY_STATUS.values()) <= set(CODES)
    assert all(CODES[code].status == status for status, code in BY_STATUS.items())


def test_a_code_outside_the_table_cannot_be_raised() -> None:
    with pytest.raises(KeyError):
        ApiError("MADE_UP", "No.")
