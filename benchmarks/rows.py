"""The rows of the table: which shapes, by how many processes at once, in which turns."""

import os
import statistics
from collections.abc import Callable
from pathlib import Path

from benchmarks.contestants import CONTESTANTS, REFERENCE
from benchmarks.report import Sample
from benchmarks.sessions import Figures, Process, together

_LOAD_SLICES = 10


class Arena:
    """The contestants' processes, loaded once with the same records, index declared before."""

    def __init__(self, scratch: Path, names: list[str], records: int, rounds: int, seconds: float) -> None:
        self.scratch = scratch
        self.names = names
        self.records = records
        self.rounds = rounds
        self.seconds = seconds
        self._open: dict[tuple[str, int], Process] = {}
        self.loaded = False

    def turns(self, number: int) -> list[str]:
        """Return the contestants in this round's order."""
        return self.names[number % len(self.names) :] + self.names[: number % len(self.names)]

    def folder(self, name: str) -> Path:
        """Return where the loaded store of a contestant lies."""
        return self.scratch / name.replace(" ", "-")

    def process(self, name: str, number: int = 0) -> Process:
        """Return a contestant's process number so and so, started where it is not."""
        found = self._open.get((name, number))
        if found is None:
            found = Process(name, self.folder(name), indexed=True, records=self.records, number=number)
            self._open[name, number] = found
        return found

    def load(self) -> list[Sample]:
        """Load the stores that the other rows use, once, in turns; return the figures."""
        if self.loaded:
            return []
        self.loaded = True
        processes = {name: self.process(name) for name in self.names}
        return _loads(self, processes, "load by 100, index declared before")

    def close(self) -> None:
        """End all processes; their stores are closed."""
        for process in self._open.values():
            process.end()
        self._open.clear()

    def shared(self) -> list[str]:
        """Return the contestants that several processes can have open."""
        return [name for name in self.names if name in CONTESTANTS and CONTESTANTS[name].many_processes]


def _loads(arena: Arena, processes: dict[str, Process], work: str) -> list[Sample]:
    samples = []
    edges = [arena.records * n // _LOAD_SLICES // 100 * 100 for n in range(_LOAD_SLICES)] + [arena.records]
    for number in range(_LOAD_SLICES):
        for name in arena.turns(number):
            figures = processes[name].ask("load", first=edges[number], last=edges[number + 1])
            samples.append(Sample(work, "records/s", name, number, figures["rate"]))
    return samples


def load(arena: Arena) -> list[Sample]:
    """Forced transactions of 100 with the index declared, then into other stores without any."""
    samples = arena.load()
    processes = {
        name: Process(name, arena.scratch / f"plain-{n}", indexed=False, records=arena.records)
        for n, name in enumerate(arena.names)
    }
    samples += _loads(arena, processes, "load by 100, no index")
    for process in processes.values():
        process.end()
    return samples


def one(shape: str, work: str, unit: str) -> Callable[[Arena], list[Sample]]:
    """Return a row of one process per contestant, in turns."""

    def row(arena: Arena) -> list[Sample]:
        samples = arena.load() and []
        for number in range(arena.rounds):
            for name in arena.turns(number):
                figures = arena.process(name).ask(shape, seconds=arena.seconds)
                if figures:
                    samples.append(Sample(work, unit, name, number, figures["rate"]))
        return samples

    return row


def writers(count: int) -> Callable[[Arena], list[Sample]]:
    """Return a row of `count` processes that commit single records to one store side by side."""

    def row(arena: Arena) -> list[Sample]:
        samples = arena.load() and []
        work = f"{count} processes, single forced commits"
        for name in arena.shared():
            together([arena.process(name, 1 + n) for n in range(count)], "ready")
        for number in range(arena.rounds):
            for name in [name for name in arena.turns(number) if name in arena.shared()]:
                every = together(
                    [arena.process(name, 1 + n) for n in range(count)], "single", seconds=2 * arena.seconds
                )
                rates = [figures["rate"] for figures in every]
                worst = max(figures["p99_ms"] for figures in every)
                middle = statistics.median(figures["p50_ms"] for figures in every)
                samples += [
                    Sample(work, "commits/s", name, number, sum(rates)),
                    Sample(work, "slowest process / mean", name, number, min(rates) / statistics.mean(rates)),
                    Sample(work, "worst p99 / median p50", name, number, worst / middle),
                ]
        return samples

    return row


def beside(arena: Arena) -> list[Sample]:
    """Gets while another process commits without pause, against the same gets with nobody writing."""
    samples = arena.load() and []
    work = "gets while one process commits"
    for number in range(arena.rounds):
        for name in [name for name in arena.turns(number) if name in arena.shared()]:
            reader, writer = arena.process(name, 1), arena.process(name, 2)
            idle = reader.ask("get", seconds=arena.seconds)
            if not idle:
                continue
            writer.send("single", seconds=1.5 * arena.seconds)
            busy = reader.ask("get", seconds=arena.seconds)
            writer.receive()
            samples += [
                Sample(work, "gets/s", name, number, busy["rate"]),
                Sample(work, "of the idle rate", name, number, busy["rate"] / idle["rate"]),
            ]
    return samples


def opening(arena: Arena) -> list[Sample]:
    """A new process opens the closed store and reads one record: milliseconds after its imports."""
    samples = arena.load() and []
    arena.close()
    for number in range(arena.rounds):
        for name in [name for name in arena.turns(number) if name != "bare log"]:
            process = Process(name, arena.folder(name), indexed=True, records=arena.records)
            samples.append(Sample("open and first read", "ms", name, number, process.ask("open")["ms"]))
            process.end()
    return samples


def memory(arena: Arena) -> list[Sample]:
    """What one more process that has read all of it keeps in memory of its own."""
    samples = arena.load() and []
    for name in [name for name in arena.names if name != "bare log"]:
        number = 0 if name not in arena.shared() else 1
        if number:
            arena.process(name, 2).ask("ready")
        figures: Figures = arena.process(name, number).ask("memory")
        samples.append(Sample("own memory of one more process", "MB", name, 0, figures["mb"]))
    return samples


def disk(arena: Arena) -> list[Sample]:
    """What the store takes on disk."""
    samples = arena.load() and []
    for name in [name for name in arena.names if name != REFERENCE]:
        files = [path for path in arena.folder(name).rglob("*") if path.is_file()]
        taken = sum(os.lstat(path).st_blocks * 512 for path in files)
        samples.append(Sample("disk after all that", "MB", name, 0, taken / 1e6))
    return samples


ROWS: dict[str, Callable[[Arena], list[Sample]]] = {
    "load": load,
    "single": one("single", "single forced commit", "commits/s"),
    "tens": one("tens", "forced transactions of 10", "transactions/s"),
    "update": one("update", "update, forced", "commits/s"),
    "swap": one("swap", "compare-and-set, forced", "commits/s"),
    "swap tens": one("swap tens", "compare-and-set by 10, forced", "transactions/s"),
    "get": one("get", "get by key", "gets/s"),
    "pages": one("pages", "whole collection in pages of 100", "records/s"),
    "feed": one("feed", "whole feed in batches of 1,000", "operations/s"),
    "query": one("query", "query, two fields equal, indexed", "queries/s"),
    "writers 1": writers(1),
    "writers 4": writers(4),
    "writers 8": writers(8),
    "beside": beside,
    "memory": memory,
    "disk": disk,
    "opening": opening,
}
