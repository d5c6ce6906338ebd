"""The namespace's contract over HTTP: what it refuses, by every door, and what changing it would break."""

import pytest

from apps.state import limits
from apps.state.services import contracts

SHOP = {
    "collections": {
        "customers": {"unique": ["email"]},
        "orders": {
            "schema": {"properties": {"amount": {"type": "integer", "minimum": 0}}},
            "references": [{"field": "customer", "collection": "customers"}],
        },
    }
}
ORDER = "/v1/collections/orders/o-1"


@pytest.fixture
def shop(client):
    answer = client.put_json("/v1/schema", SHOP)
    assert answer.status_code == 200, answer.content
    return answer.json()


def refused(answer):
    body = answer.json()
    assert (answer.status_code, body["code"], body["committed"]) == (422, "VALIDATION_FAILED", False)
    return [(each["rule"], each["pointer"]) for each in body["details"]["errors"]]


def test_without_a_contract_there_is_revision_nought_and_nothing_in_it(client):
    answer = client.get("/v1/schema")
    assert answer.json() == {"revision": 0, "sequence": 0, "contract": {"collections": {}}, "pending": None}
    assert answer["ETag"] == '"0"'


def test_a_contract_is_activated_shown_and_replaced_by_revision(client, shop):
    assert (shop["revision"], shop["pending"]) == (1, None)
    assert client.get("/v1/schema").json() == shop
    stale = client.put_json("/v1/schema", {"collections": {}}, headers={"If-None-Match": "*"})
    assert (stale.status_code, stale.json()["currentVersion"]) == (412, 1)
    done = client.put_json("/v1/schema", {"collections": {}}, headers={"If-Match": '"1"'})
    assert (done.status_code, done["ETag"]) == (200, '"2"')
    assert client.put_json("/v1/schema", SHOP, headers={"If-Match": '"1"'}).status_code == 412
    assert client.put_json(ORDER, {"amount": -1}).status_code == 201, "the contract before holds no longer"


def test_every_door_refuses_what_breaks_the_contract_with_pointers_into_its_own_body(client, shop):
    bad = {"amount": -1, "customer": "nobody"}
    both = [("schema", "/amount"), ("reference", "/customer")]
    assert sorted(refused(client.put_json(ORDER, bad))) == sorted(both)
    assert sorted(refused(client.post_json("/v1/collections/orders", {"id": "o-1", **bad}))) == sorted(both)
    swap = client.post_json(f"{ORDER}/cas", {"expectedVersion": 0, "value": {"amount": -1}})
    assert refused(swap) == [("schema", "/value/amount")]
    client.put_json(ORDER, {"amount": 1})
    assert refused(client.patch_json(ORDER, {"amount": 1.5})) == [("schema", "/amount")]
    operations = [
        {"collection": "free", "id": "f", "value": {"amount": -1}},
        {"collection": "orders", "id": "o-1", "merge": {"amount": -1}},
        {"collection": "orders", "id": "o-2", "value": {"customer": 7}},
    ]
    answer = client.post_json("/v1/transactions", {"operations": operations})
    assert refused(answer) == [("schema", "/operations/1/merge/amount"), ("reference", "/operations/2/value/customer")]
    assert client.get("/v1/collections/free").json()["records"] == []
    assert client.get(ORDER).json()["version"] == 1


def test_a_record_that_is_referenced_stays(client, shop):
    client.put_json("/v1/collections/customers/c", {"email": "a@b"})
    client.put_json(ORDER, {"customer": "c"})
    assert refused(client.delete("/v1/collections/customers/c")) == [("referenced", "")]
    client.delete(ORDER)
    assert client.delete("/v1/collections/customers/c").status_code == 204


def test_what_is_unique_is_there_once(client, shop):
    client.put_json("/v1/collections/customers/a", {"email": "a@b"})
    assert refused(client.put_json("/v1/collections/customers/b", {"email": "a@b"})) == [("unique", "/email")]
    assert client.put_json("/v1/collections/customers/a", {"email": "a@b", "n": 1}).status_code == 200


def test_an_import_stops_at_the_row_that_breaks_the_contract(client, shop):
    body = b'{"collection":"orders","id":"a","value":{}}\n{"collection":"orders","id":"b","value":{"amount":-1}}'
    answer = client.call("POST", "/v1/import", body, content_type="application/x-ndjson")
    assert refused(answer) == [("schema", "/value/amount")]
    assert answer.json()["row"] == 2
    assert client.get("/v1/collections/orders").json()["records"] == []


