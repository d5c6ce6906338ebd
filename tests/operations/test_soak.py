"""Half of what the server can do, for a while: memory and descriptors of all processes stay flat.

About 75 s in `make test`, half of its time in torture (an hour with FELTDB_TORTURE_MINUTES=120). A line is fitted
through what was sampled after a third of the time; it may rise by `GROWTH_BYTES` and `GROWTH_DESCRIPTORS` from its
beginning to its end, however long that is. Not among those descriptors are segments of the log and the database's
files, which have bounds of their own: so many for each process and each thread. Memory is what the processes hold
themselves (PSS of anonymous pages): the pages of the mapped store are the page cache's, grow with the data and go when
something else needs the room.
"""

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from demo.instance import Instance, session_members
from feltdb_engine import segment
from tests import torture
from tests.operations.load import load, settle

pytestmark = pytest.mark.acceptance

SOAK_S = 60.0
TORTURE_SHARE = 0.5
SAMPLES = 120
GROWTH_BYTES = 8 * 1024 * 1024
GROWTH_DESCRIPTORS = 4
CONNECTIONS = 16
DATABASE_FILES = 3
"""Of one thread's connection: the database, its log and that log's index."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What all processes held together at a moment."""

    at_s: float
    anonymous_bytes: int
    pss_bytes: int
    descriptors: int
    segments: int
    databases: int
    threads: int
    processes: int


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with Instance(tmp_path / "data", LOG_LEVEL="WARNING") as running:
        running.start_server()
        yield running


def sample(instance: Instance, began: float) -> Sample:
    assert instance.server is not None
    held = {"Pss": 0, "Pss_Anon": 0}
    descriptors: list[str] = []
    threads = 0
    members = [pid for leader in (instance.server, *instance.workers) for pid in session_members(leader.pid)]
    for pid in members:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        for name, _, value in (line.partition(":") for line in lines):
            if name in held:
                held[name] += int(value.split()[0]) * 1024
        threads += len(os.listdir(f"/proc/{pid}/task"))
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                descriptors.append(os.readlink(each))
    segments = sum(each.removesuffix(" (deleted)").endswith(segment.SUFFIX) for each in descriptors)
    databases = sum(each.endswith((".sqlite3", ".sqlite3-wal", ".sqlite3-shm")) for each in descriptors)
    return Sample(
        at_s=time.monotonic() - began,
        anonymous_bytes=held["Pss_Anon"],
        pss_bytes=held["Pss"],
        descriptors=len(descriptors) - segments - databases,
        segments=segments,
        databases=databases,
        threads=threads,
        processes=len(members),
    )


class Everyday(threading.Thread):
    """What else goes on: reads, the feed, a trigger's changes, scrapes, the console; one of each in turn."""

    def __init__(self, instance: Instance, key: str) -> None:
        super().__init__()
        self._instance, self._key = instance, key
        self.stop = threading.Event()
        self.done = 0
        self.troubles: list[str] = []

    def run(self) -> None:
        with self._instance.client(self._key) as client:
            while not self.stop.wait(0.05):
                self.done += 1
                asked = (
                    ("PUT", f"/collections/orders/{self.done}", {"status": "paid"}),
                    ("GET", "/collections/orders?limit=50", None),
                    ("POST", "/query", {"collection": "orders", "limit": 20}),
                    ("GET", "/changes?after=start&limit=50", None),
                    ("GET", f"{self._instance.url}/metrics", None),
                    ("GET", f"{self._instance.url}/health/ready", None),
                    ("GET", f"{self._instance.url}/admin/login/", None),
                )[self.done % 7]
                try:
                    answer = client.request(asked[0], asked[1], json=asked[2])
                except httpx.TransportError as error:
                    self.troubles.append(f"{asked}: {error!r}")
                    continue
                if answer.status_code >= 400 and answer.status_code != 503:
                    self.troubles.append(f"{asked}: {answer.status_code} {answer.text[:200]}")


