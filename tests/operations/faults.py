"""What may go wrong with a running instance, and how to do it to real processes: for `test_faults.py`.

Each fault is a context: it is there inside, and undone, or healed, at the end.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
from prometheus_client.parser import text_string_to_metric_families

from demo.instance import ROOT, Instance
from tests.disk import fill
from tests.engine.injection import DATA_SYNC, Injection

HEALED_S = 30.0
"""Far more than healing takes: a machine that others use, too."""

DOCTOR_S = 60.0
"""It waits for nobody longer than some seconds a check; the rest is for starting on a machine that others use."""

HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "rb+")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""

HOLD_SQLITE = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


class Link:
    """A way to the database that can be cut, or made silent: until then connections are passed on, byte for byte."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._cut = threading.Event()
        self._passing = threading.Event()
        self._passing.set()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection, and every new one at once."""
        self._cut.set()
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def fall_silent(self) -> None:
        """Keep every connection, take new ones, and pass nothing on: as a stopped proxy, or server, does."""
        self._passing.clear()

    def mend(self) -> None:
        """Let connections through again."""
        self._cut.clear()
        self._passing.set()

    def close(self) -> None:
        """Listen no more."""
        self.cut()
        self._passing.set()
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
                self._passing.wait()
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
    database: str = ""
    """Of PostgreSQL, past the link."""

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
        """What `doctor` finds, by code: with its exit code, and nothing but words for people on standard error."""
        done = subprocess.run(
            [sys.executable, "manage.py", "doctor", "--json"],
            cwd=ROOT,
            env=self.instance.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DOCTOR_S,
        )
        told = json.loads(done.stdout)
        assert done.returncode == (4 if told["findings"] else 0), done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return {each["code"]: each for each in told["findings"]}

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


@contextmanager
def held_by_a_stopped_process(program: str, path: Path) -> Iterator[None]:
    command = [sys.executable, "-c", program, str(path)]
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
def turn_held_by_a_stopped_process(place: Place) -> Iterator[None]:
    with held_by_a_stopped_process(HOLD, place.store / "turn.lock"):
        yield


@contextmanager
def sqlites_turn_held_by_a_stopped_process(place: Place) -> Iterator[None]:
    with held_by_a_stopped_process(HOLD, place.instance.data_dir / "control.sqlite3-turn"):
        yield


@contextmanager
def sqlite_held_by_a_stopped_process(place: Place) -> Iterator[None]:
    with held_by_a_stopped_process(HOLD_SQLITE, place.instance.data_dir / "control.sqlite3"):
        yield


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
def database_silent(place: Place) -> Iterator[None]:
    """It takes connections and what they say, and answers nothing."""
    assert place.link is not None
    place.link.fall_silent()
    try:
        yield
    finally:
        place.link.mend()


@contextmanager
def table_locked(place: Place) -> Iterator[None]:
    """Somebody's session holds a table and does nothing."""
    with psycopg.connect(place.database) as held:
        held.execute("LOCK TABLE keys_namespace IN ACCESS EXCLUSIVE MODE")
        yield
        held.rollback()


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
