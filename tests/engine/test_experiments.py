"""Seven ways to fail, each found by experiment on a sketch of this design; the engine must not know them any more."""

import errno
import random
import shutil
from pathlib import Path
from typing import Any

import lmdb
import pytest

from feltdb_engine import Store, errors, limits
from feltdb_engine.segment import segment_name
from feltdb_engine.view import View
from tests.engine.disks import PowerCutFiles
from tests.engine.kit import boot, operations, put, vanish
from tests.engine.remote import Remote

SEGMENT = 1 << 16


class FailsOnce:
    """A view whose next write transaction fails to commit, as LMDB does when a page cannot be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
        self.code = code
        self.left = 1
        write = View.write
        monkeypatch.setattr(View, "write", lambda view: _Transaction(write(view), self))


class _Transaction:
    def __init__(self, inner: Any, fault: FailsOnce) -> None:
        self._inner = inner
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self) -> None:
        if self._fault.left:
            self._fault.left -= 1
            self._inner.abort()
            error = lmdb.DiskError("mdb_txn_commit")
            error.code = self._fault.code  # type: ignore[attr-defined]
            raise error
        self._inner.commit()


@pytest.mark.parametrize("smaller", [True, False])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_view_commit_without_room_or_broken_then_a_smaller_commit_then_a_power_cut(
    quick: Path, monkeypatch: pytest.MonkeyPatch, code: int, smaller: bool
) -> None:
    """The first two. Pages of the refused frame may have reached the disk; none of it may ever be read."""
    for seed in range(12):
        files = PowerCutFiles()
        store = Store.open(quick / str(seed), segment_bytes=SEGMENT, files=files, host=boot(1))  # type: ignore[arg-type]
        store.commit([put("a:1", {})])
        with monkeypatch.context() as patched:
            FailsOnce(patched, code)
            with pytest.raises(errors.StorageError) as refused:
                store.commit([put("a:2", {"body": "x" * 12_000})], transaction_id="refused")
            assert refused.value.committed is False
            assert isinstance(refused.value, errors.StorageFull) == (code == errno.ENOSPC)
            if smaller:
                store.commit([put("a:3", {})])
        vanish(store)
        files.leave(random.Random(seed))
        with Store.open(quick / str(seed), host=boot(2)) as again:
            assert [one.key for one in operations(again)] == (["a:1", "a:3"] if smaller else ["a:1"])
            assert again.transaction("refused") is None and again.verify().good
            assert again.health().storage == "clean", "its zeroes were forced before anything followed"


def test_a_frame_lost_while_a_later_one_persisted_then_the_same_frame_written_again(quick: Path) -> None:
    """The third. The later frame, whole and in its place, must not come back behind the twin of the one it followed."""
    directory = quick / "s"
    path = directory / "log" / segment_name(0)
    store = Store.open(directory, segment_bytes=SEGMENT, host=boot(1), durability="os")
    first = [put("a:1", {"body": "x" * 8000})]
    store.commit(first, transaction_id="t1", at_ms=5)
    begin = store.health().written
    store.commit([put("a:2", {"body": "x" * 8000})], transaction_id="lost", at_ms=6)
    middle = store.health().written
    store.commit([put("a:3", {})], transaction_id="later", at_ms=7)
    end = store.health().written
    vanish(store)
    whole = path.read_bytes()
    later = whole[middle:end]

    def write(at: int, data: bytes) -> None:
        with path.open("r+b") as log:
            log.seek(at)
            log.write(data)

    write(begin, bytes(middle - begin))  # what the power cut took
    with Store.open(directory, host=boot(2)) as store:
        assert store.head().sequence == 1
        assert store.health().storage == "recovered-incomplete-write"
        begin = store.health().written
        store.commit([put("a:2", {"body": "x" * 8000})], transaction_id="lost", at_ms=6)
        middle = store.health().written
        vanish(store)
    write(middle, later)  # a page that the disk had kept, zeroed or not
    for number in (3, 4):
        with Store.open(directory, host=boot(number)) as store:
            assert [one.key for one in operations(store)] == ["a:1", "a:2"]
            assert store.transaction("later") is None and store.get("a:3") is None


# The fourth, a holder of the turn killed while its child lives, is in `test_identity.py`:
# test_a_child_that_outlives_its_parent_does_not_keep_the_turn.


def test_a_second_process_grows_the_store_while_others_read(store: Store) -> None:
    """The fifth. Its map was small when the readers opened theirs."""
    store.commit([put("a:0", {})])
    size = (store._core.path / "view" / "data.mdb").stat().st_size
    with Remote(store._core.path) as reader, Remote(store._core.path) as writer:
        txn = store._core.view.read()  # a reader of a moment before it grew
        for number in range(60):
            writer.tell("commit", f"a:{number}", 200_000)
            assert reader.get("a:0") is True and store.get("a:0") is not None
            assert writer.answer() == "committed"
            assert reader.get(f"a:{number}") is True
            record = store.get(f"a:{number}")
            assert record is not None and len(record.value["body"]) == 200_000
        assert txn.get(b"a\x0059", db=store._core.view.records) is None
        txn.abort()
    assert (store._core.path / "view" / "data.mdb").stat().st_size > size + 7_000_000
    assert len(store.page("a").records) == 60


def test_killed_readers_do_not_pin_pages_for_ever(store: Store) -> None:
    """The sixth. A reader is killed inside a read; the pages of its moment must be used again."""
    data = store._core.path / "view" / "data.mdb"
    store.commit([put("a:1", {"body": "x" * 100_000})])

    def overwrite() -> int:
        for number in range(60):
            store.commit([put("a:1", {"n": number, "body": "x" * 100_000})])
        return data.stat().st_size

    settled = overwrite()
    with Remote(store._core.path) as reader:
        assert reader.ask("hold a read transaction") == "held"
        reader.kill()
    store._reader._next_check = 0.0  # the minute is over
    store.commit([put("a:2", {})])
    assert overwrite() <= settled + 1_000_000
    assert store._reader._next_check > limits.READER_CHECK_INTERVAL_S, "and looks again in a minute"


@pytest.mark.parametrize("number", [1, 2])
def test_two_clones_of_one_directory_both_written_to(tmp_path: Path, number: int) -> None:
    """The seventh, on the same boot and on another: three histories, none taken for another."""
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        store.commit([put("a:1", {"of": "all"})], transaction_id="common")
        trunk = store.head()
    clones = [tmp_path / "c1", tmp_path / "c2"]
    for clone in clones:
        shutil.copytree(tmp_path / "s", clone)
    stores = [Store.open(path, host=boot(number)) for path in (tmp_path / "s", *clones)]
    for name, one in zip("sxy", stores, strict=True):
        one.commit([put("a:1", {"of": name}), put(f"a:{name}", {})], transaction_id="apart")
        one.commit([put("a:9", {"of": name})])
    assert len({one.instance_id for one in stores}) == 3 and stores[0].instance_id == trunk.instance_id
    for _ in range(2):
        for name, one in zip("sxy", stores, strict=True):
            assert one.get("a:1").value == one.get("a:9").value == {"of": name}  # type: ignore[union-attr]
            assert [operation.key for operation in operations(one, trunk)] == ["a:1", f"a:{name}", "a:9"]
            assert one.verify().good
            for other in stores:
                if other is not one and other is not stores[0]:
                    with pytest.raises(errors.CursorUnknown):
                        one.changes(other.head())
        beyond = stores[1].changes(stores[0].head(), limit=1000)
        assert (beyond.rewound_from, beyond.operations[0].sequence) == (4, 2)
        for one in stores:
            one.close()
        stores = [Store.open(path, host=boot(3)) for path in (tmp_path / "s", *clones)]
    assert len({one.instance_id for one in stores}) == 3, "opening again begins nothing"
    for one in stores:
        one.close()
