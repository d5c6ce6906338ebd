"""What comes between two steps of an operation: a compaction, a drop, another activation, an error, a deadline.

Made to happen at the very place, in one process, by a hook or by holding what the step waits for.
"""

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import pytest

from feltdb_engine import (
    Predicate,
    Store,
    errors,
    history,
    limits,
    opening,
    positions,
    prefix,
    snapshot,
    trust,
    view,
)
from feltdb_engine.files import OSFiles
from feltdb_engine.indexes import Catalogue
from feltdb_engine.moment import Moment
from feltdb_engine.recovery import apply_rest
from tests.engine.hooks import HookedFiles
from tests.engine.kit import NOTHING, SMALL_SEGMENT, boot, moving, operations, put, vanish
from tests.engine.remote import Remote


@contextmanager
def holding(act: Callable[[threading.Event, threading.Event], None]) -> Any:
    """A thread that holds something until the block ends."""
    held, let_go = threading.Event(), threading.Event()
    thread = threading.Thread(target=act, args=(held, let_go))
    thread.start()
    assert held.wait(10)
    try:
        yield
    finally:
        let_go.set()
        thread.join()


def test_a_write_waits_for_a_thread_that_has_the_turn_until_its_deadline(store: Store) -> None:
    turn = store._core.turn

    def hold(held: threading.Event, let_go: threading.Event) -> None:
        turn.take(time.monotonic() + 5)
        held.set()
        let_go.wait(10)
        turn.give_back()

    with holding(hold), pytest.raises(errors.DeadlineExceeded) as late:
        store.commit([put("a:1", {})], deadline=time.monotonic() + 0.05)
    assert late.value.committed is False and store.get("a:1") is None
    store.commit([put("a:1", {})])


def test_a_question_about_a_moment_waits_for_another_until_its_deadline(store: Store) -> None:
    store.commit([put("a:1", {})])
    past = store.snapshot()

    def hold(held: threading.Event, let_go: threading.Event) -> None:
        with past._moment((), None):
            held.set()
            let_go.wait(10)

    with holding(hold), pytest.raises(errors.DeadlineExceeded):
        past.get("a:1", deadline=time.monotonic() + 0.05)
    assert past.get("a:1") is not None


def test_a_moment_goes_on_after_the_view_was_made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that names what is not there makes the view again; a moment asks the new one."""
    store.commit([put(f"a:{n}", {"n": n}) for n in range(5)])
    store.declare_index("a", ["n"])
    past = store.snapshot()
    where = {"field": "n", "op": "gte", "value": 0}
    for asked in (past, store):
        core = store._core
        with core.view.write() as txn:
            txn.delete(b"a\0" + b"3", db=core.view.records)
        found = asked.query("a", where=where, order_by=[("n", "asc")])
        assert [one.id for one in found.records] == ["0", "1", "2", "3", "4"]
        assert store._core is not core and store.verify().findings == ()


def test_a_feed_that_asks_for_what_is_not_yet_on_disk_waits_for_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer has not forced it; somebody else has the sync lock, and then lets go of it."""
    durability = store._durability
    core = store._core
    monkeypatch.setattr(durability, "wait", lambda *_: None)
    done = store.commit([put("a:1", {})])
    assert core.words[positions.DURABLE_SEQUENCE] == 0
    assert durability._thread.acquire()
    try:
        with pytest.raises(errors.DeadlineExceeded, match="on disk"):
            durability.head(done.revision, time.monotonic() + 0.005)
    finally:
        durability._thread.release()
    assert durability.head(done.revision) == 1 == core.words[positions.DURABLE_SEQUENCE]


