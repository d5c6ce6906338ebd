"""What every refusal of a write says of its outcome, and what every answer says of the state's position."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.http.errors import ApiError
from feltdb_engine import errors
from tests.boundary_rows import STATE, Row
from tests.conftest import ApiClient
from tests.keys.test_boundary import name_of

WRITES = [row for row in STATE if row.scope and row.scope.endswith(":write")]
WITH_POSITION = [row for row in STATE if row.namespaced and row.path != "/v1/schema/pending"]
PENDING = Row("DELETE", "/v1/schema/pending", scope="schema:write")


@pytest.fixture
def filled(client: ApiClient) -> ApiClient:
    """Whatever the rows speak of is there."""
    made = [
        client.put_json("/v1/collections/orders/o-1", {"amount": 1}),
        client.put_json("/v1/collections/orders/indexes/by-status", {"fields": ["status"]}),
        client.put_json("/v1/capabilities/find", {"steps": [{"op": "identity"}]}),
        client.post_json("/v1/transactions", {"transactionId": "t-1", "operations": [{"collection": "a", "id": "b"}]}),
    ]
    assert all(each.status_code in (200, 201) for each in made)
    return client


def send(client: ApiClient, row: Row, **extra: Any) -> Any:
    return client.call(row.method, row.path, row.body, content_type=row.media, **extra)


@pytest.mark.parametrize("row", WITH_POSITION, ids=name_of)
def test_every_answer_about_the_state_says_the_position_it_is_of(filled: ApiClient, row: Row) -> None:
    body = row.body
    if row.method == "POST" and row.path in ("/v1/collections/orders", "/v1/collections/orders/o-1/cas"):
        body = {"id": "new"} if "cas" not in row.path else {"expectedVersion": 1, "value": {}}
    before = filled.get("/v1/revision").json()["revision"]
    answer = filled.call(row.method, row.path, body, content_type=row.media)
    assert answer.status_code < 300, answer.content
    after = filled.get("/v1/revision").json()["revision"]
    assert before <= int(answer["FeltDB-Revision"]) <= after


def test_a_contract_let_go_says_the_position_too(client: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feltdb_engine.store.Store.withdraw_contract", lambda self: True)
    assert send(client, PENDING)["FeltDB-Revision"] == "0"


BREACHES = {
    "no key": (401, {"headers": {"Authorization": "Bearer fdb_live_short"}}),
    "another namespace": (403, {"headers": {"FeltDB-Namespace": "elsewhere"}}),
    "another media type": (415, {"content_type": "text/plain"}),
}


@pytest.mark.parametrize("row", WRITES, ids=name_of)
def test_every_refused_write_says_that_it_was_not_committed(filled: ApiClient, row: Row) -> None:
    for name, (status, extra) in BREACHES.items():
        if name == "another media type" and row.body is None:
            continue
        answer = filled.call(row.method, row.path, row.body, **{"content_type": row.media, **extra})
        assert (answer.status_code, answer.json()["committed"]) == (status, False), name


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/v1/collections/orders", {"id": "o-1"}, {}, 409),
        ("POST", "/v1/collections/orders", b'{"id": ', {}, 400),
        ("PUT", "/v1/collections/orders/o-1", {"t": "x" * 1_100_000}, {}, 422),
        ("PUT", "/v1/collections/orders/o-1", {"t": "x" * 2_100_000}, {}, 413),
        ("PUT", "/v1/collections/orders/o-1", {}, {"If-Match": '"9"'}, 412),
        ("PUT", "/v1/collections/orders/o-1", {}, {"If-Match": "9"}, 400),
        ("PUT", "/v1/collections/_flow_capabilities/x", {}, {}, 403),
        ("PATCH", "/v1/collections/orders/none", {}, {}, 404),
        ("DELETE", "/v1/collections/orders/none", None, {}, 404),
        ("POST", "/v1/collections/orders/o-1/cas", {"expectedVersion": 9, "value": {}}, {}, 409),
        ("POST", "/v1/transactions", {"operations": []}, {}, 400),
        ("POST", "/v1/transactions", {"operations": [{"collection": "a", "id": "b"}], "fences": ["x"]}, {}, 400),
        ("PUT", "/v1/schema", {"collections": {"orders": {"schema": {"type": 7}}}}, {}, 422),
        ("PUT", "/v1/schema", {"collections": {"orders": {"schema": {"required": ["n"]}}}}, {}, 409),
        ("PUT", "/v1/collections/orders/indexes/by-status", {"fields": ["other"]}, {}, 422),
        ("PUT", "/v1/capabilities/find", {"steps": []}, {}, 400),
        ("POST", "/v1/import", b'{"id": "x"}\n', {}, 400),
    ],
)
def test_a_write_refused_for_what_it_asks_says_that_it_was_not_committed(
    filled: ApiClient, method: str, path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    before = filled.get("/v1/revision").json()["revision"]
    media = "application/x-ndjson" if path == "/v1/import" else "application/json"
    answer = filled.call(method, path, body, content_type=media, headers=headers)
    assert (answer.status_code, answer.json()["committed"]) == (status, False), answer.content
    assert filled.get("/v1/revision").json()["revision"] == before


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (RuntimeError("a bug"), "unknown"),
        (errors.TransactionTooLarge("too large"), False),
        (errors.StoreClosed("closed", committed="unknown"), "unknown"),
        (errors.StoreRebuilding("rebuilding"), False),
        (errors.StorageWriteFailed("undone"), False),
        (ApiError("DATABASE_UNAVAILABLE", "away"), False),
    ],
)
def test_what_fails_here_is_said_to_be_undone_only_where_that_is_known(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch, failure: Exception, said: object
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr("feltdb_engine.store.Store.commit", fail)
    answer = client.put_json("/v1/collections/orders/o-1", {})
    assert answer.json()["committed"] == said, answer.content


def test_a_refused_read_says_nothing_of_a_commit(client: ApiClient, api: Callable[..., ApiClient]) -> None:
    for answer in (
        client.get("/v1/collections/orders/none"),
        client.post_json("/v1/query", {}),
        api(None).get("/v1/revision"),
    ):
        assert answer.status_code >= 400 and "committed" not in answer.json()
