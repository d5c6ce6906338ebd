"""Which collections a caller may touch: system collections and a key's own list, by every door alike."""

import pytest

PATH = "/v1/collections/{}"


def doors(client, name):
    """Every door by which a record of the collection could be written."""
    one = f"/v1/collections/{name}/a"
    operations = [{"collection": "orders", "id": "b", "value": {}}, {"collection": name, "id": "a", "value": {}}]
    return [
        client.post_json(f"/v1/collections/{name}", {"id": "a"}),
        client.post_json(f"/v1/collections/{name}", {}),
        client.put_json(one, {}),
        client.patch_json(one, {}),
        client.delete(one),
        client.post_json(f"{one}/cas", {"expectedVersion": 0, "value": {}}),
        client.post_json("/v1/transactions", {"operations": operations}),
        client.post_json("/v1/transactions", {"operations": [{"collection": name, "id": "a", "merge": {}}]}),
        client.post_json("/v1/transactions", {"operations": [{"collection": name, "id": "a", "delete": True}]}),
    ]


@pytest.mark.parametrize("name", ["_flow_capabilities", "_", "_anything"])
def test_system_collections_are_written_by_no_door_of_records(client, name):
    for answer in doors(client, name):
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
        assert answer.json()["reason"] == "COLLECTION_DENIED"
    assert client.get("/v1/revision").json()["revision"] == 0


def test_system_collections_are_read_like_any_other(client):
    assert client.get("/v1/collections/_flow_capabilities").json()["records"] == []
    assert client.get("/v1/collections/_flow_capabilities/a").status_code == 404
    assert client.post_json("/v1/query", {"collection": "_flow_capabilities"}).status_code == 200


def test_a_key_for_some_collections_touches_no_other(client, api, make_key):
    client.put_json("/v1/collections/secrets/a", {"n": 1})
    client.put_json("/v1/collections/orders/a", {"n": 1})
    narrow = api(make_key(collections=["orders"]))
    condition = {"collection": "secrets", "id": "a", "requirePresent": True}
    peek = {"operations": [{"collection": "orders", "id": "b", "value": {}}], "preconditions": [condition]}
    refused = [
        *doors(narrow, "secrets"),
        narrow.get("/v1/collections/secrets"),
        narrow.get("/v1/collections/secrets/a"),
        narrow.post_json("/v1/query", {"collection": "secrets"}),
        narrow.post_json("/v1/transactions", peek),
        narrow.get("/v1/changes?collections=orders,secrets"),
    ]
    for answer in refused:
        assert (answer.status_code, answer.json().get("reason")) == (403, "COLLECTION_DENIED"), answer.content
    assert [each["collection"] for each in narrow.get("/v1/changes").json()["operations"]] == ["orders"]
    assert [each["name"] for each in narrow.get("/v1/collections").json()["collections"]] == ["orders"]
    assert narrow.get("/v1/collections/orders/a").status_code == 200


def test_namespaces_share_nothing(client, api, make_key):
    from apps.keys.services import ensure_namespace

    other = api(make_key(namespaces=[ensure_namespace("elsewhere").name]))
    client.put_json("/v1/collections/orders/o-1", {"n": 1}, headers={"Idempotency-Key": "k-1"})
    assert other.get("/v1/collections/orders/o-1").status_code == 404
    assert other.get("/v1/transactions/k-1").status_code == 404
    assert other.get("/v1/collections").json()["collections"] == []
    assert other.put_json("/v1/collections/orders/o-1", {"n": 2}, headers={"Idempotency-Key": "k-1"}).status_code == 201
    assert client.get("/v1/collections/orders/o-1").json()["value"] == {"n": 1}


def test_a_key_for_several_namespaces_says_which(api, make_key, namespace):
    from apps.keys.services import ensure_namespace

    key = make_key(namespaces=[namespace, ensure_namespace("elsewhere").name])
    unsaid = api(key).get("/v1/revision")
    assert (unsaid.status_code, unsaid.json()["code"]) == (400, "NAMESPACE_REQUIRED")
    assert api(key, namespace="elsewhere").get("/v1/runtime").json()["namespace"] == "elsewhere"


def test_a_namespace_that_is_not_there_answers_as_one_that_is_not_the_keys(api, make_key, namespace):
    from apps.keys.services import ensure_namespace

    ensure_namespace("elsewhere")
    answers = [api(make_key(), namespace=name).get("/v1/revision") for name in ("elsewhere", "nowhere", "Not/A Name")]
    bodies = [{**answer.json(), "request_id": ""} for answer in answers]
    assert bodies[0] == bodies[1] == bodies[2]
    assert bodies[0]["reason"] == "NAMESPACE_DENIED"
