"""Damage that a checksum does not see, damage in the manifest, tails at the edge of a segment, locks that are held."""

import errno
import time
from pathlib import Path
from typing import Any

import lmdb
import pytest

from feltdb_engine import Retention, Store, errors, frame, limits, positions
from feltdb_engine.frame import Chain, decode
from feltdb_engine.locks import FileLock
from feltdb_engine.segment import segment_name
from feltdb_engine.verify import verify_log
from feltdb_engine.view import View
from tests.engine.disks import FailingFiles
from tests.engine.kit import boot, operations, put, vanish

SEGMENT = 1 << 16


def log_of(directory: Path) -> Path:
    return directory / "log" / segment_name(0)


def rewrite_last(directory: Path, old: bytes, new: bytes) -> None:
    """Replace bytes in the last frame's payload, and give the frame a checksum that is right."""
    path = log_of(directory)
    data, at, last = path.read_bytes(), 0, None
    while (found := decode(data, at, at)) is not None:
        last, at = found, found.end
    assert last is not None and old in last.payload
    chain = Chain(last.position, last.previous_crc, last.epoch, last.base, last.at_ms)
    encoded, _ = frame.encode(
        chain,
        kind=last.kind,
        operations=last.operations,
        durable=last.durable,
        at_ms=last.at_ms,
        payload=last.payload.replace(old, new),
    )
    path.write_bytes(data[: last.position] + encoded + data[last.position + len(encoded) :])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store of two records, closed on boot 1."""
    with Store.open(tmp_path / "s", segment_bytes=SEGMENT, host=boot(1)) as store:
        store.commit([put("a:1", {"n": 1})], transaction_id="t1")
        store.commit([put("a:2", {"word": "right"})], transaction_id="t2")
    return tmp_path / "s"


def test_content_that_was_changed_under_a_right_checksum_is_found_by_its_hash(directory: Path) -> None:
    rewrite_last(directory, b"right", b"wrong")
    with Store.open(directory, host=boot(2)) as store:
        with pytest.raises(errors.LogCorrupt) as damage:
            list(operations(store))
        assert damage.value.details["sequence"] == 2
        found = store.verify()
        assert [one.kind for one in found.findings] == ["content"] and not found.good
    assert [one.kind for one in verify_log(directory).findings] == ["content"]


def test_a_payload_that_cannot_be_read_is_found(directory: Path) -> None:
    rewrite_last(directory, b"\x02\x00", b"\xff\xff")
    assert "payload" in [one.kind for one in verify_log(directory).findings]


def test_what_fills_a_segment_up_must_be_zero(directory: Path) -> None:
    with Store.open(directory, host=boot(1)) as store:
        for number in range(8):
            store.commit([put(f"b:{number}", {"body": "x" * 9000})])
        assert store.health().written > SEGMENT
    with log_of(directory).open("r+b") as log:
        log.seek(SEGMENT - 8)
        log.write(b"not zero")
    assert [one.kind for one in verify_log(directory).findings] == ["gap"]


def test_a_log_without_a_beginning_or_a_manifest_is_reported_not_raised(directory: Path) -> None:
    log_of(directory).write_bytes(bytes(SEGMENT))
    assert verify_log(directory).operations == 0
    log_of(directory).write_bytes(b"\xff" * SEGMENT)
    assert [one.kind for one in verify_log(directory).findings] == ["chain"]
    (directory / "manifest.json").write_bytes(b"{}\n00000000\n")
    assert [one.kind for one in verify_log(directory).findings] == ["manifest"]
    (directory / "manifest.json").unlink()
    assert [one.kind for one in verify_log(directory).findings] == ["manifest"]


@pytest.mark.parametrize("left", [8, 40, 72, 80, 88, 200])
def test_a_tail_at_the_very_end_of_a_segment_is_cut_and_the_log_goes_on_in_the_next(tmp_path: Path, left: int) -> None:
    """Where the recovery frame does not fit any more it begins the next segment."""
    store = Store.open(tmp_path / "s", segment_bytes=SEGMENT, host=boot(1))
    for number in range(4):
        store.commit([put(f"a:{number}", {"body": "x" * 13_000})])
    probe = store.health().written
    store.commit([put("b:0", {"body": ""})])
    empty = store.health().written - probe
    size = SEGMENT - store.health().written - empty - left
    store.commit([put("b:1", {"body": "x" * size})])
    end = store.health().written
    assert SEGMENT - end in range(left - 8, left + 9)
    vanish(store)
    with log_of(tmp_path / "s").open("r+b") as log:
        log.seek(end)
        log.write(b"\x01" * (SEGMENT - end))
    for number in (2, 3):
        with Store.open(tmp_path / "s", host=boot(number)) as store:
            assert store.health().storage == "recovered-incomplete-write"
            assert store.health().byte_offset == end
            assert store.verify().good
            store.commit([put(f"c:{number}", {})])
    with Store.open(tmp_path / "s", host=boot(4)) as store:
        assert [one.key for one in operations(store)] == ["a:0", "a:1", "a:2", "a:3", "b:0", "b:1", "c:2", "c:3"]


def test_a_tail_that_a_killed_writer_left_is_cut_while_others_have_the_store_open(directory: Path) -> None:
    with Store.open(directory, host=boot(1)) as store:
        with log_of(directory).open("r+b") as log:
            log.seek(store.health().written)
            log.write(b"torn")
        store._core.words[positions.APPENDING] = 1
        store.commit([put("a:3", {})])
        assert store.health().storage == "recovered-incomplete-write" and store.health().discarded_bytes == 4
        assert [one.key for one in operations(store)] == ["a:1", "a:2", "a:3"]
        assert store.verify().good


@pytest.mark.parametrize("lost", ["trust", "position"])
def test_a_store_that_cannot_vouch_for_its_view_is_not_marked_clean(directory: Path, lost: str) -> None:
    store = Store.open(directory, host=boot(1))
    if lost == "trust":
        (directory / "trust").unlink()
    else:
        store._core.words[positions.WRITTEN] += 8
    store.close()
    with Store.open(directory, host=boot(2)) as again:
        assert again.get("a:2") is not None and again.verify().good


def test_a_force_that_fails_at_closing_leaves_a_store_to_be_recovered(tmp_path: Path) -> None:
    files = FailingFiles()
    store = Store.open(tmp_path / "s", files=files, durability="os", host=boot(1))
    store.commit([put("a:1", {})])
    files.fail_at = files.calls + 4  # after a look at what vouches for the view
    store.close()
    assert files.failed == ["force"]
    with Store.open(tmp_path / "s", host=boot(1)) as again:
        assert again.health().storage == "clean" and again.get("a:1") is not None


@pytest.mark.parametrize(("code", "call"), [(errno.ENOSPC, 0), (errno.EIO, 0), (errno.EIO, 1)])
def test_space_that_cannot_be_made_ready_is_refused_before_the_first_byte(tmp_path: Path, code: int, call: int) -> None:
    files = FailingFiles(code=code)
    with Store.open(tmp_path / "s", files=files, segment_bytes=1 << 20, host=boot(1)) as store:
        store.commit([put("a:1", {})])
        words = store._core.words
        words[positions.PREPARED] = words[positions.WRITTEN]
        files.fail_at = files.calls + call
        with pytest.raises(errors.StorageError) as refused:
            store.commit([put("a:2", {})], transaction_id="t")
        assert refused.value.committed is False
        assert isinstance(refused.value, errors.StorageFull) == (code == errno.ENOSPC)
        assert isinstance(refused.value, errors.StorageFailed) == (files.failed == ["force"])
    with Store.open(tmp_path / "s", host=boot(1)) as again:
        assert again.transaction("t") is None and again.get("a:1") is not None
        again.commit([put("a:2", {})])


def test_locks_end_at_their_deadlines_and_with_their_files(tmp_path: Path) -> None:
    one, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert one.try_exclusive() and not other.try_shared()
    with pytest.raises(errors.DeadlineExceeded):
        other.take(time.monotonic() + 0.01)
    one.close()
    other.take(time.monotonic() + 5)
    with pytest.raises(errors.StoreClosed):
        one.try_shared()
    other.close()


def test_a_commit_whose_force_another_holds_for_ever_forces_for_itself_unless_the_store_failed(directory: Path) -> None:
    with Store.open(directory, host=boot(1)) as store:
        held = FileLock(directory / "sync.lock")
        assert held.try_exclusive()
        store.commit([put("a:3", {})])
        assert store.get("a:3") is not None
        with pytest.raises(errors.DeadlineExceeded) as late:
            store.commit([put("a:4", {})], deadline=time.monotonic() + 0.003)
        assert late.value.committed in (False, "unknown")
        held.close()
        assert [one.key for one in operations(store)][:3] == ["a:1", "a:2", "a:3"]


class Failing:
    """A write transaction that fails at `commit`, after it took effect or before."""

    def __init__(self, inner: Any, error: BaseException, *, after: bool) -> None:
        self._inner, self._error, self._after = inner, error, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self) -> None:
        if self._after:
            self._inner.commit()
        else:
            self._inner.abort()
        raise self._error


@pytest.mark.parametrize("after", [True, False])
def test_an_interrupt_inside_a_commit_leaves_all_of_it_or_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Ctrl-C between two instructions: the caller is told of the interrupt, and the store goes on."""
    with Store.open(directory, host=boot(1)) as store:
        write = View.write
        with monkeypatch.context() as patched:
            patched.setattr(View, "write", lambda view: Failing(write(view), KeyboardInterrupt(), after=after))
            with pytest.raises(KeyboardInterrupt):
                store.commit([put("a:3", {})], transaction_id="t3")
        assert (store.transaction("t3") is not None) == after
        store.commit([put("a:4", {})])
        assert [one.key for one in operations(store)] == ["a:1", "a:2", *(["a:3"] if after else []), "a:4"]
        assert store.verify().good
    with Store.open(directory, host=boot(2)) as store:
        assert (store.get("a:3") is not None) == after and store.health().storage == "clean"


