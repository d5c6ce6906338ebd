"""Earlier revisions: every question is answered as it would have been answered then, whatever was written since."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feltdb_engine import Past, Predicate, Retention, Store, errors, limits
from tests.engine.kit import delete, operations, put

KEYS = [f"a:{n}" for n in range(6)] + ["b:1", "a.b:1"]
changes = st.builds(
    lambda key, value: delete(key) if value is None else put(key, {"n": value, "s": "x" * value}),
    st.sampled_from(KEYS),
    st.one_of(st.none(), st.integers(0, 4)),
)
groups = st.lists(
    st.lists(changes, min_size=1, max_size=3, unique_by=lambda one: (one.collection, one.id)), min_size=1, max_size=5
)
WHERES: list[Any] = [
    None,
    {"field": "n", "op": "eq", "value": 1},
    {"field": "n", "op": "gte", "value": 2},
    {"not": {"field": "n", "op": "eq", "value": 3}},
]


def answers(asked: Store | Past) -> Any:
    """Everything that can be asked, but for cursors and plans."""
    found: list[Any] = [asked.get_many(KEYS), asked.collections()]
    for collection in ("a", "b", "a.b", "none"):
        pages, after = [], None
        while True:
            page = asked.page(collection, after=after, limit=2)
            pages += page.records
            after = page.next_after
            if after is None:
                break
        back = asked.page(collection, reverse=True).records
        assert list(back) == pages[::-1]
        assert asked.page(collection, after="3", reverse=True).records == tuple(
            one for one in back if one.id.encode() < b"3"
        )
        found.append(pages)
        for where in WHERES:
            found.append(asked.count(collection, where))
            for order in ([], [("n", "asc")], [("n", "desc"), ("s", "asc")]):
                rows, cursor = [], None
                while True:
                    part = asked.query(collection, where=where, order_by=order, limit=2, after=cursor)
                    rows += part.records
                    cursor = part.next_cursor
                    if cursor is None:
                        break
                found.append(rows)
        found.append(asked.search(collection, "xx").records)
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Store.open(tmp_path_factory.mktemp("past") / "s", durability="os", segment_bytes=1 << 16) as store:
        store.declare_index("a", ["n"])
        yield store


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=groups, more=groups)
def test_a_revision_answers_as_the_store_did_then(shared: Store, history: Any, more: Any) -> None:
    kept: list[tuple[Past, Any]] = []
    for group in history:
        shared.commit(group)
        kept.append((shared.snapshot(), answers(shared)))
    assert [answers(past) for past, _ in kept[:2]] == [then for _, then in kept[:2]]
    for group in more:
        shared.commit(group)
    for past, then in kept:
        assert answers(past) == then, "also where it was asked before"
    assert answers(shared.as_of(kept[0][0].revision)) == kept[0][1]


def test_a_snapshot_holds_no_reader_and_outlives_a_view_made_again(store: Store) -> None:
    store.commit([put("a:1", {"n": 1}), put("a:2", {"n": 2})])
    past = store.snapshot()
    store.commit([delete("a:1"), put("a:2", {"n": 3})])
    then = past.page("a").records
    assert [one.value["n"] for one in then] == [1, 2]
    assert store._core.view.env.readers().count("\n") <= 2, "one for this thread at most"
    store.rebuild_view()
    assert past.page("a").records == then


def test_what_is_no_revision_is_refused(store: Store) -> None:
    store.commit([put("a:1", {}), put("a:2", {}), put("a:3", {})])
    store.commit([put("a:4", {})])
    for inside in (1, 2):
        with pytest.raises(errors.InvalidQuery) as refused:
            store.as_of(inside)
        assert "from 0 to 3" in refused.value.message
    assert store.as_of(0).count("a") == 0
    assert store.as_of(3).count("a") == 3
    assert store.as_of(4).count("a") == 4
    with pytest.raises(errors.CursorAhead):
        store.as_of(5)
    for nonsense in (-1, 1.0, "1", True, None):
        with pytest.raises(errors.InvalidQuery):
            store.as_of(nonsense)  # type: ignore[arg-type]


def test_looking_back_is_bounded_and_a_deadline_goes_on_where_it_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit([put("a:1", {"n": 0})])
    past, far = store.snapshot(), store.snapshot()
    for number in range(1, 41):
        store.commit([put("a:1", {"n": number})])
    monkeypatch.setattr(limits, "AS_OF_INSIDE_OPERATIONS", 5)
    tries = 0
    while past._changed.reached < 36:
        tries += 1
        with pytest.raises(errors.DeadlineExceeded):
            past.get("a:1", deadline=time.monotonic())
    assert tries == 35, "one frame a try"
    found = past.get("a:1")
    assert found is not None and (found.value, found.version, found.sequence) == ({"n": 0}, 1, 1)
    monkeypatch.setattr(limits, "AS_OF_MAX_OPERATIONS", 20)
    with pytest.raises(errors.ScanLimitExceeded):
        far.get("a:1")
    monkeypatch.setattr(limits, "AS_OF_MAX_OPERATIONS", 100)
    monkeypatch.setattr(limits, "AS_OF_MAX_BYTES", 1000)
    with pytest.raises(errors.ScanLimitExceeded):
        far.get("a:1")


def test_a_basis_of_a_snapshot_fences_with_what_was_so_then(store: Store) -> None:
    store.commit([put("a:1", {"n": 1}), put("a:2", {"n": 2})])
    past = store.snapshot()
    store.commit([put("b:1", {})])
    n1 = Predicate(collection="a", where=WHERES[1])
    store.commit([put("c:1", {})], fences=[past.read_basis(["a:1"], [n1]).token])
    store.commit([put("a:3", {"n": 1})])
    store.commit([put("c:1", {})], fences=[past.read_basis(["a:1"]).token])
    with pytest.raises(errors.FenceBroken):
        store.commit([put("c:1", {})], fences=[past.read_basis(predicates=[n1]).token])


def test_a_snapshot_is_one_moment_while_others_write(tmp_path: Path) -> None:
    """Writers move a sum from record to record: every snapshot adds up, on every question asked of it."""
    stop = threading.Event()
    failed: list[BaseException] = []

    with Store.open(tmp_path / "s", durability="os") as store:
        store.commit([put(f"a:{n}", {"v": 10}) for n in range(20)])

        def move(offset: int) -> None:
            step = offset
            try:
                while not stop.is_set():
                    step += 1
                    one, other = f"a:{step % 20}", f"a:{(step * 7 + 3) % 20}"
                    if one == other:
                        continue
                    basis = store.read_basis([one, other])
                    values = [record.value["v"] if record else 0 for record in basis.records]
                    changes = [put(one, {"v": values[0] - 1}), put(other, {"v": values[1] + 1})]
                    if values[0] == 1:
                        changes[0] = delete(one)
                    if values[0] == 0:
                        continue
                    try:
                        store.commit(changes, fences=[basis.token])
                    except errors.FenceBroken:
                        pass
            except BaseException as error:
                failed.append(error)

        writers = [threading.Thread(target=move, args=(n,)) for n in range(2)]
        for writer in writers:
            writer.start()
        try:
            seen = set()
            while len(seen) < 25:
                past = store.snapshot()
                seen.add(past.revision)
                pages: list[Any] = []
                after = None
                while True:
                    page = past.page("a", after=after, limit=7)
                    pages += page.records
                    after = page.next_after
                    if after is None:
                        break
                assert sum(one.value["v"] for one in pages) == 200, f"at {past.revision}"
                assert past.count("a") == len(pages)
                assert past.get_many([one.key for one in pages]) == pages
        finally:
            stop.set()
            for writer in writers:
                writer.join(20)
        assert not failed
        assert len(list(operations(store))) == store.head().sequence


def test_what_compaction_let_go_is_refused_and_what_it_kept_is_answered(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", segment_bytes=1 << 16) as store:
        for number in range(1, 31):
            store.commit([put(f"a:{number % 10}", {"n": number, "s": "x" * 9_000})], at_ms=number * 1000)
        floor = store.compact(Retention(age_ms=0), now_ms=1 << 50).floor
        assert floor > 10
        with pytest.raises(errors.FeedCompacted) as gone:
            store.as_of(floor - 1)
        assert gone.value.details == {"floor": floor, "head": 30}
        past = store.as_of(floor)
        then = past.page("a").records
        assert [one.value["n"] for one in then] == [30, *range(21, 30)]
        store.commit([put("a:new", {}), put("a:3", {"n": -1})])
        assert past.count("a") == 10 and past.get("a:new") is None
        # Its value of then lies below the floor, in no log any more.
        with pytest.raises(errors.FeedCompacted):
            past.page("a")
        assert [one and one.sequence for one in past.get_many(["a:4", "a:0"])] == [24, 30]
        later = store.as_of(32)
        store.commit([put("a:3", {"n": -2})])
        found = later.get("a:3")
        assert found is not None and found.value == {"n": -1}