def test_a_contract_that_stored_records_break_is_refused_with_counts_and_samples(client):
    operations = [{"collection": "orders", "id": f"o-{n:03}", "value": {"amount": -n}} for n in range(50)]
    client.post_json("/v1/transactions", {"operations": operations})
    before = client.get("/v1/revision").json()
    answer = client.put_json("/v1/schema", SHOP)
    assert (answer.status_code, answer.json()["code"]) == (409, "CONTRACT_BROKEN")
    [breach] = answer.json()["report"]["breaches"]
    assert (breach["collection"], breach["rule"], breach["count"]) == ("orders", "schema", 49)
    assert breach["samples"][0] == {
        "id": "o-001",
        "pointer": "/amount",
        "keyword": "minimum",
        "message": breach["samples"][0]["message"],
    }
    assert len(breach["samples"]) == 10
    assert client.get("/v1/schema").json()["revision"] == 0
    assert client.get("/v1/revision").json() == before
    asked = client.post_json("/v1/schema/validate", SHOP)
    assert asked.status_code == 200
    assert asked.json()["breaches"] == answer.json()["report"]["breaches"]
    assert (asked.json()["valid"], asked.json()["complete"], asked.json()["checked"]) == (True, True, 50)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([], ""),
        ({}, ""),
        ({"collections": {"a": {"schema": {"type": "nothing"}}}}, "/collections/a/schema"),
        ({"collections": {"a": {"unique": [[]]}}}, "/collections/a/unique/0"),
        ({"collections": {"a": {"references": [{"field": "x"}]}}}, "/collections/a/references/0"),
        ({"collections": {"-": {}}}, "/collections/-"),
        ({"collections": {"a": {"indexes": []}}}, "/collections/a"),
    ],
)
def test_what_is_no_contract_is_refused_with_its_place_and_explained_where_that_is_asked(client, body, pointer):
    answer = client.put_json("/v1/schema", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "CONTRACT_INVALID")
    assert answer.json()["details"]["pointer"].startswith(pointer)
    asked = client.post_json("/v1/schema/validate", body).json()
    assert (asked["valid"], asked["schema_hash"], asked["breaches"]) == (False, None, [])
    assert asked["issues"][0]["pointer"] == answer.json()["details"]["pointer"]


def test_system_collections_are_under_no_contract(client):
    answer = client.put_json("/v1/schema", {"collections": {"_flow_capabilities": {}}})
    assert (answer.status_code, answer.json()["reason"]) == (403, "COLLECTION_DENIED")


def test_a_key_for_some_collections_sees_their_part_and_changes_no_other(client, shop, api, make_key):
    narrow = api(make_key(collections=["orders"]))
    assert list(narrow.get("/v1/schema").json()["contract"]["collections"]) == ["orders"]
    assert list(narrow.get("/v1/application").json()["contract"]["contract"]["collections"]) == ["orders"]
    for answer in (
        narrow.put_json("/v1/schema", {"collections": {"orders": {}}}),
        narrow.put_json("/v1/schema", SHOP),
        narrow.post_json("/v1/schema/validate", SHOP),
    ):
        assert (answer.status_code, answer.json()["reason"]) == (403, "COLLECTION_DENIED")


def test_the_list_of_collections_shows_the_contract_of_each(client, shop):
    client.put_json("/v1/collections/free/f", {})
    rows = {each["name"]: each for each in client.get("/v1/collections").json()["collections"]}
    assert rows["free"]["contract"] is None
    assert rows["orders"]["contract"]["references"] == SHOP["collections"]["orders"]["references"]
    assert rows["customers"]["records"] == 0


def test_an_application_is_its_namespace_its_contract_and_its_position(client, shop):
    found = client.get("/v1/application").json()
    assert (found["namespace"], found["contract"]) == ("test", shop)
    assert found["schema_hash"] == client.post_json("/v1/schema/validate", SHOP).json()["schema_hash"]


def test_one_contract_is_checked_at_a_time_in_a_process(client):
    with contracts._turn:
        answers = [client.put_json("/v1/schema", SHOP), client.post_json("/v1/schema/validate", SHOP)]
    assert [(each.status_code, each["Retry-After"]) for each in answers] == [(503, "5")] * 2
    assert client.put_json("/v1/schema", SHOP).status_code == 200
    assert limits.CONTRACT_MAX_S == 600


def test_a_contract_left_half_way_is_shown_and_withdrawn(client, namespace, monkeypatch):
    from apps.state.stores import store
    from feltdb_engine.activating import Activation

    assert client.delete("/v1/schema/pending").status_code == 404
    monkeypatch.setattr(Activation, "_look_again", lambda *_: (_ for _ in ()).throw(SystemExit))
    monkeypatch.setattr(Activation, "_append", lambda *_, **__: None)
    with pytest.raises(SystemExit):
        store(namespace).activate_contract(SHOP)
    monkeypatch.undo()
    assert client.get("/v1/schema").json()["pending"] is not None
    assert refused(client.put_json(ORDER, {"amount": -1})) == [("schema", "/amount")]
    assert client.delete("/v1/schema/pending").status_code == 204
    assert client.put_json(ORDER, {"amount": -1}).status_code == 201
