"""Cursors that nobody was given: whatever position one holds, a list goes on there or refuses it, and never breaks.

A cursor's binding is no secret, so anybody can make one that holds whatever they like. Each list of every room is
asked with positions of every kind.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.http.strict_json import loads
from apps.state import cursors
from apps.state.api.documents import document
from tests.conftest import ApiClient

FORGED = (
    "",
    "x",
    "0",
    "-1",
    "+1",
    " 1",
    "1.5",
    "1e3",
    "1_0",
    "0x10",
    "\uff11",
    "\u00b2",
    "9" * 18,
    "9" * 19,
    "9" * 20,
    "9" * 3000,
    "null",
    "[]",
    "{}",
    '{"a":1}',
    "[1,2]",
    "[[1],[2]]",
    "..",
    "a/b",
    "a\nb",
    "\U0001f600",
    "é" * 1000,
    "a:b",
    "orders:o-1",
    "A" * 40,
    "A" * 41,
    "A" * 3000,
    "eyJhIjoxfQ",
)
NUL = "a\0b"
QUERIES = {
    "plain": {"collection": "orders", "limit": 1},
    "ordered": {"collection": "orders", "orderBy": [{"field": "n", "direction": "desc"}], "limit": 1},
    "indexed": {"collection": "orders", "where": {"field": "n", "op": "gte", "value": 0}, "limit": 1},
    "past": {"collection": "orders", "asOf": 3, "limit": 1},
    "counted": {"collection": "orders", "count": True, "limit": 0},
}
LISTS = [
    "/v1/collections",
    "/v1/collections/orders",
    "/v1/collections/orders/o-1/history",
    "/v1/capabilities",
    "/v1/workloads",
    "/v1/workers",
    "/v1/schedules",
    "/v1/triggers",
    "/v1/triggers/t1/quarantine",
    "/v1/triggers/t1/revisions",
    "/v1/triggers/t1/replays",
    "/v1/keys",
    "/v1/grants",
    "/v1/audit",
]


@pytest.fixture
def client(data_dir: Path, api: Callable[..., ApiClient]) -> ApiClient:
    made = api()
    for number in range(3):
        made.put_json(f"/v1/collections/orders/o-{number}", {"n": number, "text": "tea"})
        made.put_json("/v1/collections/orders/o-1", {"n": number})
    made.put_json("/v1/collections/orders/indexes/by-n", {"fields": ["n"]})
    trigger = {"trigger_id": "t1", "source_collection": "orders", "target_capability": "identity"}
    assert made.post_json("/v1/triggers", {**trigger, "change_kind": "insert"}).status_code == 201
    for key in ("a", "b"):
        made.post_json("/v1/workloads", {"definition_id": "identity", "idempotency_key": key})
    return made


def test_every_list_that_takes_a_cursor_is_asked() -> None:
    taking = {
        path
        for path, methods in loads(document())["paths"].items()
        if any(each.get("name") == "cursor" for each in methods.get("get", {}).get("parameters", ()))
    } - {"/v1/events"}  # whose cursor is a position of the feed: tests/state/test_events.py
    assert len(taking) == len(LISTS), sorted(taking)


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that has every cursor hold a position, as if it had been made for the list that is asked."""
    decode = cursors.decode

    def hold(position: str) -> None:
        def forged(bound_to: bytes, cursor: str | None) -> str | None:
            return None if cursor is None else decode(bound_to, cursors.encode(bound_to, position))

        monkeypatch.setattr(cursors, "decode", forged)

    return hold


@pytest.mark.parametrize("path", LISTS)
def test_a_list_asked_to_go_on_from_anywhere_does_or_refuses(
    path: str, client: ApiClient, holding: Callable[[str], None]
) -> None:
    for position in (*FORGED, NUL):
        holding(position)
        answer = client.get(f"{path}?limit=1&cursor=anything")
        assert answer.status_code in (200, 422), (position, answer.content)
        assert answer.status_code == 200 or answer.json()["code"] == "INVALID_CURSOR", position


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_asked_to_go_on_from_anywhere_does_or_refuses(
    name: str, client: ApiClient, holding: Callable[[str], None]
) -> None:
    for position in (*FORGED, NUL):
        holding(position)
        answer = client.post_json("/v1/query", {**QUERIES[name], "cursor": "anything"})
        assert answer.status_code in (200, 422), (position, answer.content)
        assert answer.status_code == 200 or answer.json()["code"] == "INVALID_CURSOR", position


def test_a_search_asked_to_go_on_from_anywhere_does_or_refuses(
    client: ApiClient, holding: Callable[[str], None]
) -> None:
    for position in (*FORGED, NUL):
        holding(position)
        answer = client.post_json("/v1/collections/orders/search", {"query": "tea", "cursor": "anything"})
        assert answer.status_code in (200, 422), (position, answer.content)


@pytest.mark.parametrize("path", LISTS)
def test_no_text_is_a_cursor_by_chance(path: str, client: ApiClient) -> None:
    for given in ("A", "AAAA", "=", "%00", "%FF%FE", "a" * 5000, "....", "%2B%2F", "AAAAAAAAAAAA", "%C3%A9", "1"):
        answer = client.get(f"{path}?limit=1&cursor={given}")
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_CURSOR"), given


def test_a_cursor_with_anything_changed_is_refused_or_goes_on_in_the_same_list(client: ApiClient) -> None:
    cursor: Any = client.get("/v1/collections/orders?limit=1").json()["next_cursor"]
    for at in range(len(cursor)):
        for other in "A_9":
            changed = cursor[:at] + other + cursor[at + 1 :]
            answer = client.get(f"/v1/collections/orders?limit=1&cursor={changed}")
            assert answer.status_code in (200, 422), (changed, answer.content)
            if answer.status_code == 200:
                assert all(each["key"].startswith("orders:") for each in answer.json()["records"])
            else:
                assert answer.json()["code"] == "INVALID_CURSOR"
