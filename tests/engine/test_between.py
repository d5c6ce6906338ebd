"""What comes between two steps of an operation: a compaction, a drop, another activation, an error, a deadline.

Made to happen at the very place, in one process, by a hook or by holding what the step waits for.
"""

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
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
    positions,
)
from feltdb_engine.indexes import Catalogue
from feltdb_engine.moment import Moment
from tests.engine.kit import NOTHING, moving, put, vanish


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


def test_a_feed_goes_on_as_soon_as_somebody_else_has_forced_what_it_waits_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    durability = store._durability
    monkeypatch.setattr(durability, "wait", lambda *_: None)
    done = store.commit([put("a:1", {})])

    def hold(held: threading.Event, _let_go: threading.Event) -> None:
        with durability._thread:
            held.set()
            time.sleep(0.1)

    with holding(hold):
        assert durability.head(done.revision, time.monotonic() + 10) == 1


def test_who_waits_for_a_change_forces_what_its_writer_did_not(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the writer was killed before it could."""
    start = store.head()
    monkeypatch.setattr(store._durability, "wait", lambda *_: None)

    def late(held: threading.Event, _let_go: threading.Event) -> None:
        held.set()
        time.sleep(0.1)
        store.commit([put("a:1", {})])

    with holding(late):
        assert store.wait_for_change(start, 10)
    assert store.head().sequence == 1


def test_a_starving_writer_that_was_killed_holds_nobody_up(store: Store) -> None:
    store._core.words[positions.STARVING] = 1
    store.commit([put("a:1", {})], deadline=time.monotonic() + 5)
    assert store._core.words[positions.STARVING] == 0


def test_what_is_written_to_faster_than_it_can_be_followed_is_followed_in_the_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit([put("a:1", {"n": 1})])
    past = store.snapshot()
    monkeypatch.setattr(limits, "AS_OF_INSIDE_OPERATIONS", -1)
    store.commit([put("a:1", {"n": 2})])
    assert past.get("a:1").value == {"n": 1}  # type: ignore[union-attr]


def test_a_sequence_that_the_log_lacks_is_damage_not_absence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit([put("a:1", {})])
    monkeypatch.setattr("feltdb_engine.places.frames_after", lambda *_: iter(()))
    with pytest.raises(errors.LogCorrupt):
        store.time_of(1)
    with pytest.raises(errors.LogCorrupt):
        store.history("a", "1")


def test_a_contract_is_checked_while_one_like_it_is_in_force(tmp_path: Path) -> None:
    """What both say alike is checked once, and holds all the time."""
    wider = {"collections": {**CONTRACT["collections"], "b": {"schema": {"required": ["m"]}}}}
    refused: list[str] = []

    def hook(store: Store, name: str) -> None:
        if name == "contract proposed" and store.contract().revision == 1:
            with pytest.raises(errors.ValidationFailed) as fault:
                store.commit([put("a:2", {"n": 1})])
            refused.extend(one["rule"] for one in fault.value.details["errors"])

    store = moving(tmp_path / "s", hook)
    store.commit([put("a:1", {"n": 1}), put("b:1", {"m": 1})])
    store.activate_contract(CONTRACT)
    store.activate_contract(wider)
    assert refused == ["unique"] and store.contract().revision == 2
    store.close()