def test_a_history_that_a_compaction_passes_ends_there(made: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two of its steps; what was read before is given."""
    whole = made.history("a", "1")
    assert len(whole.operations) == 3
    real = history.frame_of
    steps = 0

    def passed(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return real(*arguments) if steps < 2 else None

    monkeypatch.setattr(history, "frame_of", passed)
    found = made.history("a", "1")
    assert found.operations == whole.operations[:1] and found.next_sequence is None
    vanish(made)


def test_an_index_dropped_while_it_is_declared_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit([put(f"a:{n}", {"n": n}) for n in range(50)])
    build = store._declarer.build

    def then_dropped(until: float | None) -> None:
        build(until)
        monkeypatch.undo()
        assert store.drop_index("a", "n")

    monkeypatch.setattr(store._declarer, "build", then_dropped)
    with pytest.raises(errors.InvalidQuery, match="dropped meanwhile"):
        store.declare_index("a", ["n"])
    assert store.indexes() == [] and store.verify().findings == ()


CONTRACT = {"collections": {"a": {"unique": ["n"]}}}


@pytest.mark.parametrize("step", ["contract proposed", "contract indexes built", "contract checked again"])
def test_of_two_activations_at_once_the_later_one_stands(tmp_path: Path, step: str) -> None:
    other = {"collections": {"b": {"unique": ["m"]}}}
    came: list[str] = []

    def hook(store: Store, name: str) -> None:
        if name == step and not came:
            came.append(name)
            store.activate_contract(other)

    store = moving(tmp_path / "s", hook)
    store.commit([put(f"a:{n}", {"n": n}) for n in range(20)])
    with pytest.raises(errors.ContractConflict):
        store.activate_contract(CONTRACT)
    assert came and set(store.contract().contract["collections"]) == {"b"}
    assert store.contract().pending is None
    store.commit([put("a:again", {"n": 1})])
    assert store.verify().findings == ()
    store.close()


def test_an_activation_that_runs_out_of_time_over_its_indexes_changes_nothing(tmp_path: Path) -> None:
    late: list[float] = []

    def hook(_store: Store, name: str) -> None:
        if name == "contract indexes built":
            time.sleep(max(0.0, late[0] - time.monotonic() + 0.01))

    store = moving(tmp_path / "s", hook)
    store.commit([put(f"a:{n}", {"n": n}) for n in range(20)])
    late.append(time.monotonic() + 0.5)
    with pytest.raises(errors.DeadlineExceeded):
        store.activate_contract(CONTRACT, deadline=late[0])
    assert store.contract().pending is None and store.contract().revision == 0
    store.commit([put("a:again", {"n": 1})])
    store.close()


def test_rules_without_their_index_are_never_taken_for_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be: both are changed by one frame. Were it so, nothing could be written unchecked."""
    store.activate_contract(CONTRACT)
    store.commit([put("a:1", {"n": 1})])
    store._core.view.known_rules = None
    monkeypatch.setattr("feltdb_engine.indexes.parse", lambda _data: Catalogue(1, (), ()))
    with pytest.raises(LookupError):
        store.commit([put("a:2", {"n": 1})])
    monkeypatch.undo()
    assert store.get("a:2") is None
    with pytest.raises(errors.ValidationFailed):
        store.commit([put("a:2", {"n": 1})])


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
    assert prefix.recovery.apply_rest is apply_rest
    with Store.open(path, host=boot(1), read_only=True) as store:
        (path / "view" / "data.mdb").unlink(missing_ok=True)
        assert store.health().storage == "damaged" and store.stats().view_disk_bytes == 0


def test_an_error_while_a_moment_begins_leaves_no_read_transaction(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit([put("a:1", {})])

    def broken(_moment: Any, _name: bytes) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Moment, "counted", broken)
        with pytest.raises(KeyboardInterrupt):
            store.count("a")
    assert store.count("a") == 1
    assert all(line.split()[2] == "-" for line in store._core.view.env.readers().splitlines()[1:])


def test_whether_a_fence_holds_may_take_more_than_one_call_may(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal of the look comes where the commit needs it, and only there."""
    store.commit([put(f"a:{n}", {"n": n}) for n in range(30)])
    basis = store.read_basis([], [Predicate(collection="a", where={"field": "n", "op": "gte", "value": 0})])
    store.commit([put("a:x", {"n": -1})])
    with monkeypatch.context() as patched:
        patched.setattr(limits, "SCAN_BUDGET_RECORDS", 5)
        with pytest.raises(errors.ScanLimitExceeded, match="declare an index"):
            store.commit([put("b:1", {})], fences=[basis.token])
    with pytest.raises(errors.DeadlineExceeded):
        store.commit([put("b:1", {})], fences=[basis.token], deadline=time.monotonic() - 1)
    assert store.get("b:1") is None
    store.commit([put("b:1", {})], fences=[basis.token])


def test_a_full_disk_lets_go_of_killed_readers_once_and_tries_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their pages may be used again. Where there are none the commit is refused at once."""
    tries = 0
    real = store._writer._turn

    def full(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise errors.StorageFull("There is no room on the disk. Nothing was written; reads go on.")
        return real(*arguments)

    class Env:
        def __init__(self, killed: int) -> None:
            self.killed = killed

        def reader_check(self) -> int:
            return self.killed

        def __getattr__(self, name: str) -> Any:
            return getattr(store._reader.view.env, name)

    class Seen:
        def __init__(self, killed: int) -> None:
            self.env = Env(killed)

        def __getattr__(self, name: str) -> Any:
            return getattr(store._reader.view, name)

    monkeypatch.setattr(store._writer, "_turn", full)
    whole = store._core.view
    store._core.view = Seen(0)  # type: ignore[assignment]
    with pytest.raises(errors.StorageFull):
        store.commit([put("a:1", {})])
    tries = 0
    store._core.view = Seen(3)  # type: ignore[assignment]
    assert store.commit([put("a:1", {})]).revision == 1 and tries == 2
    store._core.view = whole


def test_a_view_that_cannot_be_read_is_a_finding(made: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: Any, **__: Any) -> None:
        raise lmdb.CorruptedError("a page")

    with monkeypatch.context() as patched:
        patched.setattr("feltdb_engine.verify._compare", unreadable)
        found = made.verify().findings
    assert [one.kind for one in found] == ["view"] and made.verify().findings == ()
    vanish(made)


def test_an_error_of_lmdb_in_the_turn_that_says_nothing_of_the_view_is_refused_and_passes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = store._core

    def refuses() -> Any:
        raise lmdb.ReadersFullError("mdb_txn_begin")

    with monkeypatch.context() as patched:
        patched.setattr(core.view, "write", refuses)
        with pytest.raises(errors.StorageWriteFailed) as refused:
            store.commit([put("a:1", {})])
    assert refused.value.committed is False and store._core is core
    assert core.words[positions.STATE] == positions.LIVE
    assert store.commit([put("a:1", {})]).revision == 1


def test_a_group_that_is_pruned_from_two_sides_is_told_gone(made: Store) -> None:
    """A moment whose log begins later now, in the middle of a question."""
    past = made.as_of(3)
    assert past.get("a:1") is not None
    made.compact(NOTHING, now_ms=1 << 50)
    with pytest.raises(errors.FeedCompacted):
        past.get("a:3")
    vanish(made)


def test_the_first_key_of_a_view_counts(tmp_path: Path) -> None:
    """What is counted is what is there, from the first frame on, in every step of a life."""
    store = Store.open(tmp_path / "s", segment_bytes=SMALL_SEGMENT, files=HookedFiles(lambda _step: None))

    def counted() -> bool:
        with store._core.view.read() as txn:
            return bool(txn.get(view.KEYS_KEY) == view.KEYS.pack(txn.stat()["entries"]))

    assert counted()
    for act in (
        lambda: store.commit([put("a:1", {}), put("b:1", {})]),
        lambda: store.commit([put("a:2", {})]),
        lambda: store.declare_index("a", ["n"]),
        lambda: store.pin("p", 0, None),
        lambda: store.activate_contract(CONTRACT),
        lambda: store.compact(NOTHING, now_ms=1 << 50),
        lambda: store.unpin("p"),
        lambda: store.begin_timeline(),
        lambda: store.acknowledge_recovery(),
        lambda: store.rebuild_view(),
        lambda: store.compact(NOTHING, now_ms=1 << 50),
    ):
        act()
        assert counted()
    store.close()
