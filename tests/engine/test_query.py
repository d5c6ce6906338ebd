"""Queries: every operator without coercion, order, cursors that nothing shifts, and their bounds."""

import random
from typing import Any

import pytest

from feltdb_engine import Record, Store, errors, limits
from feltdb_engine.where import compile_where
from tests.engine.kit import delete, put

ROWS = [
    ("1", {"n": 1, "s": "alpha", "t": ["x", 1], "d": {"e": 5}}),
    ("2", {"n": 1.0, "s": "beta", "t": [], "d": {"e": None}}),
    ("3", {"n": "1", "s": None}),
    ("4", {"n": True, "s": "alphabet"}),
    ("5", {"n": 2, "s": "Alpha", "t": "x marks"}),
    ("6", {"d": "no object"}),
    ("7", {"n": 1.5, "d": {"e": [1, {"f": 2}]}}),
]


@pytest.fixture
def rows(store: Store) -> Store:
    """The rows of this module in one collection, noise in another."""
    store.commit([put(f"r:{one}", value) for one, value in ROWS] + [put("r2:1", {"n": 1}), put("q:1", {"n": 1})])
    return store


def term(field: str, op: str, value: Any) -> dict[str, Any]:
    return {"field": field, "op": op, "value": value}


def ids(records: tuple[Record, ...]) -> str:
    return "".join(record.id for record in records)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "1234567"),
        (term("n", "eq", 1), "1"),
        (term("n", "eq", 1.0), "2"),
        (term("n", "eq", True), "4"),
        (term("n", "eq", "1"), "3"),
        (term("s", "eq", None), "3"),
        (term("n", "ne", 1), "234567"),
        (term("n", "gt", 1), "57"),
        (term("n", "gte", 1), "1257"),
        (term("n", "lt", 1.5), "12"),
        (term("n", "lte", 1.5), "127"),
        (term("n", "gte", "0"), "3"),
        (term("s", "lt", "alpha"), "5"),
        (term("s", "starts_with", "alpha"), "14"),
        (term("s", "contains", "lph"), "145"),
        (term("t", "contains", "x"), "15"),
        (term("t", "contains", 1), "1"),
        (term("t", "contains", 1.0), ""),
        (term("n", "in", [1, "1", None]), "13"),
        (term("d.e", "in", [[1, {"f": 2}], 5]), "17"),
        (term("n", "in", []), ""),
        (term("d.e", "eq", 5), "1"),
        (term("d.e", "eq", None), "2"),
        (term("d.e", "eq", [1, {"f": 2}]), "7"),
        (term("d.e", "exists", True), "127"),
        (term("d.e", "exists", False), "3456"),
        (term("missing", "ne", 1), "1234567"),
        ({"not": term("n", "exists", True)}, "6"),
        ({"all": [term("n", "gte", 1), term("s", "exists", True)]}, "125"),
        ({"any": [term("n", "eq", 1), {"not": term("n", "exists", True)}]}, "16"),
    ],
)
def test_conditions(rows: Store, where: Any, expected: str) -> None:
    result = rows.query("r", where=where)
    assert ids(result.records) == expected
    assert result.exhausted and result.next_cursor is None
    assert result.plan["access"] == "scan"


