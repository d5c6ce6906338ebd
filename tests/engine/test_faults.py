"""Every call to the disk fails once, or from then on; the power goes at every force; a full disk; broken views."""

import contextlib
import errno
import itertools
import random
from pathlib import Path

import pytest

from feltdb_engine import Store, errors
from tests.engine.disks import FailingFiles, PowerCut, PowerCutFiles
from tests.engine.kit import boot, operations, put, vanish

SEGMENT = 1 << 16
CODES = (errno.EIO, errno.ENOSPC)
BODY = {"n": 1, "body": "x" * 9000}  # seven fill a segment


def life(path: Path, files: object, told: dict[str, str]) -> None:
    """Create, commit over a rotation, crash, open, build an index, commit, close. `told` gets what was answered."""
    store = Store.open(path, segment_bytes=SEGMENT, files=files, host=boot(1))  # type: ignore[arg-type]
    try:
        for number in range(9):
            commit(store, f"t{number}", told)
    finally:
        vanish(store)
    with Store.open(path, files=files, host=boot(1)) as again:  # type: ignore[arg-type]
        with contextlib.suppress(errors.EngineError):
            again.declare_index("a", ["n"])
            told["index"] = "declared"
        for number in range(9, 12):
            commit(again, f"t{number}", told)


def commit(store: Store, identity: str, told: dict[str, str]) -> None:
    """Commit a record named as its transaction and write down the answer."""
    told[identity] = "unknown"
    try:
        store.commit([put(f"a:{identity}", BODY)], transaction_id=identity)
    except errors.EngineError as refused:
        told[identity] = "failed" if refused.committed is False else "unknown"
    else:
        told[identity] = "committed"


def account(path: Path, told: dict[str, str], number: int) -> None:
    """What was acknowledged is there, what failed is not, and the store goes on, now and at the next opening."""
    for turn in range(2):
        with Store.open(path, segment_bytes=SEGMENT, host=boot(number + turn)) as store:
            index = told.pop("index", None)
            assert index is None or store.indexes("a")[0].complete
            for one in store.indexes("a"):
                assert one.complete
                found = store.query("a", where={"field": "n", "op": "eq", "value": 1}, limit=1000)
                assert found.plan["access"] == "index" and len(found.records) == store.count("a")
            seen = [one.transaction_id for one in operations(store)]
            assert len(seen) == len(set(seen)), "nothing is applied twice"
            for identity, answer in told.items():
                assert answer != "committed" or identity in seen, f"{identity} was acknowledged"
                assert answer != "failed" or identity not in seen, f"{identity} was refused"
                assert (store.get(f"a:{identity}") is not None) == (identity in seen)
                assert (store.transaction(identity) is not None) == (identity in seen)
            store.commit([put("b:1", {"turn": turn})], transaction_id=f"after{turn}")


@pytest.mark.acceptance
def test_every_failing_call_is_answered_truthfully(quick: Path) -> None:
    """About 10 s: each of some 190 calls fails once and from then on, with one of two errors; torture takes both."""
    assert fail_every_call(quick, codes=1) > 80


def fail_every_call(quick: Path, *, codes: int) -> int:
    """Let each call fail, once and from then on, with so many errors; gives how many lives that took."""
    counting = FailingFiles()
    life(quick / "counted", counting, {})
    total = counting.calls
    lives = 0
    for sticky, fail_at in itertools.product((False, True), range(total)):
        for code in (CODES * 2)[(fail_at + sticky) % 2 :][:codes]:
            path = quick / f"{sticky}-{code}-{fail_at}"
            files = FailingFiles(fail_at, code, sticky=sticky)
            told: dict[str, str] = {}
            try:
                life(path, files, told)
            except errors.StorageError:
                pass
            assert files.failed, fail_at
            account(path, told, 2)
            lives += 1
    print(lives, "lives with a failing call")
    return lives


@pytest.mark.acceptance
def test_a_power_cut_at_every_force_loses_nothing_acknowledged(quick: Path) -> None:
    """About 7 s: creation, rotation, crash, recovery and closing included, three random outcomes each."""
    counting = PowerCutFiles()
    life(quick / "counted", counting, {})
    print(3 * counting.forces, "power cuts")
    assert counting.forces > 30
    for seed in range(3):
        for cut_at in range(counting.forces):
            path = quick / f"{seed}-{cut_at}"
            files = PowerCutFiles(cut_at)
            told: dict[str, str] = {}
            with pytest.raises(PowerCut):
                life(path, files, told)
            files.leave(random.Random(seed * 1000 + cut_at))
            account(path, told, 2)


