"""Names in paths: one percent-encoded segment, read from the raw target, decoded under strict rules."""

from urllib.parse import quote

import pytest
from django.test import RequestFactory

from apps.http.errors import ApiError
from apps.http.paths import RawPathMiddleware, decode_segment

NAMES = [
    "a/b",
    "/",
    "//",
    "100%",
    "%2F",
    "%252F",
    "a b",
    " ",
    "a+b",
    "a?b#c",
    "...",
    ".hidden",
    "é",
    "日本語",
    "\U0001f600",
    "e\u0301",
    "a:b",
    "a;b=c",
    "cas",
    "search",
    "'\"<>&\\",
    "x" * 256,
    "é" * 128,
]


@pytest.mark.parametrize("record_id", NAMES)
def test_a_record_is_found_under_its_id_whatever_characters_it_has(client, record_id):
    path = f"/v1/collections/orders/{quote(record_id, safe='')}"
    put = client.put_json(path, {"n": 1})
    assert (put.status_code, put.json()["id"]) == (201, record_id)
    assert client.get(path).json()["key"] == f"orders:{record_id}"
    assert client.post_json(f"{path}/cas", {"expectedVersion": 1, "value": {}}).status_code == 200
    assert client.get("/v1/collections/orders").json()["records"][0]["id"] == record_id
    assert client.delete(path).status_code == 204


@pytest.mark.parametrize("record_id", NAMES)
def test_the_location_of_a_created_record_leads_to_it(client, record_id):
    created = client.post_json("/v1/collections/orders", {"id": record_id})
    assert client.get(created["Location"]).json()["id"] == record_id


def test_an_encoded_slash_and_a_plain_one_are_different_routes(client):
    assert client.put_json("/v1/collections/orders/a%2Fb", {}).status_code == 201
    answer = client.get("/v1/collections/orders/a/b")
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


def test_lower_and_upper_case_escapes_are_the_same_id(client):
    client.put_json("/v1/collections/orders/a%2fb", {"n": 1})
    assert client.get("/v1/collections/orders/a%2Fb").json()["value"] == {"n": 1}


@pytest.mark.parametrize("segment", ["%", "%2", "%zz", "a%", "%C3", "%ff", "%C0%AF", "%ED%A0%80", "é", "a b"])
def test_a_segment_that_is_not_well_encoded_is_refused(client, segment):
    answer = client.get(f"/v1/collections/orders/{segment}")
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"] == {"field": "id"}


@pytest.mark.parametrize("segment", ["%01", "%0A", "%7F", "%C2%85", ".", "..", "%2E%2E", "x" * 257, quote("é" * 129)])
def test_an_id_that_breaks_the_rules_is_refused_with_its_field(client, segment):
    answer = client.get(f"/v1/collections/orders/{segment}")
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "id"})


@pytest.mark.parametrize("segment", ["-a", ".a", "a%20b", "a%2Fb", "%C3%A9", "x" * 129, "a:b"])
def test_a_collection_that_breaks_the_rules_is_refused_with_its_field(client, segment):
    for path in (f"/v1/collections/{segment}", f"/v1/collections/{segment}/o-1"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["details"]) == (400, {"field": "collection"})


@pytest.mark.parametrize("name", ["a", "9", "_a", "A.b-c_d", "x" * 128])
def test_collection_names_at_the_edges_of_the_rules_are_served(client, name):
    assert client.get(f"/v1/collections/{name}").status_code == 200


def test_a_transaction_id_with_a_slash_is_asked_for_as_one_segment(client):
    client.put_json("/v1/collections/orders/o-1", {}, headers={"Idempotency-Key": "day/7 %"})
    assert client.get("/v1/transactions/day%2F7%20%25").json()["transactionId"] == "day/7 %"


def routed(path, **meta):
    seen = []
    request = RequestFactory().get(path, **meta)
    RawPathMiddleware(lambda each: seen.append(each.path_info))(request)
    return seen[0]


@pytest.mark.parametrize(
    "target",
    [
        "/v1/collections/a/b%2Fc",
        "/v1/collections/a/b%2Fc?limit=1",
        "http://host:8000/v1/collections/a/b%2Fc?x=/",
    ],
)
def test_routing_goes_by_the_raw_target_without_query_and_origin(target):
    assert routed("/v1/collections/a/b%2Fc", RAW_URI=target) == "/v1/collections/a/b%2Fc"
    assert routed("/v1/collections/a/b%2Fc", REQUEST_URI=target) == "/v1/collections/a/b%2Fc"


def test_routing_leaves_out_the_prefix_the_site_is_mounted_under():
    assert routed("/v1/collections/a", RAW_URI="/site/v1/collections/a", SCRIPT_NAME="/site") == "/v1/collections/a"


def test_without_a_raw_target_the_decoded_path_is_encoded_again():
    assert routed("/v1/collections/a/%C3%A9%20%25") == "/v1/collections/a/%C3%A9%20%25"


def test_other_routes_keep_the_decoded_path():
    assert routed("/admin/a%20b", RAW_URI="/admin/a%20b") == "/admin/a b"


def test_a_segment_is_decoded_once():
    assert decode_segment("%252F", "id") == "%2F"
    with pytest.raises(ApiError):
        decode_segment("%2", "id")
