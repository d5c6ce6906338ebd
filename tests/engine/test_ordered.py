"""Ordered and ranged queries give the same with an index as without one, page by page, in both directions."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from feltdb_engine import Store
from tests.engine.kit import put

LONG = "x" * 100  # an index keeps the first 96 bytes
VALUES: list[Any] = [
    {},
    {"n": None, "t": "b"},
    {"n": 1, "t": LONG + "b"},
    {"n": 1, "t": LONG + "a"},
    {"n": 1.0, "t": LONG},
    {"n": 2, "t": "a"},
    {"n": 2, "t": "ab"},
    {"n": -3, "t": "ä"},
    {"n": "2", "t": "a"},
    {"n": [1], "t": {"deep": 1}},
    {"n": True, "t": "abc"},
    {"n": False, "t": ""},
]
WHERES: list[Any] = [
    None,
    {"field": "n", "op": "eq", "value": 2},
    {"all": [{"field": "n", "op": "eq", "value": 1}, {"field": "t", "op": "starts_with", "value": "x"}]},
    {"field": "t", "op": "starts_with", "value": "a"},
    {"all": [{"field": "n", "op": "gt", "value": 5}, {"field": "n", "op": "lt", "value": 3}]},
    {"all": [{"field": "n", "op": "gte", "value": 1}, {"field": "n", "op": "lte", "value": 2}]},
    {"all": [{"field": "n", "op": "eq", "value": 2}, {"field": "t", "op": "eq", "value": "a"}]},
    {"field": "n", "op": "in", "value": [1, 2, "2"]},
]
ORDERS: list[Any] = [
    (),
    (("n", "asc"),),
    (("n", "desc"),),
    (("t", "asc"),),
    (("t", "desc"),),
    (("n", "asc"), ("t", "asc")),
    (("n", "desc"), ("t", "desc")),
]


def answers(store: Store) -> dict[tuple[int, int, int], list[str]]:
    """The ids of every condition in every order, gathered in pages of some sizes."""
    found: dict[tuple[int, int, int], list[str]] = {}
    for (place, where), (nth, order), limit in itertools.product(enumerate(WHERES), enumerate(ORDERS), (1, 3, 1000)):
        ids: list[str] = []
        cursor = None
        while True:
            page = store.query("a", where=where, order_by=order, limit=limit, after=cursor)
            ids += [record.id for record in page.records]
            cursor = page.next_cursor
            if page.exhausted:
                break
        found[place, nth, limit] = ids
    return found


@pytest.mark.parametrize("indexes", [["n"], ["t"], ["n", "t"], ["t", "n"]])
def test_an_index_changes_no_answer(tmp_path: Path, indexes: list[str]) -> None:
    with Store.open(tmp_path / "s", segment_bytes=1 << 20, durability="os") as store:
        for number, value in enumerate(VALUES * 2):
            store.commit([put(f"a:{number:02d}", value), put(f"b:{number}", {"n": 1})])
        without = answers(store)
        store.declare_index("a", indexes)
        with_it = answers(store)
        assert with_it == without
        served = store.query("a", where=WHERES[1], order_by=((indexes[0], "asc"),), limit=5).plan
        assert served["access"] == "index"
