"""What a caller of `Store` relies on: records, versions, transactions, pages, the feed."""

import threading
import time
from pathlib import Path

import pytest

from feltdb_engine import Cursor, Mutation, Store, errors
from tests.engine.kit import delete, operations, put, require


def test_a_record_comes_back_as_it_went_in(store: Store) -> None:
    value = {
        "i": 1,
        "f": 1.0,
        "big": (1 << 64) - 1,
        "low": -(1 << 63),
        "t": "ä\U0001f600",
        "n": [None, True, {"x": -0.0}],
    }
    store.commit([put("items:1", value)], at_ms=5)
    found = store.get("items:1")
    assert found is not None and found.value == value
    assert [type(found.value[name]) for name in ("i", "f")] == [int, float]
    assert (found.key, found.version, found.sequence, found.updated_at_ms) == ("items:1", 1, 1, 5)


def test_versions_go_on_after_a_delete_so_that_a_stale_compare_and_set_never_succeeds(store: Store) -> None:
    store.commit([put("a:1", {"v": 1})])
    store.commit([delete("a:1")])
    assert store.get("a:1") is None
    store.commit([put("a:1", {"v": 2}, kind="insert")])
    found = store.get("a:1")
    assert found is not None and found.version == 3
    with pytest.raises(errors.PreconditionFailed) as refused:
        store.commit([put("a:1", {"v": 9}, if_version=1)])
    assert refused.value.details == {
        "predicate": "version",
        "collection": "a",
        "id": "1",
        "expected": 1,
        "actual": 3,
        "pointer": "/mutations/0",
    }


def test_a_transaction_commits_all_or_nothing(store: Store) -> None:
    store.commit([put("a:1", {"n": 1})])
    with pytest.raises(errors.PreconditionFailed):
        store.commit([put("a:2", {"n": 2}), put("a:1", {"n": 3}, kind="insert")])
    assert store.get("a:2") is None
    assert store.head().sequence == 1
    result = store.commit([put("a:2", {"n": 2}), delete("a:9"), put("b:1", {"n": 3})])
    assert (result.base_revision, result.revision, result.sequences, result.versions) == (1, 3, (2, 3), (1, 0, 1))


@pytest.mark.parametrize("kind", ["update", "merge"])
def test_update_and_merge_need_the_record(store: Store, kind: str) -> None:
    with pytest.raises(errors.RecordNotFound):
        store.commit([put("a:1", {"n": 1}, kind=kind)])


def test_merge_is_an_rfc_7396_patch(store: Store) -> None:
    store.commit([put("a:1", {"a": "b", "c": {"d": 1, "e": 2}})])
    store.commit([put("a:1", {"a": None, "c": {"d": None, "f": {"g": None}}}, kind="merge")])
    found = store.get("a:1")
    assert found is not None and found.value == {"c": {"e": 2, "f": {}}}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (require("a:1", "present"), True),
        (require("a:1", "absent"), False),
        (require("a:2", "absent"), True),
        (require("a:1", "version", version=1), True),
        (require("a:1", "version", version=2), False),
        (require("a:2", "version", version=0), True),
        (require("a:1", "equals", pointer="/n", value=1), True),
        (require("a:1", "equals", pointer="/n", value=1.0), False),
        (require("a:1", "equals", pointer="/m~1~0/0", value=True), True),
        (require("a:1", "equals", pointer="/m~1~0/0", value=1), False),
        (require("a:1", "equals", pointer="/missing", value=None), False),
        (require("a:1", "equals", pointer="", value={"n": 1, "m/~": [True]}), True),
    ],
)
def test_preconditions_hold_exactly(store: Store, condition: object, holds: bool) -> None:
    store.commit([put("a:1", {"n": 1, "m/~": [True]})])
    if holds:
        store.commit([put("b:1", {})], preconditions=[condition])  # type: ignore[list-item]
    else:
        with pytest.raises(errors.PreconditionFailed):
            store.commit([put("b:1", {})], preconditions=[condition])  # type: ignore[list-item]
    assert (store.get("b:1") is not None) is holds


def test_a_known_transaction_id_gives_its_first_outcome(store: Store) -> None:
    first = store.commit([put("a:1", {"n": 1}), delete("a:2")], transaction_id="t")
    store.commit([put("a:1", {"n": 5})])
    again = store.commit([put("a:1", {"n": 1}), delete("a:2")], transaction_id="t")
    assert again.duplicate and not first.duplicate
    assert (again.revision, again.sequences, again.versions, again.at_ms) == (
        first.revision,
        first.sequences,
        first.versions,
        first.at_ms,
    )
    assert store.transaction("t") == again
    assert store.transaction("u") is None
    with pytest.raises(errors.IdempotencyConflict):
        store.commit([put("a:1", {"n": 2})], transaction_id="t")
    assert store.get("a:1").value == {"n": 5}  # type: ignore[union-attr]


def test_member_order_does_not_make_another_request(store: Store) -> None:
    store.commit([put("a:1", {"x": 1, "y": 2})], transaction_id="t")
    assert store.commit([put("a:1", {"y": 2, "x": 1})], transaction_id="t").duplicate


def test_a_refused_transaction_does_not_use_up_its_id(store: Store) -> None:
    with pytest.raises(errors.RecordNotFound):
        store.commit([put("a:1", {}, kind="update")], transaction_id="t")
    store.commit([put("a:1", {})])
    assert not store.commit([put("a:1", {}, kind="update")], transaction_id="t").duplicate


