"""The timed shapes: what one contestant does in a slice of time. What they need is made before the clock starts."""

import gc
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.contestants.base import Contestant, Item
from benchmarks.data import OWNERS, STATUSES, picks, record_id, value

Figures = dict[str, float]
Shape = Callable[["Session", float], Figures]


class Session:
    """One contestant's open store, and how far its data goes. `number` tells the processes of one store apart."""

    def __init__(self, store: Contestant, records: int, number: int) -> None:
        self.store = store
        self.records = records
        self.fresh = itertools.count(records)
        self.mark = f"{number:02d}-" if number else ""
        self.turn = number * 1000

    def seed(self) -> int:
        """Return another seed for each slice."""
        self.turn += 1
        return self.turn

    def new_items(self, count: int) -> list[Item]:
        """Return records that are not there yet."""
        return [(self.mark + record_id(n), value(n)) for n in itertools.islice(self.fresh, count)]

    def changed_items(self, count: int) -> list[Item]:
        """Return new values for records that are there."""
        seed = self.seed()
        return [(record_id(n), value(n, seed)) for n in picks(self.records, count, seed)]


def timed(act: Callable[[Any], object], arguments: Iterable[Any], seconds: float, units: int = 1) -> Figures:
    """Call `act` for each argument until they end or the time is over; return the rate, and the waits in ms."""
    waits = []
    clock = time.perf_counter
    gc.collect()
    started = last = clock()
    stop = started + seconds
    for argument in arguments:
        act(argument)
        now = clock()
        waits.append(now - last)
        last = now
        if now > stop:
            break
    waits.sort()
    return {
        "rate": len(waits) * units / (last - started),
        "p50_ms": 1000 * waits[len(waits) // 2],
        "p99_ms": 1000 * waits[int(len(waits) * 0.99)],
        "max_ms": 1000 * waits[-1],
    }


def load(session: Session, first: int, last: int) -> Figures:
    """Insert the records from `first` to `last` in transactions of 100."""
    batches = [[(record_id(n), value(n)) for n in range(at, min(at + 100, last))] for at in range(first, last, 100)]
    return timed(session.store.commit, batches, 600.0, 100)


def _batches(items: list[Item], size: int) -> list[list[Item]]:
    distinct = list(dict(items).items())
    return [distinct[at : at + size] for at in range(0, len(distinct) - size + 1, size)]


def single(session: Session, seconds: float) -> Figures:
    return timed(session.store.commit, [[item] for item in session.new_items(int(12_000 * seconds))], seconds)


def tens(session: Session, seconds: float) -> Figures:
    return timed(session.store.commit, _batches(session.new_items(int(60_000 * seconds)), 10), seconds)


def update(session: Session, seconds: float) -> Figures:
    return timed(session.store.commit, [[item] for item in session.changed_items(int(12_000 * seconds))], seconds)


def swap(session: Session, seconds: float) -> Figures:
    return timed(
        session.store.compare_and_set, [[item] for item in session.changed_items(int(12_000 * seconds))], seconds
    )


def swap_tens(session: Session, seconds: float) -> Figures:
    return timed(session.store.compare_and_set, _batches(session.changed_items(int(60_000 * seconds)), 10), seconds)


def get(session: Session, seconds: float) -> Figures:
    keys = [record_id(n) for n in picks(session.records, int(600_000 * seconds), session.seed())]
    return timed(session.store.get, keys, seconds)


def query(session: Session, seconds: float) -> Figures:
    pairs = [
        (STATUSES[n % 5], f"owner-{n % OWNERS:03d}")
        for n in picks(session.records, int(30_000 * seconds), session.seed())
    ]
    return timed(lambda pair: session.store.query(*pair, 100), pairs, seconds)


def pages(session: Session, seconds: float) -> Figures:
    """Walk the collection in pages of 100, from its beginning, again where it ends."""
    started, after, count = time.perf_counter(), "", 0
    while time.perf_counter() < started + seconds:
        found = session.store.page(after, 100)
        after, count = found[-1] if found else "", count + len(found)
    return {"rate": count / (time.perf_counter() - started)}


def feed(session: Session, seconds: float) -> Figures:
    """Walk all operations in batches of 1,000, again where they end."""
    started, after, count = time.perf_counter(), 0, 0
    while time.perf_counter() < started + seconds:
        reached = session.store.changes(after, 1000)
        count, after = count + reached - after, reached if reached > after else 0
    return {"rate": count / (time.perf_counter() - started)}


SHAPES: dict[str, Shape] = {
    "single": single,
    "tens": tens,
    "update": update,
    "swap": swap,
    "swap tens": swap_tens,
    "get": get,
    "pages": pages,
    "feed": feed,
    "query": query,
}
