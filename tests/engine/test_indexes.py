"""Declared indexes: the same answers with and without, in every order and page size, and through crashes of a build."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feltdb_engine import IndexInfo, Store, errors, limits
from feltdb_engine.declaring import Declarer
from feltdb_engine.ordering import MISSING, component, rank
from tests.engine.hooks import COMMIT_STEPS
from tests.engine.kit import delete, put, vanish

ROOT = Path(__file__).resolve().parents[2]
LONG = "é" * 60
SCALARS: list[Any] = [
    None, False, True, 0, 0.0, -0.0, 1, 1.0, -1, 1.5, 2**53, 2**53 + 1, float(2**53), 2**63, 2**64 - 1, -(2**63),
    1e308, -1e308, 5e-324, float(2**64), "", "a", "a\x01", "b", "é", LONG, LONG + "a", LONG + "b", "x" * 95, "x" * 96,
    "x" * 97,
]  # fmt: skip
VALUES = st.sampled_from([*SCALARS, [1], [], {"q": 1}, {"q": "x" * 120}, {"q": "x" * 121}])
RECORDS = st.dictionaries(st.sampled_from("abc"), VALUES)
DATA = st.dictionaries(st.sampled_from([f"{n:02d}" for n in range(40)] + ["ü", "~"]), RECORDS, max_size=30)
SMALL = st.sampled_from([0, 1, "a", "b", None])
FIELDS = st.sampled_from("abc")
ORDERED = st.sampled_from([one for one in SCALARS if type(one) in (int, float, str)])


def _term(field: str, op: str, value: Any) -> dict[str, Any]:
    return {"field": field, "op": op, "value": value}


TERMS = st.one_of(
    st.builds(_term, FIELDS, st.sampled_from(["eq", "ne"]), VALUES),
    st.builds(_term, FIELDS, st.sampled_from(["lt", "lte", "gt", "gte"]), ORDERED),
    st.builds(_term, FIELDS, st.just("in"), st.lists(VALUES, max_size=4)),
    st.builds(_term, FIELDS, st.just("starts_with"), st.sampled_from(["", "a", "é", LONG, LONG + "a", "x" * 96])),
    st.builds(_term, FIELDS, st.just("exists"), st.booleans()),
)
WHERE = st.one_of(
    st.none(),
    TERMS,
    st.lists(TERMS, min_size=1, max_size=3).map(lambda terms: {"all": terms}),
    st.lists(TERMS, min_size=1, max_size=2).map(lambda terms: {"any": terms}),
)
ORDER = st.lists(st.tuples(FIELDS, st.sampled_from(["asc", "desc"])), max_size=3)
INDEXES = st.lists(st.lists(FIELDS, min_size=1, max_size=3, unique=True), min_size=1, max_size=3, unique_by=tuple)


def everything(store: Store, collection: str, where: Any, order: Any, limit: int) -> list[tuple[str, Any]]:
    """All pages of a query."""
    found: list[tuple[str, Any]] = []
    after = None
    while True:
        page = store.query(collection, where=where, order_by=order, limit=limit, after=after)
        found += [(record.id, record.value) for record in page.records]
        after = page.next_cursor
        if after is None:
            return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Store.open(tmp_path_factory.mktemp("indexes") / "s", durability="os", segment_bytes=1 << 20) as store:
        yield store


@settings(max_examples=60, deadline=None)
@given(data=DATA, later=DATA, fields=INDEXES, where=WHERE, order=ORDER, limit=st.integers(1, 12))
def test_answers_are_the_same_with_and_without_an_index(
    shared: Store, data: Any, later: Any, fields: Any, where: Any, order: Any, limit: int
) -> None:
    for one in shared.indexes("i"):
        shared.drop_index("i", one.name)
    for collection in ("i", "s"):
        gone = [delete(f"{collection}:{one.id}") for one in shared.page(collection, limit=1000).records]
        if gone:
            shared.commit(gone)
        if data:
            shared.commit([put(f"{collection}:{one}", value) for one, value in data.items()])
    for each in fields:
        shared.declare_index("i", each)
    half = sorted(data)[::2]
    for collection in ("i", "s"):
        # What is written after the declaration is kept by the commits, what was there before by the build.
        changes = [put(f"{collection}:{one}", value) for one, value in later.items()]
        changes += [delete(f"{collection}:{one}") for one in half if one not in later]
        if changes:
            shared.commit(changes)
    expected = everything(shared, "s", where, order, 1000)
    assert everything(shared, "i", where, order, limit) == expected
    assert shared.count("i", where) == shared.count("s", where) == len(expected)


@given(st.lists(st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False))))
def test_numbers_of_both_kinds_sort_by_exact_value(numbers: list[Any]) -> None:
    for left in numbers:
        for right in [*numbers, *[one for one in SCALARS if type(one) in (int, float)]]:
            a, b = component(left, 96), component(right, 96)
            assert not a[1] and ((a[0] < b[0]) == (left < right)) and ((a[0] == b[0]) == (left == right))


def test_components_never_contradict_the_order_of_values() -> None:
    values = [*SCALARS, MISSING, [1], [], {"q": 1}, {"q": "x" * 120}, {"q": "x" * 121}]
    for left in values:
        for right in values:
            if rank(left) < rank(right):
                assert component(left, 96)[0] <= component(right, 96)[0]


def fill(store: Store, count: int) -> None:
    for first in range(0, count, 700):
        rows = range(first, min(first + 700, count))
        store.commit([put(f"t:{n:04d}", {"a": n % 7, "b": f"o{n % 5}", "n": n}) for n in rows])


def test_the_plan_says_how_it_went(store: Store) -> None:
    fill(store, 700)
    both = {"all": [_term("a", "eq", 3), _term("b", "eq", "o2")]}
    scanned = store.query("t", where=both, limit=10)
    assert scanned.plan["access"] == "scan"
    assert store.declare_index("t", ["a", "b"], name="ab") == IndexInfo(
        collection="t", name="ab", fields=("a", "b"), complete=True
    )
    served = store.query("t", where=both, limit=10)
    assert served.records == scanned.records
    assert served.plan == {"access": "index", "index": "ab", "scanned": 11}
    second = store.query("t", where=both, limit=10, after=scanned.next_cursor)
    assert second.plan == {"access": "index", "index": "ab", "scanned": 10} and second.exhausted
    top = store.query("t", order_by=[("a", "desc"), ("b", "desc")], limit=5)
    assert top.plan == {"access": "index", "index": "ab", "scanned": 6}
    assert store.drop_index("t", "ab") and not store.drop_index("t", "ab")
    assert store.query("t", where=both, limit=10).plan["access"] == "scan"


@pytest.mark.parametrize(
    ("fields", "name"),
    [([], None), (["a"] * 2, None), (["a", "b", "c", "d", "e"], None), ("a", None), ([""], None), (["a"], "no name")],
)
def test_what_is_no_index_is_refused(store: Store, fields: Any, name: Any) -> None:
    with pytest.raises(errors.InvalidQuery):
        store.declare_index("t", fields, name=name)
    assert store.indexes() == []


def test_a_name_stands_for_one_index(store: Store) -> None:
    first = store.declare_index("t", ["a"], name="x")
    assert store.declare_index("t", ["a"], name="x") == first
    with pytest.raises(errors.InvalidQuery):
        store.declare_index("t", ["b"], name="x")
    for n in range(limits.INDEX_MAX_PER_COLLECTION - 1):
        store.declare_index("t", ["a"], name=f"x{n}")
    with pytest.raises(errors.InvalidQuery):
        store.declare_index("t", ["a"], name="one-more")
    assert len(store.indexes("t")) == limits.INDEX_MAX_PER_COLLECTION


def test_the_longest_keys_fit(store: Store) -> None:
    store.declare_index("t", ["a", "b"], name="two")
    store.declare_index("t", ["a", "b", "c", "d"], name="four")
    value = {field: "é" * 300 for field in "abcd"}
    store.commit([put("t:" + "i" * limits.ID_MAX_BYTES, value)])
    found = store.query("t", where={"all": [_term(field, "eq", "é" * 300) for field in "abcd"]})
    assert found.plan["index"] == "four" and len(found.records) == 1


def test_a_budget_in_an_index_gives_a_cursor_to_go_on_from(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, 70)
    store.declare_index("t", ["a"])
    where = {"all": [_term("a", "eq", 3), _term("n", "eq", 66)]}
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 6)
    with pytest.raises(errors.ScanLimitExceeded) as stopped:
        store.query("t", where=where)
    found = store.query("t", where=where, after=stopped.value.details["cursor"])
    assert [record.id for record in found.records] == ["0066"] and found.exhausted


def test_search_finds_text_in_any_string_whatever_its_case(store: Store) -> None:
    store.commit([put("t:1", {"a": "Straße"}), put("t:2", {"b": [{"c": "x STRASSE"}]}), put("t:3", {"strasse": 1})])
    assert [record.id for record in store.search("t", "strasse", 10).records] == ["1", "2"]
    first = store.search("t", "STRASSE", 1)
    assert [one.id for one in first.records] == ["1"] and not first.exhausted
    assert [one.id for one in store.search("t", "STRASSE", 1, after=first.next_cursor).records] == ["2"]
    for text in ("", "x" * (limits.SEARCH_TEXT_MAX_CHARS + 1)):
        with pytest.raises(errors.InvalidQuery):
            store.search("t", text)


def test_count_without_a_condition_reads_no_record(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, 70)
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 5)
    assert store.count("t") == 70 and store.count("none") == 0
    with pytest.raises(errors.ScanLimitExceeded):
        store.count("t", _term("n", "gte", 0))


def test_writes_go_on_while_an_index_is_built(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each of the first batches the builder waits, without the turn, until a write has been acknowledged."""
    monkeypatch.setattr(limits, "INDEX_BATCH_RECORDS", 20)
    fill(store, 3000)
    written, batches = threading.Semaphore(0), threading.Semaphore(0)
    waits = iter(range(10))
    unpaced = Declarer._run

    def paced(self: Declarer, act: Any) -> Any:
        done = unpaced(self, act)
        if next(waits, None) is not None:
            batches.release()
            assert written.acquire(timeout=30), "no write came through while the index was built"
        return done

    monkeypatch.setattr(Declarer, "_run", paced)
    builder = threading.Thread(target=lambda: store.declare_index("t", ["a", "n"]))
    builder.start()
    for number in range(10):
        assert batches.acquire(timeout=30), "the build came to no further batch"
        store.commit([put(f"t:{number:04d}", {"a": 9, "n": number}), delete(f"t:{2999 - number:04d}")])
        written.release()
    builder.join(30)
    assert not builder.is_alive()
    agree(store)


