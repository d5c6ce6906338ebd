"""F1 to F3 of the reference's acceptance list: provenance is one look, a search stops at its limit.

What is counted is what the engine looks at, never time.
"""

from types import SimpleNamespace
from typing import Any

import pytest

import feltdb_engine.history
import feltdb_engine.questions
from apps.state import stores
from apps.workloads.builtin import search
from feltdb_engine import Mutation
from feltdb_engine.reading import Reader
from feltdb_engine.scan import Scan


class Pages:
    """A collection of so many records, and how many pages of it were asked for."""

    def __init__(self, records: int) -> None:
        self.records = [SimpleNamespace(id=f"{number:05}", value={"text": "needle"}) for number in range(records)]
        self.asked = 0

    def page(self, collection: str, *, after: str | None, limit: int) -> list[Any]:
        self.asked += 1
        start = 0 if after is None else int(after) + 1
        return self.records[start : start + limit]

    def cancelled(self) -> bool:
        return False


def test_a_search_stops_at_its_limit_without_reading_on() -> None:
    pages: Any = Pages(100_000)
    found: Any = search({"collection": "a", "query": "NEEDLE", "limit": 3}, pages)
    assert [each["id"] for each in found] == ["00000", "00001", "00002"]
    assert pages.asked == 1


def test_a_search_without_a_match_reads_each_page_once_and_ends() -> None:
    pages: Any = Pages(1_001)
    assert search({"collection": "a", "query": "nothing like it"}, pages) == []
    assert pages.asked == 3


@pytest.fixture
def many(namespace: str, data_dir: Any) -> int:
    """A collection of 1,200 records, all of which hold the text `needle`."""
    for start in range(0, 1_200, 400):
        rows = [
            Mutation(kind="put", collection="orders", id=f"{n:05}", value={"text": "a Needle"})
            for n in range(start, start + 400)
        ]
        stores.store(namespace).commit(rows)
    return 1_200


def test_provenance_is_one_look_however_many_records_there_are(
    api: Any, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    true = feltdb_engine.history.frame_of

    def counted(*arguments: Any) -> Any:
        looked.append(arguments[-1])
        return true(*arguments)

    def scanned(*_: Any, **__: Any) -> Any:
        raise AssertionError("a collection was read")

    monkeypatch.setattr(feltdb_engine.history, "frame_of", counted)
    for name in ("page", "now"):
        monkeypatch.setattr(Reader, name, scanned, raising=False)
    answer = api().get("/v1/collections/orders/00700/provenance")
    assert (answer.status_code, answer.json()["key"], looked) == (200, "orders:00700", [701])


def test_the_search_route_stops_at_its_limit(api: Any, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[Scan] = []

    class Kept(Scan):
        __slots__ = ()

        def __init__(self, deadline: float | None) -> None:
            super().__init__(deadline)
            scans.append(self)

    monkeypatch.setattr(feltdb_engine.questions, "Scan", Kept)
    client = api()
    body = {"query": "nEEDLE", "limit": 3}
    answer = client.post_json("/v1/collections/orders/search", body).json()
    assert [each["id"] for each in answer["records"]] == ["00000", "00001", "00002"]
    assert [scan.scanned for scan in scans] == [4], "one beyond the last it gives, to know whether there is more"
    scans.clear()
    client.post_json("/v1/collections/orders/search", {"query": "not there"})
    assert [scan.scanned for scan in scans] == [many], "each once where nothing matches"
