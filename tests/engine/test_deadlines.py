"""Deadlines and scan budgets: everything that waits or scans ends in time, and can be gone on with."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from feltdb_engine import Store, errors, limits, positions, scan
from tests.engine.kit import put

ROWS = 400


class Clock:
    """Stands in for the clock of `scan`: a tick per look."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def rows(store: Store) -> Store:
    """Rows in one collection, every tenth `rare`."""
    for first in range(0, ROWS, 100):
        store.commit(
            [put(f"r:{n:03d}", {"n": n, "rare": n % 10 == 9, "text": f"t{n}"}) for n in range(first, first + 100)]
        )
    return store


def term(field: str, value: Any) -> dict[str, Any]:
    return {"field": field, "op": "eq", "value": value}


def gone_on(call: Callable[[str | None], Any]) -> tuple[list[Any], int]:
    """All that a call gives when it is gone on with until it is through, and how often it was cut short."""
    found: list[Any] = []
    after: str | None = None
    short = 0
    for _ in range(2 * ROWS):
        try:
            page = call(after)
        except (errors.DeadlineExceeded, errors.ScanLimitExceeded) as stopped:
            assert stopped.details["cursor"] is not None
            after, short = stopped.details["cursor"], short + 1
            continue
        found += page.records
        if page.exhausted:
            return found, short
        after = page.next_cursor
    raise AssertionError("no end")


LATE: list[Callable[[Store, float], Any]] = [
    lambda store, late: store.page("r", deadline=late),
    lambda store, late: store.query("r", deadline=late),
    lambda store, late: store.query("r", where=term("n", 5), deadline=late),
    lambda store, late: store.query("r", order_by=[("n", "asc")], deadline=late),
    lambda store, late: store.count("r", term("n", 5), deadline=late),
    lambda store, late: store.search("r", "t", deadline=late),
    lambda store, late: store.history("r", "001", deadline=late),
]


@pytest.mark.parametrize("call", LATE)
def test_what_scans_is_refused_where_its_deadline_has_passed(rows: Store, call: Callable[[Store, float], Any]) -> None:
    with pytest.raises(errors.DeadlineExceeded) as late:
        call(rows, time.monotonic() - 1)
    assert late.value.committed is False
    call(rows, time.monotonic() + 60)


def test_a_feed_page_cut_by_its_deadline_goes_on_from_its_cursor(rows: Store) -> None:
    first = rows.changes(None, deadline=time.monotonic() - 1)
    assert len(first.operations) == 100 and first.head == ROWS
    rest = rows.changes(first.cursor)
    assert [one.sequence for one in first.operations + rest.operations] == list(range(1, ROWS + 1))


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("budget", [2, 7, 150, 10_000])
def test_pages_cut_by_the_budget_add_up(
    rows: Store, monkeypatch: pytest.MonkeyPatch, indexed: bool, budget: int
) -> None:
    if indexed:
        rows.declare_index("r", ["n"])
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", budget)
    asked = {"where": term("rare", True)} | ({"order_by": [("n", "desc")]} if indexed else {})
    found, short = gone_on(lambda after: rows.query("r", limit=3, after=after, **asked))
    numbers = [one.value["n"] for one in found]
    assert numbers == sorted(range(9, ROWS, 10), reverse=indexed)
    # With an index, the record a cursor names is looked at once more: a budget of one would get nowhere.
    assert (short > 0) == (budget < 10)


