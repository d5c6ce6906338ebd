"""What compaction lets go and what it keeps: the feed, history, versions, transaction ids, pins, backups."""

import fcntl
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from feltdb_engine import Cursor, Retention, Store, errors, limits
from feltdb_engine import __main__ as command
from feltdb_engine.backup import restore, verify_backup
from tests.engine.hooks import HookedFiles
from tests.engine.kit import boot, delete, operations, put, vanish

SEGMENT = 1 << 16
NOTHING = Retention(age_ms=0, ids_age_ms=None)
"""Let go of all history; remember every id."""
FULL = {"body": "x" * 9000}  # seven fill a segment


@pytest.fixture
def made(tmp_path: Path) -> Store:
    """A store of several segments, operation n at n seconds."""
    store = Store.open(tmp_path / "s", segment_bytes=SEGMENT, host=boot(1))
    for number in range(1, 31):
        store.commit([put(f"a:{number % 10}", {**FULL, "n": number})], transaction_id=f"t{number}", at_ms=number * 1000)
    return store


def contents(store: Store) -> dict[str, tuple[int, int, object]]:
    """Every live record."""
    return {
        record.key: (record.version, record.sequence, record.value)
        for one in store.collections()
        for record in store.page(one.name, limit=1000).records
    }


def reopened(store: Store, number: int) -> Store:
    """The same directory after a crash and a reboot: the view is made again."""
    path = store._core.path
    vanish(store)
    return Store.open(path, create=False, host=boot(number))


def test_what_a_policy_lets_go_leaves_feed_log_and_disk(made: Store) -> None:
    before = contents(made)
    done = made.compact(NOTHING, now_ms=1 << 50)
    assert (done.floor_before, done.floor, done.head, done.snapshot) == (0, 30, 30, 30)
    assert done.snapshot_written and done.files_removed >= 5 and done.held_by is None and not done.files_held
    assert made.health().floor == 30 and made.health().snapshot == 30 and made.health().durable_format == 1
    assert list(operations(made)) == [] and contents(made) == before
    assert made.verify().good
    made.commit([put("a:new", {})])
    with reopened(made, 2) as again:
        assert [one.key for one in operations(again)] == ["a:new"]
        assert {key: value for key, value in contents(again).items() if key != "a:new"} == before
        assert again.verify().good and again.health().snapshot == 30


def test_the_feed_says_410_below_the_floor_and_goes_on_exactly_at_it(made: Store) -> None:
    done = made.compact(Retention(age_ms=0), now_ms=20_000)
    floor = done.floor
    assert 0 < floor < 20, "whole segments go, and only those the policy has passed"
    instance = made.instance_id
    for sequence in range(floor):
        with pytest.raises(errors.FeedCompacted) as refused:
            made.changes(Cursor(instance_id=instance, sequence=sequence))
        assert refused.value.details == {"floor": floor, "head": 30}
    told = list(operations(made, Cursor(instance_id=instance, sequence=floor)))
    assert [one.sequence for one in told] == list(range(floor + 1, 31))
    assert told == list(operations(made)), "from the start is from the floor"
    assert made.start() == Cursor(instance_id=instance, sequence=floor)
    made.close()


def test_history_ends_at_the_floor(made: Store) -> None:
    made.commit([put("quiet:1", {})], at_ms=1_000_000)
    floor = made.compact(Retention(age_ms=0), now_ms=15_000).floor
    for id in range(10):
        kept = [number for number in range(30, floor, -1) if number % 10 == id]
        found = made.history("a", str(id))
        assert [one.sequence for one in found.operations] == kept and found.next_sequence is None
        first = made.provenance("a", str(id))
        assert first is not None and first.sequence == kept[0]
        assert made.transaction_at(kept[0])[0] == found.operations[0]
    with pytest.raises(errors.FeedCompacted):
        made.transaction_at(floor)
    made.compact(NOTHING, now_ms=1 << 50)
    assert made.provenance("a", "1") is None and made.history("a", "1").operations == ()
    assert made.get("a:1") is not None
    made.close()


def test_pins_and_retain_from_hold_history(made: Store) -> None:
    made.pin("slow", 12, 1 << 52, now_ms=0)
    plain = made.compact(NOTHING, now_ms=1 << 50, dry_run=True)
    assert plain.held_by == "pin slow" and plain.floor <= 12 and not made.health().snapshot
    done = made.compact(NOTHING, now_ms=1 << 50)
    assert (done.floor, done.held_by, done.files_removed) == (plain.floor, "pin slow", plain.files_removed)
    assert next(operations(made, Cursor(instance_id=made.instance_id, sequence=12))).sequence == 13
    with pytest.raises(errors.FeedCompacted) as refused:
        made.pin("late", done.floor - 1, None)
    assert refused.value.details["floor"] == done.floor
    made.pin("at-the-floor", done.floor, 1 << 49, now_ms=0)
    made.unpin("slow")
    asked = made.compact(NOTHING, now_ms=1 << 50, retain_from=25)
    assert asked.held_by == "retain_from" and done.floor < asked.floor <= 25, "an expired pin holds nothing"
    assert made.compact(NOTHING, now_ms=1 << 50).floor == 30
    made.close()


