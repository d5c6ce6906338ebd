"""A few records of an earlier revision, traced back: the same answers as `as_of` gives, however far back it is."""

import time
from pathlib import Path
from typing import Any

import lmdb
import pytest
from hypothesis import HealthCheck, given, settings

from feltdb_engine import Glimpse, Past, Retention, Store, errors, limits
from tests.engine.kit import delete, put
from tests.engine.test_past import KEYS, WHERES, groups, shared

__all__ = ["shared"]


def pages(asked: Glimpse | Past, collection: str, **members: Any) -> list[Any]:
    """All pages of a collection, one after the other."""
    found, after = [], None
    while True:
        page = asked.page(collection, after=after, limit=2, **members)
        found += page.records
        after = page.next_after
        if after is None:
            return found


def matches(asked: Glimpse | Past, collection: str, where: Any, **members: Any) -> list[Any]:
    found, cursor = [], None
    while True:
        part = asked.query(collection, where=where, limit=2, after=cursor, **members)
        found += part.records
        cursor = part.next_cursor
        if cursor is None:
            return found


def texts(asked: Glimpse | Past, collection: str, **members: Any) -> list[Any]:
    found, cursor = [], None
    while True:
        part = asked.search(collection, "xx", 2, after=cursor, **members)
        found += part.records
        cursor = part.next_cursor
        if cursor is None:
            return found


