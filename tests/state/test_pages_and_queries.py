"""Lists, pages and queries over HTTP: complete, in order, and cursors that mean one thing only."""

import pytest


def fill(client, count, collection="orders"):
    operations = [
        {
            "collection": collection,
            "id": f"o-{n:03}",
            "value": {"n": n, "even": n % 2 == 0, "at": {"city": "ab"[n % 2]}},
        }
        for n in range(count)
    ]
    assert client.post_json("/v1/transactions", {"operations": operations}).status_code == 201


def walk(client, path, limit):
    ids, cursor = [], None
    for _ in range(100):
        query = f"?limit={limit}" + (f"&cursor={cursor}" if cursor else "")
        page = client.get(path + query).json()
        assert len(page["records"]) <= limit
        ids += [each["id"] for each in page["records"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return ids
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("limit", [1, 3, 7, 25, 1000])
def test_pages_give_every_record_once_in_key_order(client, limit):
    fill(client, 25)
    assert walk(client, "/v1/collections/orders", limit) == [f"o-{n:03}" for n in range(25)]


def test_a_page_goes_on_after_its_last_record_whatever_is_written_meanwhile(client):
    fill(client, 6)
    first = client.get("/v1/collections/orders?limit=3").json()
    client.put_json("/v1/collections/orders/o-000a", {})
    client.put_json("/v1/collections/orders/o-003a", {})
    client.delete("/v1/collections/orders/o-002")
    second = client.get(f"/v1/collections/orders?limit=3&cursor={first['next_cursor']}").json()
    assert [each["id"] for each in second["records"]] == ["o-003", "o-003a", "o-004"]


def test_a_collection_never_written_is_an_empty_page(client):
    assert client.get("/v1/collections/never").json() == {"records": [], "next_cursor": None}


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "1.5", "x", "", "9" * 30, "\u0661"])
@pytest.mark.parametrize("path", ["/v1/collections", "/v1/collections/orders", "/v1/changes"])
def test_a_limit_outside_its_range_is_refused(client, path, limit):
    answer = client.get(path, {"limit": limit})
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "limit"})


@pytest.mark.parametrize("path", ["/v1/collections", "/v1/collections/orders", "/v1/changes"])
def test_a_misspelt_query_parameter_is_refused(client, path):
    answer = client.get(path + "?limti=5")
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "limti"})