def test_a_pin_set_while_a_snapshot_is_made_is_honoured(tmp_path: Path) -> None:
    def pin(step: str) -> None:
        if step == "snapshot named":
            store.pin("just-in-time", 3, None)

    with Store.open(tmp_path / "s", segment_bytes=SEGMENT, files=HookedFiles(pin)) as store:
        for number in range(30):
            store.commit([put(f"a:{number}", FULL)])
        assert store.compact(NOTHING, now_ms=1 << 50).floor <= 3
        assert next(operations(store, Cursor(instance_id=store.instance_id, sequence=3))).sequence == 4


def test_bytes_are_a_measure_too_and_no_measure_lets_nothing_go(made: Store) -> None:
    kept = made.compact(Retention(age_ms=None), now_ms=1 << 50)
    assert kept.floor == 0 and kept.files_removed == 0 and kept.snapshot == 30
    done = made.compact(Retention(age_ms=None, bytes=2 * SEGMENT), now_ms=0)
    assert 0 < done.floor < 30
    assert sum(path.stat().st_size for path in (made._core.path / "log").iterdir()) >= 2 * SEGMENT
    made.close()


@pytest.mark.parametrize("wrong", [{"age_ms": -1}, {"bytes": True}, {"ids_count": None}, {"ids_age_ms": 1.5}])
def test_a_policy_that_is_no_policy_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Retention(**wrong)  # type: ignore[arg-type]
    Retention(age_ms=0, bytes=0, ids_age_ms=0, ids_count=0)


def test_a_compaction_with_nothing_to_do_does_nothing(made: Store) -> None:
    made.compact(NOTHING, now_ms=1 << 50)
    written, names = made.health().written, sorted((made._core.path / "log").iterdir())
    again = made.compact(NOTHING, now_ms=1 << 50)
    assert not again.snapshot_written and again.files_removed == again.entries_swept == 0
    assert made.health().written == written and sorted((made._core.path / "log").iterdir()) == names
    made.close()


def test_versions_go_on_after_their_tombstones_are_forgotten(made: Store) -> None:
    for _ in range(3):
        made.commit([put("a:gone", {}), put("b:1", {})])
    made.commit([delete("a:gone"), put("b:2", {})])
    made.compact(NOTHING, now_ms=1 << 50)
    assert made.stats().tombstones == 0
    made = reopened(made, 2)
    assert made.commit([put("a:gone", {}, kind="insert")]).versions == (5,), "a version is never given twice"
    assert made.commit([put("a:never-there", {})]).versions == (5,), "a floor is kept per collection"
    assert made.commit([put("b:never-there", {}), delete("c:1")]).versions == (1, 0)
    last = next(operations(made))
    assert (last.key, last.version, last.previous_version) == ("a:gone", 5, 0)
    with pytest.raises(errors.PreconditionFailed):
        made.commit([put("a:gone", {}, if_version=4)])
    assert made.verify().good
    with reopened(made, 3) as again:
        assert again.verify().good and again.get("a:gone") is not None


def test_a_tombstone_above_the_floor_still_counts(made: Store) -> None:
    made.pin("p", 30, None)
    made.commit([put("a:x", {}), put("a:y", {})])
    made.commit([delete("a:x")])
    made.compact(NOTHING, now_ms=1 << 50)
    assert made.commit([put("a:x", {})]).versions == (3,)
    made.close()


def ids(store: Store) -> list[int]:
    """Which of the transaction ids t1, t2, ... are known."""
    return [number for number in range(1, 31) if store.transaction(f"t{number}") is not None]


@pytest.mark.parametrize(
    ("policy", "known"),
    [
        (Retention(age_ms=0, ids_age_ms=None, ids_count=0), range(1, 31)),
        (Retention(age_ms=0, ids_age_ms=5_500, ids_count=3), range(25, 31)),
        (Retention(age_ms=0, ids_age_ms=2_500, ids_count=12), range(19, 31)),
        (Retention(age_ms=0, ids_age_ms=0, ids_count=30), range(1, 31)),
        (Retention(age_ms=None, ids_age_ms=0, ids_count=4), range(27, 31)),
    ],
    ids=["for ever", "by age", "by count", "all by count", "without history going"],
)
def test_ids_are_remembered_by_age_or_count_whichever_is_more(
    made: Store, policy: Retention, known: range, tmp_path: Path
) -> None:
    done = made.compact(policy, now_ms=30_000)
    assert ids(made) == list(known)
    assert made.stats().transaction_ids == len(known), "what is forgotten takes no room"
    assert done.head == 30
    made.backup(tmp_path / "b")
    made = reopened(made, 2)
    assert ids(made) == list(known) and made.verify().good
    made.close()
    restore(tmp_path / "b", tmp_path / "r")
    with Store.open(tmp_path / "r") as restored:
        assert ids(restored) == list(known)