def answers(asked: Glimpse | Past) -> list[Any]:
    """Everything a glimpse can be asked."""
    found: list[Any] = [asked.get(key) for key in KEYS]
    for collection in ("a", "b", "a.b", "none"):
        found.append(pages(asked, collection))
        found += [matches(asked, collection, where) for where in WHERES]
        found.append(texts(asked, collection))
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=groups, more=groups)
def test_it_says_what_as_of_says(shared: Store, history: Any, more: Any) -> None:
    revisions = []
    for group in [*history, *more]:
        shared.commit(group)
        revisions.append(shared.head().sequence)
    for revision in revisions[:: max(1, len(revisions) // 3)]:
        assert answers(shared.glimpse(revision)) == answers(shared.as_of(revision))


def test_it_reaches_further_back_than_as_of(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit([put("a:1", {"n": 1}), put("a:2", {"n": 2})])
    for number in range(40):
        store.commit([put("b:1", {"n": number})])
    store.commit([put("a:2", {"n": 3}), delete("a:1")])
    monkeypatch.setattr(limits, "AS_OF_MAX_OPERATIONS", 20)
    with pytest.raises(errors.ScanLimitExceeded):
        store.as_of(2).get("a:1")
    assert [one.value["n"] for one in store.glimpse(2).page("a").records] == [1, 2]
    assert store.glimpse(2).get("b:1") is None
    assert store.glimpse(0).get("a:1") is None


def test_out_of_time_it_is_short_and_goes_on_where_it_stopped(store: Store) -> None:
    """Also over ids at which nothing was: each call looks at one at least."""
    store.commit([put(f"a:{number}", {"n": number, "s": "xx"}) for number in range(6)])
    store.commit([delete("a:1"), delete("a:2")])
    then = store.head().sequence
    store.commit([put("a:1", {"n": 10}), put("a:3", {"n": 11}), delete("a:4")])
    late = time.monotonic()
    glimpse = store.glimpse(then)
    first = glimpse.page("a", deadline=late)
    assert [one.id for one in first.records] == ["0"] and first.next_after == "0"
    second = glimpse.page("a", after="0", deadline=late)
    assert second.records == () and second.next_after == "1"
    where = {"field": "n", "op": "gte", "value": 3}
    nothing = glimpse.query("a", where=where, deadline=late)
    assert (nothing.records, nothing.exhausted) == ((), False) and nothing.next_cursor is not None
    assert [one.id for one in pages(glimpse, "a", deadline=late)] == ["0", "3", "4", "5"]
    assert [one.value["n"] for one in matches(glimpse, "a", where, deadline=late)] == [3, 4, 5]
    assert [one.id for one in texts(glimpse, "a", deadline=late)] == ["0", "3", "4", "5"]


def test_a_record_written_too_often_since_is_named_and_holds_up_nothing_before_it(store: Store) -> None:
    store.commit([put("a:1", {"n": 1}), put("a:2", {"n": 1}), put("a:3", {"n": 1})])
    for number in range(3):
        store.commit([put("a:2", {"n": number})])
    glimpse, late = store.glimpse(3), time.monotonic()
    with pytest.raises(errors.DeadlineExceeded) as refused:
        glimpse.get("a:2", deadline=late)
    assert refused.value.details["record_id"] == "2"
    first = glimpse.page("a", deadline=late)
    assert [one.id for one in first.records] == ["1"] and first.next_after == "1"
    with pytest.raises(errors.DeadlineExceeded) as refused:
        glimpse.page("a", after="1", deadline=late)
    assert refused.value.details["record_id"] == "2"
    assert [one.id for one in glimpse.page("a", after=refused.value.details["cursor"], deadline=late).records] == ["3"]
    where = {"field": "n", "op": "lte", "value": 1}
    one = glimpse.query("a", where=where, deadline=late)
    assert [each.id for each in one.records] == ["1"]
    with pytest.raises(errors.DeadlineExceeded) as refused:
        glimpse.query("a", where=where, after=one.next_cursor, deadline=late)
    rest = glimpse.query("a", where=where, after=refused.value.details["cursor"], deadline=late)
    assert [each.id for each in rest.records] == ["3"] and rest.exhausted
    found = glimpse.get("a:2")
    assert found is not None and (found.value, found.version) == ({"n": 1}, 1)


def test_what_compaction_let_go_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", segment_bytes=1 << 16) as store:
        for number in range(1, 31):
            store.commit([put(f"a:{number % 10}", {"n": number, "s": "x" * 9_000})], at_ms=number * 1000)
        early = store.glimpse(5)
        floor = store.compact(Retention(age_ms=0), now_ms=1 << 50).floor
        for ask in (lambda: early.get("a:1"), lambda: store.glimpse(5)):
            with pytest.raises(errors.FeedCompacted) as gone:
                ask()
            assert gone.value.details == {"floor": floor, "head": 30}
        then = store.glimpse(floor)
        assert [one.value["n"] for one in then.page("a").records] == [30, *range(21, 30)]
        store.commit([put("a:3", {"n": -1})])
        with pytest.raises(errors.FeedCompacted):  # its value of then lies below the floor
            then.get("a:3")
        found = then.get("a:4")
        assert found is not None and found.sequence == 24


def test_what_is_no_revision_is_refused(store: Store) -> None:
    store.commit([put("a:1", {}), put("a:2", {})])
    for nonsense in (1, -1, "2"):
        with pytest.raises(errors.InvalidQuery):
            store.glimpse(nonsense)  # type: ignore[arg-type]
    with pytest.raises(errors.CursorAhead):
        store.glimpse(3)


def test_a_view_that_breaks_is_made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit([put("a:1", {"n": 1})])
    store.commit([put("a:1", {"n": 2})])
    glimpse, broken = store.glimpse(1), [True]
    asked = store._core.view.read

    def read() -> Any:
        if broken:
            broken.clear()
            raise lmdb.PanicError("broken")
        return asked()

    monkeypatch.setattr(store._core.view, "read", read)
    recovered: list[Any] = []
    monkeypatch.setattr(store, "_recover_from", recovered.append)
    found = glimpse.get("a:1")
    assert found is not None and found.value == {"n": 1} and len(recovered) == 1

    def fail() -> Any:
        raise OSError("no such device")

    monkeypatch.setattr(store._core.view, "read", fail)
    with pytest.raises(errors.StorageError, match="no such device"):
        glimpse.get("a:1")
