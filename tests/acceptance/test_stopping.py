"""SIGTERM to the supervisor with everything in flight at once: requests, commits, streams, waits and work.

All that was acknowledged is there afterwards, each change has made its work once and each work was done once, streams
end cleanly and go on from where they were, and everything ends by itself within the grace period. Cost: about 25 s.
"""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.instance import ROOT, Instance, end, session_members
from tests.acceptance.test_events import Reader, opened
from tests.acceptance.test_make_run import processes_of

pytestmark = pytest.mark.acceptance

GRACE_S = 30
"""As the supervisor, the units and the container have it: whoever is not over then is killed."""

WRITERS, READERS, STREAMS, WAITING = 4, 2, 3, 2
BUSY_S = 2.5
PROGRAM = """
import time
from apps.workloads.capabilities import capability
from feltdb_engine import Mutation

@capability("ship")
def ship(work, context):
    number = work["record"]["n"]
    time.sleep(0.5)
    # An insert: doing it a second time, not as the first, fails.
    context.commit("ship", [Mutation(kind="insert", collection="shipped", id=str(number), value={"n": number})])
    time.sleep(0.5)
    return number
"""
HALF_A_BODY = b"POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b"{" * 500


class Supervised(Instance):
    """An instance run as `make run` and the container run it."""

    def start(self) -> "subprocess.Popen[bytes]":
        """Start supervisord with server and worker; return once the server is ready."""
        configuration = ["--nodaemon", "--configuration", "feltsite/supervisord.conf"]
        process = self._start([str(ROOT / ".venv/bin/supervisord"), *configuration])
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health/ready", timeout=5).status_code == 200:
                    return process
            except httpx.TransportError:
                time.sleep(0.1)
        end(process, signal.SIGKILL)
        raise AssertionError(self.last_log_lines())


class Clients:
    """Everybody who has something under way; each writes down what it was told."""

    def __init__(self, instance: Instance, key: str) -> None:
        self.instance, self.key = instance, key
        self.acknowledged: dict[str, int] = {}  # transaction to the revision it was told
        self.unknown: list[str] = []
        self.reads: Counter[int] = Counter()
        self.waited: list[int] = []
        self.half: list[bytes] = []
        self.troubles: list[str] = []
        self.stopping = threading.Event()
        self.seen: list[list[int]] = [[] for _ in range(STREAMS)]
        self.last: list[str | None] = [None] * STREAMS
        self.clean = 0
        streams = [opened(instance, key) for _ in range(STREAMS)]
        self.threads = [
            *(self._thread(self._write, f"w{at}", "orders" if at == 0 else "load") for at in range(WRITERS)),
            *(self._thread(self._read) for _ in range(READERS)),
            *(self._thread(self._follow, at, stream) for at, stream in enumerate(streams)),
            *(self._thread(self._wait, "GET", "/changes?after=now&wait=30&collections=quiet") for _ in range(WAITING)),
            self._thread(self._wait, "POST", "/workloads/claim"),
            self._thread(self._half_a_body),
        ]

    def _thread(self, body: Callable[..., None], *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                body(*arguments)
            except BaseException as error:
                self.troubles.append(f"{body.__name__}: {error!r}")

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def join(self) -> None:
        """Wait until everybody has heard the end of what they had under way."""
        for thread in self.threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self.threads), "somebody was never answered"

    def _write(self, name: str, collection: str) -> None:
        """Commit one transaction after the other until there is nobody any more."""
        with self.instance.client(self.key) as client:
            number = 0
            while True:
                number += 1
                transaction = f"{name}-{number}"
                value = {"n": number, "text": "x" * 300}
                body = {
                    "transactionId": transaction,
                    "operations": [{"collection": collection, "id": transaction, "value": value}],
                }
                try:
                    answer = client.post("/transactions", json=body)
                except httpx.ConnectError:
                    return  # never sent
                except httpx.TransportError as error:
                    self._broken(error)
                    self.unknown.append(transaction)
                    continue
                if answer.status_code == 201:
                    self.acknowledged[transaction] = answer.json()["commitRevision"]
                elif answer.status_code == 503 and answer.json()["code"] == "COMMIT_UNKNOWN":
                    self.unknown.append(transaction)
                elif answer.status_code != 503:
                    self.troubles.append(f"{transaction}: {answer.status_code} {answer.text[:200]}")
                time.sleep(0.1 if collection == "orders" else 0.005)

    def _read(self) -> None:
        with self.instance.client(self.key) as client:
            while True:
                try:
                    answer = client.post("/query", json={"collection": "load", "limit": 100, "count": True})
                    self.reads[answer.status_code] += 1
                    json.loads(answer.content)
                except httpx.ConnectError:
                    return
                except httpx.TransportError as error:
                    self._broken(error)
                time.sleep(0.01)

    def _broken(self, error: httpx.TransportError) -> None:
        """Before the stop no connection breaks; then one may close between two answers, never within one."""
        if not self.stopping.is_set() or "incomplete" in str(error):
            self.troubles.append(repr(error))

    def _follow(self, at: int, stream: Reader) -> None:
        for frame in stream.frames():
            if "operations" in frame:
                self.seen[at] += [each["sequence"] for each in frame["operations"]]
            self.last[at] = frame["id"] or self.last[at]
        self.clean += 1  # EOFError is raised at any other end
        stream.close()

    def _wait(self, method: str, path: str) -> None:
        """Ask for what does not come: the stop answers it."""
        body = {"worker_id": "packer", "capabilities": ["pack"], "max": 1, "wait_ms": 30_000}
        with self.instance.client(self.key) as client:
            self.waited.append(client.request(method, path, json=body if method == "POST" else None).status_code)

    def _half_a_body(self) -> None:
        with socket.create_connection(("127.0.0.1", self.instance.port), timeout=60) as connection:
            connection.sendall(HALF_A_BODY)
            try:
                self.half.append(connection.recv(1 << 16))
            except ConnectionResetError:
                self.half.append(b"")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Supervised]:
    app = tmp_path / "programs" / "shipping"
    app.mkdir(parents=True)
    (app / "__init__.py").write_text("")
    (app / "capabilities.py").write_text(PROGRAM)
    environment = {"FELTDB_APPS": "shipping", "PYTHONPATH": str(app.parent), "WEB_WORKERS": "2"}
    with Supervised(tmp_path / "data", **environment, WORKER_CONCURRENCY="6") as made:
        yield made
        for left in processes_of(made.data_dir):
            os.kill(left, signal.SIGKILL)


