"""Declared programs over HTTP: checked when saved, written through their own routes alone."""

import pytest

PATH = "/v1/capabilities/find-orders"
STEPS = [
    {"op": "search", "collection": "orders", "query": "tea", "limit": 20},
    {"op": "filter_eq", "field": "status", "value": "new"},
    {"op": "project", "fields": ["id", "status"]},
    {"op": "limit", "count": 5},
    {"op": "identity"},
]


def test_a_program_is_stored_read_listed_replaced_and_removed(client):
    made = client.put_json(PATH, {"steps": STEPS})
    assert (made.status_code, made["ETag"]) == (201, '"1"')
    assert made.json()["steps"] == STEPS
    assert client.get(PATH).json() == made.json()
    again = client.put_json(PATH, {"steps": [{"op": "identity"}]}, headers={"If-Match": '"1"'})
    assert (again.status_code, again.json()["version"]) == (200, 2)
    assert client.put_json(PATH, {"steps": STEPS}, headers={"If-Match": '"1"'}).status_code == 412
    assert client.get("/v1/capabilities").json() == {"capabilities": [again.json()], "next_cursor": None}
    assert client.delete(PATH).status_code == 204
    assert client.get(PATH).status_code == client.delete(PATH).status_code == 404


def test_the_reference_stores_programs_by_post_without_v1(client):
    assert client.post_json("/capabilities/find-orders", {"steps": STEPS}).status_code == 201
    assert client.get(PATH).json()["steps"] == STEPS


def test_what_is_stored_is_what_workers_read(client):
    client.put_json(PATH, {"steps": STEPS})
    stored = client.get("/v1/collections/_flow_capabilities/find-orders").json()
    assert stored["value"] == {"steps": STEPS}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/steps"),
        ({"steps": []}, "/steps"),
        ({"steps": [{"op": "identity"}] * 17}, "/steps"),
        ({"steps": [{"op": "delete"}]}, "/steps/0/op"),
        ({"steps": [{"op": "identity", "collection": "x"}]}, "/steps/0/collection"),
        ({"steps": [{"op": "search", "collection": "_flow_capabilities"}]}, "/steps/0/collection"),
        ({"steps": [{"op": "search", "limit": 501}]}, "/steps/0/limit"),
        ({"steps": [{"op": "project", "fields": ["f"] * 33}]}, "/steps/0/fields"),
        ({"steps": [{"op": "identity"}], "name": "x"}, "/name"),
    ],
)
def test_a_program_that_cannot_run_is_refused_when_it_is_saved(client, body, pointer):
    answer = client.put_json(PATH, body)
    assert (answer.status_code, answer.json()["details"]) == (400, {"pointer": pointer})
    assert client.get(PATH).status_code == 404


@pytest.mark.parametrize("name", ["identity", "search", "a.b", "a%2Fb", "x" * 129, "%C3%A9"])
def test_a_name_no_program_can_have_is_refused(client, name):
    answer = client.put_json(f"/v1/capabilities/{name}", {"steps": STEPS})
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "name"})


def test_a_repeated_save_is_done_once(client):
    headers = {"Idempotency-Key": "k-1"}
    assert client.put_json(PATH, {"steps": STEPS}, headers=headers).status_code == 201
    again = client.put_json(PATH, {"steps": STEPS}, headers=headers)
    assert (again["Idempotent-Replay"], again.json()["version"]) == ("true", 1)


def test_a_key_for_other_collections_neither_reads_nor_writes_programs(client, api, make_key):
    client.put_json(PATH, {"steps": STEPS})
    narrow = api(make_key(collections=["orders"]))
    for answer in (
        narrow.get(PATH),
        narrow.get("/v1/capabilities"),
        narrow.put_json(PATH, {"steps": STEPS}),
        narrow.delete(PATH),
    ):
        assert (answer.status_code, answer.json()["reason"]) == (403, "COLLECTION_DENIED")
