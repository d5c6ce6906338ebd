"""Rotation, snapshots, compaction and the rewriting of a view, cut short at every step, call and force."""

import errno
import multiprocessing
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from feltdb_engine import Retention, Store, errors, limits
from tests.engine import log_life
from tests.engine.disks import FailingFiles, PowerCut, PowerCutFiles
from tests.engine.hooks import COMPACTION_STEPS, REWRITE_STEPS, HookedFiles
from tests.engine.kit import boot, operations, put, vanish
from tests.torture import seconds, timeout

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.engine.log_life"])
STEPS = (*COMPACTION_STEPS, *REWRITE_STEPS)


@pytest.fixture(autouse=True)
def rewriting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every view that is opened alone is found to be worth rewriting."""
    monkeypatch.setattr(limits, "REWRITE_MIN_BYTES", 0)
    monkeypatch.setattr(limits, "REWRITE_FREE_SHARE", -1.0)


@pytest.fixture
def named(quick: Path) -> dict[str, int]:
    """How often each step is passed in a whole life."""
    found: dict[str, int] = {}

    def count(step: str) -> None:
        found[step] = found.get(step, 0) + 1

    log_life.live(quick / "counted", HookedFiles(count), lambda line: None)
    return found


def killed(path: Path, step: str, after: int) -> list[str] | None:
    """The journal of a life that died there; None where it came to its end before."""
    path.mkdir()
    journal = path / "journal"
    journal.touch()
    process = _processes.Process(target=log_life.die, args=(path / "store", journal, step, after))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -9), process.exitcode
    return journal.read_text().splitlines() if process.exitcode else None


@pytest.mark.acceptance
def test_a_life_killed_at_any_step_goes_on_and_has_lost_nothing(quick: Path, named: dict[str, int]) -> None:
    """About 15 s: each step at its first, its last and a middle time."""
    assert set(STEPS) <= set(named), set(STEPS) - set(named)
    for step in STEPS:
        for place, after in enumerate(sorted({0, named[step] // 2, named[step] - 1})):
            lines = killed(quick / f"{step}-{after}", step, after)
            assert lines is not None, (step, after)
            # With the view as it was left, and with one made anew.
            log_life.account(quick / f"{step}-{after}" / "store", lines, boots=((2, 3), (1, 2))[place % 2])


@pytest.mark.acceptance
def test_a_life_killed_at_calls_to_the_disk_goes_on_and_has_lost_nothing(quick: Path) -> None:
    """About 10 s: forty calls, evenly over a life; every call is in the torture ring."""
    for after in range(5, 100_000, 37):
        lines = killed(quick / str(after), "", after)
        if lines is None:
            assert after > 37 * 20
            return
        log_life.account(quick / str(after) / "store", lines, boots=(1, 2))


def power_cuts(quick: Path, seed: int, stride: int, until: float) -> Iterator[int]:
    """Lives cut at every so many forces, each judged."""
    counting = PowerCutFiles()
    log_life.live(quick / f"counted-{seed}", counting, lambda line: None)
    assert counting.forces > 100
    for cut_at in range(seed % stride, counting.forces, stride):
        if time.monotonic() > until:
            return
        path = quick / f"{seed}-{cut_at}"
        files = PowerCutFiles(cut_at)
        lines: list[str] = []
        with pytest.raises(PowerCut):
            log_life.live(path, files, lines.append)
        files.leave(random.Random(seed * 1000 + cut_at))
        log_life.account(path, lines, boots=(2, 3))
        yield cut_at


@pytest.mark.acceptance
def test_a_power_cut_at_forces_of_a_life_loses_nothing_acknowledged(quick: Path) -> None:
    """About 15 s: every second force of a life, one random outcome each."""
    assert len(list(power_cuts(quick, 0, 2, float("inf")))) > 50


@pytest.mark.acceptance
def test_a_power_cut_inside_a_compaction_of_a_store_that_does_not_wait_for_the_disk(quick: Path) -> None:
    """About 5 s: what it leaves to the log, and what it lets go, rests on nothing that was not forced."""

    def lax(path: Path, files: PowerCutFiles) -> None:
        store = Store.open(path, segment_bytes=1 << 16, files=files, host=boot(1), durability="os")  # type: ignore[arg-type]
        try:
            for number in range(12):
                store.commit([put(f"a:{number}", {"body": "x" * 9000})])
            for turn in range(2):
                store.compact(
                    Retention(age_ms=0),
                    now_ms=1 << 50,
                    progress=lambda done, total, turn=turn: store.commit([put(f"b:{turn}", {})]) and None,
                )
                store.commit([put("a:1", {"turn": turn})])
        finally:
            vanish(store)

    counting = PowerCutFiles()
    lax(quick / "counted", counting)
    for cut_at in range(11, counting.forces, 2):
        path = quick / str(cut_at)
        files = PowerCutFiles(cut_at)
        with pytest.raises(PowerCut):
            lax(path, files)
        files.leave(random.Random(cut_at))
        for number in (2, 3):
            with Store.open(path, host=boot(number)) as store:
                assert store.verify().findings == ()
                told = [one.sequence for one in operations(store)]
                assert told == list(range(store.health().floor + 1, store.head().sequence + 1))


@pytest.mark.acceptance
@pytest.mark.parametrize(("code", "sticky"), [(errno.EIO, False), (errno.ENOSPC, True)])
def test_a_disk_that_fails_inside_a_life_is_answered_truthfully(quick: Path, code: int, sticky: bool) -> None:
    """About 10 s each: every eighth call fails, once or from then on."""
    assert failures(quick, code, sticky, range(0, 100_000, 8), float("inf")) > 40


def failures(quick: Path, code: int, sticky: bool, calls: range, until: float) -> int:
    """Lives in which a call fails, each judged; how many."""
    counting = FailingFiles()
    log_life.live(quick / f"counted-{code}-{sticky}", counting, lambda line: None)
    done = 0
    for fail_at in calls:
        if fail_at >= counting.calls or time.monotonic() > until:
            break
        path = quick / f"{code}-{sticky}-{fail_at}"
        files = FailingFiles(fail_at, code, sticky=sticky)
        lines: list[str] = []
        try:
            log_life.live(path, files, lines.append)
        except errors.EngineError:
            pass
        assert files.failed, fail_at
        log_life.account(path, lines, boots=(2, 3))
        done += 1
    return done


@pytest.mark.torture
@timeout(0.1)
def test_lives_without_end_cut_short_at_every_call_and_force(quick: Path) -> None:
    """A tenth of the torture time: in each round power cuts, failing calls and kills over a whole life."""
    until = time.monotonic() + seconds(0.1)
    rounds = cuts = failed = deaths = 0
    while time.monotonic() < until:
        base = quick / str(rounds)
        base.mkdir()
        cuts += len(list(power_cuts(base, rounds, 8, until)))
        for code in (errno.EIO, errno.ENOSPC):
            for sticky in (False, True):
                failed += failures(base, code, sticky, range(rounds % 24, 100_000, 24), until)
        after = rounds % 30
        while time.monotonic() < until and (lines := killed(base / f"kill-{after}", "", after)) is not None:
            log_life.account(base / f"kill-{after}" / "store", lines, boots=(1, 2))
            deaths += 1
            after += 30
        rounds += 1
        shutil.rmtree(base)
    print(rounds, "rounds", cuts, "power cuts", failed, "failing calls", deaths, "deaths")
