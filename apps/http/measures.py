"""What any room counts as it happens: requests, refusals, commits. Safe over processes, bounded in files.

Each process adds to files of its own under `<data>/metrics`, named by a *slot* that it holds by a file lock: a process
that starts takes the slot of one that ended and goes on with its counts. So the files are as many as processes run at
once, however often they are restarted. Files are filled with zeros ahead of use: on a full disk a first touch of a
sparse page would end the process. Every measure has a label, so that a process that counts nothing takes no slot.

Not here: what is read at scrape time instead of counted, and the text form (`apps/operations/metrics/`).
"""

import fcntl
import os
import tempfile
import threading
from pathlib import Path

from django.conf import settings

FOLDER = Path(settings.DATA_DIR) / "metrics"
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(FOLDER)  # before the library is imported: it chooses then

from prometheus_client import Counter, Histogram, values  # noqa: E402

MAX_SLOTS = 1024
"""Processes that count at once; far more than a host runs."""

FILE_BYTES = 1024 * 1024
"""Of each file, at once: room for every route, method and status."""

KINDS = ("counter", "histogram")
"""The measures there are, each with a file in a slot."""


class Slot:
    """The slot of this process, taken at first use. A forked child takes one of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._lock = -1
        self._name = ""

    def name(self) -> str:
        """Return the slot's name, which no other living process has."""
        if not self._name:
            with self._turn:
                self._name = self._name or self._take()
        return self._name

    def _take(self) -> str:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number in range(MAX_SLOTS):
                lock = free_slot(self._folder, number)
                if lock is not None:
                    self._lock = lock
                    _fill_ahead(self._folder, str(number))
                    return str(number)
        except OSError:
            pass  # no room, or not ours to write: counting must not end a process that serves
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="feltdb-metrics-", dir=_memory())
        return "0"

    def forked(self) -> None:
        """In a forked child: leave the parent's slot to the parent."""
        if self._lock >= 0:
            os.close(self._lock)  # the parent's own descriptor keeps the lock
        self._turn, self._lock, self._name = threading.Lock(), -1, ""


def free_slot(folder: Path, number: int) -> int | None:
    """Return a descriptor that holds the slot's lock, or None while a living process has it."""
    lock = os.open(folder / f"slot-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def slot_is_held(number: int) -> bool:
    """Tell whether a living process counts in the slot."""
    lock = free_slot(FOLDER, number)
    if lock is None:
        return True
    os.close(lock)
    return False


def slot_of_this_process() -> str:
    """Return the slot this process counts in."""
    return _slot.name()


def clean(folder: Path = FOLDER) -> None:
    """Remove the files of every slot that no living process holds: an instance starts counting at zero."""
    for path in sorted(folder.glob("slot-*.lock")):
        number = int(path.stem.removeprefix("slot-"))
        lock = free_slot(folder, number)
        if lock is None:
            continue
        for kind in KINDS:
            (folder / f"{kind}_{number}.db").unlink(missing_ok=True)
        os.close(lock)


def _fill_ahead(folder: Path, name: str) -> None:
    for kind in KINDS:
        path = folder / f"{kind}_{name}.db"
        if path.exists() and path.stat().st_size >= FILE_BYTES:
            continue
        partial = path.with_suffix(".partial")  # whoever scrapes reads every file of that name: it gets it when whole
        try:
            descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, FILE_BYTES)
            finally:
                os.close(descriptor)
            os.replace(partial, path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - private directories, made by mkdtemp


_slot = Slot(FOLDER)
_armed = False


def _identifier() -> str:
    return _slot.name() if _armed else "none"  # the library asks once when it is set up: that takes no slot


values.ValueClass = values.MultiProcessValue(_identifier)  # type: ignore[no-untyped-call]
_armed = True
os.register_at_fork(after_in_child=_slot.forked)

REQUESTS = Counter("feltdb_requests", "Requests answered.", ["route", "method", "status"])
DURATION = Histogram(
    "feltdb_request_duration_seconds",
    "Seconds from a request's arrival to its answer, by route.",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
SHED = Counter("feltdb_requests_shed", "Requests refused because as many as may be were in flight.", ["lane"])
DEADLINES = Counter(
    "feltdb_request_deadlines_exceeded", "Requests whose deadline passed, by what became of them.", ["lane", "outcome"]
)
REFUSALS = Counter("feltdb_refusals", "Refusals by code.", ["code"])
STREAMS = Counter("feltdb_event_streams", "Streams of the feed, by how they ended; refused: for want of room.", ["end"])
COMMITS = Counter("feltdb_commits", "Transactions by outcome: committed, duplicate, refused, unknown.", ["outcome"])
FORCES = Histogram(
    "feltdb_force_seconds",
    "Seconds the disk took to keep what a group of commits had written; commits by these is the size of a group.",
    ["durability"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
LEASES_LOST = Counter(
    "feltdb_leases_lost", "Work taken back from a worker that was lost, by how that was seen.", ["seen"]
)
COMPACTIONS = Counter("feltdb_compactions", "Compactions by outcome: done, failed.", ["outcome"])
COMPACTED_OPERATIONS = Counter("feltdb_operations_compacted", "Operations whose history was let go.", ["namespace"])
COMPACTED_BYTES = Counter("feltdb_compacted_bytes", "Bytes of log files removed by compactions.", ["namespace"])
TRIGGERS_PASSED = Counter(
    "feltdb_triggers_passed_by_compaction", "Triggers whose unseen history was let go beyond max_lag.", ["namespace"]
)
