"""What happened to one record, newest first, however long the log is."""

import pytest

from feltdb_engine import Actor, Store, errors
from tests.engine.kit import delete, operations, put


def test_history_is_the_feed_of_that_record_backwards(store: Store) -> None:
    for number in range(300):
        store.commit([put(f"a:{number % 7}", {"n": number, "body": "x" * 500}), put("b:1", {"n": number})])
    store.commit([delete("a:3")])
    store.commit([put("a:3", {"n": "again"})])
    for key in ("a:3", "b:1"):
        collection, _, record_id = key.partition(":")
        expected = [one for one in operations(store) if one.key == key][::-1]
        found = store.history(collection, record_id, 1000)
        assert list(found.operations) == expected and found.next_sequence is None


def test_pages_of_history_go_on_where_the_last_one_ended(store: Store) -> None:
    for number in range(9):
        store.commit([put("a:1", {"n": number})])
    seen, place = [], None
    while True:
        page = store.history("a", "1", 4, from_sequence=place)
        seen += [one.version for one in page.operations]
        place = page.next_sequence
        if place is None:
            break
    assert seen == list(range(9, 0, -1))


def test_a_sequence_of_another_record_is_refused(store: Store) -> None:
    store.commit([put("a:1", {})])
    store.commit([put("a:2", {}), put("a:1", {})])
    with pytest.raises(errors.InvalidCursor):
        store.history("a", "1", from_sequence=2)
    with pytest.raises(errors.InvalidCursor):
        store.history("a", "2", from_sequence=3)
    with pytest.raises(errors.InvalidQuery):
        store.history("a", "1", 0)


def test_provenance_is_the_last_operation_also_of_a_deleted_record(store: Store) -> None:
    assert store.provenance("a", "1") is None
    store.commit([put("a:1", {"n": 1})], transaction_id="made", actor=Actor(subject="ada"))
    found = store.provenance("a", "1")
    assert found is not None and (found.transaction_id, found.actor.subject) == ("made", "ada")
    store.commit([delete("a:1")], transaction_id="gone")
    found = store.provenance("a", "1")
    assert found is not None and (found.kind, found.transaction_id, found.value) == ("delete", "gone", {"n": 1})


def test_a_transaction_is_found_whole_by_any_sequence_of_it(store: Store) -> None:
    store.commit([put("a:1", {"n": 1})])
    store.commit([put("a:2", {}), delete("b:none"), put("b:1", {}), delete("a:1")], transaction_id="three")
    store.commit([put("a:3", {})])
    expected = tuple(one for one in operations(store) if one.transaction_id == "three")
    assert [one.sequence for one in expected] == [2, 3, 4]
    for sequence in (2, 3, 4):
        assert store.transaction_at(sequence) == expected
    assert [one.sequence for one in store.transaction_at(5)] == [5]
    with pytest.raises(errors.CursorAhead):
        store.transaction_at(6)
    for wrong in (0, -1, True, 1.0):
        with pytest.raises(errors.InvalidQuery):
            store.transaction_at(wrong)  # type: ignore[arg-type]
