"""Several processes on one directory: stopped ones, killed ones, unfair ones, and a view that must be made again."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from feltdb_engine import Cursor, Store, errors, limits, positions
from feltdb_engine.locks import FileLock
from feltdb_engine.segment import segment_name
from tests.engine.hooks import HookedFiles
from tests.engine.kit import operations, put

ROOT = Path(__file__).resolve().parents[2]
OTHER = """
import os, signal, sys, time
from feltdb_engine import Mutation, Store
from tests.engine.hooks import HookedFiles
directory, step, act = sys.argv[1:]
armed = False
def hook(name):
    if armed and name == step:
        os.kill(os.getpid(), getattr(signal, act))
store = Store.open(directory, files=HookedFiles(hook))
print("ready", flush=True)
sys.stdin.readline()
armed = True
store.commit([Mutation(kind="put", collection="other", id="1", value={})])
print("done", flush=True)
sys.stdin.readline()
store.close()
"""


class Other:
    """Another process that has the store open and, told so, commits and signals itself at a step."""

    def __init__(self, directory: Path, step: str = "", act: str = "SIGSTOP") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(directory), step, act],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.expect("ready")

    def expect(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n".encode()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def wait_stopped(self) -> None:
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def others() -> Iterator[list[Other]]:
    """Processes to be ended with the test."""
    started: list[Other] = []
    yield started
    for other in started:
        other.end()


def test_a_stopped_process_on_the_turn_does_not_break_a_deadline(store: Store, others: list[Other]) -> None:
    others.append(other := Other(store._core.path, "appended"))
    other.go()
    other.wait_stopped()
    began = time.monotonic()
    with pytest.raises(errors.DeadlineExceeded) as late:
        store.commit([put("a:1", {})], deadline=began + 0.2)
    assert 0.15 < time.monotonic() - began < 30
    assert late.value.committed is False
    assert store.get("a:1") is None
    other.process.send_signal(signal.SIGCONT)
    other.expect("done")
    store.commit([put("a:1", {})])
    assert [one.key for one in operations(store)] == ["other:1", "a:1"]


def test_a_stopped_process_that_was_to_force_holds_nobody_up(store: Store, others: list[Other]) -> None:
    others.append(other := Other(store._core.path, "force"))
    other.go()
    other.wait_stopped()
    began = time.monotonic()
    store.commit([put("a:1", {})])
    assert store.get("a:1") is not None and store.get("other:1") is not None
    assert time.monotonic() - began < 30
    other.process.send_signal(signal.SIGCONT)
    other.expect("done")
    assert store.head().sequence == 2


@pytest.mark.parametrize(
    "step", ["appended", "view commit", "view committed", "written", "published", "forced", "durable"]
)
def test_what_a_killed_writer_left_is_settled_by_whoever_reads_it(store: Store, others: list[Other], step: str) -> None:
    store.commit([put("a:1", {})])
    others.append(other := Other(store._core.path, step, "SIGKILL"))
    other.go()
    assert other.process.wait(20) == -9
    if step in ("appended", "view commit"):
        assert store.head().sequence == 1, "nobody is told of what the view does not have"
        assert store.get("other:1") is None
        store.commit([put("a:2", {})])
        assert [one.key for one in operations(store)] == ["a:1", "other:1", "a:2"]
    else:
        assert store.get("other:1") is not None
        assert store.head().sequence == 2, "who was given it was given something durable"


def test_a_tail_in_the_next_segment_is_cut_under_the_feet_of_a_process_that_has_it_open(
    tmp_path: Path, others: list[Other]
) -> None:
    store = Store.open(tmp_path / "s", segment_bytes=1 << 16)
    others.append(other := Other(tmp_path / "s"))
    core = store._core
    core.words[positions.PREPARED] = core.log.prepare(1 << 16)
    with (tmp_path / "s" / "log" / segment_name(1 << 16)).open("r+b") as torn:
        torn.write(b"torn")
    core.words[positions.APPENDING] = 1
    other.go()
    other.expect("done")
    for number in range(20):
        store.commit([put(f"a:{number}", {"body": "x" * 9000})])
    store.close()
    other.end()
    others.clear()
    (tmp_path / "s" / "view" / "data.mdb").unlink()
    with Store.open(tmp_path / "s") as again:
        assert [one.key for one in operations(again)] == ["other:1", *(f"a:{number}" for number in range(20))]


def test_a_change_by_another_process_is_waited_for(store: Store, others: list[Other]) -> None:
    others.append(other := Other(store._core.path))
    head = store.head()
    assert not store.wait_for_change(head, 0.01)
    other.go()
    assert store.wait_for_change(head, 10)
    assert [one.key for one in operations(store, head)] == ["other:1"]


def test_while_somebody_has_the_directory_alone_others_are_told_so(tmp_path: Path) -> None:
    Store.open(tmp_path / "s").close()
    lock = FileLock(tmp_path / "s" / "open.lock")
    assert lock.try_exclusive()
    with pytest.raises(errors.StoreRebuilding):
        Store.open(tmp_path / "s", wait_s=0.1)
    lock.close()
    Store.open(tmp_path / "s", wait_s=0.1).close()


def test_a_view_that_ran_ahead_of_the_log_is_made_again(store: Store) -> None:
    """As after a view commit that failed half-way: the frame was undone, the view has it."""
    store.commit([put("a:1", {})])
    end, sequence = store.health().written, 1
    store.commit([put("a:2", {})])
    core = store._core
    core.log.zero(end, store.health().written)
    for word, value in ((positions.WRITTEN, end), (positions.DURABLE, end)):
        core.words[word] = value
        core.words[word + 1] = sequence
    core.words[positions.APPENDING] = 1
    assert store.get("a:2") is None
    store.commit([put("a:3", {})])
    assert [one.key for one in operations(store)] == ["a:1", "a:3"]
    assert store._core is not core


class Broken:
    """A write transaction whose commit gives an error, before or after it took effect."""

    def __init__(self, inner: "lmdb.Transaction[bytes]", *, after: bool) -> None:
        self._inner = inner
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def commit(self) -> None:
        if self._after:
            self._inner.commit()
        else:
            self._inner.abort()
        raise lmdb.DiskError("broken", 5)


@pytest.mark.parametrize("after", [False, True])
def test_a_view_commit_that_gives_an_error_is_judged_by_its_effect(
    store: Store, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    store.commit([put("a:1", {})])
    view = store._core.view
    with monkeypatch.context() as patched:
        write = view.write
        patched.setattr(type(view), "write", lambda _view: Broken(write(), after=after))
        if after:
            assert store.commit([put("a:2", {})]).revision == 2
        else:
            with pytest.raises(errors.StorageWriteFailed) as failed:
                store.commit([put("a:2", {})])
            assert failed.value.committed is False
    store.commit([put("a:3", {})])
    assert [one.key for one in operations(store)] == (["a:1", "a:2", "a:3"] if after else ["a:1", "a:3"])


RACER = """
import sys, time
from feltdb_engine import Mutation, Store
store = Store.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
end, number = time.monotonic() + 2, 0
while time.monotonic() < end:
    store.commit([Mutation(kind="put", collection=sys.argv[2], id=str(number), value={"n": number})])
    number += 1
