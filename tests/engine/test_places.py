"""The directory of an open store is moved away, replaced, deleted, or loses its lock files: no other is ever harmed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from feltdb_engine import Store
from feltdb_engine.errors import StorageWriteFailed
from tests.engine.kit import FULL, SMALL_SEGMENT, contents, put
from tests.engine.remote import Remote


def _moved(path: Path) -> None:
    path.rename(path.with_name("aside"))


def _deleted(path: Path) -> None:
    shutil.rmtree(path)


def _without_locks(path: Path) -> None:
    for lock in path.glob("*.lock"):
        lock.unlink()


def _tree(path: Path) -> dict[str, bytes]:
    """Every file but LMDB's lock file and the shared words."""
    return {
        str(one.relative_to(path)): one.read_bytes()
        for one in sorted(path.rglob("*"))
        if one.is_file() and one.name not in ("lock.mdb", "positions")
    }


@pytest.mark.parametrize("happens", [_moved, _deleted, _without_locks])
def test_what_was_opened_where_another_lies_now_writes_nothing(tmp_path: Path, happens: Callable[[Path], None]) -> None:
    """Not by a commit, in no next segment, by no compaction, no backup, no closing; and says so."""
    path = tmp_path / "store"
    store = Store.open(path, segment_bytes=SMALL_SEGMENT)
    store.commit([put("a:1", FULL)])
    happens(path)
    with Remote(path, segment_bytes=SMALL_SEGMENT) as other:
        assert other.commit("b:1") == "committed"
        before = _tree(path)
        attempts: list[Callable[[], object]] = [
            lambda: store.commit([put("a:2", FULL)]),
            lambda: store.pin("p", 0, None),
            store.compact,
            lambda: store.backup(tmp_path / "backup"),
            store.verify,
            store.begin_timeline,
        ]
        for attempt in attempts:
            with pytest.raises(StorageWriteFailed, match="no longer the directory") as refused:
                attempt()
            assert refused.value.committed is False
        store.close()
        assert _tree(path) == before
        assert other.commit("b:2") == "committed"
    assert not (tmp_path / "backup").exists()
    with Store.open(path) as again:
        assert {"b:1", "b:2"} <= set(contents(again))
        assert again.verify().findings == ()


def test_a_directory_put_back_is_written_to_again(tmp_path: Path) -> None:
    """Nothing needs to be opened anew."""
    path = tmp_path / "store"
    with Store.open(path, segment_bytes=SMALL_SEGMENT) as store:
        store.commit([put("a:0", FULL)])
        path.rename(tmp_path / "aside")
        with pytest.raises(StorageWriteFailed):
            store.commit([put("a:1", FULL)])
        (tmp_path / "aside").rename(path)
        for number in range(2, 20):
            store.commit([put(f"a:{number}", FULL)])
        assert store.get("a:1") is None
        assert store.verify().findings == ()


def test_a_link_that_leads_elsewhere_now_does_not_move_an_open_store(tmp_path: Path) -> None:
    """A store goes on in the directory it was opened in; opening the link again gives the other."""
    link = tmp_path / "current"
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
    link.symlink_to(tmp_path / "blue")
    with Store.open(link, segment_bytes=SMALL_SEGMENT) as blue:
        link.unlink()
        link.symlink_to(tmp_path / "green")
        with Store.open(link, segment_bytes=SMALL_SEGMENT) as green:
            assert green.store_id != blue.store_id
            for number in range(20):
                blue.commit([put(f"a:{number}", FULL)])
            blue.compact()
            assert green.collections() == []
            assert os.listdir(tmp_path / "green" / "log") == ["00000000000000000000.seg"]
        assert blue.verify().findings == ()
    with Store.open(tmp_path / "blue") as again:
        assert again.count("a") == 20
    with Store.open(tmp_path / "green") as again:
        assert again.verify().findings == ()
        assert again.collections() == []


def test_a_path_that_leads_nowhere_is_refused_with_its_reason(tmp_path: Path) -> None:
    """A link to itself, a file, something below a file."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "loop", tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageWriteFailed):
            Store.open(path)