@pytest.mark.parametrize("what", ["get", "commit", "rebuild_view", "page", "snapshot"])
def test_a_view_that_panics_is_made_again_and_the_call_answered(
    directory: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As LMDB does after it could not put its root page back."""
    with Store.open(directory, host=boot(1)) as store:
        core = store._core
        left = 1

        def panic(*_arguments: Any, **_named: Any) -> Any:
            nonlocal left
            if left:
                left -= 1
                raise lmdb.PanicError("mdb_txn_begin: MDB_PANIC")
            return original(*_arguments, **_named)

        name = "write" if what in ("commit", "rebuild_view") else "read"
        original = getattr(core.view, name)
        if what == "get":
            monkeypatch.setattr(store._reader, "_begin", panic)
        else:
            monkeypatch.setattr(core.view, name, panic, raising=False)
        if what == "get":
            assert store.get("a:1") is not None
        elif what == "commit":
            store.commit([put("a:3", {})])
        elif what == "rebuild_view":
            store.rebuild_view()
        elif what == "page":
            assert store.indexes("a") == []
        else:
            assert store.stats() is not None
        assert left == 0 and store._core is not core, "it was made again"
        assert store.get("a:2") is not None and store.verify().good


def test_small_batches_change_nothing_in_what_is_made_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(directory, host=boot(1)) as store:
        for number in range(30):
            store.commit([put(f"b:{number}", {"n": number})])
        told = list(operations(store))
    monkeypatch.setattr(limits, "REBUILD_BATCH_BYTES", 300)
    (directory / "view" / "data.mdb").unlink()
    with Store.open(directory, host=boot(1)) as store:
        assert list(operations(store)) == told and store.count("b") == 30
        assert store.verify().good
        store.compact(Retention(age_ms=None, bytes=0))
        store.commit([put("b:30", {})])
    (directory / "view" / "data.mdb").unlink()
    with Store.open(directory, host=boot(1)) as store:
        assert store.count("b") == 31 and store.verify().good
