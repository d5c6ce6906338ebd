"""Bodies through the real server, over sockets: what a test client cannot show. About 4 s."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from feltsite.serving.framing import MAX_BODY_BYTES

pytestmark = pytest.mark.acceptance

LIMIT = 100_000  # of the probe's echo


@dataclass(frozen=True)
class Server:
    """Where it listens, and a key for it."""

    port: int
    secret: str

    def send(self, head: str, *pieces: bytes, wait_s: float = 10) -> tuple[int, dict[str, object], bool]:
        """Send a request in pieces; give its status, its JSON, and whether the server then closed the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait_s) as connection:
            request = f"POST /probe/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.secret}\r\n"
            connection.sendall((request + "Content-Type: application/json\r\n" + head + "\r\n").encode())
            for piece in pieces:
                connection.sendall(piece)
            with connection.makefile("rb") as answer:
                status = int(answer.readline().split()[1])
                headers = dict(line.decode().strip().lower().split(": ", 1) for line in iter(answer.readline, b"\r\n"))
                body = json.loads(answer.read(int(headers["content-length"])))
            return status, body, headers.get("connection") == "close"


def chunks(raw: bytes, size: int) -> bytes:
    pieces = [raw[place : place + size] for place in range(0, len(raw), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data_dir: Path = tmp_path_factory.mktemp("data")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment |= {"FELTDB_DATA_DIR": str(data_dir), "DJANGO_SETTINGS_MODULE": "tests.http.served_settings"}
    environment |= {"PORT": str(port), "WEB_WORKERS": "1"}

    def manage(*arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    manage("migrate", "-v0")
    secret = json.loads(manage("keys", "create", "--name", "k", "--scope", "*", "--json"))["secret"]
    command = [sys.executable, "-m", "gunicorn", "-c", "feltsite/gunicorn.conf.py", "feltsite.wsgi"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield Server(port, secret)
    finally:
        process.terminate()
        process.wait(timeout=20)


def test_a_body_in_chunks_is_read_whole(server: Server) -> None:
    raw = json.dumps({"text": "ü" * 20_000}, ensure_ascii=False).encode()
    status, body, _ = server.send("Transfer-Encoding: chunked\r\n", chunks(raw, 777))
    assert (status, body) == (200, {"value": json.loads(raw)})


def test_a_body_announced_too_large_is_refused_before_a_byte_of_it_was_sent(server: Server) -> None:
    started = time.monotonic()
    status, body, _ = server.send(f"Content-Length: {10**12}\r\n")
    assert (status, body["code"]) == (413, "BODY_TOO_LARGE")
    assert time.monotonic() - started < 5


def test_a_body_in_chunks_without_end_is_refused_once_no_route_would_take_it(server: Server) -> None:
    piece = b"%x\r\n%b\r\n" % (LIMIT // 4, b"a" * (LIMIT // 4))
    status, body, _ = server.send("Transfer-Encoding: chunked\r\n", *[piece] * (MAX_BODY_BYTES // len(piece) + 2))
    assert (status, body["code"]) == (413, "BODY_TOO_LARGE")


def test_chunks_at_the_limit_pass_and_one_byte_more_does_not(server: Server) -> None:
    at_limit = b'"' + b"a" * (LIMIT - 2) + b'"'
    assert server.send("Transfer-Encoding: chunked\r\n", chunks(at_limit, 4096))[0] == 200
    assert server.send("Transfer-Encoding: chunked\r\n", chunks(at_limit + b" ", 4096))[0] == 413


def test_a_hundred_thousand_brackets_are_refused_and_the_server_lives(server: Server) -> None:
    for raw in (b"[" * LIMIT, b'{"a":' * (LIMIT // 5)):
        status, body, _ = server.send(f"Content-Length: {len(raw)}\r\n", raw)
        assert (status, body["code"]) == (400, "JSON_TOO_DEEP")
    assert server.send("Content-Length: 2\r\n", b"{}")[0] == 200


def test_malformed_chunks_are_the_callers_mistake(server: Server) -> None:
    status, body, _ = server.send("Transfer-Encoding: chunked\r\n", b"zz\r\n{}\r\n0\r\n\r\n")
    assert (status, body["code"]) == (400, "JSON_INVALID")


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"GARBAGE\r\n\r\n", 400, "REQUEST_REFUSED"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "REQUEST_REFUSED"),
        (b"GET / HTTP/1.1\r\nBad Header: <b>x</b>\r\n\r\n", 400, "REQUEST_REFUSED"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 414, "TARGET_TOO_LONG"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 9000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: rot13\r\n\r\n", 501, "NOT_IMPLEMENTED"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "REQUEST_REFUSED"),
    ],
)
def test_what_is_no_request_is_refused_with_the_envelope_too(
    server: Server, raw: bytes, status: int, code: str
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(raw)
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    answer = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % status) and b"Content-Type: application/json" in head
    assert (answer["status"], answer["code"]) == (status, code) and answer["request_id"].encode() in head
    assert b"<" not in body
