"""`python -m benchmarks.growth`: the engine alone, with few records and with ten times as many; prints how it grows.

What should not depend on the number of records (opening, a process's memory, a page, an indexed query) shows a ratio
near 1; what must read everything (verify, rebuild, backup, restore, compaction) one near the ratio of the sizes.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import COLLECTION, OWNERS, STATUSES, picks, record_id, value
from benchmarks.sessions import Figures, Process, together
from feltdb_engine import Mutation, Store
from feltdb_engine.backup import restore
from feltdb_engine.host import Host

_BATCH = 1000


def main() -> None:
    """Read the options, measure each size, print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="100000,1000000", help="records, the smaller first (default 100000,1000000)")
    parser.add_argument("--folder", type=Path, default=None, help="where the stores lie (default: a temporary folder)")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures here")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    found: dict[int, dict[str, float]] = {}
    for size in sizes:
        scratch = Path(tempfile.mkdtemp(dir=options.folder, prefix="feltdb-bench-"))
        try:
            found[size] = measure(scratch, size)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    print("| work | " + " | ".join(f"{size:,}" for size in sizes) + " | growth |")
    print("|---" * (2 + len(sizes)) + "|")
    for work, least in found[sizes[0]].items():
        cells = [f"{found[size][work]:,.3g}" for size in sizes]
        print(f"| {work} | " + " | ".join(cells) + f" | {found[sizes[-1]][work] / least:.2f} |")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


def measure(scratch: Path, size: int) -> dict[str, float]:
    """Return the figures of one size."""
    path = scratch / "store"
    figures: dict[str, float] = {}

    def timed(work: str, act: Callable[[], Any]) -> Any:
        print(f"{size:,}: {work}", file=sys.stderr, flush=True)
        begun = time.perf_counter()
        result = act()
        figures[f"{work} (s)"] = time.perf_counter() - begun
        return result

    with Store.open(path) as store:
        timed("load by 1,000", lambda: load(store, size))
        timed("build an index over two fields", lambda: store.declare_index(COLLECTION, ["status", "owner"]))
        store.declare_index(COLLECTION, ["amount"])
    figures["open and first read (ms)"] = statistics.median(opened(path, size, "open")["ms"] for _ in range(5))
    with Store.open(path) as store:
        figures["own memory of one more process (MB)"] = opened(path, size, "memory")["mb"]
        figures |= questions(store, size)
        report = timed("verify, with progress", lambda: store.verify(progress=lambda _done, _all: None))
        assert report.good, report
        timed("backup while serving", lambda: store.backup(scratch / "backup"))
        figures["disk before compaction (MB)"] = disk_mb(path)
    timed("restore", lambda: restore(scratch / "backup", scratch / "restored"))
    shutil.rmtree(scratch / "restored")
    shutil.rmtree(scratch / "backup")
    reboot = Host(boot_id=uuid.uuid4().bytes, machine_id=Host.current().machine_id)
    killed = Process("feltdb", path, indexed=False, records=size)
    killed.ask("ready")
    killed.kill()
    store = timed(
        "open after an unclean reboot: the view made again", lambda: Store.open(path, host=reboot, wait_s=3600)
    )
    store.close()
    figures |= compacted(path, size)
    figures["disk after compaction (MB)"] = disk_mb(path)
    return figures


def load(store: Store, size: int) -> None:
    """Insert all records."""
    for first in range(0, size, _BATCH):
        numbers = range(first, min(first + _BATCH, size))
        store.commit([Mutation(kind="put", collection=COLLECTION, id=record_id(n), value=value(n)) for n in numbers])


def opened(path: Path, size: int, do: str) -> dict[str, float]:
    """Let a new process open the store and do something."""
    process = Process("feltdb", path, indexed=False, records=size)
    try:
        return process.ask(do)
    finally:
        process.end()


def questions(store: Store, size: int) -> dict[str, float]:
    """Return the median milliseconds of questions that an answer's size bounds, not the store's."""
    numbers = picks(size, 300, 3)

    def two(n: int) -> dict[str, Any]:
        # A record's own status and owner; the limit makes the answers alike.
        one = value(n)
        return {"all": [{"field": name, "op": "eq", "value": one[name]} for name in ("status", "owner")]}

    def between(n: int) -> dict[str, Any]:
        width = 20 * 1_000_000 // size
        low = n % (1_000_000 - width)
        ends = (("gte", low), ("lt", low + width))
        return {"all": [{"field": "amount", "op": op, "value": edge} for op, edge in ends]}

    work: dict[str, Callable[[int], Any]] = {
        "page of 100": lambda n: store.page(COLLECTION, after=record_id(n), limit=100),
        "query, two fields equal, first 20": lambda n: store.query(COLLECTION, where=two(n), limit=20),
        "query, a range of about 20": lambda n: store.query(COLLECTION, where=between(n), limit=100),
        "query, a range in order, first 20": lambda n: store.query(
            COLLECTION,
            where={"field": "amount", "op": "gte", "value": n % 900_000},
            order_by=[("amount", "asc")],
            limit=20,
        ),
        "count of the collection": lambda _: store.count(COLLECTION),
        "count of a range of about 20": lambda n: store.count(COLLECTION, where=between(n)),
        "get": lambda n: store.get(f"{COLLECTION}:{record_id(n)}"),
    }
    assert len(STATUSES) * OWNERS * 20 <= size, "fewer than 20 records of each status and owner"
    found = {}
    for name, act in work.items():
        waits = []
        for n in numbers:
            begun = time.perf_counter()
            act(n)
            waits.append(1000 * (time.perf_counter() - begun))
        found[f"{name} (ms)"] = statistics.median(waits)
    return found


def compacted(path: Path, size: int) -> dict[str, float]:
    """Return how long one process compacts while others read and write, and what it does to their waits."""
    print(f"{size:,}: compaction while writing", file=sys.stderr, flush=True)
    reader, writer, compactor = (
        Process("feltdb", path, indexed=False, records=size, number=number) for number in (1, 2, 3)
    )
    together([reader, writer, compactor], "ready")

    def side_by_side() -> tuple[Figures, Figures]:
        reader.send("get", seconds=0.3)
        writer.send("single", seconds=0.3)
        return reader.receive(), writer.receive()

    before = [side_by_side() for _ in range(10)]
    done: list[Figures] = []
    compactor.send("compact")
    waiting = threading.Thread(target=lambda: done.append(compactor.receive()))
    waiting.start()
    during = [side_by_side()]
    while waiting.is_alive():
        during.append(side_by_side())
    for process in (reader, writer, compactor):
        process.end()

    def middle(rounds: list[tuple[Figures, Figures]], who: int, figure: str) -> float:
        return statistics.median(one[who][figure] for one in rounds)

    return {
        "compaction while reading and writing (s)": done[0]["seconds"],
        "gets: p99 in it / before": middle(during, 0, "p99_ms") / middle(before, 0, "p99_ms"),
        "commits: p99 in it / before": middle(during, 1, "p99_ms") / middle(before, 1, "p99_ms"),
        "commits: rate in it / before": middle(during, 1, "rate") / middle(before, 1, "rate"),
        "commits: longest in it (ms)": max(one["max_ms"] for _, one in during),
        "commits: longest before (ms)": max(one["max_ms"] for _, one in before),
    }


def disk_mb(path: Path) -> float:
    """Return what a store takes on disk."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file()) / 1e6


if __name__ == "__main__":
    main()
