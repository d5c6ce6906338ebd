"""Opening, joining, backing up and restoring, interrupted or overtaken: nothing stays held or half done."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from feltdb_engine import (
    Store,
    errors,
    opening,
    positions,
    prefix,
    snapshot,
    trust,
)
from feltdb_engine.backup import restore
from feltdb_engine.files import OSFiles
from tests.engine.hooks import HookedFiles
from tests.engine.kit import NOTHING, boot, operations, put, vanish
from tests.engine.remote import Remote


class FailingSnapshots(OSFiles):
    """Reading a snapshot fails with this."""

    fault: BaseException | None = None

    def open(self, path: Path, *, create: bool = False) -> Any:
        if self.fault is not None and path.suffix == snapshot.SUFFIX:
            raise self.fault
        return super().open(path, create=create)


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_a_snapshot_that_cannot_be_read_now_may_be_whole_and_is_read_the_next_time(
    made: Store, fault: BaseException
) -> None:
    made.compact(NOTHING, now_ms=1 << 50)
    told, path = list(operations(made)), made._core.path
    vanish(made)
    files = FailingSnapshots()
    files.fault = fault
    with pytest.raises((errors.StorageWriteFailed, KeyboardInterrupt)):
        Store.open(path, host=boot(2), files=files)
    files.fault = None
    with Store.open(path, host=boot(2), files=files) as store:
        assert list(operations(store)) == told and store.count("a") == 10
        assert store.verify().findings == ()


class Interrupted(OSFiles):
    """Ctrl-C while the trust file is read."""

    def open(self, path: Path, *, create: bool = False) -> Any:
        if path.name == trust.NAME:
            raise KeyboardInterrupt
        return super().open(path, create=create)


def test_the_turn_is_let_go_of_where_joining_is_interrupted(store: Store) -> None:
    """What another process does; the registry would give this one the same store."""
    with pytest.raises(KeyboardInterrupt):
        opening.open_core(replace(store._options, files=Interrupted()))
    store.commit([put("a:1", {})], deadline=time.monotonic() + 5)
    with Remote(store._core.path) as other:
        assert other.commit("a:2") == "committed"


def test_joining_waits_while_another_opens_and_says_so(store: Store, tmp_path: Path) -> None:
    path, options = store._core.path, replace(store._options, wait_s=0.05)
    words = store._core.words
    words[positions.STATE] = positions.CLOSED
    with pytest.raises(errors.StoreRebuilding):
        opening.open_core(options)
    words[positions.STATE] = positions.LIVE
    (path / positions.NAME).rename(tmp_path / "positions")
    with pytest.raises(errors.StoreRebuilding):
        opening.open_core(options)
    (tmp_path / "positions").rename(path / positions.NAME)
    with Remote(path) as other:
        assert other.commit("a:2") == "committed"


def test_joining_waits_for_the_turn_no_longer_than_it_may(store: Store) -> None:
    turn = store._core.turn
    turn.take(time.monotonic() + 5)
    with pytest.raises(errors.DeadlineExceeded):
        opening.open_core(replace(store._options, wait_s=0.05))
    turn.give_back()
    with Remote(store._core.path) as other:
        assert other.commit("a:2") == "committed"


def test_a_damaged_log_whose_reading_is_interrupted_leaves_nothing_behind(
    made: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made._core.path
    made.close()
    log = min((path / "log").iterdir())
    data = bytearray(log.read_bytes())
    data[20_000] ^= 1
    log.write_bytes(data)
    (path / "view" / "data.mdb").unlink()

    def interrupted(_core: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(prefix.recovery, "apply_rest", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Store.open(path, host=boot(1), read_only=True)
    with monkeypatch.context() as patched:
        patched.setattr(prefix.building, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Store.open(path, host=boot(1), read_only=True)
    with Store.open(path, host=boot(1), read_only=True) as store:
        (path / "view" / "data.mdb").unlink(missing_ok=True)
        assert store.health().storage == "damaged" and store.stats().view_disk_bytes == 0


def test_a_view_that_is_no_view_any_more_is_made_again(store: Store) -> None:
    """The very file, overwritten while nobody had it open."""
    store.commit([put("a:1", {})])
    path = store._core.path
    store.close()
    with (path / "view" / "data.mdb").open("r+b") as data:
        data.write(b"nonsense" * 1024)
    with Store.open(path) as again:
        assert again.get("a:1") is not None and again.verify().findings == ()
    Store.open(path)  # the fixture closes it


def test_a_backup_that_changes_while_it_is_restored_is_refused(store: Store, tmp_path: Path) -> None:
    store.commit([put("a:1", {})])
    info = store.backup(tmp_path / "b")
    changed = tmp_path / "b" / info.files[0].name

    def hook(step: str) -> None:
        if step == "restore begun":
            data = bytearray(changed.read_bytes())
            data[-1] ^= 1
            changed.write_bytes(data)

    with pytest.raises(errors.BackupInvalid, match="changed while"):
        restore(tmp_path / "b", tmp_path / "r", files=HookedFiles(hook))
    assert not (tmp_path / "r").exists()


def test_where_no_directory_can_be_made_nothing_is_left(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_files: Any, _path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(OSFiles, "make_directory", refuses)
        with pytest.raises(errors.StorageError):
            store.backup(tmp_path / "b")
    assert not [*tmp_path.glob("*b*")] and store.backup(tmp_path / "b").sequence == 0
