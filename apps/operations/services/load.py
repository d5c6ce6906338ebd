"""What the instance admitted and refused, process by process: read from the files that every process counts in.

A process counts in a slot of its own (`apps/http/measures.py`); one that starts goes on with the counts of one that has
ended. Counts begin at zero when the instance starts.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from prometheus_client.mmap_dict import MmapedDict

from apps.http import measures
from apps.operations.admission import Lane

MAX_PROCESSES = 200
"""Slots looked at; far more than an instance of one host runs."""

MAX_CODES = 20


@dataclass(kw_only=True, slots=True)
class ProcessLoad:
    """What one process counted. `alive` tells whether a process holds the slot now; `here`, whether it is this one."""

    slot: int
    alive: bool
    here: bool
    answered: int = 0
    failed: int = 0
    shed: Counter[str] = field(default_factory=Counter)
    deadlines: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def shed_in_all(self) -> int:
        """Return how many requests found no permit."""
        return self.shed.total()

    @property
    def late_in_all(self) -> int:
        """Return how many requests met their deadline."""
        return self.deadlines.total()


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """The instance: its limits for each process, and what its processes counted."""

    permits: int
    console_permits: int
    deadline_ms: int
    processes: list[ProcessLoad]

    @property
    def answered(self) -> int:
        """Return how many requests were answered."""
        return sum(each.answered for each in self.processes)

    @property
    def failed(self) -> int:
        """Return how many answers were failures of the server (500)."""
        return sum(each.failed for each in self.processes)

    @property
    def shed(self) -> list[tuple[str, int]]:
        """Return how many requests found no permit, by lane."""
        total = sum((each.shed for each in self.processes), Counter[str]())
        return [(lane.value, total[lane.value]) for lane in Lane if lane is not Lane.PROBE]

    @property
    def shed_in_all(self) -> int:
        """Return how many requests found no permit."""
        return sum(each.shed_in_all for each in self.processes)

    @property
    def deadlines(self) -> list[tuple[str, int]]:
        """Return how many requests met their deadline, by what became of them, most first."""
        return sum((each.deadlines for each in self.processes), Counter[str]()).most_common()

    @property
    def late_in_all(self) -> int:
        """Return how many requests met their deadline."""
        return sum(each.late_in_all for each in self.processes)

    @property
    def refusals(self) -> list[tuple[str, int]]:
        """Return the codes answered most often, with how often."""
        return sum((each.refusals for each in self.processes), Counter[str]()).most_common(MAX_CODES)


def load() -> Load:
    """Return what is counted now."""
    here = measures.slot_of_this_process()
    numbers = sorted(
        int(path.stem.removeprefix("counter_"))
        for path in measures.FOLDER.glob("counter_*.db")
        if path.stem.removeprefix("counter_").isdigit()
    )
    return Load(
        permits=settings.IN_FLIGHT_PERMITS,
        console_permits=settings.CONSOLE_PERMITS,
        deadline_ms=settings.REQUEST_DEADLINE_MS,
        processes=[_counted(number, here) for number in numbers[:MAX_PROCESSES]],
    )


def _counted(number: int, here: str) -> ProcessLoad:
    found = ProcessLoad(slot=number, alive=measures.slot_is_held(number), here=str(number) == here)
    for name, labels, count in _values(measures.FOLDER / f"counter_{number}.db"):
        if name == "feltdb_requests_total":
            found.answered += count
            found.failed += count if labels["status"] == "500" else 0
        elif name == "feltdb_requests_shed_total":
            found.shed[labels["lane"]] += count
        elif name == "feltdb_request_deadlines_exceeded_total":
            found.deadlines[labels["outcome"]] += count
        elif name == "feltdb_refusals_total":
            found.refusals[labels["code"]] += count
    return found


def _values(path: Path) -> Iterator[tuple[str, dict[str, str], int]]:
    try:
        values = MmapedDict.read_all_values_from_file(str(path))  # type: ignore[no-untyped-call]
    except (OSError, ValueError):
        return  # it went, or a process is just making it
    for key, value, _, _ in values:
        _, name, labels, _ = json.loads(key)
        yield name, labels, int(value)
