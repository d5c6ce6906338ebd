"""One contestant, one round, in a process of its own: prints one JSON object of rates (per second) and sizes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS, Contestant, Item
from benchmarks.data import OWNERS, STATUSES, picks, record_id, value

WRITERS = 4


def rate(act: Callable[[Any], object], arguments: Iterable[Any], seconds: float, units: int = 1) -> float:
    """Call `act` for each argument until they end or the time is over; return units per second."""
    done, started = 0, time.perf_counter()
    stop = started + seconds
    for argument in arguments:
        act(argument)
        done += 1
        if done % 16 == 0 and time.perf_counter() > stop:
            break
    return done * units / (time.perf_counter() - started)


def load(store: Contestant, records: int, size: int) -> float:
    """Insert all records in transactions of `size`; return records per second."""
    started = time.perf_counter()
    for first in range(0, records, size):
        store.commit([(record_id(n), value(n)) for n in range(first, min(first + size, records))])
    return records / (time.perf_counter() - started)


def whole_collection(store: Contestant) -> float:
    """Read everything in pages of 100; return records per second."""
    started, after, count = time.perf_counter(), "", 0
    while found := store.page(after, 100):
        after, count = found[-1], count + len(found)
    return count / (time.perf_counter() - started)


def whole_feed(store: Contestant) -> float:
    """Read every operation in batches of 1,000; return operations per second."""
    started, after = time.perf_counter(), 0
    while (reached := store.changes(after, 1000)) != after:
        after = reached
    return after / (time.perf_counter() - started)


def one_round(name: str, folder: Path, records: int, seconds: float) -> dict[str, float]:
    """Run every shape in a fixed order and return its figure."""
    store = CONTESTANTS[name](folder)
    figures: dict[str, float] = {"load in transactions of 100 (records/s)": load(store, records, 100)}
    store.declare()
    fresh = iter(range(records, 10 * records))

    def items(count: int) -> list[Item]:
        return [(record_id(n), value(n)) for n in (next(fresh) for _ in range(count))]

    some = [record_id(n) for n in picks(records, 200_000, 7)]
    renewed = [(record_id(n), value(n, 1)) for n in picks(records, 50_000, 8)]
    pairs = [(STATUSES[n % 5], f"owner-{n % OWNERS:03d}") for n in picks(records, 2_000, 9)]
    figures["single forced commit (commits/s)"] = rate(lambda _: store.commit(items(1)), range(10**6), seconds)
    figures["forced transactions of 10 (transactions/s)"] = rate(
        lambda _: store.commit(items(10)), range(10**6), seconds
    )
    figures["update, forced (commits/s)"] = rate(lambda item: store.commit([item]), renewed, seconds)
    figures["compare-and-set, forced (commits/s)"] = rate(lambda item: store.compare_and_set(*item), renewed, seconds)
    figures["get by key (gets/s)"] = rate(store.get, some, seconds)
    figures["whole collection in pages of 100 (records/s)"] = whole_collection(store)
    figures["whole feed in batches of 1,000 (operations/s)"] = whole_feed(store)
    figures["query, two fields equal (queries/s)"] = rate(lambda pair: store.query(*pair, 100), pairs, seconds)
    store.close()
    figures[f"{WRITERS} processes, single forced commits (commits/s)"] = several_writers(name, folder, seconds)
    figures["disk after all (bytes)"] = sum(
        os.lstat(path).st_blocks * 512 for path in folder.rglob("*") if path.is_file()
    )
    return figures


def several_writers(name: str, folder: Path, seconds: float) -> float:
    """Let `WRITERS` processes commit single records side by side; return all their commits per second."""
    begin = str(time.time() + 1.5)
    children = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.child",
                "writer",
                name,
                str(folder),
                str(n),
                begin,
                str(seconds),
            ],
            stdout=subprocess.PIPE,
        )
        for n in range(WRITERS)
    ]
    return sum(float(child.communicate()[0]) for child in children)


def writer(name: str, folder: Path, number: int, begin: float, seconds: float) -> float:
    """One of several writers: wait for the common start, then commit new records until the time is over."""
    store = CONTESTANTS[name](folder)
    time.sleep(max(0.0, begin - time.time()))
    ids = (f"w{number}-{n:08d}" for n in range(10**7))
    found = rate(lambda key: store.commit([(key, value(number))]), ids, seconds)
    store.close()
    return found


if __name__ == "__main__":
    if sys.argv[1] == "writer":
        print(writer(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), float(sys.argv[6])))
    else:
        print(json.dumps(one_round(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))))
