"""A key for some collections sees and touches those alone, by every door to records there is.

What lies in the other collection carries a mark. Every route of the state room is asked by a key that does not open it:
those that name a collection must refuse, and no answer, whatever it is, may carry the mark or the collection's name.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.boundary_rows import PUBLIC, STATE, Row
from tests.conftest import ApiClient

MARK = "planted-7c1f"
CLOSED, OPEN = "orders", "customers"
KEYED = [row for row in STATE if row.scope != PUBLIC]
NAMES_NONE = {
    "GET /v1/collections",
    "GET /v1/changes",
    "GET /v1/events",
    "GET /v1/revision",
    "GET /v1/runtime",
    "GET /v1/transactions/t-1",
    "GET /v1/schema",
    "DELETE /v1/schema/pending",
    "GET /v1/application",
    "GET /v1/export",
}
"""Routes that name no collection: what they show is held to the mark, and tried below."""

ROWS_NAME_NONE = {"PUT /v1/schema", "POST /v1/schema/validate"}
"""Routes that may name collections in their body, whose rows name none: tried in tests/state/test_contracts.py."""


def name_of(row: Row) -> str:
    return f"{row.method} {row.path}"


@pytest.fixture(autouse=True)
def _planted(data_dir: Path, api: Callable[..., ApiClient]) -> None:
    """A marked record in the closed collection, written, changed and indexed; another in the open one."""
    writer = api()
    for collection, value in (
        (CLOSED, {"id": "o-1", "note": MARK, "status": MARK}),
        (OPEN, {"id": "c-1", "note": "x"}),
    ):
        body = {"transactionId": f"t-{collection}", "operations": [_put(collection, value["id"], value)]}
        assert writer.post_json("/v1/transactions", body).status_code == 201
    for field in ("status",):
        index = f"/v1/collections/{CLOSED}/indexes/by-{field}"
        assert writer.put_json(index, {"fields": [field]}).status_code in (200, 201)
    assert writer.patch_json(f"/v1/collections/{CLOSED}/o-1", {"note": MARK + "2"}).status_code == 200


@pytest.fixture
def limited(api: Callable[..., ApiClient], make_key: Callable[..., Any]) -> ApiClient:
    """A key that holds every scope, in the open collection alone."""
    return api(make_key(collections=[OPEN]))


def _put(collection: str, record_id: str, value: Any) -> dict[str, Any]:
    return {"collection": collection, "id": record_id, "value": value}


def content(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def test_every_route_refuses_what_names_the_closed_collection(limited: ApiClient) -> None:
    for row in KEYED:
        if row.path == "/v1/events":
            continue  # a stream: tried below
        answer = limited.call(row.method, row.path, row.body, content_type=row.media)
        told = content(answer)
        assert MARK.encode() not in told, row
        if name_of(row) in NAMES_NONE | ROWS_NAME_NONE:
            assert answer.status_code in (200, 404), (row, told)
        else:
            body = answer.json()
            assert (answer.status_code, body.get("reason")) == (403, "COLLECTION_DENIED"), (row, body)


def test_every_route_that_names_no_collection_in_its_path_is_known_here() -> None:
    unnamed = {name_of(row) for row in KEYED if f"/{CLOSED}" not in row.path and row.body is None}
    capabilities = {each for each in unnamed if "/v1/capabilities" in each}  # a collection of their own: refused above
    assert unnamed - capabilities == NAMES_NONE


def test_lists_show_the_open_collection_alone(limited: ApiClient) -> None:
    assert [each["name"] for each in limited.get("/v1/collections").json()["collections"]] == [OPEN]
    changes = limited.get("/v1/changes").json()["operations"]
    assert {each["collection"] for each in changes} == {OPEN}


@pytest.mark.parametrize("path", ["/v1/changes", "/v1/events"])
def test_the_feed_of_the_closed_collection_cannot_be_asked_for(limited: ApiClient, path: str) -> None:
    for asked in (CLOSED, f"{OPEN},{CLOSED}"):
        answer = limited.get(path, {"collections": asked})
        assert (answer.status_code, answer.json().get("reason")) == (403, "COLLECTION_DENIED"), asked


OPEN_PUT = _put(OPEN, "c-2", {"n": 1})
SMUGGLED: dict[str, dict[str, Any]] = {
    "an operation beside a good one": {"operations": [OPEN_PUT, _put(CLOSED, "o-2", {})]},
    "a delete": {"operations": [OPEN_PUT, {"collection": CLOSED, "id": "o-1", "delete": True}]},
    "a merge": {"operations": [OPEN_PUT, {"collection": CLOSED, "id": "o-1", "merge": {"a": 1}}]},
    "that it is there": {
        "operations": [OPEN_PUT],
        "preconditions": [{"collection": CLOSED, "id": "o-1", "requirePresent": True}],
    },
    "its version": {
        "operations": [OPEN_PUT],
        "preconditions": [{"collection": CLOSED, "id": "o-1", "expectedVersion": 2}],
    },
    "its value": {
        "operations": [OPEN_PUT],
        "preconditions": [{"collection": CLOSED, "id": "o-1", "pointer": "/note", "equals": MARK}],
    },
}


@pytest.mark.parametrize("body", SMUGGLED.values(), ids=list(SMUGGLED))
def test_a_transaction_that_names_the_closed_collection_anywhere_does_nothing(
    limited: ApiClient, api: Callable[..., ApiClient], body: dict[str, Any]
) -> None:
    before = api().get("/v1/revision").json()["revision"]
    answer = limited.post_json("/v1/transactions", body)
    assert (answer.status_code, answer.json().get("reason")) == (403, "COLLECTION_DENIED"), answer.content
    assert api().get("/v1/revision").json()["revision"] == before


def test_a_fence_of_the_closed_collection_that_somebody_else_drew_tells_nothing(
    limited: ApiClient, api: Callable[..., ApiClient]
) -> None:
    drawn = api().post_json("/v1/transactions/read-basis", {"records": [{"collection": CLOSED, "id": "o-1"}]})
    assert drawn.status_code in (200, 201), drawn.content
    told = []
    for _ in range(2):
        answer = limited.post_json("/v1/transactions", {"operations": [OPEN_PUT], "fences": [drawn.json()]})
        told.append((answer.status_code, answer.json().get("reason")))
        assert api().patch_json(f"/v1/collections/{CLOSED}/o-1", {"note": MARK + "3"}).status_code == 200
    assert told == [(403, "COLLECTION_DENIED")] * 2, "whether the record changed must not show"


@pytest.mark.parametrize(
    "name", ["orders ", "Orders", "orders%00", "%6frders", "orders%2F", "ordersx", "customers%2F..%2Forders"]
)
def test_no_other_spelling_opens_it(limited: ApiClient, name: str) -> None:
    for path in (f"/v1/collections/{name}", f"/v1/collections/{name}/o-1"):
        answer = limited.get(path)
        assert answer.status_code in (400, 403, 404) and MARK.encode() not in answer.content, (path, answer.content)
