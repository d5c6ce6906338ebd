"""A process killed at every call it makes to the disk, in everything that changes files: whole after it, nothing stray.

Each scenario is lived again and again, one call further each time, until it comes to its end. In calls that LMDB makes
on its own file the process is killed from outside.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feltdb_engine import Retention, Store, errors, limits
from feltdb_engine.backup import verify_backup
from feltdb_engine.segment import SUFFIX
from tests.engine.disks import DyingFiles
from tests.engine.injection import Injection
from tests.engine.kit import boot, operations, put, vanish
from tests.engine.remote import Remote

pytestmark = pytest.mark.acceptance
SEGMENT = 1 << 16
NAMES = {"manifest.json", "log", "view", "trust", "positions", "open.lock", "sync.lock", "prepare.lock", "turn.lock"}
MAYBE = {"tails", "snapshots", "compact.lock", "keep.lock"}
Told = dict[str, str]
OPTIONS: dict[str, Any] = {"segment_bytes": SEGMENT, "host": boot(1)}


def made(directory: Path, rows: int) -> None:
    """A closed store of some rows."""
    with Store.open(directory, **OPTIONS) as store:
        for row in range(rows):
            store.commit([put(f"a:{row}", {"n": row, "body": "x" * 5000})], transaction_id=f"a:{row}")


def judge(directory: Path, told: Told, *, create: bool = False, kept: int = 0) -> None:
    """Open it, on the same boot and on others: what was told is there, nothing is there twice, nothing stray."""
    for number in (1, 2, 3):
        with Store.open(directory, create=create, segment_bytes=SEGMENT, host=boot(number)) as store:
            seen = [one.transaction_id for one in operations(store)]
            assert seen[:kept] == [f"a:{row}" for row in range(kept)]
            assert [one.sequence for one in operations(store)] == list(range(1, len(seen) + 1))
            for key, answer in told.items():
                assert answer != "committed" or key in seen
                assert (store.get(key) is not None) == (key in seen) == (store.transaction(key) is not None)
            assert store.verify().good
            for one in store.indexes("a"):
                assert one.complete
                found = store.query("a", where={"field": "n", "op": "gte", "value": 0}, limit=1000)
                assert found.plan["access"] == "index" and len(found.records) == store.count("a")
            assert store.health().storage in ("clean", "recovered-incomplete-write"), "a frame written by half is cut"
            store.commit([put(f"z:{number}", {})], transaction_id=f"z:{number}")
            told[f"z:{number}"] = "committed"
        assert {path.name for path in directory.iterdir()} - MAYBE == NAMES
        assert all(path.suffix == SUFFIX for path in (directory / "log").iterdir())
        assert {path.name for path in (directory / "view").iterdir()} == {"data.mdb", "lock.mdb"}
        create = False


def until_it_lives(base: Path, live: Callable[[Path, int], bool], *, step: int = 1) -> int:
    """Live again and again, one call (or `step`) further each time; gives how many deaths that took."""
    for die_at in range(0, 1000, step):
        if live(base / str(die_at), die_at):
            print(die_at // step, "deaths")
            return die_at // step
        shutil.rmtree(base / str(die_at), ignore_errors=True)
    raise AssertionError("it never came to its end")


def test_first_creation(quick: Path) -> None:
    """About 3 s, some 30 deaths."""

    def live(directory: Path, die_at: int) -> bool:
        with Remote(directory, files=DyingFiles(die_at), **OPTIONS) as process:
            alive = process.opened == "open" and process.ask("close") == "closed"
        judge(directory, {}, create=True)
        return bool(alive)

    assert until_it_lives(quick, live) > 20


def test_commits_and_rotation(quick: Path) -> None:
    """About 5 s, some 60 deaths: every second call; `make torture` takes every one."""
    assert commit_and_die(quick, step=2) > 30


def commit_and_die(quick: Path, *, step: int) -> int:
    """Six commits over a rotation."""
    made(quick / "made", 8)

    def live(directory: Path, die_at: int) -> bool:
        shutil.copytree(quick / "made", directory)
        Store.open(directory, host=boot(1)).close()  # its own timeline
        told: Told = {}
        with Remote(directory, files=DyingFiles(die_at), **OPTIONS) as process:
            for number in range(8, 14):
                told[f"a:{number}"] = process.commit(f"a:{number}", 5000)
            alive = process.ask("close") == "closed"
        judge(directory, told, kept=8)
        return bool(alive)

    return until_it_lives(quick, live, step=step)


def test_index_builds(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """About 4 s, some 40 deaths: every second call; `make torture` takes every one."""
    monkeypatch.setattr(limits, "INDEX_BATCH_RECORDS", 3)
    assert index_and_die(quick, step=2) > 20


def index_and_die(quick: Path, *, step: int) -> int:
    """Declaring, building, dropping and clearing, three records a batch."""
    made(quick / "made", 8)

    def live(directory: Path, die_at: int) -> bool:
        shutil.copytree(quick / "made", directory)
        Store.open(directory, host=boot(1)).close()
        with Remote(directory, limits={"INDEX_BATCH_RECORDS": 3}, files=DyingFiles(die_at), **OPTIONS) as process:
            process.ask("declare an index")
            process.ask("drop an index")
            process.ask("declare an index")
            alive = process.ask("close") == "closed"
        judge(directory, {}, kept=8)
        return bool(alive)

    return until_it_lives(quick, live, step=step)


def test_backups(quick: Path) -> None:
    """About 6 s, some 40 deaths. A backup has its name once it is whole."""
    made(quick / "made", 16)

    def live(base: Path, die_at: int) -> bool:
        directory, dest = base / "s", base / "b"
        shutil.copytree(quick / "made", directory)
        Store.open(directory, host=boot(1)).close()
        with Remote(directory, files=DyingFiles(die_at), **OPTIONS) as process:
            alive = process.ask("backup", dest) == 16
            alive = process.ask("close") == "closed" and alive
        if dest.exists():
            assert verify_backup(dest).sequence == 16
        assert dest.exists() or not alive
        for left in base.glob(".*.partial"):
            try:
                assert verify_backup(left).sequence == 16
            except errors.BackupInvalid:
                pass
        judge(directory, {}, kept=16)
        return bool(alive)

    assert until_it_lives(quick, live) > 25


def compact_and_die(quick: Path, *, step: int) -> int:
    """Two compactions with commits between them: sealing, snapshot, floor, manifest, removing files, sweeping."""
    made(quick / "made", 40)
    with Store.open(quick / "made", host=boot(1)) as store:
        for row in range(0, 40, 2):
            store.commit([put(f"a:{row}", {"n": -row})], transaction_id=f"over{row}")
    keys = [f"a:{row}" for row in range(40)]

    def live(directory: Path, die_at: int) -> bool:
        shutil.copytree(quick / "made", directory)
        Store.open(directory, host=boot(1)).close()
        told: Told = {}
        with Remote(directory, files=DyingFiles(die_at), **OPTIONS) as process:
            process.ask("compact")
            for number in range(3):
                told[f"b:{number}"] = process.commit(f"b:{number}", 5000)
            process.ask("compact")
            alive = process.ask("close") == "closed"
        floors = []
        for number in (1, 2, 3):
            with Store.open(directory, create=False, host=boot(number)) as store:
                floors.append(store.start().sequence)
                sequences = [one.sequence for one in operations(store)]
                assert sequences == list(range(floors[-1] + 1, store.head().sequence + 1))
                assert store.head().sequence == 60 + number - 1 + sum(store.get(key) is not None for key in told)
                for key, answer in told.items():
                    assert answer != "committed" or store.get(key) is not None
                    assert (store.get(key) is not None) == (store.transaction(key) is not None)
                assert all(record is not None for record in store.get_many(keys))
                assert all(store.transaction(key) is not None for key in keys), "ids are still known"
                assert store.verify().findings == ()
                store.commit([put(f"z:{number}", {})])
                if number == 3:
                    store.compact(Retention(age_ms=0, bytes=0, ids_age_ms=None))
            assert {path.name for path in directory.iterdir()} - MAYBE == NAMES
            assert all(path.suffix == SUFFIX for path in (directory / "log").iterdir())
            snapshots = directory / "snapshots"
            assert not snapshots.exists() or all(path.suffix != ".new" for path in snapshots.iterdir())
        assert floors == sorted(floors), "a floor never sinks"
        return bool(alive)

    return until_it_lives(quick, live, step=step)


def test_compactions(quick: Path) -> None:
    """About 10 s, some 40 deaths: every fifth call; `make torture` takes every one."""
    assert compact_and_die(quick, step=5) > 30


def test_the_first_opening_of_a_copy(quick: Path) -> None:
    """About 4 s, some 40 deaths. One that died before it wrote down that it began a timeline has another one follow."""
    made(quick / "made", 3)

    def live(directory: Path, die_at: int) -> bool:
        shutil.copytree(quick / "made", directory)
        with Remote(directory, files=DyingFiles(die_at), **OPTIONS) as process:
            alive = process.opened == "open" and process.ask("close") == "closed"
        judge(directory, {}, kept=3)
        with Store.open(directory, host=boot(3)) as store:
            timelines = store._reader.timelines()
            assert len(timelines) in (2, 3) and [one.fork for one in timelines[1:]] == [3] * (len(timelines) - 1)
            assert {one.instance_id for one in operations(store)} == {timelines[0].instance.hex(), store.instance_id}
        return bool(alive)

    assert until_it_lives(quick, live) > 25


@pytest.mark.parametrize("failed", [False, True])
def test_recovery(quick: Path, failed: bool) -> None:
    """About 6 s, some 70 deaths, in cutting a tail on another boot and in taking a failed log into new files."""
    made(quick / "made", 3)
    with Store.open(quick / "made", host=boot(1)) as store:
        end = store.health().written
    if failed:
        (quick / "made" / "failed").write_bytes(b"as after a force that failed")
    else:
        with next(iter((quick / "made" / "log").iterdir())).open("r+b") as log:
            log.seek(end)
            log.write(b"torn" * 30)
    (quick / "made" / "trust").unlink()

    def live(directory: Path, die_at: int) -> bool:
        shutil.copytree(quick / "made", directory)
        with Remote(directory, files=DyingFiles(die_at), **{**OPTIONS, "host": boot(9)}) as process:
            alive = process.opened == "open" and process.ask("close") == "closed"
        judge(directory, {}, kept=3)
        return bool(alive)

    assert until_it_lives(quick, live) > 25


@pytest.mark.parametrize("what", ["creation", "commits"])
def test_every_write_of_the_view(quick: Path, what: str) -> None:
    """About 4 s: killed by strace before LMDB's call number n, of each kind of call, on its file."""
    deaths = 0
    for call in ("pwrite64", "writev"):
        for nth in range(1, 12):
            directory = quick / f"{call}{nth}"
            told: Told = {}
            made(directory, 2)
            with Remote(directory, **OPTIONS) as process:
                if what == "creation":
                    assert process.ask("close") == "closed"
                    (directory / "trust").unlink()  # the view is made again
                with Injection(process.pid, directory / "view" / "data.mdb", call, f"signal=KILL:when={nth}"):
                    if what == "creation":
                        process.ask("open")
                    for number in range(5):
                        told[f"b:{number}"] = process.commit(f"b:{number}", 300)
            judge(directory, told, kept=2)
            shutil.rmtree(directory)
            if "died" not in told.values():
                break
            deaths += 1
    print(deaths, "deaths")
    assert deaths >= 10


def test_a_store_left_by_all_is_no_less_whole_than_a_closed_one(quick: Path) -> None:
    """What `judge` holds for the killed holds for one that was let go of without a word."""
    store = Store.open(quick / "s", **OPTIONS)
    store.commit([put("a:0", {"n": 0})], transaction_id="a:0")
    vanish(store)
    judge(quick / "s", {"a:0": "committed"}, kept=1)