def test_what_a_reopened_store_gives_out_survives_a_power_cut(quick: Path) -> None:
    """Its frames may never have been forced by the process that wrote them."""
    for seed in range(8):
        path = quick / f"{seed}"
        files = PowerCutFiles()
        lax = Store.open(path, segment_bytes=SEGMENT, files=files, host=boot(1), durability="os")  # type: ignore[arg-type]
        for number in range(9):
            lax.commit([put(f"a:{number}", BODY)])
        vanish(lax)
        store = Store.open(path, files=files, host=boot(1))  # type: ignore[arg-type]
        assert store.get("a:8") is not None
        vanish(store)
        files.leave(random.Random(seed))
        with Store.open(path, host=boot(2)) as again:
            assert [one.id for one in operations(again)] == [str(number) for number in range(9)]


def test_a_segment_is_forced_before_the_first_frame_of_the_next(quick: Path) -> None:
    for seed in range(8):
        path = quick / f"{seed}"
        files = PowerCutFiles()
        with Store.open(path, segment_bytes=SEGMENT, files=files, host=boot(1), durability="os") as lax:  # type: ignore[arg-type]
            for number in range(9):
                lax.commit([put(f"a:{number}", BODY)])
        files.leave(random.Random(seed))
        with Store.open(path, host=boot(2)) as again:
            told = [one.id for one in operations(again)]
            assert told == [str(number) for number in range(9)], "closing forces the last segment only"


@pytest.mark.acceptance
def test_a_power_cut_after_a_failed_force_loses_nothing_acknowledged(quick: Path) -> None:
    """About 5 s. The pages of the failed force are dropped, stay readable, and are gone after the cut."""
    counting = PowerCutFiles()
    life(quick / "counted", counting, {})
    print(counting.forces, "failed forces, each with a power cut after it")
    for fail_at in range(counting.forces):
        path = quick / f"{fail_at}"
        files = PowerCutFiles(fail_at=fail_at)
        told: dict[str, str] = {}
        try:
            life(path, files, told)
        except errors.StorageError:
            pass
        with Store.open(path, segment_bytes=SEGMENT, files=files, host=boot(1)) as recovered:  # type: ignore[arg-type]
            commit(recovered, "recovered", told)
            assert told["recovered"] == "committed", "recovery brings writes back"
            vanish(recovered)
        files.leave(random.Random(fail_at))
        account(path, told, 2)


@pytest.mark.parametrize("seed", range(2))
def test_a_power_cut_while_a_tail_is_cut_is_repaired_by_the_next_opening(quick: Path, seed: int) -> None:
    told: dict[str, str] = {}

    def torn(path: Path, files: PowerCutFiles) -> None:
        store = Store.open(path, segment_bytes=SEGMENT, files=files, host=boot(1))  # type: ignore[arg-type]
        for number in range(3):
            commit(store, f"t{number}", told)
        end = store.health().written
        vanish(store)
        log = files.open(next(iter((path / "log").iterdir())))
        log.write(end, b"torn" * 3000)
        log.force()

    counting = PowerCutFiles()
    torn(quick / "counted", counting)
    before = counting.forces
    Store.open(quick / "counted", files=counting, host=boot(2)).close()  # type: ignore[arg-type]
    assert counting.forces - before > 5
    for cut_at in range(before, counting.forces):
        path = quick / f"{cut_at}"
        files = PowerCutFiles(cut_at)
        torn(path, files)
        with pytest.raises(PowerCut):
            Store.open(path, files=files, host=boot(2)).close()  # type: ignore[arg-type]
        files.leave(random.Random(seed * 1000 + cut_at))
        account(path, told, 3)


def test_a_failed_force_stops_writes_until_all_have_let_go(tmp_path: Path) -> None:
    files = FailingFiles()
    store = Store.open(tmp_path / "s", files=files)
    store.commit([put("a:1", {"n": 1})])
    files.fail_at = files.calls + 1  # the write passes, its force fails
    with pytest.raises(errors.StorageFailed) as lost:
        store.commit([put("a:2", {"n": 2})], transaction_id="t")
    assert lost.value.committed == "unknown"
    assert store.health().storage == "failed"
    with pytest.raises(errors.StorageFailed) as refused:
        store.commit([put("a:3", {"n": 3})])
    assert refused.value.committed is False
    assert store.get("a:1") is not None, "what was durable is still read"
    with pytest.raises(errors.StorageFailed):
        store.get("a:2")
    store.close()
    with Store.open(tmp_path / "s") as again:
        assert again.health().storage == "clean"
        assert (again.get("a:2") is not None) == (again.transaction("t") is not None)
        again.commit([put("a:3", {"n": 3})])


def test_an_append_that_fails_is_undone_and_the_next_one_works(tmp_path: Path) -> None:
    files = FailingFiles(code=errno.ENOSPC)
    with Store.open(tmp_path / "s", files=files) as store:
        store.commit([put("a:1", {})])
        files.fail_at = files.calls
        with pytest.raises(errors.StorageFull) as full:
            store.commit([put("a:2", BODY)])
        assert full.value.committed is False
        store.commit([put("a:3", {})])
        assert [one.key for one in operations(store)] == ["a:1", "a:3"]
