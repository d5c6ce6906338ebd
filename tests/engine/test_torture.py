"""The long siblings of this room's proofs, for `make torture`: the same checks over more cases than tests wait for."""

import random
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from feltdb_engine import errors, limits
from tests.engine import test_crashes, test_faults, test_kills, test_recovery
from tests.engine.disks import FailingFiles, PowerCut, PowerCutFiles
from tests.engine.test_model_wide import WiderModel
from tests.torture import seconds, timeout

pytestmark = pytest.mark.torture


@timeout(0.2)
def test_many_histories_agree_with_the_model() -> None:
    """A fifth of the time; each batch of histories is drawn anew, and a failing one prints how to repeat it."""
    until = time.monotonic() + seconds(0.2)
    histories = 0
    while time.monotonic() < until:
        run_state_machine_as_test(
            WiderModel,
            settings=settings(
                max_examples=50,
                stateful_step_count=50,
                deadline=None,
                print_blob=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        histories += 50
    print(histories, "histories")


@timeout(0.15)
def test_many_power_cuts_lose_nothing_acknowledged(quick: Path) -> None:
    """At every force, with a new choice of what the disk kept each round; half of the rounds after a failed force."""
    until = time.monotonic() + seconds(0.15)
    counting = PowerCutFiles()
    test_faults.life(quick / "counted", counting, {})
    seed = cuts = 0
    while time.monotonic() < until:
        seed += 1
        for at in range(counting.forces):
            path = quick / f"{seed}-{at}"
            choose = random.Random(seed * 1000 + at)
            files = PowerCutFiles(at, fail_at=choose.randrange(at + 1) if seed % 2 else -1)
            told: dict[str, str] = {}
            try:
                test_faults.life(path, files, told)
            except (PowerCut, errors.StorageError):
                pass
            files.leave(choose)
            test_faults.account(path, told, 2)
            shutil.rmtree(path)
            cuts += 1
    print(cuts, "power cuts, seeds up to", seed)


@timeout(0.1)
def test_many_pairs_of_failing_calls_are_answered_truthfully(quick: Path) -> None:
    """Two calls fail, each with an error of its own: what puts the first one right may meet the second."""
    until = time.monotonic() + seconds(0.1)
    counting = FailingFiles()
    test_faults.life(quick / "counted", counting, {})
    seed = 0
    while time.monotonic() < until:
        seed += 1
        choose = random.Random(seed)
        first = choose.randrange(counting.calls)
        second = first + choose.randint(1, 12)
        files = FailingFiles(first, choose.choice(test_faults.CODES), also=(second, choose.choice(test_faults.CODES)))
        path = quick / str(seed)
        told: dict[str, str] = {}
        try:
            test_faults.life(path, files, told)
        except errors.StorageError:
            pass
        test_faults.account(path, told, 2)
        shutil.rmtree(path)
    print(seed, "pairs")


@timeout(0.1)
def test_every_bit_of_every_byte_flipped(quick: Path) -> None:
    """All eight bits of each byte of a small log, as far as the time goes."""
    test_recovery.flip_bits(quick, bits=range(8), until=time.monotonic() + seconds(0.1))


@timeout(0.1)
def test_a_longer_log_cut_at_every_byte(quick: Path) -> None:
    """Every byte of a whole log, as far as the time goes."""
    test_recovery.cut_everywhere(quick, commits=20, frames=20, until=time.monotonic() + seconds(0.1))


@timeout(0.1)
@pytest.mark.parametrize("scenario", ["compact_and_die", "commit_and_die", "index_and_die"])
def test_a_process_killed_at_every_call(quick: Path, monkeypatch: pytest.MonkeyPatch, scenario: str) -> None:
    """Some 200, 100 and 80 deaths; as long as they take, about five minutes together on a busy machine."""
    monkeypatch.setattr(limits, "INDEX_BATCH_RECORDS", 3)
    least = {"compact_and_die": 150, "commit_and_die": 60, "index_and_die": 40}[scenario]
    assert getattr(test_kills, scenario)(quick, step=1) > least


@timeout(0.1)
def test_every_call_fails_with_every_error(quick: Path) -> None:
    """Each of some 190 calls, with two errors, once and from then on; as long as that takes, about half a minute."""
    assert test_faults.fail_every_call(quick, codes=2) > 160


@timeout(0.03)
def test_writers_killed_at_steps_of_a_commit_without_end(tmp_path: Path) -> None:
    """Forty kills a round, on the real disk."""
    until, seed = time.monotonic() + seconds(0.03), 0
    while time.monotonic() < until:
        seed += 1
        test_crashes.kill_writers(tmp_path / str(seed), kills=40, seed=seed)
    print(40 * seed, "kills")
