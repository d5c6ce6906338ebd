"""Starts and kills the processes of a crew over one directory, and judges all that they wrote down.

Not a test: `test_crew.py` says how many, how long and how many kills.
"""

import multiprocessing
import random
import shutil
import signal
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

from feltdb_engine import Store
from tests.engine import crew_member
from tests.engine.checkers import feed
from tests.engine.checkers.feed import Acknowledged, Entry, Gone, Page
from tests.engine.checkers.journal import entry_of, read_journal
from tests.engine.checkers.linear import Call
from tests.engine.checkers.registers import Read, Written, in_ordinals, not_linearizable
from tests.engine.hooks import COMMIT_STEPS, COMPACTION_STEPS
from tests.engine.kit import operations

SEGMENT = 1 << 16
# Each member is forked off a fresh process that has imported the engine and nothing else: ten times as many kills.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.engine.crew_member"])


class Counts(NamedTuple):
    """How much was judged."""

    calls: int
    transactions: int
    operations: int
    pages: int
    kills: int
    floor: int


class Crew:
    """Processes over one directory; member n of a role has a journal of its own over all its lives."""

    def __init__(self, base: Path, *, writers: int, readers: int, seed: int, compactors: int = 0) -> None:
        self.directory = base / "store"
        self.base = base
        self.choose = random.Random(seed)
        sizes = {"writer": writers, "reader": readers, "compactor": compactors}
        self.roles = [f"{role}{number}" for role, size in sizes.items() for number in range(size)]
        self.running: dict[str, ForkServerProcess] = {}
        self.began_at: dict[str, int] = {}
        self.dying: set[str] = set()
        self.kills = 0
        with Store.open(self.directory, segment_bytes=SEGMENT) as store:
            store.declare_index("a", ["n"])
            for name in crew_member.PINNED:
                store.pin(name, 0, None)

    def start(self, name: str, rounds: int, *, dying: bool = False) -> None:
        """Start a member, to die at a step of a commit or to go through all its rounds."""
        role = name.rstrip("0123456789")
        steps = {"writer": COMMIT_STEPS, "compactor": COMPACTION_STEPS}.get(role, ())
        step = self.choose.choice(steps) if dying and steps else ""
        (self.dying.add if step else self.dying.discard)(name)
        self.began_at[name] = self._written(name)
        arguments = (self.directory, self.base / name, role, self.choose.getrandbits(32), rounds, step)
        passes = self.choose.randint(0, 15 if role == "writer" else 3)
        process = _processes.Process(target=crew_member.live, args=(*arguments, passes))
        process.start()
        self.running[name] = process

    def _written(self, name: str) -> int:
        journal = self.base / name
        return journal.stat().st_size if journal.exists() else 0

    def run(self, rounds: int) -> None:
        """Let all go through their rounds."""
        for name in self.roles:
            self.start(name, rounds)
        for name, process in self.running.items():
            process.join(240)
            assert process.exitcode == 0, f"{name}: {process.exitcode}"
        self.running.clear()

    def run_killing(self, kills: int, rounds: int, *, until: float | None = None) -> None:
        """Start, kill and start again, at named steps and at any moment; the last ones go through their rounds."""
        begun = self.kills
        while self.kills - begun < kills and (until is None or time.monotonic() < until):
            for name in self.roles:
                if name not in self.running:
                    self.start(name, rounds, dying=self.choose.random() < 0.5)
            time.sleep(self.choose.uniform(0.01, 0.1))
            at_work = [
                name for name in self.running if name not in self.dying and self._written(name) > self.began_at[name]
            ]
            victim = self.choose.choice(at_work) if at_work else ""
            if victim:
                self.running[victim].kill()
                self.running[victim].join(60)
            for name, process in list(self.running.items()):
                if process.exitcode is not None:
                    assert process.exitcode in (0, -signal.SIGKILL), f"{name}: {process.exitcode}"
                    self.kills += process.exitcode == -signal.SIGKILL
                    del self.running[name]
        for process in self.running.values():
            process.kill()
            process.join(60)
        self.kills += len(self.running)
        self.running.clear()
        self.run(rounds // 10 + 1)

    def end(self) -> None:
        """Leave no process behind."""
        for process in self.running.values():
            process.kill()
            process.join(60)

    def judge(self) -> Counts:
        """Every history linearizable, every feed right, nothing acknowledged lost; also in a view made again."""
        calls: list[Call] = []
        told: list[Acknowledged] = []
        all_pages: list[Sequence[Page | Gone]] = []
        kept: dict[int, Entry] = {}
        for name in self.roles:
            seen, pages, acknowledged = read_journal(self.base / name)
            calls += seen
            told += acknowledged
            all_pages.append(pages)
            if name in crew_member.PINNED:
                kept |= {entry.sequence: entry for page in pages if isinstance(page, Page) for entry in page.entries}
        with Store.open(self.directory, create=False) as store:
            # A kill that meets the kernel inside a write leaves the pages copied so far: a tail, which is cut.
            assert store.health().storage in ("clean", "recovered-incomplete-write" if self.kills else "clean")
            verification = store.verify()
            assert verification.good and verification.view_compared, verification.findings
            floor = store.start().sequence
            left = [entry_of(one) for one in operations(store)]
            state = _state(store)
        # What was compacted away was read before by whoever had pinned it.
        truth = [*(kept[sequence] for sequence in range(1, floor + 1)), *left]
        faults = (
            feed.faults_of_truth(truth, forgotten=floor > 0)
            + feed.faults_of_acknowledged(told, truth)
            + feed.faults_of_state(state, truth)
        )
        for pages in all_pages:
            faults += feed.faults_of_pages(pages) + feed.faults_against_truth(pages, truth)
        assert not faults, faults[:20]
        calls = _without_what_never_was(calls, truth)
        versions: dict[str, dict[int, str | None]] = {}
        for entry in truth:
            versions.setdefault(entry.key, {})[entry.version] = entry.transaction
        stuck = not_linearizable(in_ordinals(calls, versions) if floor else calls)
        assert stuck is None, stuck[:20]
        shutil.rmtree(self.directory / "view")
        with Store.open(self.directory, create=False) as store:
            assert [entry_of(one) for one in operations(store)] == left and _state(store) == state
        return Counts(len(calls), len(told), len(truth), sum(map(len, all_pages)), self.kills, floor)


def _without_what_never_was(calls: list[Call], truth: Sequence[Entry]) -> list[Call]:
    """Without unanswered transactions that the feed does not know and nobody was told of: they took no effect."""
    known = {entry.transaction for entry in truth}
    known |= {call.request.id for call in calls if isinstance(call.answer, Written)}
    return [one for one in calls if one.end is not None or isinstance(one.request, Read) or one.request.id in known]


def _state(store: Store) -> dict[str, tuple[int, int]]:
    records = [record for name in crew_member.COLLECTIONS for record in store.page(name).records]
    return {record.key: (record.version, record.sequence) for record in records}
