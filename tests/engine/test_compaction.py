"""What compaction lets go and what it keeps: the feed, history, versions, transaction ids, pins, backups."""

import fcntl
import os
import shutil
from pathlib import Path

import orjson
import pytest

from feltdb_engine import Cursor, Retention, Store, errors, limits
from feltdb_engine import __main__ as command
from feltdb_engine.backup import restore, verify_backup
from tests.engine.hooks import HookedFiles
from tests.engine.kit import FULL, NOTHING, SMALL_SEGMENT, contents, delete, moving, operations, put, reopened


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

    with Store.open(tmp_path / "s", segment_bytes=SMALL_SEGMENT, files=HookedFiles(pin)) as store:
        for number in range(30):
            store.commit([put(f"a:{number}", FULL)])
        assert store.compact(NOTHING, now_ms=1 << 50).floor <= 3
        assert next(operations(store, Cursor(instance_id=store.instance_id, sequence=3))).sequence == 4


def test_bytes_are_a_measure_too_and_no_measure_lets_nothing_go(made: Store) -> None:
    kept = made.compact(Retention(age_ms=None), now_ms=1 << 50)
    assert kept.floor == 0 and kept.files_removed == 0 and kept.snapshot == 30
    done = made.compact(Retention(age_ms=None, bytes=2 * SMALL_SEGMENT), now_ms=0)
    assert 0 < done.floor < 30
    assert sum(path.stat().st_size for path in (made._core.path / "log").iterdir()) >= 2 * SMALL_SEGMENT
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