def agree(store: Store) -> None:
    """The index over (a, n) has exactly the entries the records call for."""
    live = [len(store.query("t", where=_term("a", "eq", part), limit=1000).records) for part in range(10)]
    assert sum(live) == store.count("t")
    (info,) = store.indexes("t")
    assert info.complete
    with store._core.view.read() as txn:
        assert txn.stat(store._core.view.index)["entries"] == sum(live)
    assert store.verify().findings == ()


def test_verify_finds_an_entry_that_is_missing(store: Store) -> None:
    fill(store, 30)
    store.declare_index("t", ["a", "n"])
    agree(store)
    with store._core.view.write() as txn, txn.cursor(db=store._core.view.index) as cursor:
        assert cursor.first() and cursor.delete()
    assert [one.kind for one in store.verify().findings] == ["view"]


@pytest.mark.parametrize("how", ["reopened", "killed", "rebuilt"])
def test_an_index_is_there_and_equal_after(tmp_path: Path, how: str) -> None:
    with Store.open(tmp_path / "s", segment_bytes=1 << 20) as store:
        fill(store, 300)
        store.declare_index("t", ["a", "n"])
        store.declare_index("t", ["b"], name="gone")
        store.commit([delete("t:0001"), put("t:0002", {"a": 5, "n": 1})])
        store.drop_index("t", "gone")
        if how == "killed":
            vanish(store)
    if how == "rebuilt":
        (tmp_path / "s" / "view" / "data.mdb").unlink()
    with Store.open(tmp_path / "s") as store:
        agree(store)
        assert store.query("t", where=_term("a", "eq", 5)).plan["access"] == "index"


