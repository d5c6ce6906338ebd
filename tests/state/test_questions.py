"""Search, count, declared indexes, history and provenance over HTTP."""

import pytest

from apps.state import limits
from apps.state.services import indexes

HISTORY = "/v1/collections/orders/o-1/history"
PROVENANCE = "/v1/collections/orders/o-1/provenance"
INDEX = "/v1/collections/orders/indexes/by-status"


def ids(answer):
    assert answer.status_code == 200, answer.content
    return [each["id"] for each in answer.json()["records"]]


def search(client, collection="orders", **body):
    return client.post_json(f"/v1/collections/{collection}/search", body)


def test_a_search_finds_text_in_any_string_whatever_its_case_in_key_order(client, orders):
    orders("c", note="green TEA")
    orders("a", lines=[{"item": "Tea"}])
    orders("b", note="coffee", n=1)
    assert ids(search(client, query="tea")) == ["a", "c"]
    assert ids(search(client, query="nothing like it")) == []
    assert ids(search(client, collection="nowhere", query="tea")) == []


def test_a_search_stops_at_its_limit_and_goes_on_from_its_cursor(client, orders):
    for n in range(5):
        orders(f"o-{n}", note="tea")
    first = search(client, query="tea", limit=2)
    assert ids(first) == ["o-0", "o-1"]
    assert first.json()["exhausted"] is False
    assert ids(search(client, query="tea", limit=2, cursor=first.json()["next_cursor"])) == ["o-2", "o-3"]
    other = search(client, query="coffee", cursor=first.json()["next_cursor"])
    assert (other.status_code, other.json()["code"]) == (422, "INVALID_CURSOR")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/query"),
        ({"query": ""}, "/query"),
        ({"query": "x" * 513}, "/query"),
        ({"query": 5}, "/query"),
        ({"query": "x", "limit": 0}, "/limit"),
        ({"query": "x", "limit": 501}, "/limit"),
        ({"query": "x", "cursor": 5}, "/cursor"),
        ({"query": "x", "where": []}, "/where"),
    ],
)
def test_a_search_that_asks_for_too_little_or_too_much_is_refused(client, body, pointer):
    answer = client.post_json("/v1/collections/orders/search", body)
    assert (answer.status_code, answer.json()["details"]) == (400, {"pointer": pointer})


@pytest.mark.parametrize("body", [{"query": "x" * 512, "limit": 500}, {"query": "x", "limit": 1}])
def test_a_search_at_its_bounds_is_taken(client, body):
    assert client.post_json("/v1/collections/orders/search", body).status_code == 200


def test_a_record_named_like_an_action_is_a_record_like_any_other(client):
    for name in ("search", "indexes", "history", "provenance", "cas"):
        path = f"/v1/collections/orders/{name}"
        assert client.put_json(path, {"n": 1}).status_code == 201
        assert client.get(path).json()["id"] == name
        assert client.get(f"{path}/history").json()["operations"][0]["id"] == name
        assert client.get(f"{path}/provenance").json()["id"] == name
        assert client.post_json(f"{path}/cas", {"expectedVersion": 1, "value": {}}).status_code == 200
        assert client.patch_json(path, {"m": 1}).status_code == 200
        assert client.delete(path).status_code == 204


def test_a_count_is_of_all_that_match_and_comes_with_a_page_or_alone(client, orders):
    for n in range(5):
        orders(f"o-{n}", status="new" if n % 2 else "sent")
    where = {"field": "status", "op": "eq", "value": "sent"}
    page = client.post_json("/v1/query", {"collection": "orders", "where": where, "limit": 2, "count": True})
    assert ids(page) == ["o-0", "o-2"]
    assert page.json()["count"] == 3
    alone = client.post_json("/v1/query", {"collection": "orders", "where": where, "limit": 0, "count": True}).json()
    assert (alone["count"], alone["records"], alone["next_cursor"]) == (3, [], None)
    assert client.post_json("/v1/query", {"collection": "orders", "count": True}).json()["count"] == 5
    assert "count" not in client.post_json("/v1/query", {"collection": "orders"}).json()
    nothing = client.post_json("/v1/query", {"collection": "orders", "limit": 0})
    assert (nothing.status_code, nothing.json()["details"]) == (400, {"pointer": "/limit"})


