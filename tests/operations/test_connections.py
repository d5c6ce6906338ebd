"""Slow and idle clients, over real sockets against the real server: they cost others nothing. About 35 s.

In torture it is measured: what another client sees at p99 is less than twice what it sees without them.
"""

import contextlib
import json
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo.instance import Instance

pytestmark = pytest.mark.acceptance

DEADLINE_S = 5.0
SLACK_S = 5.0  # of a machine that others use too
HELD_UP_MS = 2_000  # whoever had to wait for a thread would wait for the deadline of those that hold it
ROUNDS, ASKED = 5, 300  # of the measurement in torture
IDLE = 1_000
HALF_A_BODY = b"POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b"{" * 500


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    environment = {"FELTDB_CONNECTION_DEADLINE_MS": str(int(DEADLINE_S * 1000)), "WEB_WORKERS": "2"}
    with Instance(
        tmp_path_factory.mktemp("connections") / "data", FELTDB_MAX_CONNECTIONS="300", **environment
    ) as running:
        running.start_server()
        yield running


@pytest.fixture(scope="module")
def key(instance: Instance) -> str:
    return instance.new_key("*")


def connect(instance: Instance) -> socket.socket:
    return socket.create_connection(("127.0.0.1", instance.port), timeout=15)


def ask(connection: socket.socket, path: str, key: str = "") -> tuple[int, dict[str, str], bytes]:
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    return read(connection)


def read(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    stream = connection.makefile("rb")
    first = stream.readline()
    if not first:
        raise ConnectionResetError("closed without an answer")
    status = int(first.split()[1])
    headers = dict(line.decode().strip().lower().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
    return status, headers, stream.read(int(headers.get("content-length", "0")))


def slowest_ms(instance: Instance, key: str, *, requests: int = 40) -> float:
    """The slowest of so many requests, each on a connection of its own: what another client sees."""
    slowest = 0.0
    for _ in range(requests):
        started = time.monotonic()
        with connect(instance) as connection:
            assert ask(connection, "/v1/keys/current", key)[0] == 200
        slowest = max(slowest, (time.monotonic() - started) * 1000)
    return slowest


def half_bodies(instance: Instance, key: str) -> list[socket.socket]:
    opened = [connect(instance) for _ in range(64)]
    for connection in opened:
        connection.sendall(HALF_A_BODY)
    return opened


def idle_connections(instance: Instance, key: str) -> list[socket.socket]:
    opened = [connect(instance) for _ in range(IDLE)]
    for connection in opened[::20]:
        assert ask(connection, "/health")[0] == 200
    return opened


def slow_readers(instance: Instance, key: str) -> list[socket.socket]:
    opened = []
    for _ in range(64):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", instance.port))
        reader.sendall(
            f"GET /v1/collections/large HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        )
        opened.append(reader)
    return opened


def test_64_clients_that_send_half_a_body_do_not_hold_up_others_and_are_told_at_the_deadline(
    instance: Instance, key: str
) -> None:
    with contextlib.ExitStack() as stack:
        started = time.monotonic()
        half = [stack.enter_context(connection) for connection in half_bodies(instance, key)]
        assert slowest_ms(instance, key, requests=15) < HELD_UP_MS
        with connect(instance) as probe:
            assert ask(probe, "/health")[0] == 200
        assert time.monotonic() - started < DEADLINE_S, "all of this while they were still holding on"
        for connection in half:
            status, headers, body = read(connection)
            assert (status, headers["connection"], json.loads(body)["code"]) == (408, "close", "REQUEST_TIMEOUT")
        assert DEADLINE_S * 0.9 < time.monotonic() - started < DEADLINE_S + SLACK_S


def test_the_deadline_is_for_the_whole_request_however_steadily_its_bytes_trickle(instance: Instance) -> None:
    with connect(instance) as connection:
        started = time.monotonic()
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(OSError):
            while time.monotonic() - started < DEADLINE_S + 6:
                connection.sendall(b"X-A: b\r\n")
                time.sleep(0.1)
        assert time.monotonic() - started < DEADLINE_S + SLACK_S


def test_more_idle_connections_than_may_be_open_shut_nobody_out(instance: Instance, key: str) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(instance)) for _ in range(1000)]
        for connection in idle[:50]:
            with contextlib.suppress(OSError):
                ask(connection, "/v1/keys/current", key)
        assert slowest_ms(instance, key) < HELD_UP_MS


def test_slow_readers_of_large_answers_hold_no_thread(instance: Instance, key: str) -> None:
    with instance.client(key) as client:
        value = {"text": "a" * 30_000}
        operations = [{"collection": "large", "id": f"{n:03}", "value": value} for n in range(100)]
        done = client.post("/transactions", json={"transactionId": "fill", "operations": operations})
        assert done.status_code == 201, done.text
    with contextlib.ExitStack() as stack:
        for reader in slow_readers(instance, key):
            stack.enter_context(reader)
        time.sleep(0.5)
        assert slowest_ms(instance, key, requests=20) < HELD_UP_MS


def test_a_client_that_reads_slowly_but_steadily_gets_all_of_a_large_answer(instance: Instance, key: str) -> None:
    with connect(instance) as connection:
        connection.sendall(
            f"GET /v1/collections/large HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        )
        received = b""
        while b'"next_cursor"' not in received:
            piece = connection.recv(65536)
            assert piece, "the answer broke off"
            received += piece
            time.sleep(0.005)
    assert len(json.loads(received.partition(b"\r\n\r\n")[2])["records"]) == 100


def test_requests_sent_one_behind_the_other_are_answered_in_order(instance: Instance, key: str) -> None:
    one = f"Host: localhost\r\nAuthorization: Bearer {key}\r\n".encode()
    body = b'{"collection":"large","limit":1}'
    with connect(instance) as connection:
        connection.sendall(
            b"GET /v1/keys/current HTTP/1.1\r\n" + one + b"\r\n"
            b"POST /v1/query HTTP/1.1\r\n" + one + b"Content-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body + b"GET /v1/nothing HTTP/1.1\r\n" + one + b"\r\n"
        )
        stream = connection.makefile("rb")
        statuses = []
        for _ in range(3):
            statuses.append(int(stream.readline().split()[1]))
            headers = dict(line.decode().strip().lower().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
            stream.read(int(headers["content-length"]))
    assert statuses == [200, 200, 404]


def test_stopping_answers_what_is_being_worked_on_and_ends_within_the_grace_period(tmp_path: Path) -> None:
    with Instance(tmp_path / "data", WEB_WORKERS="1") as running:
        running.start_server()
        secret = running.new_key("*")
        answers: list[int] = []

        def waits() -> None:
            with connect(running) as connection:
                connection.settimeout(40)
                answers.append(ask(connection, "/v1/changes?after=now&wait=2", secret)[0])

        idle, half, waiting = connect(running), connect(running), threading.Thread(target=waits)
        with idle, half:
            ask(idle, "/health")
            half.sendall(HALF_A_BODY)
            waiting.start()
            time.sleep(0.5)
            assert running.server is not None
            started = time.monotonic()
            running.server.terminate()
            running.server.wait(20)
            assert time.monotonic() - started < 12
        waiting.join(60)
        assert answers == [200]


def p99_ms(instance: Instance, key: str) -> float:
    """What one client on one connection sees."""
    took = []
    with connect(instance) as connection:
        for _ in range(ASKED):
            started = time.perf_counter()
            assert ask(connection, "/v1/keys/current", key)[0] == 200
            took.append((time.perf_counter() - started) * 1000)
    return sorted(took)[ASKED * 99 // 100]


@pytest.mark.torture
@pytest.mark.parametrize("crowd", [half_bodies, idle_connections, slow_readers], ids=lambda crowd: crowd.__name__)
def test_others_see_less_than_twice_the_usual_p99(
    crowd: Callable[[Instance, str], list[socket.socket]], tmp_path: Path
) -> None:
    with Instance(tmp_path / "data") as running:
        running.start_server()
        secret = running.new_key("*")
        with running.client(secret) as client:
            operations = [{"collection": "large", "id": f"{n:03}", "value": {"text": "a" * 30_000}} for n in range(100)]
            assert (
                client.post("/transactions", json={"transactionId": "l", "operations": operations}).status_code == 201
            )
        p99_ms(running, secret)
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append(p99_ms(running, secret))
            opened = crowd(running, secret)
            time.sleep(1)
            beside.append(p99_ms(running, secret))
            for connection in opened:
                connection.close()
            time.sleep(0.5)
    figures = (
        f"{crowd.__name__}: p99 alone {statistics.median(alone):.1f} ms, beside {statistics.median(beside):.1f} ms"
    )
    print(figures)
    assert statistics.median(beside) < 2 * statistics.median(alone), figures