def test_a_forgotten_id_may_be_used_again(made: Store) -> None:
    made.compact(Retention(age_ms=0, ids_age_ms=0, ids_count=0), now_ms=1 << 50)
    assert ids(made) == []
    again = made.commit([put("a:1", {})], transaction_id="t1")
    assert not again.duplicate and again.revision == 31
    made = reopened(made, 2)
    assert ids(made) == [1] and made.verify().good
    made.close()


def moving(path: Path, hook: Callable[[Store, str], None], **options: object) -> Store:
    """A store whose files call the hook with it."""
    opened: list[Store] = []
    files = HookedFiles(lambda step: hook(opened[0], step) if opened else None)
    opened.append(Store.open(path, segment_bytes=SEGMENT, files=files, **options))  # type: ignore[arg-type]
    return opened[0]


@pytest.mark.parametrize("seed", range(6))
def test_a_snapshot_of_a_moving_view_and_the_log_after_it_are_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
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

    store = moving(tmp_path / "s", hook, host=boot(1))
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
    segment = tmp_path / "s" / "log" / f"{ref.position - ref.position % SEGMENT:020d}.seg"
    with segment.open("r+b") as log:
        log.truncate(0 if cut == "all" else ref.position % SEGMENT)
        log.truncate(SEGMENT)
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


def test_a_backup_holds_the_files_it_reads(tmp_path: Path) -> None:
    seen: list[bool] = []

    def hook(store: Store, step: str) -> None:
        if step == "backup segment copied" and not seen:
            done = store.compact(NOTHING, now_ms=1 << 50)
            seen.append(done.files_held and done.files_removed == 0 and done.floor == 30)

    store = moving(tmp_path / "s", hook)
    for number in range(30):
        store.commit([put(f"a:{number}", FULL)])
    info = store.backup(tmp_path / "b")
    assert seen == [True]
    assert verify_backup(tmp_path / "b") == info
    with pytest.raises(errors.FeedCompacted):
        store.changes(Cursor(instance_id=store.instance_id, sequence=29))
    later = store.compact(NOTHING, now_ms=1 << 50)
    assert later.files_removed >= 4 and not later.files_held
    assert store.verify().good
    store.close()


def test_one_compaction_at_a_time(tmp_path: Path) -> None:
    refused: list[str] = []

    def hook(store: Store, step: str) -> None:
        if step == "snapshot begun":
            with pytest.raises(errors.CompactionRunning):
                store.compact(NOTHING)
            refused.append(step)

    with moving(tmp_path / "s", hook) as store:
        store.commit([put("a:1", {})])
        store.compact(NOTHING, now_ms=1 << 50)
        assert refused == ["snapshot begun"]