def test_an_index_is_declared_used_shown_and_dropped(client, orders):
    for n in range(5):
        orders(f"o-{n}", status="new" if n % 2 else "sent")
    made = client.put_json(INDEX, {"fields": ["status"]})
    assert (made.status_code, made.json()) == (200, {"name": "by-status", "fields": ["status"], "complete": True})
    assert client.get(INDEX).json() == made.json()
    assert client.put_json(INDEX, {"fields": ["status"]}).status_code == 200, "the same again changes nothing"
    where = [{"field": "status", "op": "eq", "value": "sent"}]
    answer = client.post_json("/v1/query", {"collection": "orders", "where": where})
    assert ids(answer) == ["o-0", "o-2", "o-4"]
    assert answer.json()["plan"]["index"] == "by-status"
    [row] = client.get("/v1/collections").json()["collections"]
    assert row == {"name": "orders", "records": 5, "indexes": [made.json()], "contract": None}
    assert client.delete(INDEX).status_code == 204
    assert client.get(INDEX).status_code == client.delete(INDEX).status_code == 404
    assert client.post_json("/v1/query", {"collection": "orders", "where": where}).json()["plan"]["access"] == "scan"


def test_an_index_of_a_collection_without_records_is_in_the_list_of_collections(client):
    client.put_json(INDEX, {"fields": ["status"]})
    [row] = client.get("/v1/collections").json()["collections"]
    assert (row["name"], row["records"], [each["name"] for each in row["indexes"]]) == ("orders", 0, ["by-status"])


def test_a_long_build_is_left_at_its_time_and_goes_on_when_asked_again(client, monkeypatch):
    for part in range(3):
        operations = [{"collection": "orders", "id": f"o-{part}-{n}", "value": {"n": n}} for n in range(1000)]
        assert client.post_json("/v1/transactions", {"operations": operations}).status_code == 201
    monkeypatch.setattr(indexes, "INDEX_BUILD_S", -1.0)
    begun = client.put_json(INDEX, {"fields": ["n"]})
    assert (begun.status_code, begun.json()["complete"]) == (202, False)
    assert client.get(INDEX).json()["complete"] is False
    question = {"collection": "orders", "where": [{"field": "n", "op": "eq", "value": 5}]}
    assert client.post_json("/v1/query", question).json()["plan"]["access"] == "scan", "not before it is complete"
    monkeypatch.setattr(indexes, "INDEX_BUILD_S", limits.INDEX_BUILD_S)
    assert client.put_json(INDEX, {"fields": ["n"]}).status_code == 200
    answer = client.post_json("/v1/query", question)
    assert answer.json()["plan"]["index"] == "by-status"
    assert ids(answer) == ["o-0-5", "o-1-5", "o-2-5"]