print(number, flush=True)
"""


@pytest.mark.acceptance
def test_no_writer_starves(tmp_path: Path) -> None:
    """About 3 s: eight processes commit for two seconds."""
    Store.open(tmp_path / "s").close()
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path / "s"), f"w{number}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(8)
    ]
    counts = []
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == b"ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"\n")
        racer.stdin.flush()
    for racer in racers:
        out, _ = racer.communicate(timeout=60)
        counts.append(int(out))
    assert min(counts) >= sum(counts) / len(counts) / 2, counts
    with Store.open(tmp_path / "s") as store:
        assert store.head().sequence == sum(counts)


@pytest.mark.parametrize("step", ["force", "durable"])
def test_what_was_acknowledged_is_in_the_feed_although_who_forces_is_stopped(
    store: Store, others: list[Other], step: str
) -> None:
    others.append(other := Other(store._core.path, step))
    other.go()
    other.wait_stopped()
    done = store.commit([put("a:1", {})])
    beside = Store.open(store._core.path)  # another process, as far as it knows what was forced
    for one in (store, beside):
        last = Cursor(instance_id=done.instance_id, sequence=done.sequences[-1])
        assert one.changes(last).operations == ()
        before = Cursor(instance_id=done.instance_id, sequence=done.sequences[-1] - 1)
        assert [operation.key for operation in one.changes(before).operations] == ["a:1"]
        assert one.as_of(last.sequence).get("a:1") is not None
        assert one.wait_for_change(before, 5)
        with pytest.raises(errors.CursorAhead):
            one.changes(Cursor(instance_id=done.instance_id, sequence=last.sequence + 1))
    beside.close()


def test_who_is_forced_for_by_another_is_told_no_sooner_than_the_feed_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FORCE_PATIENCE_S", 0.3)
    held, go_on = threading.Event(), threading.Event()

    def hook(step: str) -> None:
        if armed and step == "durable":
            held.set()
            assert go_on.wait(20)

    armed = False
    store = Store.open(tmp_path / "store", files=HookedFiles(hook))
    told: queue.Queue[int] = queue.Queue()

    def commit(name: str) -> None:
        told.put(store.commit([put(f"a:{name}", {})]).sequences[-1])

    threads = [threading.Thread(target=commit, args=(name,)) for name in ("1", "2")]
    with store._durability._thread:  # both are written before one of them forces for both
        for thread in threads:
            thread.start()
        while store._core.words[positions.WRITTEN_SEQUENCE] < 2:
            time.sleep(0.001)
        armed = True
    assert held.wait(20)
    last = told.get(timeout=20)
    instance = store.health().instance_id
    assert store.changes(Cursor(instance_id=instance, sequence=last)).head >= last
    given = store.changes(Cursor(instance_id=instance, sequence=last - 1)).operations
    assert last in [operation.sequence for operation in given]
    go_on.set()
    for thread in threads:
        thread.join()
    store.close()
