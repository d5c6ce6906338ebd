"""Directories that are not what they were: copied while in use, with parts of another store or age, with parts missing.

The answer is always the right data, made again where that is needed, or a refusal; never wrong data.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feltdb_engine import Store, errors
from feltdb_engine.segment import segment_name
from tests.engine.kit import boot, operations, put, vanish
from tests.engine.test_crashes import start

SEGMENT = 1 << 16
REFUSED = (errors.LogCorrupt, errors.FormatUnsupported, errors.StoreNotFound)


def fill(directory: Path, rows: int = 20, *, of: str = "s", number: int = 1) -> list[Any]:
    """A store of several segments with an index, cleanly closed; gives its feed."""
    with Store.open(directory, segment_bytes=SEGMENT, host=boot(number)) as store:
        for row in range(rows):
            store.commit([put(f"a:{row}", {"n": row, "of": of, "body": "x" * 8000})], transaction_id=f"t{row}")
        store.declare_index("a", ["n"])
        return list(operations(store))


def judge(directory: Path, told: list[Any], number: int) -> None:
    """It opens and says exactly this, by key, by index and by feed, and goes on."""
    with Store.open(directory, create=False, host=boot(number)) as store:
        assert list(operations(store)) == told
        for key, one in {one.key: one for one in told}.items():
            record = store.get(key)
            assert record is not None and record.value == one.value
        found = store.query("a", where={"field": "n", "op": "gte", "value": 0}, limit=1000)
        assert len(found.records) == len({one.key for one in told})
        assert store.verify().good
        store.commit([put("b:new", {})])
    with Store.open(directory, create=False, host=boot(number + 1)) as store:
        assert [one.key for one in operations(store)] == [*(one.key for one in told), "b:new"]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that writes without end."""
    Store.open(tmp_path / "s", segment_bytes=SEGMENT).close()
    process = start(tmp_path / "s", tmp_path / "journal", "w", 1, commits=1_000_000)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("reboot", [False, True])
def test_a_directory_copied_while_it_is_written_opens_to_what_was_or_is_refused(
    tmp_path: Path, writer: "subprocess.Popen[bytes]", reboot: bool
) -> None:
    """File by file, while the log rotates: what comes later in the copy is newer."""
    from feltdb_engine.host import Host

    journal = tmp_path / "journal"
    opened = refused = 0
    copies = []
    for number in range(8):
        enough = (number + 1) * 3000
        until = time.monotonic() + 30
        while (not journal.exists() or journal.stat().st_size < enough) and time.monotonic() < until:
            time.sleep(0.005)
        copies.append(tmp_path / f"copy{number}")
        shutil.copytree(tmp_path / "s", copies[-1], ignore=lambda _d, names: [n for n in names if n.endswith(".new")])
    assert writer.poll() is None
    writer.kill()
    writer.wait()
    with Store.open(tmp_path / "s") as store:
        truth = list(operations(store))
        instance = store.instance_id
    host = boot(9) if reboot else Host.current()
    for copy in copies:
        try:
            store = Store.open(copy, create=False, host=host)
        except errors.LogCorrupt:
            refused += 1  # what vouches for it was copied after the log it vouches for
            continue
        with store:
            told = list(operations(store))
            assert told == truth[: len(told)], "a prefix of what was written, in whole transactions"
            assert store.instance_id != instance
            assert store.verify().good
            for key, one in {one.key: one for one in told}.items():
                assert store.get(key).value == one.value  # type: ignore[union-attr]
            opened += 1
    print(opened, "opened", refused, "refused")
    assert opened + refused == 8


@pytest.mark.parametrize("number", [1, 2])
def test_the_view_of_another_age_is_brought_up_to_date_or_made_again(tmp_path: Path, number: int) -> None:
    """Older than the log, and newer than it; put in place by copying over it and by renaming."""
    directory, view = tmp_path / "s", tmp_path / "s" / "view" / "data.mdb"
    with Store.open(directory, segment_bytes=SEGMENT, host=boot(1)) as store:
        store.commit([put("a:0", {"n": 0})])
    shutil.copyfile(view, tmp_path / "old")
    told = fill(directory)
    shutil.copyfile(view, tmp_path / "new")
    shutil.copytree(directory, tmp_path / "before")
    for how in (shutil.copyfile, shutil.move):
        how(tmp_path / "old", view)
        with Store.open(directory, host=boot(number)) as store:
            assert list(operations(store)) == told and store.get("a:19") is not None
            assert store.count("a") == 20 and store.verify().good
        shutil.copyfile(tmp_path / "new", tmp_path / "old")
    judge(directory, told, number)