def test_an_index_over_other_fields_under_a_known_name_is_refused(client):
    client.put_json(INDEX, {"fields": ["status"]})
    other = client.put_json(INDEX, {"fields": ["total"]})
    assert (other.status_code, other.json()["code"]) == (422, "INVALID_QUERY")
    assert client.get(INDEX).json()["fields"] == ["status"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (INDEX, {"fields": []}, 400),
        (INDEX, {"fields": list("abcde")}, 400),
        (INDEX, {"fields": ["a", "a"]}, 422),
        (INDEX, {"fields": [""]}, 400),
        (INDEX, {"fields": [5]}, 400),
        (INDEX, {}, 400),
        (INDEX, {"fields": ["a"], "unique": True}, 400),
        ("/v1/collections/orders/indexes/a%2Fb", {"fields": ["a"]}, 422),
        ("/v1/collections/orders/indexes/" + "x" * 129, {"fields": ["a"]}, 400),
        ("/v1/collections/_flow_capabilities/indexes/x", {"fields": ["a"]}, 403),
        ("/v1/collections/orders/indexes/cas", {"fields": ["a"]}, 405),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_and_nothing_declared(client, path, body, status):
    assert client.put_json(path, body).status_code == status
    assert client.get("/v1/collections").json()["collections"] == []


def test_history_is_newest_first_over_a_delete_and_by_pages(client):
    path = "/v1/collections/orders/o-1"
    client.put_json(path, {"n": 1}, headers={"Idempotency-Key": "t-1"})
    client.put_json("/v1/collections/orders/o-2", {"n": 1})
    client.patch_json(path, {"n": 2})
    client.delete(path)
    client.put_json(path, {"n": 3})
    whole = client.get(HISTORY).json()
    seen = [(each["version"], each["kind"], each["value"]["n"]) for each in whole["operations"]]
    assert seen == [(4, "insert", 3), (3, "delete", 2), (2, "update", 2), (1, "insert", 1)]
    assert whole["next_cursor"] is None
    assert whole["operations"][3]["transaction_id"] == "t-1"
    pages, cursor = [], None
    while cursor is not None or not pages:
        page = client.get(HISTORY, {"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        pages.append(page["operations"])
        cursor = page["next_cursor"]
    assert [len(page) for page in pages] == [3, 1]
    assert [each for page in pages for each in page] == whole["operations"]


def test_provenance_is_the_last_operation_by_key_and_outlives_the_record(client, make_key, api):
    key = make_key(name="writer")
    api(key).put_json("/v1/collections/orders/o-1", {"n": 1}, headers={"X-Request-ID": "r-1"})
    last = client.get(HISTORY).json()["operations"][0]
    found = client.get(PROVENANCE)
    assert found.status_code == 200
    assert found.json() == {name: last[name] for name in last if name not in ("value", "previous_version")}
    assert found.json()["actor"]["key_id"] == key.key.pk
    client.delete("/v1/collections/orders/o-1")
    assert client.get(PROVENANCE).json()["kind"] == "delete"


def test_what_never_was_has_neither_history_nor_provenance(client):
    for path in (HISTORY, PROVENANCE):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("other", ["/v1/collections/orders/o-2/history", "/v1/collections/orders"])
def test_a_cursor_of_another_history_or_list_is_refused(client, orders, other):
    for n in range(2):
        orders("o-1", n=n)
        orders("o-2", n=n)
    for path, source in ((HISTORY, other), (other, HISTORY)):
        cursor = client.get(source, {"limit": 1}).json()["next_cursor"]
        answer = client.get(path, {"cursor": cursor})
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_CURSOR")


def test_the_references_names_without_v1_are_the_same_routes(client):
    created = client.post_json("/collections/orders", {"id": "a/b", "note": "tea"})
    assert created.status_code == 201
    assert created["Location"] == "/v1/collections/orders/a%2Fb"
    record = client.get("/v1/collections/orders/a%2Fb").json()
    assert client.get("/collections/orders/a%2Fb").json() == record
    assert client.get("/collections/orders").json() == client.get("/v1/collections/orders").json()
    assert ids(client.post_json("/query", {"collection": "orders"})) == ["a/b"]
    assert ids(client.post_json("/capabilities/search/orders", {"query": "tea"})) == ["a/b"]
    assert client.get("/provenance/orders/a%2Fb").json()["key"] == "orders:a/b"
    made = client.post_json("/transactions", {"transactionId": "t/1", "operations": [{"collection": "a", "id": "b"}]})
    assert made.status_code == 201
    assert client.get("/transactions/t%2F1").json() == client.get("/v1/transactions/t%2F1").json()
    assert client.get("/revision").json() == client.get("/v1/revision").json()
    assert client.get("/runtime").json() == client.get("/v1/runtime").json()
    assert client.patch_json("/collections/orders/a%2Fb", {"n": 1}).json()["version"] == 2
    assert client.post_json("/collections/orders/a%2Fb/cas", {"expectedVersion": 2, "value": {}}).status_code == 200
    assert client.delete("/collections/orders/a%2Fb").status_code == 204


def test_every_name_at_the_root_is_the_view_of_a_route_under_v1(api, db):
    from django.urls import get_resolver

    from apps.state.api.urls import aliases, urlpatterns

    views = tuple(each.callback.cls for each in urlpatterns if hasattr(each.callback, "cls"))
    assert all(issubclass(each.callback.cls, views) for each in aliases)
    assert len(aliases) >= 14
    for each in get_resolver().url_patterns[-1].url_patterns:
        assert api(None).get("/" + str(each.pattern).replace("<str:", "").replace(">", "")).status_code == 401
