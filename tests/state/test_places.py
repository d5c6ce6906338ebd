"""What the engine refuses names its place in the request, by whichever route the value came."""

import pytest

from feltdb_engine.limits import VALUE_MAX_BYTES

TOO_MUCH = {"text": "x" * VALUE_MAX_BYTES}


def place(answer):
    assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION_FAILED"), answer.content
    return answer.json()["details"]["pointer"]


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("POST", "/v1/collections/orders", {"id": "a", **TOO_MUCH}, ""),
        ("PUT", "/v1/collections/orders/a", TOO_MUCH, ""),
        ("PATCH", "/v1/collections/orders/a", TOO_MUCH, ""),
        ("POST", "/v1/collections/orders/a/cas", {"expectedVersion": 0, "value": TOO_MUCH}, "/value"),
    ],
)
def test_a_value_over_the_limit_is_refused_with_its_place(client, method, path, body, pointer):
    assert place(client.call(method, path, body)) == pointer
    assert client.get("/v1/collections/orders").json()["records"] == []


def test_in_a_transaction_the_place_is_that_of_the_operation(client):
    small = {"collection": "orders", "id": "a", "value": {}}
    for member in ("value", "merge"):
        operations = [small, {"collection": "orders", "id": "b", member: TOO_MUCH}]
        answer = client.post_json("/v1/transactions", {"operations": operations})
        assert place(answer) == f"/operations/1/{member}"


def test_a_merge_that_makes_a_value_too_large_is_refused_and_changes_nothing(client, orders):
    orders("a", text="x" * (VALUE_MAX_BYTES - 100))
    answer = client.patch_json("/v1/collections/orders/a", {"more": "x" * 200})
    assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION_FAILED")
    assert client.get("/v1/collections/orders/a").json()["version"] == 1
