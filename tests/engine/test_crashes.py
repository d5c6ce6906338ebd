"""Real writer processes killed at every step of the protocol: nothing acknowledged is lost, nothing is half there."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from feltdb_engine import Store
from tests.engine.hooks import COMMIT_STEPS
from tests.engine.kit import operations, put

ROOT = Path(__file__).resolve().parents[2]


def start(
    directory: Path, journal: Path, name: str, seed: int, *, commits: int = 400, step: str = "", after: int = 0
) -> "subprocess.Popen[bytes]":
    """A writer process of `crash_writer.py`."""
    arguments = [str(directory), str(journal), name, str(seed), str(commits), step, str(after)]
    return subprocess.Popen([sys.executable, "-m", "tests.engine.crash_writer", *arguments], cwd=ROOT)


def account(directory: Path, journals: list[Path]) -> None:
    """Everything acknowledged is there whole, everything else whole or absent, sequences dense, ids known."""
    tried: set[str] = set()
    acknowledged: dict[str, tuple[int, list[int]]] = {}
    for journal in journals:
        for line in journal.read_text().splitlines():
            word, identity, *rest = line.split(" ")
            if word == "try":
                tried.add(identity)
            else:
                acknowledged[identity] = (int(rest[0]), [int(one) for one in rest[1].split(",")])
    with Store.open(directory, create=False) as store:
        assert store.health().storage == "clean", "a process that is killed between two calls leaves no tail"
        told = list(operations(store))
        assert [one.sequence for one in told] == list(range(1, len(told) + 1)), "sequences are dense"
        rows = Counter(one.transaction_id for one in told)
        by_sequence = {one.sequence: one for one in told}
        assert set(rows) - {None} <= tried
        for identity, (revision, sequences) in acknowledged.items():
            found = store.transaction(identity)
            assert found is not None and found.revision == revision, identity
            assert [by_sequence[one].transaction_id for one in sequences] == [identity] * len(sequences)
        for identity in rows:
            if identity is None:
                continue
            written = [one for one in told if one.transaction_id == identity]
            assert len(written) - 1 == written[0].value["rows"], "a transaction is whole, and applied once"
            for one in written[:-1]:
                record = store.get(one.key)
                assert record is not None and record.value == one.value
        for identity in tried - set(rows):
            assert store.transaction(identity) is None
        newest = {one.key: one for one in told}
        for key, one in newest.items():
            record = store.get(key)
            assert record is not None
            assert (record.version, record.sequence, record.value) == (one.version, one.sequence, one.value)


@pytest.mark.parametrize("step", COMMIT_STEPS)
def test_a_writer_killed_at_one_step_leaves_a_store_that_goes_on(tmp_path: Path, step: str) -> None:
    directory, journal = tmp_path / "store", tmp_path / "journal"
    with Store.open(directory, segment_bytes=1 << 16) as store:
        killed = start(directory, journal, "w", 1, step=step, after=5)
        assert killed.wait(60) == -9
        store.commit([put("after:1", {"rows": 0})], transaction_id="after")
        assert store.get("after:1") is not None
        journal.write_text(journal.read_text() + "try after\n")
    account(directory, [journal])


@pytest.mark.acceptance
def test_writers_killed_while_others_go_on_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """About 8 s: sixteen processes, each killed at a seeded step while three others go on; torture takes many more."""
    kill_writers(tmp_path, kills=16, seed=20261202)


def kill_writers(base: Path, *, kills: int, seed: int) -> None:
    """Start so many writers, four at a time; each dies at a step."""
    choose = random.Random(seed)
    print("seed", seed)
    base.mkdir(exist_ok=True)
    directory = base / "store"
    Store.open(directory, segment_bytes=1 << 18).close()
    journals = [base / f"journal-{number}" for number in range(4)]
    for journal in journals:
        journal.touch()
    running: dict[int, subprocess.Popen[bytes]] = {}
    dead = started = 0
    while dead < kills or running:
        for number in range(4):
            process = running.get(number)
            if process is not None and process.poll() is None:
                continue
            if process is not None:
                assert process.returncode in (0, -9)
                dead += process.returncode == -9
                del running[number]
            if dead + len(running) < kills:
                started += 1
                running[number] = start(
                    directory,
                    journals[number],
                    f"w{number}",
                    started,
                    step=choose.choice(COMMIT_STEPS),
                    after=choose.randint(0, 60),
                )
        for process in list(running.values()):
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
            break
    assert dead == kills
    account(directory, journals)