def test_pages_walk_a_collection_in_both_directions_and_no_other(store: Store) -> None:
    ids = [f"{number:03d}" for number in range(25)]
    store.commit(
        [put(f"items:{one}", {"n": 1}) for one in ids] + [put("items-a:x", {}), put("item:y", {}), put("itemsz:q", {})]
    )
    for reverse in (False, True):
        seen: list[str] = []
        after = None
        while True:
            page = store.page("items", after=after, limit=10, reverse=reverse)
            seen += [record.id for record in page.records]
            after = page.next_after
            if after is None:
                break
        assert seen == (ids[::-1] if reverse else ids)
    assert [record.id for record in store.page("items", after="0035", limit=2).records] == ["004", "005"]


def test_collections_count_live_records(store: Store) -> None:
    store.commit([put("b:1", {}), put("b:2", {}), put("a:1", {})])
    store.commit([delete("a:1"), put("b:1", {"n": 2})])
    assert [(one.name, one.records) for one in store.collections()] == [("b", 2)]


def test_the_feed_tells_every_operation_in_order_and_resumes(store: Store) -> None:
    store.commit([put("a:1", {"n": 1}), put("b:1", {"n": 1})], transaction_id="t", at_ms=7)
    store.commit([put("a:1", {"n": 2})])
    store.commit([delete("a:1")])
    told = [
        (one.sequence, one.kind, one.key, one.version, one.previous_version, one.value) for one in operations(store)
    ]
    assert told == [
        (1, "insert", "a:1", 1, 0, {"n": 1}),
        (2, "insert", "b:1", 1, 0, {"n": 1}),
        (3, "update", "a:1", 2, 1, {"n": 2}),
        (4, "delete", "a:1", 3, 2, {"n": 2}),
    ]
    page = store.changes(None, limit=1)
    assert [one.sequence for one in page.operations] == [1, 2], "a transaction is never split"
    assert [one.sequence for one in store.changes(page.cursor).operations] == [3, 4]
    only = store.changes(None, collections=["b"])
    assert [one.key for one in only.operations] == ["b:1"] and only.cursor.sequence == 4


def test_a_cursor_of_a_stranger_or_from_the_future_is_refused(store: Store) -> None:
    store.commit([put("a:1", {})])
    with pytest.raises(errors.CursorUnknown):
        store.changes(Cursor(instance_id="0" * 32, sequence=0))
    with pytest.raises(errors.CursorAhead):
        store.changes(Cursor(instance_id=store.instance_id, sequence=2))


def test_waiting_ends_with_the_change(store: Store) -> None:
    head = store.head()
    assert store.wait_for_change(head, 0.02) is False
    writer = threading.Timer(0.05, lambda: store.commit([put("a:1", {})]))
    writer.start()
    began = time.monotonic()
    assert store.wait_for_change(head, 60) is True
    assert time.monotonic() - began < 30
    writer.join()


def test_time_never_goes_back_within_a_log(store: Store) -> None:
    assert store.commit([put("a:1", {})], at_ms=100).at_ms == 100
    assert store.commit([put("a:2", {})], at_ms=50).at_ms == 100


def test_a_store_opens_again_with_everything_in_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as first:
        first.commit([put("a:1", {"n": 1})], transaction_id="t")
        identity, instance = first.store_id, first.instance_id
    with Store.open(tmp_path / "s", create=False) as again:
        assert (again.store_id, again.instance_id) == (identity, instance)
        assert again.get("a:1").value == {"n": 1}  # type: ignore[union-attr]
        assert again.transaction("t") is not None
        assert again.health().storage == "clean"
        assert [one.key for one in operations(again)] == ["a:1"]


def test_a_log_goes_on_over_many_segments(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", segment_bytes=1 << 16) as store:
        for number in range(40):
            store.commit([put(f"a:{number}", {"body": "x" * 9000})])
        assert [one.id for one in operations(store, limit=7)] == [str(number) for number in range(40)]
    assert len(list((tmp_path / "s" / "log").iterdir())) > 5


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    store.close()
    with pytest.raises(errors.StoreClosed):
        store.get("a:1")
    with pytest.raises(errors.StoreClosed):
        store.commit([put("a:1", {})])


def test_opening_twice_in_a_process_shares_the_store(tmp_path: Path) -> None:
    first = Store.open(tmp_path / "s")
    second = Store.open(tmp_path / "s")
    assert second is first
    first.close()
    second.commit([put("a:1", {})])
    second.close()


def test_a_missing_store_is_not_created_unasked(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreNotFound):
        Store.open(tmp_path / "nothing", create=False)
    assert not (tmp_path / "nothing").exists()


def test_a_read_only_store_takes_no_writes(tmp_path: Path) -> None:
    Store.open(tmp_path / "s").close()
    with Store.open(tmp_path / "s", read_only=True) as store, pytest.raises(errors.ReadOnlyStore):
        store.commit([put("a:1", {})])


def test_the_same_record_twice_is_refused(store: Store) -> None:
    with pytest.raises(errors.InvalidKey):
        store.commit([put("a:1", {}), delete("a:1")])


def test_a_transaction_has_at_least_one_mutation(store: Store) -> None:
    with pytest.raises(errors.TransactionTooLarge):
        store.commit([])


def test_an_unknown_kind_is_refused(store: Store) -> None:
    with pytest.raises(errors.InvalidValue):
        store.commit([Mutation(kind="upsert", collection="a", id="1", value={})])  # type: ignore[arg-type]