@pytest.mark.parametrize(
    ("where", "pointer"),
    [
        ({}, ""),
        ([], ""),
        ({"all": []}, "/all"),
        ({"all": [term("n", "eq", 1), {"not": {}}]}, "/all/1/not"),
        (term("n", "like", 1), "/op"),
        (term("", "eq", 1), "/field"),
        (term("n", "gt", None), "/value"),
        (term("n", "gt", True), "/value"),
        (term("n", "in", 1), "/value"),
        (term("n", "in", [1] * 1001), "/value"),
        (term("n", "exists", 1), "/value"),
        (term("n", "starts_with", 1), "/value"),
        ({"field": "n", "op": "eq"}, ""),
        ({"all": [term("n", "eq", 1)] * 100}, "/all/99"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(rows: Store, where: Any, pointer: str) -> None:
    with pytest.raises(errors.InvalidQuery) as refused:
        rows.query("r", where=where)
    assert refused.value.details["pointer"] == pointer


def test_order_runs_over_types_and_ends_with_the_id(rows: Store) -> None:
    assert ids(rows.query("r", order_by=[("n", "asc")]).records) == "6412753"
    assert ids(rows.query("r", order_by=[("n", "desc")]).records) == "3571246"
    assert ids(rows.query("r", order_by=[("missing", "desc")]).records) == "1234567"


def walk(store: Store, limit: int, **query: Any) -> str:
    """All pages of a query."""
    seen, after = "", None
    while True:
        page = store.query("r", limit=limit, after=after, **query)
        seen += ids(page.records)
        after = page.next_cursor
        if page.exhausted:
            return seen


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10])
def test_pages_of_any_size_give_the_same_rows(rows: Store, limit: int) -> None:
    assert walk(rows, limit) == "1234567"
    assert walk(rows, limit, where=term("n", "exists", True)) == "123457"
    assert walk(rows, limit, order_by=[("n", "asc")]) == "6412753"
    assert walk(rows, limit, order_by=[("n", "desc"), ("s", "asc")]) == "3571246"


def test_writes_between_pages_shift_no_rows(rows: Store) -> None:
    first = rows.query("r", order_by=[("n", "asc")], limit=3)
    assert ids(first.records) == "641"
    rows.commit([delete("r:4"), put("r:0", {"n": 0}), put("r:9", {"n": 9})])
    rest = rows.query("r", order_by=[("n", "asc")], limit=10, after=first.next_cursor)
    assert ids(rest.records) == "27593"


def test_a_cursor_of_another_query_is_refused(rows: Store) -> None:
    cursor = rows.query("r", limit=1).next_cursor
    for other in ({"where": term("n", "eq", 1)}, {"order_by": [("n", "asc")]}):
        with pytest.raises(errors.InvalidCursor):
            rows.query("r", after=cursor, **other)  # type: ignore[arg-type]
    for nonsense in ("", "x", "ä", "e30", "W10", "a" * 20_000):
        with pytest.raises(errors.InvalidCursor):
            rows.query("r", after=nonsense)


@pytest.mark.parametrize("limit", [0, -1, limits.QUERY_MAX_RECORDS + 1])
def test_limits_are_refused(rows: Store, limit: int) -> None:
    with pytest.raises(errors.InvalidQuery):
        rows.query("r", limit=limit)
    with pytest.raises(errors.InvalidQuery):
        rows.page("r", limit=limit)


def test_a_scan_is_bounded_and_goes_on_from_its_cursor(rows: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 3)
    with pytest.raises(errors.ScanLimitExceeded) as stopped:
        rows.query("r", where=term("n", "eq", 2))
    with pytest.raises(errors.ScanLimitExceeded):
        rows.query("r", order_by=[("n", "asc")])
    result = rows.query("r", where=term("n", "eq", 2), after=stopped.value.details["cursor"])
    assert ids(result.records) == "5"
    part = rows.query("r", where=term("n", "eq", 1))
    assert ids(part.records) == "1" and not part.exhausted
    with pytest.raises(errors.ScanLimitExceeded):
        rows.query("r", where=term("n", "eq", 1), after=part.next_cursor)


def test_random_queries_agree_with_a_sort_of_everything(store: Store) -> None:
    seed = 7
    choose = random.Random(seed)
    values = {f"{number:03d}": {"a": choose.randint(0, 5), "b": choose.random()} for number in range(200)}
    store.commit([put(f"r:{one}", value) for one, value in values.items()])
    for _ in range(20):
        low, limit = choose.randint(0, 5), choose.randint(1, 50)
        expected = sorted(
            (one for one, value in values.items() if value["a"] >= low),
            key=lambda one: (-values[one]["a"], values[one]["b"], one),
        )
        seen: list[str] = []
        after = None
        while True:
            page = store.query(
                "r",
                where=term("a", "gte", low),
                order_by=[("a", "desc"), ("b", "asc")],
                limit=limit,
                after=after,
            )
            seen += [record.id for record in page.records]
            after = page.next_cursor
            if after is None:
                break
        assert seen == expected, f"seed {seed}"


_VALUES = ("a", "b", "", "ü", "a\0", "\ud800", 0, 1, -1, 1.0, 2**53, 2**63, 2**70, True, False, None, [1], {"a": 1})
_FIELDS = ("a", "b.c", "", "x" * 1025, 7)


@pytest.mark.parametrize("wanted", _VALUES, ids=repr)
@pytest.mark.parametrize("field", _FIELDS, ids=lambda one: repr(one)[:9])
def test_an_equality_says_the_same_alone_and_inside_another_condition(field: Any, wanted: Any) -> None:
    """Plain equalities are compiled apart from all other conditions."""
    term = {"field": field, "op": "eq", "value": wanted}
    plain = [term, {"all": [term]}, {"all": (term, term)}]
    try:
        general = compile_where({"any": [{"all": [term, {"not": {"not": term}}]}]})
    except errors.EngineError as refused:
        for one in plain:
            with pytest.raises(type(refused)):
                compile_where(one)
        return
    candidates = [{}, {"b": {"c": wanted}}, {"b.c": wanted}, *({"a": value} for value in _VALUES)]
    for one in plain:
        test = compile_where(one)
        assert [test(value) for value in candidates] == [general(value) for value in candidates]


def test_a_page_of_large_records_ends_early_and_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_MAX_BYTES", 4000)
    monkeypatch.setattr(limits, "READ_CHUNK_RECORDS", 4)
    for start in range(0, 40, 20):
        store.commit([put(f"c:{n:03d}", {"text": "x" * 500}) for n in range(start, start + 20)])
    seen: list[str] = []
    after = None
    while True:
        page = store.page("c", after=after, limit=30)
        seen += [record.id for record in page.records]
        if page.next_after is None:
            break
        assert 8 <= len(page.records) <= 12
        after = page.next_after
    assert seen == [f"{n:03d}" for n in range(40)]
