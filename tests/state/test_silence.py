"""Nothing a caller says is passed over in silence: it is done, or refused with its place."""

import pytest

OPERATION = {"collection": "orders", "id": "a", "value": {"n": 1}}


def refused(answer, **details):
    found = answer.json()
    assert (answer.status_code, found["code"], found["details"]) == (400, "VALIDATION_ERROR", details)


def test_an_idempotency_key_is_the_id_of_a_transaction_that_names_none(client):
    headers = {"Idempotency-Key": "k-1"}
    first = client.post_json("/v1/transactions", {"operations": [OPERATION]}, headers=headers)
    again = client.post_json("/v1/transactions", {"operations": [OPERATION]}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["transactionId"] == "k-1" and again.json()["duplicate"] is True
    assert client.get("/v1/collections/orders/a").json()["version"] == 1
    other = client.post_json("/v1/transactions", {"operations": [{**OPERATION, "id": "b"}]}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")


def test_two_names_for_one_transaction_must_agree(client):
    body = {"transactionId": "k-1", "operations": [OPERATION]}
    refused(client.post_json("/v1/transactions", body, headers={"Idempotency-Key": "k-2"}), field="Idempotency-Key")
    assert client.post_json("/v1/transactions", body, headers={"Idempotency-Key": "k-1"}).status_code == 201


@pytest.mark.parametrize("name", ["If-Match", "If-None-Match"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/collections/orders", {"id": "a"}),
        ("/v1/collections/orders/a/cas", {"expectedVersion": 0, "value": {}}),
        ("/v1/transactions", {"operations": [OPERATION]}),
    ],
)
def test_a_condition_in_a_header_is_refused_where_conditions_are_in_the_body(client, name, path, body):
    refused(client.post_json(path, body, headers={name: '"1"'}), field=name)
    assert client.get("/v1/collections/orders").json()["records"] == []


@pytest.mark.parametrize("named", ["work:workload_1:step", "import:orders-7:1"])
def test_ids_under_which_feltdb_itself_commits_are_no_clients(client, named):
    body = {"operations": [OPERATION]}
    refused(client.post_json("/v1/transactions", {**body, "transactionId": named}), pointer="/transactionId")
    refused(client.post_json("/v1/transactions", body, headers={"Idempotency-Key": named}), field="Idempotency-Key")
    put = client.put_json("/v1/collections/orders/a", {}, headers={"Idempotency-Key": named})
    refused(put, field="Idempotency-Key")
    assert client.get(f"/v1/transactions/{named}").status_code == 404, "its outcome may be asked for"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/collections?limit=1&limit=2",
        "/v1/collections/orders?cursor=a&cursor=b",
        "/v1/changes?after=start&after=now",
        "/v1/events?after=start&after=now",
        "/v1/export?collections=orders&asOf=1&asOf=2",
        "/v1/collections/orders/a/history?limit=1&limit=1",
    ],
)
def test_a_query_parameter_given_twice_is_refused(client, path):
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), answer.content


def test_collections_may_be_listed_or_repeated(client):
    for name in ("a", "b", "c"):
        client.put_json(f"/v1/collections/{name}/1", {})
    found = client.get("/v1/changes?collections=a&collections=b").json()["operations"]
    assert [each["collection"] for each in found] == ["a", "b"]


def test_a_merge_patch_may_be_called_by_its_media_type_and_no_other_patch_may(client, orders):
    orders("a", n=1, m=2)
    path = "/v1/collections/orders/a"
    done = client.patch_json(path, {"m": None}, content_type="application/merge-patch+json")
    assert done.json()["value"] == {"n": 1}
    for method, named in (("PATCH", "application/json-patch+json"), ("PUT", "application/merge-patch+json")):
        answer = client.call(method, path, {"m": 1}, content_type=named)
        assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
