"""F3 of the reference's acceptance list: a search stops at its limit and reads nothing beyond the page it is in."""

from types import SimpleNamespace
from typing import Any

from apps.workloads.builtin import search


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