BUILD = """
import sys
from feltdb_engine import Store, limits
from tests.engine.hooks import HookedFiles, die_at
limits.INDEX_BATCH_RECORDS = 50
store = Store.open(sys.argv[1], files=HookedFiles(die_at(sys.argv[2], int(sys.argv[3]))))
store.declare_index("t", ["a", "n"])
store.declare_index("t", ["b"], name="gone")
store.drop_index("t", "gone")
"""
BUILD_STEPS = ("index batch", "index batch done", "index batch committed")


@pytest.mark.parametrize("alone", [True, False], ids=["reopened", "still open elsewhere"])
@pytest.mark.parametrize(
    ("step", "after"),
    [(step, 0) for step in COMMIT_STEPS if step not in ("force", "forced")]
    + [(step, after) for step in BUILD_STEPS for after in (0, 3, 8, 14)],
)
def test_a_build_killed_at_any_step_is_finished_later(tmp_path: Path, step: str, after: int, alone: bool) -> None:
    store = Store.open(tmp_path / "s", segment_bytes=1 << 20)
    fill(store, 300)
    if alone:
        store.close()
    killed = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path / "s"), step, str(after)], cwd=ROOT, env=dict(os.environ), timeout=60
    )
    assert killed.returncode == -9
    if alone:
        store = Store.open(tmp_path / "s")
    with store:
        store.commit([delete("t:0001"), put("t:0299", {"a": 5, "n": 1})])
        store.declare_index("t", ["a", "n"])
        store.drop_index("t", "gone")
        agree(store)
        assert store.health().storage == "clean"
