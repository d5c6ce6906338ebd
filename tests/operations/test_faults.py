"""What may go wrong with a running instance, done to real processes: told with its reason and the next step in
readiness, metrics and doctor within five seconds, and healed by itself where that is promised.

Cost: about 60 s, most of it starting two servers (one over PostgreSQL, one on a small disk) and `doctor` once a fault.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from apps.operations.reasons import REASONS, Severity
from demo.instance import Instance
from tests.disk import fill, small_disk
from tests.engine.injection import DATA_SYNC, Injection

pytestmark = pytest.mark.acceptance

TOLD_S = 5.0
HEALED_S = 30.0
"""Far more than healing takes: a machine that others use, too."""

SHORT = {"WEB_WORKERS": "1", "FELTDB_REQUEST_DEADLINE_MS": "2500"}
POSTGRES = os.environ.get("FELTDB_TEST_POSTGRES_URL", "postgres://root@127.0.0.1:5432/test")
HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "rb+")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


class Link:
    """A way to the database that can be cut: connections through it are passed on, byte for byte, until then."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._cut = threading.Event()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection, and every new one at once."""
        self._cut.set()
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let connections through again."""
        self._cut.clear()

    def close(self) -> None:
        """Listen no more."""
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._cut.is_set():
                near.close()
                continue
            far = socket.create_connection(self._target)
            for pair in ((near, far), (far, near)):
                self._open.add(pair[0])
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        self._open.discard(source)
        source.close()


@dataclass(frozen=True, kw_only=True)
class Place:
    """A running instance with what a fault may be done to."""

    instance: Instance
    key: str
    disk: Path | None = None
    link: Link | None = None

    @property
    def store(self) -> Path:
        """The directory of the namespace's store."""
        return self.instance.data_dir / "namespaces" / "default"

    def log(self) -> Path:
        """The segment that is written now."""
        with self.instance.client(self.key) as client:
            (standing,) = client.get("/status").json()["stores"]
        segments = (self.store / "log").glob("*.seg")
        return max(each for each in segments if int(each.stem) <= standing["written_bytes"])

    def ready(self) -> tuple[int, dict[str, dict[str, Any]]]:
        """The status of readiness, and its reasons by code."""
        answer = httpx.get(f"{self.instance.url}/health/ready", timeout=30)
        return answer.status_code, {each["code"]: each for each in answer.json()["reasons"]}

    def measured(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name that carry these labels."""
        text = httpx.get(f"{self.instance.url}/metrics", timeout=30).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def findings(self) -> dict[str, dict[str, Any]]:
        """What `doctor` finds, by code."""
        return {
            each["code"]: each for each in json.loads(self.instance.manage("doctor", "--json", check=False))["findings"]
        }

    def put(self, name: str, value: Any) -> httpx.Response:
        with self.instance.client(self.key) as client:
            return client.put(f"/collections/orders/{name}", json=value)


def eventually(check: Callable[[], Any], within_s: float, what: str) -> float:
    """Wait until it holds; return how long that took."""
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < within_s, f"not within {within_s} s: {what}"
        time.sleep(0.1)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An instance whose way to its database can be cut."""
    found = urlsplit(POSTGRES)
    name = f"feltdb_faults_{os.getpid()}"
    with psycopg.connect(POSTGRES, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    link = Link(found.hostname or "127.0.0.1", found.port or 5432)
    account = found.netloc.rpartition("@")[0]
    url = f"postgres://{account}@127.0.0.1:{link.port}/{name}"
    try:
        with Instance(tmp_path_factory.mktemp("faults") / "data", DATABASE_URL=url, **SHORT) as instance:
            instance.start_server()
            yield Place(instance=instance, key=instance.new_key("*"), link=link)
    finally:
        link.close()
        with psycopg.connect(POSTGRES, autocommit=True) as server:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def on_small_disk() -> Iterator[Place]:
    """An instance, its database included, on a disk that can be filled."""
    with small_disk(megabytes=300) as disk, Instance(disk / "data", **SHORT) as instance:
        instance.start_server()
        yield Place(instance=instance, key=instance.new_key("*"), disk=disk)


@contextmanager
def turn_held_by_a_stopped_process(place: Place) -> Iterator[None]:
    command = [sys.executable, "-c", HOLD, str(place.store / "turn.lock")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin and holder.stdout
    with holder.stdin, holder.stdout:
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            holder.kill()
            holder.wait()


@contextmanager
def disk_filled(place: Place) -> Iterator[None]:
    assert place.disk is not None
    ballast = fill(place.disk)
    try:
        yield
        refused = place.put("large", {"text": "x" * 500_000})
        assert (refused.status_code, refused.json()["code"], refused.json()["committed"]) == (
            507,
            "STORAGE_FULL",
            False,
        )
        with place.instance.client(place.key) as client:
            assert client.get("/collections/orders/kept").status_code == 200, "reads go on"
    finally:
        ballast.unlink()


@contextmanager
def force_failed(place: Place) -> Iterator[None]:
    """The disk refuses one force: final, until the store is opened anew."""
    (pid,) = children(place.instance)
    with Injection(pid, place.log(), DATA_SYNC, "error=EIO:when=1") as injected:
        told = place.put("forced", {"n": 1}).json()
    assert injected.hit == 1
    assert (told["code"], told["committed"]) == ("COMMIT_UNKNOWN", "unknown")
    yield
    assert place.put("later", {"n": 1}).json()["code"] == "STORAGE_FAILED"
    place.instance.stop()
    place.instance.start_server()


@contextmanager
def database_lost(place: Place) -> Iterator[None]:
    assert place.link is not None
    place.link.cut()
    try:
        yield
    finally:
        place.link.mend()


@contextmanager
def worker_killed(place: Place) -> Iterator[None]:
    with a_worker(place) as worker:
        worker.kill()
        worker.wait()
        yield
    with a_worker(place):  # takes the place of the one that died
        eventually(lambda: "WORKER_LOST" not in place.ready()[1], HEALED_S, "another worker took its place")


@contextmanager
def worker_stopped(place: Place) -> Iterator[None]:
    with a_worker(place) as worker:
        worker.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            worker.send_signal(signal.SIGCONT)
        eventually(lambda: "WORKER_LOST" not in place.ready()[1], HEALED_S, "it goes on")


@contextmanager
def trigger_blocked(place: Place) -> Iterator[None]:
    """The key that defined it, under whose authority it makes work, is revoked."""
    key_id = define(place, "blocked")
    with a_worker(place):
        place.instance.manage("keys", "revoke", key_id)
        place.put("1", {"status": "paid"})
        eventually(lambda: place.measured("feltdb_triggers", state="blocked"), HEALED_S, "the evaluator saw it")
        yield
    place.instance.manage("trigger", "delete", "blocked", "--reason", "put right")


@contextmanager
def trigger_quarantined(place: Place) -> Iterator[None]:
    """A change that matches cannot become work: it looks like a secret."""
    define(place, "poisoned")
    with a_worker(place):
        poison = place.put("2", {"status": "paid", "password": "correct horse battery staple"})
        assert poison.status_code == 201
        eventually(lambda: place.measured("feltdb_trigger_quarantine"), HEALED_S, "the evaluator met it")
        yield
        place.instance.manage("trigger", "skip", "poisoned", poison.headers["FeltDB-Revision"], "--reason", "a test")
    place.instance.manage("trigger", "delete", "poisoned", "--reason", "done")


@contextmanager
def a_worker(place: Place) -> Iterator["subprocess.Popen[bytes]"]:
    worker = place.instance.start_worker()
    try:
        eventually(lambda: place.measured("feltdb_workers", life="alive"), HEALED_S, "a worker is there")
        yield worker
    finally:
        worker.terminate()
        worker.wait(30)
        place.instance.workers.remove(worker)


def define(place: Place, trigger_id: str) -> str:
    """Define a trigger by a key of its own; return the key's id."""
    made = json.loads(place.instance.manage("keys", "create", "--json", "--name", trigger_id, "--scope", "*"))
    document = {
        "trigger_id": trigger_id,
        "source_collection": "orders",
        "change_kind": "insert",
        "target_capability": "identity",
    }
    with place.instance.client(made["secret"]) as client:
        answer = client.post("/triggers", json=document)
        assert answer.status_code == 201, answer.text
    return str(made["id"])


def children(instance: Instance) -> list[int]:
    """The server's worker processes."""
    assert instance.server is not None
    listed = Path(f"/proc/{instance.server.pid}/task/{instance.server.pid}/children").read_text(encoding="ascii")
    return [int(pid) for pid in listed.split()]


Inflict = Callable[[Place], AbstractContextManager[None]]
FAULTS: list[tuple[str, Inflict, str, dict[str, dict[str, str]]]] = [
    ("on_postgres", turn_held_by_a_stopped_process, "STORAGE_STALLED", {}),
    ("on_postgres", database_lost, "DATABASE_UNAVAILABLE", {"feltdb_scrape_incomplete": {}}),
    ("on_postgres", worker_killed, "WORKER_LOST", {"feltdb_workers": {"life": "dead"}}),
    ("on_postgres", worker_stopped, "WORKER_LOST", {"feltdb_workers": {"life": "stopped"}}),
    ("on_postgres", trigger_quarantined, "TRIGGER_QUARANTINE", {"feltdb_trigger_quarantine": {}}),
    ("on_postgres", trigger_blocked, "TRIGGER_BLOCKED", {"feltdb_triggers": {"state": "blocked"}}),
    ("on_postgres", force_failed, "STORAGE_FAILED", {}),
    ("on_small_disk", disk_filled, "STORAGE_FULL", {}),
]


@pytest.mark.parametrize(("where", "inflict", "code", "gauges"), FAULTS, ids=[each[1].__name__ for each in FAULTS])
def test_a_fault_is_told_by_readiness_metrics_and_doctor_with_the_next_step_and_heals(
    where: str, inflict: Inflict, code: str, gauges: dict[str, dict[str, str]], request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue(where)
    known = REASONS[code]
    assert place.put("kept", {"n": 1}).status_code in (200, 201)
    eventually(lambda: place.ready()[0] == 200 and code not in place.ready()[1], HEALED_S, "well before")
    with inflict(place):
        took_s = eventually(lambda: code in place.ready()[1], TOLD_S + HEALED_S, f"readiness tells {code}")
        status, reasons = place.ready()
        assert status == (503 if known.severity is Severity.BLOCKING else 200), reasons
        assert (reasons[code]["severity"], reasons[code]["next_step"]) == (known.severity, known.next_step)
        assert reasons[code]["subject"] and reasons[code]["message"]
        assert place.measured("feltdb_reasons", code=code) >= 1
        assert place.measured("feltdb_ready") == (status == 200)
        for gauge, labels in gauges.items():
            assert place.measured(gauge, **labels) >= 1, gauge
        assert httpx.get(f"{place.instance.url}/health", timeout=30).status_code == 200, "the process lives"
        found = place.findings()
        assert found[code]["next_step"] == known.next_step
    healed_s = eventually(lambda: place.ready()[0] == 200 and code not in place.ready()[1], HEALED_S, f"{code} is gone")
    assert place.put("after", {"n": 1}).status_code in (200, 201)
    assert place.measured("feltdb_ready") == 1
    print(f"{inflict.__name__}: told after {took_s:.1f} s, healed after {healed_s:.1f} s")
    assert took_s < TOLD_S, f"told after {took_s:.1f} s"


def test_a_commit_whose_force_outlasts_the_deadline_is_told_true_or_unknown_and_its_id_settles_it(
    on_postgres: Place,
) -> None:
    deadline_s = int(SHORT["FELTDB_REQUEST_DEADLINE_MS"]) / 1000
    place, answers = on_postgres, {}
    (pid,) = children(place.instance)

    def send(name: str) -> None:
        body = {"transactionId": name, "operations": [{"collection": "held", "id": name, "value": {"n": 1}}]}
        with place.instance.client(place.key) as client:
            answers[name] = client.post("/transactions", json=body)

    names = [f"held-{time.time_ns()}-{number}" for number in range(3)]
    threads = [threading.Thread(target=send, args=(name,)) for name in names]
    began = time.monotonic()
    held_us = int((deadline_s + 1.5) * 1_000_000)
    with Injection(pid, place.log(), DATA_SYNC, f"delay_enter={held_us}"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    print(f"told after {time.monotonic() - began:.1f} s: {[each.status_code for each in answers.values()]}")
    assert len(answers) == 3
    assert time.monotonic() - began > deadline_s, "the force was held"
    told = [each.json().get("code", each.json().get("status")) for each in answers.values()]
    assert set(told) <= {"COMMIT_UNKNOWN", "committed"}, told
    with place.instance.client(place.key) as client:
        for name, answer in answers.items():
            if answer.status_code != 201:
                body = answer.json()
                assert (answer.status_code, body["committed"], body["transactionId"]) == (503, "unknown", name)
                assert answer.headers["Retry-After"] == "1"
            settled = client.get(f"/transactions/{name}")
            assert (settled.status_code, settled.json()["status"]) == (200, "committed")
            assert client.get(f"/collections/held/{name}").json()["version"] == 1