def test_a_cursor_is_refused_where_it_was_not_made(client, api, make_key):
    from apps.keys.services import ensure_namespace

    fill(client, 4)
    fill(client, 4, "others")
    cursor = client.get("/v1/collections/orders?limit=2").json()["next_cursor"]
    elsewhere = api(make_key(namespaces=[ensure_namespace("elsewhere").name]))
    listed = client.get("/v1/collections?limit=1").json()["next_cursor"]
    for answer in (
        client.get(f"/v1/collections/others?cursor={cursor}"),
        client.get(f"/v1/collections?cursor={cursor}"),
        client.get(f"/v1/collections/orders?cursor={listed}"),
        client.get(f"/v1/collections/orders?cursor={cursor[:-4]}"[:-8]),
        client.get("/v1/collections/orders?cursor=o-001"),
        client.get("/v1/collections/orders?cursor="),
        client.post_json("/v1/query", {"collection": "orders", "cursor": cursor}),
        elsewhere.get(f"/v1/collections/orders?cursor={cursor}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_CURSOR")


def test_collections_are_listed_by_name_with_their_counts(client):
    fill(client, 3)
    fill(client, 2, "customers")
    client.put_json("/v1/collections/gone/a", {})
    client.delete("/v1/collections/gone/a")
    assert client.get("/v1/collections").json() == {
        "collections": [
            {"name": "customers", "records": 2, "indexes": [], "contract": None},
            {"name": "orders", "records": 3, "indexes": [], "contract": None},
        ],
        "next_cursor": None,
    }
    first = client.get("/v1/collections?limit=1").json()
    second = client.get(f"/v1/collections?limit=1&cursor={first['next_cursor']}").json()
    assert [first["collections"][0]["name"], second["collections"][0]["name"]] == ["customers", "orders"]
    assert second["next_cursor"] is None


def ids(answer):
    assert answer.status_code == 200, answer.content
    return [each["id"] for each in answer.json()["records"]]


def query(client, **members):
    return client.post_json("/v1/query", {"collection": "orders", **members})


@pytest.mark.parametrize(
    "where",
    [
        [{"field": "n", "op": "gte", "value": 4}, {"field": "even", "op": "eq", "value": True}],
        [{"field": "n", "gte": 4}, {"field": "even", "eq": True}],
        {"all": [{"field": "n", "op": "gte", "value": 4}, {"not": {"field": "even", "op": "eq", "value": False}}]},
        {"any": [{"field": "n", "op": "eq", "value": 4}, {"field": "n", "in": [6, 8]}]},
        {"all": [{"field": "at.city", "neq": "b"}, {"field": "n", "gt": 3}]},
    ],
)
def test_every_form_of_where_finds_the_same_records(client, where):
    fill(client, 10)
    assert ids(query(client, where=where)) == ["o-004", "o-006", "o-008"]


@pytest.mark.parametrize("where", [None, [], {}])
def test_no_condition_finds_everything(client, where):
    fill(client, 3)
    assert len(ids(query(client, where=where))) == 3


def test_a_query_orders_pages_and_says_when_it_is_done(client):
    fill(client, 7)
    order = [{"field": "even", "direction": "desc"}, {"field": "n"}]
    found, cursor = [], None
    while True:
        answer = query(client, orderBy=order, limit=3, cursor=cursor).json()
        found += [each["value"]["n"] for each in answer["records"]]
        cursor = answer["next_cursor"]
        assert answer["exhausted"] is (cursor is None)
        if cursor is None:
            break
    assert found == [0, 2, 4, 6, 1, 3, 5]
    assert answer["plan"]


def test_a_query_cursor_belongs_to_its_query(client):
    fill(client, 7)
    cursor = query(client, limit=3, where=[{"field": "n", "lt": 6}]).json()["next_cursor"]
    assert ids(query(client, limit=9, where=[{"field": "n", "lt": 6}], cursor=cursor)) == ["o-003", "o-004", "o-005"]
    for other in ({}, {"where": [{"field": "n", "lt": 5}]}, {"orderBy": [{"field": "n"}]}, {"collection": "x"}):
        answer = query(client, cursor=cursor, **other)
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_CURSOR")


def test_a_selection_keeps_the_named_paths_in_their_places(client):
    client.put_json("/v1/collections/orders/o-1", {"a": {"b": 1, "c": 2}, "d": [{"e": 3}], "f": None})
    record = query(client, select=["a.b", "d", "f", "none", "d.e", "a.b.x"]).json()["records"][0]
    assert record["value"] == {"a": {"b": 1}, "d": [{"e": 3}], "f": None}
    assert record["id"] == "o-1"
    assert query(client, select=[]).json()["records"][0]["value"] == {}


@pytest.mark.parametrize(
    ("members", "status", "code"),
    [
        ({"collection": "-"}, 400, "VALIDATION_ERROR"),
        ({"limit": 0}, 400, "VALIDATION_ERROR"),
        ({"limit": 1001}, 400, "VALIDATION_ERROR"),
        ({"limit": "5"}, 400, "VALIDATION_ERROR"),
        ({"cursor": 5}, 400, "VALIDATION_ERROR"),
        ({"select": "a"}, 400, "VALIDATION_ERROR"),
        ({"select": [""]}, 400, "VALIDATION_ERROR"),
        ({"orderBy": [{"field": "n", "direction": "up"}]}, 400, "VALIDATION_ERROR"),
        ({"orderBy": ["n"]}, 400, "VALIDATION_ERROR"),
        ({"semantic": {}}, 400, "VALIDATION_ERROR"),
        ({"where": 7}, 422, "INVALID_QUERY"),
        ({"where": [7]}, 422, "INVALID_QUERY"),
        ({"where": [{}]}, 422, "INVALID_QUERY"),
        ({"where": [{"field": "n"}]}, 422, "INVALID_QUERY"),
        ({"where": [{"field": "n", "eq": 1, "lt": 2}]}, 422, "INVALID_QUERY"),
        ({"where": [{"field": "n", "op": "like", "value": 1}]}, 422, "INVALID_QUERY"),
        ({"where": [{"field": "n", "op": 7, "value": 1}]}, 422, "INVALID_QUERY"),
        ({"where": [{"field": 7, "op": "eq", "value": 1}]}, 422, "INVALID_QUERY"),
        ({"where": {"field": "n", "op": "in", "value": 3}}, 422, "INVALID_QUERY"),
        ({"where": {"all": 7}}, 400, "VALIDATION_ERROR"),
        ({"where": {"all": [], "any": []}}, 422, "INVALID_QUERY"),
    ],
)
def test_a_query_that_cannot_be_run_is_refused_with_its_place(client, members, status, code):
    answer = query(client, **members)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "pointer" in answer.json()["details"]