def healthy(instance: Instance) -> bool:
    """What the container's health check says."""
    command = [sys.executable, str(ROOT / "deploy/healthcheck.py")]
    return (
        subprocess.run(command, env=instance.environment, capture_output=True, check=False, timeout=30).returncode == 0
    )


def states(instance: Instance) -> Counter[str]:
    """Work by state, as the stopped database has it."""
    with closing(sqlite3.connect(f"file:{instance.data_dir / 'control.sqlite3'}?mode=ro", uri=True)) as database:
        return Counter(dict(database.execute("SELECT state, count(*) FROM workloads_workload GROUP BY state")))


def every(client: httpx.Client, collection: str) -> dict[str, int]:
    """Each record's id and version."""
    found, cursor = {}, ""
    while cursor is not None:
        page = client.get(
            f"/collections/{collection}", params={"limit": 1000, **({"cursor": cursor} if cursor else {})}
        )
        assert page.status_code == 200, page.text
        found |= {each["id"]: each["version"] for each in page.json()["records"]}
        cursor = page.json()["next_cursor"]
    return found


@pytest.mark.timeout(200)
def test_a_stop_with_everything_in_flight_loses_nothing_acknowledged_and_ends_within_the_grace(
    instance: Supervised,
) -> None:
    key = instance.new_key("*")
    supervisor = instance.start()
    assert healthy(instance)
    with instance.client(key) as client:
        trigger = {
            "trigger_id": "ship-orders",
            "source_collection": "orders",
            "change_kind": "insert",
            "target_capability": "ship",
        }
        assert client.post("/triggers", json=trigger).status_code == 201
    clients = Clients(instance, key)
    time.sleep(BUSY_S)
    with instance.client(key) as client:
        counts = client.get("/workloads/counts").json()
    running = session_members(supervisor.pid)

    clients.stopping.set()
    began = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    supervisor.wait(GRACE_S + 20)
    took_s = time.monotonic() - began
    clients.join()
    left = states(instance)
    assert not healthy(instance)

    assert took_s < GRACE_S, f"stopping took {took_s:.1f} s"
    assert not [pid for pid in running if Path(f"/proc/{pid}").exists()] and not processes_of(instance.data_dir)
    assert clients.troubles == []
    assert clients.clean == STREAMS and clients.waited == [200] * (WAITING + 1)
    assert clients.reads[200] > 10 and set(clients.reads) <= {200, 503}
    assert len(clients.acknowledged) > 50 and [
        each[:12] in (b"", b"HTTP/1.1 408", b"HTTP/1.1 503") for each in clients.half
    ] == [True]
    assert left["RUNNING"] == left["CLAIMED"] == 0, f"finished or handed back: {left}"
    figures = (
        f"stopped in {took_s:.1f} s with {counts} of work; {len(clients.acknowledged)} acknowledged, "
        f"{len(clients.unknown)} unknown, {clients.reads} reads, work then {dict(left)}"
    )
    print(figures)

    supervisor = instance.start()
    with instance.client(key) as client:
        committed = set(clients.acknowledged)
        for transaction in clients.unknown:
            answer = client.get(f"/transactions/{transaction}")
            assert answer.status_code in (200, 404), answer.text
            committed |= {transaction} if answer.status_code == 200 else set()
        orders = every(client, "orders")
        assert orders | every(client, "load") == dict.fromkeys(committed, 1), "what was told is what is there"
        until = time.monotonic() + 60
        while (shipped := every(client, "shipped")).keys() != {each.split("-")[1] for each in orders}:
            assert time.monotonic() < until, (len(shipped), len(orders), client.get("/workloads/counts").text)
            time.sleep(0.2)
        assert set(shipped.values()) == {1}, "none twice"
        head = client.get("/revision").json()["revision"]
        for seen, last in zip(clients.seen, clients.last, strict=True):
            resumed = opened(instance, key, last)
            for frame in resumed.frames():
                seen += [each["sequence"] for each in frame["operations"]]
                if seen[-1] >= head:
                    break
            resumed.close()
            assert seen == list(range(1, len(seen) + 1)), "a stream goes on without a hole and repeats nothing"
        time.sleep(1)
        work = [each for each in client.get("/workloads?limit=1000").json()["workloads"]]
        assert {each["state"] for each in work} == {"SUCCEEDED"} and len(work) == len(orders), Counter(
            each["state"] for each in work
        )
    supervisor.send_signal(signal.SIGTERM)
    supervisor.wait(GRACE_S)
