"""Verify finds what is not as it was written, and nothing else; a view can be made again while it serves."""

import random
from pathlib import Path

from feltdb_engine import Store, view
from feltdb_engine import __main__ as command
from feltdb_engine.segment import segment_name
from tests.engine.kit import delete, operations, put

SEGMENT = 1 << 16


def fill(store: Store, rows: int = 60) -> None:
    """Several segments of inserts, updates, deletes and remembered transactions."""
    for number in range(rows):
        store.commit(
            [put(f"a:{number % 40}", {"n": number, "body": "x" * 2500}), put(f"b:{number}", {"n": number})],
            transaction_id=f"t{number}",
        )
    store.commit([delete("b:0"), delete("b:1")])
    store.commit([put("b:0", {"again": True})])


def flip(path: Path, offset: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def test_a_store_in_use_over_several_segments_verifies(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", segment_bytes=SEGMENT) as store:
        fill(store)
        told: list[tuple[int, int]] = []
        found = store.verify(lambda done, total: told.append((done, total)))
        assert found.findings == () and found.good and found.view_compared
        assert found.sequence == store.head().sequence == found.operations
        assert store.stats().segments > 2
        assert told[-1] == (found.position, found.position)


def test_every_flipped_bit_of_the_log_is_found(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    choose = random.Random(4)
    with Store.open(directory, segment_bytes=SEGMENT) as store:
        fill(store, 30)
        end = store.stats().written
        for _ in range(60):
            position, bit = choose.randrange(end), choose.randrange(8)
            path = directory / "log" / segment_name(position - position % SEGMENT)
            flip(path, position % SEGMENT, bit)
            store._core.log.forget()
            found = store.verify()
            assert not found.good, f"bit {bit} of byte {position}"
            flip(path, position % SEGMENT, bit)
            store._core.log.forget()
        assert store.verify().good


def test_two_damaged_places_are_both_named_with_segment_offset_and_sequence(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    with Store.open(directory, segment_bytes=SEGMENT) as store:
        fill(store)
        flip(directory / "log" / segment_name(0), 30_000, 0)
        flip(directory / "log" / segment_name(SEGMENT), 30_000, 0)
        store._core.log.forget()
        found = store.verify()
        assert [(one.kind, one.segment) for one in found.findings] == [
            ("chain", segment_name(0)),
            ("chain", segment_name(SEGMENT)),
        ]
        assert all(one.offset and 27_000 < one.offset <= 30_000 and one.sequence for one in found.findings)
        assert not found.view_compared


def test_a_flipped_bit_past_the_last_frame_is_found(store: Store, tmp_path: Path) -> None:
    store.commit([put("a:1", {})])
    flip(tmp_path / "store" / "log" / segment_name(0), store.stats().written + 800, 3)
    store._core.log.forget()
    assert [one.kind for one in store.verify().findings] == ["tail"]


def test_a_view_that_says_something_else_is_found_and_made_right_by_rebuilding(store: Store) -> None:
    store.commit([put("a:1", {"n": 1}), put("a:2", {"n": 2}), delete("a:3")], transaction_id="one")
    store.commit([delete("a:2")])
    core = store._core
    with core.view.write() as txn:
        txn.put(view.record_key(b"a", b"1"), view.ENTRY.pack(1, 1, 1) + b'{"n":7}', db=core.view.records)
        txn.delete(view.record_key(b"a", b"2"), db=core.view.tombstones)
        txn.put(view.COLLECTION_PREFIX + b"a", view.COLLECTION.pack(9, 3, 0))
    found = store.verify()
    assert [one.kind for one in found.findings] == ["view"] * 3
    assert "records, first at a:1" in found.findings[0].message
    store.rebuild_view()
    assert store.verify().good
    record = store.get("a:1")
    assert record is not None and record.value == {"n": 1}
    known = store.transaction("one")
    assert known is not None and known.duplicate
    store.commit([put("a:4", {})])
    assert [one.sequence for one in operations(store)] == [1, 2, 3, 4]


def test_stats_count_what_is_there(store: Store) -> None:
    store.commit([put("a:1", {}), put("b:1", {})], transaction_id="t")
    store.commit([delete("b:1")])
    seen = store.stats()
    assert (seen.records, seen.tombstones, seen.transaction_ids, seen.collections, seen.head) == (1, 1, 1, 1, 3)
    assert seen.log_disk_bytes >= seen.log_bytes > 0 and seen.view_disk_bytes > 0


def test_the_command_names_damage_in_a_store_that_no_longer_opens(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    with Store.open(directory, segment_bytes=SEGMENT) as store:
        fill(store)
    assert command.main(["verify", str(directory)]) == 0
    for name in (directory / "view").iterdir():
        name.unlink()
    flip(directory / "log" / segment_name(SEGMENT), 20_000, 5)
    assert command.main(["verify", str(directory), "--json"]) == command.FINDINGS
    assert command.main(["stats", str(directory)]) == command.FINDINGS  # of the part that is served for reading
    assert command.main(["stats", str(tmp_path / "none")]) == command.REFUSED
