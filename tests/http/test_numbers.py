"""`FeltDB-Numbers`: large integers as strings for clients whose numbers are doubles, and exact for everybody else."""

import pytest

VALUE = {
    "safe": 2**53 - 1,
    "unsafe": 2**53,
    "low": -(2**53),
    "highest": 2**64 - 1,
    "deep": [{"n": -(2**63)}],
    "float": 1e300,
    "true": True,
    "text": "9007199254740993",
}
CONVERTED = {
    **VALUE,
    "unsafe": "9007199254740992",
    "low": "-9007199254740992",
    "highest": "18446744073709551615",
    "deep": [{"n": "-9223372036854775808"}],
}


@pytest.fixture
def client(api, data_dir):
    client = api()
    client.put_json("/v1/collections/orders/o-1", VALUE)
    return client


@pytest.mark.parametrize("path", ["/v1/collections/orders/o-1", "/v1/collections/orders", "/v1/changes"])
def test_large_integers_are_strings_for_those_who_ask(client, path):
    def value(**headers):
        body = client.get(path, headers=headers).json()
        return (body.get("records") or body.get("operations") or [body])[0]["value"]

    assert value(**{"FeltDB-Numbers": "string"}) == CONVERTED
    assert value(**{"FeltDB-Numbers": "number"}) == VALUE
    assert value() == VALUE


def test_the_deepest_value_is_converted_too(client):
    deepest = b'{"a":' * 63 + b'{"n":9007199254740993}' + b"}" * 63
    assert client.call("PUT", "/v1/collections/orders/o-2", deepest).status_code == 201
    answer = client.get("/v1/collections/orders", headers={"FeltDB-Numbers": "string"})
    assert b'{"n":"9007199254740993"}' in answer.content


def test_another_wish_is_refused(client):
    answer = client.get("/v1/collections/orders/o-1", headers={"FeltDB-Numbers": "text"})
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"] == {"field": "FeltDB-Numbers"}


def test_an_answer_without_a_body_stays_as_it_is(client):
    answer = client.delete("/v1/collections/orders/o-1", headers={"FeltDB-Numbers": "string"})
    assert (answer.status_code, answer.content) == (204, b"")