def growth(samples: list[Sample], member: str) -> float:
    """How much the fitted line rises over the samples."""
    times, values = [each.at_s for each in samples], [float(getattr(each, member)) for each in samples]
    return statistics.linear_regression(times, values).slope * (times[-1] - times[0])


def soak(instance: Instance, seconds: float) -> None:
    """Load it so long, and judge."""
    key = instance.new_key("*")
    trigger = {
        "trigger_id": "paid",
        "source_collection": "orders",
        "change_kind": "insert",
        "target_capability": "identity",
    }
    with instance.client(key) as client:
        assert client.post("/triggers", json=trigger).status_code == 201
    instance.start_worker()
    usual = load(instance, key, rate=0, seconds=3, connections=CONNECTIONS // 2)
    everyday, began, samples = Everyday(instance, key), time.monotonic(), []
    everyday.start()
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load, instance, key, rate=usual.rate / 2, seconds=seconds, connections=CONNECTIONS)
        while not loading.done():
            samples.append(sample(instance, began))
            time.sleep(seconds / SAMPLES)
        half = loading.result()
    everyday.stop.set()
    everyday.join()
    judged = [each for each in samples if seconds / 3 < each.at_s < seconds]
    grown, opened = growth(judged, "anonymous_bytes"), growth(judged, "descriptors")
    first, last = judged[0], judged[-1]
    figures = (
        f"{seconds:.0f} s at {usual.rate / 2:.0f}/s: {len(half.acknowledged)} acknowledged, "
        f"{len(half.refused)} refused, {len(half.unknown)} unknown, "
        f"p99 {half.within_ms('201'):.0f} ms, {everyday.done} other requests; "
        f"held {first.anonymous_bytes / 2**20:.1f} MiB, then {last.anonymous_bytes / 2**20:.1f} "
        f"(line {grown / 2**20:+.2f}); PSS {first.pss_bytes / 2**20:.1f}, then {last.pss_bytes / 2**20:.1f}; "
        f"descriptors {first.descriptors}, then {last.descriptors} (line {opened:+.2f}), "
        f"of segments {first.segments}, then {last.segments} in {last.processes} processes, "
        f"of the database {first.databases}, then {last.databases} in {last.threads} threads"
    )
    print(figures)
    wrong = settle(instance, key, [usual, half])
    assert not wrong, wrong
    assert not everyday.troubles, everyday.troubles[:3]
    assert not half.troubles and len(half.acknowledged) > len(half.refused), figures
    assert len(judged) > SAMPLES / 6, figures
    assert grown < GROWTH_BYTES and opened < GROWTH_DESCRIPTORS, figures
    assert last.segments <= segment.OPEN_FILES_MAX * last.processes, figures
    assert last.databases <= DATABASE_FILES * last.threads, figures


def test_memory_and_descriptors_stay_flat_at_half_load(instance: Instance) -> None:
    soak(instance, SOAK_S)


@pytest.mark.torture
@torture.timeout(TORTURE_SHARE)
def test_memory_and_descriptors_stay_flat_for_long(instance: Instance) -> None:
    soak(instance, torture.seconds(TORTURE_SHARE))


def test_a_leak_of_two_kilobytes_a_request_would_be_found() -> None:
    noise = [0, 900_000, -700_000, 300_000, -500_000]
    held = [
        Sample(
            at_s=at,
            anonymous_bytes=150_000_000 + noise[at % 5] + leak * 150 * at,
            pss_bytes=0,
            descriptors=60,
            segments=3,
            databases=12,
            threads=40,
            processes=4,
        )
        for leak in (0, 2048)
        for at in range(40)
    ]
    flat, leaking = held[:40], held[40:]
    assert abs(growth(flat, "anonymous_bytes")) < GROWTH_BYTES / 4
    assert growth(leaking, "anonymous_bytes") > GROWTH_BYTES
