"""What the server's loop refuses by itself when all threads are taken: the worker's own loop over real sockets."""

import json
import logging
import os
import selectors
import socket
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from gunicorn.config import Config

from apps.http import budget, measures
from apps.operations import refusing
from feltsite.serving import worker as serving
from feltsite.serving.connections import State

PIPELINED = 3_000
LARGE_BYTES = 1024 * 1024
LARGE = 200  # more together than all requests being gathered may hold


@pytest.fixture
def loop() -> Iterator[Any]:
    """A worker that has no thread to give, with nothing but its loop."""
    made = serving.WholeRequestWorker(1, os.getpid(), [], None, 60, Config(), logging.getLogger("tests"))
    made.poller, made.alive, made.tpool = selectors.DefaultSelector(), True, object()
    made._budget, made._refusing = budget, refusing
    made._probes = made._console = made._sign_ins = None
    made._working.most = 0
    yield made
    for conn in list(made._waiting):
        made._close(conn)
    made.poller.close()
    made.tmp.close()


@pytest.fixture
def client(loop: Any) -> Iterator[socket.socket]:
    """The client's end of a connection that the loop has taken in."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        with socket.create_connection(listener.getsockname()) as ours:
            ours.setblocking(False)
            while not loop._waiting:
                loop.accept(listener)
            yield ours


def request(body: bytes = b"{}") -> bytes:
    return b"POST /v1/transactions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def exchange(loop: Any, client: socket.socket, sent: bytes, answers: int) -> list[dict[str, Any]]:
    """Send and read while the loop turns; give the body of each answer, with its header's request id beside it."""
    left, received, found = memoryview(sent), bytearray(), []
    for _ in range(100_000):
        if left:
            try:
                left = left[client.send(left[:65536]) :]
            except BlockingIOError:
                pass
        loop.wait_for_and_dispatch_events(0)
        try:
            received += client.recv(1 << 20)
        except BlockingIOError:
            continue
        while (end := received.find(b"\r\n\r\n")) >= 0:
            first, *lines = received[:end].decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            length = int(headers["content-length"])
            if len(received) < end + 4 + length:
                break  # the rest of its body is under way
            body = json.loads(received[end + 4 : end + 4 + length])
            assert first == "HTTP/1.1 503 Service Unavailable" and body["request_id"] == headers["x-request-id"]
            found.append(body)
            del received[: end + 4 + length]
        if len(found) == answers:
            return found
    raise AssertionError(f"{len(found)} answers")


def test_thousands_of_requests_one_behind_the_other_are_each_refused(loop: Any, client: socket.socket) -> None:
    found = exchange(loop, client, request() * PIPELINED, PIPELINED)
    assert {(body["code"], body["reason"]) for body in found} == {("SERVICE_OVERLOADED", "IN_FLIGHT_LIMIT")}
    assert len({body["request_id"] for body in found}) == PIPELINED
    assert loop._gathered == 0
    assert [conn.state for conn in loop._waiting] == [State.IDLE]


@pytest.mark.parametrize(
    "target",
    [
        b"/v1/auth/signin",
        b"/admin/login/",
        b"/admin/login/?next=/admin/",
        b"/%61dmin/log%69n/",
        b"http://x/admin/login/",
    ],
)
def test_passwords_have_the_room_of_signing_in_at_every_door_and_however_it_is_spelled(
    loop: Any, client: socket.socket, target: bytes
) -> None:
    loop._working.most, loop._signing_in.most = 100, 0  # whatever went elsewhere would have room, and no thread
    sent = request().replace(b"/v1/transactions", target)
    before = measures.SHED.labels("sign-in")._value.get()
    assert len(exchange(loop, client, sent * 3, 3)) == 3
    assert measures.SHED.labels("sign-in")._value.get() == before + 3


def test_large_requests_that_were_refused_leave_their_room_to_later_ones(loop: Any, client: socket.socket) -> None:
    body = b" " * LARGE_BYTES
    assert LARGE * LARGE_BYTES > serving.GATHERED_BYTES
    for _ in range(LARGE):
        exchange(loop, client, request(body), 1)
    assert loop._gathered == 0


def test_a_client_that_is_gone_before_it_is_refused_ends_only_itself(loop: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for _ in range(50):
            gone = socket.create_connection(listener.getsockname())
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            gone.sendall(request() * 5)
            gone.close()  # resets
            loop.accept(listener)
            loop.wait_for_and_dispatch_events(0)
    assert not loop._waiting and loop.nr_conns == 0


def test_signs_of_life_are_given_every_second_and_not_at_every_turn(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    now = 1_000.0
    monkeypatch.setattr(serving.time, "monotonic", lambda: now)
    monkeypatch.setattr(loop.tmp, "notify", lambda: given.append(now))
    for _ in range(1_000):
        loop.notify()
        now += 0.01
    assert len(given) in (10, 11)
    assert max(b - a for a, b in pairwise(given)) < loop.timeout / 10
