"""`python -m benchmarks.holding`: how long a compaction holds commits up.

One process commits without pause, each commit forced; another compacts beside it, several times. What compaction
holds is the writer's turn: the longest it has it is the longest that any commit can wait because of it. Beside it stand
the commits' own waits before and in the compaction, which also tell what both ask of one disk and one processor.
"""

import argparse
import multiprocessing
import shutil
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from benchmarks.data import COLLECTION, record_id, value
from feltdb_engine import Mutation, Retention, Store
from feltdb_engine.files import OSFiles

_BATCH = 1000
_BEFORE_S = 2.0


class Hold(NamedTuple):
    """A time in which the compaction had the turn: milliseconds, and the last step it passed."""

    ms: float
    step: str


class WatchedFiles(OSFiles):
    """Remembers the last step of the protocol."""

    last = ""

    def step(self, name: str) -> None:
        self.last = name


def watch(store: Store, files: WatchedFiles) -> list[Hold]:
    """Every time this store has the turn, from now on."""
    turn, holds, begun = store._core.turn, [], 0.0
    take, give_back = turn.take, turn.give_back

    def timed_take(deadline: float) -> None:
        nonlocal begun
        take(deadline)
        begun = time.perf_counter()

    def timed_give_back() -> None:
        held = 1000 * (time.perf_counter() - begun)
        give_back()
        holds.append(Hold(held, files.last))

    turn.take, turn.give_back = timed_take, timed_give_back  # type: ignore[method-assign]
    return holds


def write(path: Path, records: int, ends: Connection) -> None:
    """Commit without pause until told to stop; send (begun, seconds waited) of each commit."""
    waits: list[tuple[float, float]] = []
    with Store.open(path, create=False) as store:
        ends.send("ready")
        n = 0
        while not ends.poll():
            n = (n + 7919) % records
            change = Mutation(kind="put", collection=COLLECTION, id=record_id(n), value=value(n))
            begun = time.monotonic()
            store.commit([change])
            waits.append((begun, time.monotonic() - begun))
    ends.send(waits)


def main() -> None:
    """Read the options, load, compact beside a writer, print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.holding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=100_000, help="records loaded first (default 100,000)")
    parser.add_argument("--rounds", type=int, default=5, help="compactions (default 5)")
    parser.add_argument("--folder", type=Path, default=None, help="where the store lies (default: a temporary folder)")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(dir=options.folder, prefix="feltdb-bench-"))
    try:
        measure(scratch / "store", options.records, options.rounds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measure(path: Path, records: int, rounds: int) -> None:
    """Print one row per compaction, and the longest hold of all."""
    files = WatchedFiles()
    worst = Hold(0.0, "")
    with Store.open(path, files=files, durability="os") as store:
        for first in range(0, records, _BATCH):
            numbers = range(first, min(first + _BATCH, records))
            store.commit(
                [Mutation(kind="put", collection=COLLECTION, id=record_id(n), value=value(n)) for n in numbers]
            )
        holds = watch(store, files)
        print("| compaction | turns taken | longest turn, its step | commits: p50, p99, longest before | in it |")
        print("|---|---|---|---|---|")
        for number in range(1, rounds + 1):
            here, there = multiprocessing.Pipe()
            writer = multiprocessing.Process(target=write, args=(path, records, there))
            writer.start()
            here.recv()
            time.sleep(_BEFORE_S)
            holds.clear()
            begun = time.monotonic()
            store.compact(Retention(age_ms=0))
            ended = time.monotonic()
            here.send("stop")
            waits = here.recv()
            writer.join()
            longest = max(holds)
            worst = max(worst, longest)
            before = spread([wait for at, wait in waits if at + wait < begun])
            during = spread([wait for at, wait in waits if at + wait >= begun and at <= ended])
            took = f"{number}: {ended - begun:.1f} s"
            print(f"| {took} | {len(holds)} | {longest.ms:.1f} ms, {longest.step} | {before} | {during} |", flush=True)
    print(f"\nThe longest turn of all: {worst.ms:.1f} ms, {worst.step}.")


def spread(waits: list[float]) -> str:
    """Median, 99th percentile and longest, in ms."""
    cuts = statistics.quantiles(waits, n=100)
    return ", ".join(f"{1000 * one:.1f}" for one in (cuts[49], cuts[98], max(waits))) + " ms"


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
