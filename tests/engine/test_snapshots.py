"""Snapshots of a moving view: made, damaged, missing, restored; with the log after them they are the state."""

import random
from pathlib import Path

import pytest

from feltdb_engine import Retention, Store, errors, limits
from feltdb_engine.backup import restore, verify_backup
from tests.engine.kit import (
    FULL,
    NOTHING,
    SMALL_SEGMENT,
    boot,
    contents,
    delete,
    moving,
    operations,
    put,
    reopened,
    vanish,
)


@pytest.mark.parametrize("seed", range(6))
def test_a_snapshot_of_a_moving_view_and_the_log_after_it_are_the_same_state(
    quick: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Between any two of its blocks records come, change, go and come back."""
    monkeypatch.setattr(limits, "SNAPSHOT_BLOCK_BYTES", 2000)
    choose = random.Random(seed)
    blocks = 0

    def change(store: Store, count: int) -> None:
        for _ in range(count):
            names = choose.sample(range(300), 3)
            steps = [delete(f"a:{one}") if choose.random() < 0.4 else put(f"a:{one}", {"n": one}) for one in names]
            store.commit(steps, transaction_id=f"t{choose.random()}")

    def hook(store: Store, step: str) -> None:
        nonlocal blocks
        if step == "snapshot block":
            blocks += 1
            change(store, choose.randint(0, 4))

    store = moving(quick / "s", hook, host=boot(1))
    store.declare_index("a", ["n"])
    change(store, 400)
    store.compact(NOTHING, now_ms=1 << 50)
    assert blocks > 8
    assert store.verify().findings == ()
    change(store, 20)
    before, head = contents(store), store.head()
    again = reopened(store, 2)
    assert contents(again) == before and again.head() == head
    assert again.verify().findings == ()
    seven = again.query("a", where={"field": "n", "op": "eq", "value": 7})
    assert len(seven.records) == ("a:7" in before) and seven.plan["access"] == "index"
    again.close()


@pytest.mark.parametrize("cut", ["all", "after the snapshot"])
def test_a_snapshot_is_not_whole_without_the_log_it_leaves_things_to(tmp_path: Path, cut: str) -> None:
    def hook(store: Store, step: str) -> None:
        if step == "snapshot block":
            store.commit([put("a:1", {"while": "it was made"})])

    store = moving(tmp_path / "s", hook, host=boot(1))
    store.commit([put("a:1", {})])
    store.compact(NOTHING, now_ms=1 << 50)
    (ref,) = store._core.manifest.snapshots
    assert ref.until > ref.position
    vanish(store)
    segment = tmp_path / "s" / "log" / f"{ref.position - ref.position % SMALL_SEGMENT:020d}.seg"
    with segment.open("r+b") as log:
        log.truncate(0 if cut == "all" else ref.position % SMALL_SEGMENT)
        log.truncate(SMALL_SEGMENT)
    with pytest.raises(errors.LogCorrupt):
        Store.open(tmp_path / "s", create=False, host=boot(2))


def two_snapshots(made: Store) -> list[Path]:
    """A store with two snapshots that the log reaches, and some more; their paths, oldest first."""
    made.compact(Retention(age_ms=None), now_ms=0)
    for number in range(31, 61):
        made.commit([put(f"a:{number % 10}", FULL)], transaction_id=f"t{number}", at_ms=number * 1000)
    made.compact(Retention(age_ms=None), now_ms=0)
    made.compact(Retention(age_ms=0), now_ms=28_000)
    made.commit([put("a:1", {"last": True})])
    paths = sorted((made._core.path / "snapshots").iterdir())
    assert len(paths) == 2 and made.health().floor > 0
    return paths


def damage(path: Path, how: str) -> None:
    if how == "gone":
        path.unlink()
        return
    data = bytearray(path.read_bytes())
    if how == "short":
        path.write_bytes(data[:-1])
        return
    data[{"head": 20, "middle": len(data) // 2, "end": len(data) - 1}[how]] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["head", "middle", "end", "short", "gone"])
def test_a_damaged_snapshot_is_found_and_an_older_one_serves(made: Store, how: str) -> None:
    older, newer = two_snapshots(made)
    before = contents(made)
    damage(newer, how)
    found = made.verify()
    assert [(one.kind, one.segment) for one in found.findings] == [("snapshot", newer.name)]
    again = reopened(made, 2)
    assert contents(again) == before and again.verify().findings == ()
    assert not newer.exists(), "what cannot be read does not count"
    damage(older, how)
    path = again._core.path
    vanish(again)
    with pytest.raises(errors.LogCorrupt) as refused:
        Store.open(path, create=False, host=boot(3))
    assert older.name in refused.value.message, "no state is better than a wrong one, and it says why"


def test_without_any_snapshot_a_whole_log_still_serves(made: Store) -> None:
    made.compact(Retention(age_ms=None), now_ms=0)
    before = contents(made)
    for path in (made._core.path / "snapshots").iterdir():
        damage(path, "middle")
    with reopened(made, 2) as again:
        assert contents(again) == before and again.verify().findings == ()
        assert again.health().snapshot is None


def test_every_flipped_bit_of_a_snapshot_is_found(made: Store) -> None:
    made.compact(NOTHING, now_ms=1 << 50)
    (path,) = (made._core.path / "snapshots").iterdir()
    data = path.read_bytes()
    choose = random.Random(5)
    for _ in range(60):
        changed = bytearray(data)
        changed[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        path.write_bytes(changed)
        assert [one.kind for one in made.verify().findings] == ["snapshot"]
    path.write_bytes(data)
    assert made.verify().good
    made.close()


def test_a_backup_of_a_compacted_store_is_restored_whole_or_up_to_a_revision(made: Store, tmp_path: Path) -> None:
    two_snapshots(made)
    before, floor, head = contents(made), made.health().floor, made.head()
    feed = [(one.sequence, one.content_hash) for one in operations(made)]
    made.backup(tmp_path / "b")
    restore(tmp_path / "b", tmp_path / "r")
    with Store.open(tmp_path / "r") as restored:
        assert contents(restored) == before and restored.health().floor == floor and restored.verify().good
        assert [(one.sequence, one.content_hash) for one in operations(restored)] == feed
        assert restored.changes(head).operations == ()
    restore(tmp_path / "b", tmp_path / "r40", to_revision=40)
    with Store.open(tmp_path / "r40") as restored:
        assert restored.head().sequence == 40 and restored.verify().good
        assert restored.health().floor == floor
        assert {one.sequence for one in (restored.get(f"a:{id}") for id in range(10)) if one} == set(range(31, 41))
        assert [one for one in range(1, 62) if restored.transaction(f"t{one}")] == list(range(1, 41))
        restored.commit([put("a:0", {})])
    for revision in (floor - 1, floor, 29):
        with pytest.raises(errors.BackupInvalid) as refused:
            restore(tmp_path / "b", tmp_path / "no", to_revision=revision)
    assert "the earliest to restore is 30" in refused.value.message
    restore(tmp_path / "b", tmp_path / "r30", to_revision=30)
    damage(next(iter((tmp_path / "b" / "snapshots").iterdir())), "middle")
    with pytest.raises(errors.BackupInvalid):
        verify_backup(tmp_path / "b")
    made.close()