def test_pages_cut_by_the_deadline_add_up(rows: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(scan, "time", clock)
    found, short = gone_on(
        lambda after: rows.query("r", where=term("rare", True), limit=100, after=after, deadline=clock.now + 3.5)
    )
    assert [one.value["n"] for one in found] == list(range(9, ROWS, 10))
    found, short = gone_on(
        lambda after: rows.query("r", where=term("n", 399), limit=100, after=after, deadline=clock.now + 3.5)
    )
    assert [one.value["n"] for one in found] == [399] and short > 5


def test_no_read_transaction_outlives_its_limit(rows: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(scan, "time", clock)
    with pytest.raises(errors.ScanLimitExceeded) as stopped:
        rows.query("r", where=term("n", 399))
    assert stopped.value.details["scanned"] == 16 * (limits.READ_MAX_S - 1)


@pytest.mark.parametrize("indexed", [False, True])
def test_counts_cut_short_add_up(rows: Store, monkeypatch: pytest.MonkeyPatch, indexed: bool) -> None:
    if indexed:
        rows.declare_index("r", ["rare"])
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 17)
    where = {"all": [term("rare", True), {"field": "n", "op": "lt", "value": 300}]}
    counted, after, short = 0, None, 0
    while True:
        try:
            counted += rows.count("r", where, after=after)
            break
        except errors.ScanLimitExceeded as stopped:
            counted += stopped.details["counted"]
            after, short = stopped.details["cursor"], short + 1
    assert counted == 30
    assert short == (2 if indexed else 23)
    if indexed:
        rows.drop_index("r", "rare")
        with pytest.raises(errors.InvalidCursor):
            rows.count("r", where, after=after)
    with pytest.raises(errors.InvalidCursor):
        rows.count("r", term("n", 1), after=after)


def test_a_sort_without_an_index_cannot_be_gone_on_with_and_says_so(
    rows: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 100)
    with pytest.raises(errors.ScanLimitExceeded) as stopped:
        rows.query("r", order_by=[("n", "desc")])
    assert stopped.value.details == {"cursor": None, "scanned": 100}
    rows.declare_index("r", ["n"])
    assert [one.value["n"] for one in rows.query("r", order_by=[("n", "desc")], limit=2).records] == [399, 398]


def test_a_read_of_what_is_not_yet_durable_is_refused_at_its_deadline(
    rows: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = rows._core
    monkeypatch.setattr(rows._durability, "_lead", lambda patience_s: False)
    monkeypatch.setattr(rows._durability, "_force_alone", lambda word, target: False)
    core.words[positions.DURABLE_SEQUENCE] -= 1
    for call in (
        lambda late: rows.get("r:399", deadline=late),
        lambda late: rows.get_many(["r:399"], deadline=late),
        lambda late: rows.page("r", deadline=late),
        lambda late: rows.count("r", deadline=late),
    ):
        with pytest.raises(errors.DeadlineExceeded) as late:
            call(time.monotonic() + 0.05)
        assert late.value.committed is False
    assert rows.get("r:000") is not None
    core.words[positions.DURABLE_SEQUENCE] += 1


@pytest.mark.parametrize(
    ("select", "value"),
    [
        (["n"], {"n": 1}),
        (["d.e", "n"], {"d": {"e": 5}, "n": 1}),
        (["d.e", "d"], {"d": {"e": 5, "f": {"g": 0}}}),
        (["d", "d.e"], {"d": {"e": 5, "f": {"g": 0}}}),
        (["d.f.g", "d.e"], {"d": {"e": 5, "f": {"g": 0}}}),
        (["d.f.x", "n.x", "missing", "l.0"], {}),
        (["z"], {"z": None}),
        ([], {}),
    ],
)
def test_a_selection_keeps_what_lies_at_its_paths(store: Store, select: list[str], value: Any) -> None:
    whole = {"n": 1, "d": {"e": 5, "f": {"g": 0}}, "z": None, "l": [1]}
    store.commit([put("r:1", whole), put("r:2", whole)])
    first = store.query("r", select=select, order_by=[("n", "asc")], limit=1)
    assert [one.value for one in first.records] == [value]
    rest = store.query("r", order_by=[("n", "asc")], after=first.next_cursor)
    assert [(one.id, one.value) for one in rest.records] == [("2", whole)]


@pytest.mark.parametrize("select", ["n", [""], [1], ["a"] * 101])
def test_what_is_no_selection_is_refused(store: Store, select: Any) -> None:
    with pytest.raises(errors.InvalidQuery):
        store.query("r", select=select)