def test_a_reader_that_a_compaction_overtakes_is_told_so(made: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its segments go between its look at the view and its look at the log."""
    instance = made.instance_id
    frames = type(made._core.log).frames
    done = False

    def overtaken(log: object, chain: object) -> object:
        nonlocal done
        if not done:
            done = True
            made.compact(NOTHING, now_ms=1 << 50)
        return frames(log, chain)  # type: ignore[arg-type]

    monkeypatch.setattr(type(made._core.log), "frames", overtaken)
    with pytest.raises(errors.FeedCompacted):
        made.changes(Cursor(instance_id=instance, sequence=0))
    assert done
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


def test_timelines_survive_compaction(made: Store, tmp_path: Path) -> None:
    first, old = made.instance_id, Cursor(instance_id=made.instance_id, sequence=30)
    made.close()
    (tmp_path / "s").rename(tmp_path / "away")
    shutil.copytree(tmp_path / "away", tmp_path / "copy")
    with Store.open(tmp_path / "copy") as copy:
        second = copy.instance_id
        assert second != first
        copy.commit([put("a:1", {})])
        copy.compact(NOTHING, now_ms=1 << 50)
        with pytest.raises(errors.FeedCompacted):
            copy.changes(old)
        copy.commit([put("a:2", {})])
        assert [one.instance_id for one in operations(copy)] == [second]
        copy.backup(tmp_path / "b")
        copy = reopened(copy, 2)
        with pytest.raises(errors.FeedCompacted):
            copy.changes(old)
        with pytest.raises(errors.CursorUnknown):
            copy.changes(Cursor(instance_id="0" * 32, sequence=1))
        assert copy.verify().good
        copy.close()


def test_a_read_only_store_is_not_compacted(tmp_path: Path) -> None:
    Store.open(tmp_path / "s").close()
    with Store.open(tmp_path / "s", read_only=True) as store, pytest.raises(errors.ReadOnlyStore):
        store.compact()


def half_free(path: Path) -> None:
    """A store whose view is mostly free pages."""
    with Store.open(path, segment_bytes=1 << 20, host=boot(1)) as store:
        for number in range(40):
            store.commit([put(f"a:{number}-{one}", {"body": "x" * 1000}) for one in range(20)])
        for number in range(39):
            store.commit([delete(f"a:{number}-{one}") for one in range(20)])
        store.compact(NOTHING, now_ms=1 << 50)
        assert store.stats().view_free_share > limits.REWRITE_FREE_SHARE


def test_a_view_over_half_free_is_rewritten_by_whoever_opens_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REWRITE_MIN_BYTES", 0)
    half_free(tmp_path / "s")
    before = (tmp_path / "s" / "view" / "data.mdb").stat().st_size
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        after = store.stats()
        assert after.view_disk_bytes < before / 2 and after.view_free_share < limits.REWRITE_FREE_SHARE
        assert store.verify().good and store.stats().records == 20
        store.commit([put("a:1", {})])
        identity = (tmp_path / "s" / "view" / "data.mdb").stat().st_ino
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert store.get("a:1") is not None and store.verify().good
        assert (tmp_path / "s" / "view" / "data.mdb").stat().st_ino == identity, "once is enough"


def test_where_there_is_no_room_for_a_smaller_view_the_old_one_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REWRITE_MIN_BYTES", 0)
    half_free(tmp_path / "s")
    (tmp_path / "s" / "view.new").write_text("in the way")
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert store.stats().view_free_share > limits.REWRITE_FREE_SHARE and store.verify().good


def test_a_small_view_is_left_alone(tmp_path: Path) -> None:
    half_free(tmp_path / "s")
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert store.stats().view_free_share > limits.REWRITE_FREE_SHARE


def test_the_command_compacts_and_says_what_it_would_do(
    made: Store, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(limits, "REWRITE_MIN_BYTES", 0)
    path = str(made._core.path)
    made.close()

    def run(*arguments: str) -> dict[str, object]:
        assert command.main(["compact", path, "--json", *arguments]) == 0
        told: dict[str, object] = orjson.loads(capfdbinary.readouterr().out)
        return told

    would = run("--keep-days", "0", "--dry-run", "--ids-for-ever")
    assert would["dry_run"] and would["floor"] == 30 and would["snapshot_written"]
    assert run("--retain-from", "0", "--keep-days", "0", "--ids-for-ever")["floor"] == 0
    assert run("--keep-bytes", "0", "--ids-count", "2", "--ids-days", "0")["floor"] == 30
    assert run("--dry-run")["files_removed"] == 0
    for wrong in (["--keep-days", "-1"], ["--keep-days", "x"], ["--ids-days", "nan"]):
        with pytest.raises(SystemExit) as usage:
            command.main(["compact", path, *wrong])
        assert usage.value.code == 2
    for wrong in (["--keep-bytes", "-1"], ["--ids-count", "-1"]):
        with pytest.raises(SystemExit) as usage:
            command.main(["compact", path, *wrong])
        assert usage.value.code == 2
    with Store.open(path) as store:
        assert ids(store) == [29, 30] and store.verify().good
    assert command.main(["stats", path, "--json"]) == 0
    stats = orjson.loads(capfdbinary.readouterr().out)
    assert (stats["floor"], stats["snapshots"], stats["pins"]) == (30, 1, 0) and stats["snapshot_disk_bytes"] > 0


def test_what_killed_backups_left_goes_with_the_next_one_but_not_what_is_at_work(made: Store, tmp_path: Path) -> None:
    left = tmp_path / ".b.0123abcd.partial"
    (left / "log").mkdir(parents=True)
    others = [tmp_path / ".b.partial", tmp_path / ".bb.0123abcd.partial"]
    for one in others:
        one.mkdir()
    at_work = tmp_path / ".b.89abcdef.partial"
    at_work.mkdir()
    fd = os.open(at_work, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    made.backup(tmp_path / "b")
    assert not left.exists() and at_work.exists() and all(one.exists() for one in others)
    os.close(fd)
    shutil.rmtree(tmp_path / "b")
    made.backup(tmp_path / "b")
    assert not at_work.exists()
    made.close()