@pytest.mark.parametrize("number", [1, 2])
def test_the_view_of_a_clone_that_went_another_way_is_not_believed(tmp_path: Path, number: int) -> None:
    told = fill(tmp_path / "s", 3)
    shutil.copytree(tmp_path / "s", tmp_path / "clone")
    for name in ("s", "clone"):
        with Store.open(tmp_path / name, host=boot(1)) as store:
            store.commit([put("a:1", {"n": 1, "of": name})], transaction_id="apart", at_ms=1)
            told = list(operations(store)) if name == "s" else told
    shutil.copyfile(tmp_path / "clone" / "view" / "data.mdb", tmp_path / "s" / "view" / "data.mdb")
    judge(tmp_path / "s", told, number)


def test_a_view_ahead_of_its_log_is_made_again(tmp_path: Path) -> None:
    """A directory whose log was put back to an older copy, its view was not: what was given out since is refused."""
    told = fill(tmp_path / "s", 3)
    shutil.copytree(tmp_path / "s" / "log", tmp_path / "log")
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        store.commit([put("a:after", {})])
    shutil.rmtree(tmp_path / "s" / "log")
    shutil.copytree(tmp_path / "log", tmp_path / "s" / "log")
    for number in (1, 2):
        with pytest.raises(errors.LogCorrupt):
            Store.open(tmp_path / "s", host=boot(number))
    for name in ("trust", "positions"):  # nothing is left that knew of it
        (tmp_path / "s" / name).unlink()
    judge(tmp_path / "s", told, 3)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("closed", [True, False])
def test_a_deleted_segment_is_refused(tmp_path: Path, which: int, number: int, closed: bool) -> None:
    fill(tmp_path / "s")
    if not closed:
        vanish(Store.open(tmp_path / "s", host=boot(1)))
    log = tmp_path / "s" / "log"
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        newest = store.health().durable // SEGMENT
    starts = sorted(path.name for path in log.iterdir())
    assert newest >= 2 and starts[newest] == segment_name(newest * SEGMENT)
    kept = {path.name: path.read_bytes() for path in log.iterdir()}
    (log / starts[newest if which == -1 else which]).unlink()
    for _ in range(2):
        with pytest.raises(errors.LogCorrupt):
            Store.open(tmp_path / "s", host=boot(number))
    for name, data in kept.items():
        (log / name).write_bytes(data)
    with Store.open(tmp_path / "s", host=boot(number)) as store:
        assert store.count("a") == 20, "put back, it is whole: nothing was written meanwhile"


def test_a_deleted_segment_that_was_only_made_ready_is_made_again(tmp_path: Path) -> None:
    told = fill(tmp_path / "s")
    newest = max((tmp_path / "s" / "log").iterdir())
    assert not newest.read_bytes().strip(b"\0")
    newest.unlink()
    judge(tmp_path / "s", told, 2)


@pytest.mark.parametrize("number", [1, 2])
def test_the_manifest_of_another_store_is_refused(tmp_path: Path, number: int) -> None:
    told = fill(tmp_path / "s", 3)
    fill(tmp_path / "other", 3, of="other")
    own = (tmp_path / "s" / "manifest.json").read_bytes()
    shutil.copyfile(tmp_path / "other" / "manifest.json", tmp_path / "s" / "manifest.json")
    for _ in range(2):
        with pytest.raises(REFUSED):
            Store.open(tmp_path / "s", host=boot(number))
    (tmp_path / "s" / "manifest.json").write_bytes(own)
    judge(tmp_path / "s", told, number)


@pytest.mark.parametrize("damage", [b"", b"{}", b"nonsense\n00000000\n"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, damage: bytes) -> None:
    told = fill(tmp_path / "s", 3)
    path = tmp_path / "s" / "manifest.json"
    own = path.read_bytes()
    path.write_bytes(damage)
    with pytest.raises(REFUSED):
        Store.open(tmp_path / "s", host=boot(1))
    path.write_bytes(own)
    judge(tmp_path / "s", told, 1)


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("rows", [1, 20])
def test_a_deleted_manifest_never_makes_an_empty_store_of_a_full_one(tmp_path: Path, rows: int, create: bool) -> None:
    told = fill(tmp_path / "s", rows)
    path = tmp_path / "s" / "manifest.json"
    own = path.read_bytes()
    path.unlink()
    for _ in range(2):
        with pytest.raises(REFUSED):
            Store.open(tmp_path / "s", create=create, host=boot(1))
    path.write_bytes(own)
    judge(tmp_path / "s", told, 1)


def test_a_log_and_view_moved_into_another_store_are_refused(tmp_path: Path) -> None:
    fill(tmp_path / "s", 3)
    fill(tmp_path / "other", 3, of="other")
    for name in ("log", "view"):
        shutil.rmtree(tmp_path / "s" / name)
        shutil.copytree(tmp_path / "other" / name, tmp_path / "s" / name)
    with pytest.raises(REFUSED):
        Store.open(tmp_path / "s", host=boot(1))
