"""What leaves at once and what is held back, over a real pair of sockets."""

import importlib
import runpy
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from gunicorn.config import Config

from feltsite.serving.wire import Wire

HEAD, BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"{}"


class Counted:
    """A socket that notes each piece given to the kernel."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self.pieces: list[bytes] = []

    def send(self, data: memoryview) -> int:
        sent = self._raw.send(data)
        self.pieces.append(bytes(data[:sent]))
        return sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


@pytest.fixture
def wire() -> Iterator[Any]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Wire(Counted(ours), write_wait_s=1.0)  # type: ignore[arg-type]


def test_head_and_body_of_an_answer_leave_as_one_piece(wire: Any) -> None:
    for _ in range(2):
        wire.begin()
        wire.sendall(HEAD)
        wire.sendall(BODY)
        wire.end()
    assert wire.raw.pieces == [HEAD + BODY, HEAD + BODY]


def test_a_head_without_a_body_leaves_at_the_end(wire: Any) -> None:
    wire.begin()
    wire.sendall(HEAD)
    assert wire.raw.pieces == []
    wire.end()
    assert wire.raw.pieces == [HEAD]


def test_later_pieces_are_not_held_back(wire: Any) -> None:
    wire.begin()
    for piece in (HEAD, b"a", b"b"):
        wire.sendall(piece)
    assert wire.raw.pieces == [HEAD + b"a", b"b"]


def test_a_stream_is_not_held_back(wire: Any) -> None:
    wire.begin()
    wire.stream()
    wire.sendall(HEAD)
    assert wire.raw.pieces == [HEAD]


def test_what_is_no_answer_is_not_held_back(wire: Any) -> None:
    """The parser's 100 Continue goes by `send`; without it the client would send no body."""
    wire.begin()
    wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert wire.raw.pieces == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    wire.sendall(HEAD)
    wire.sendall(BODY)
    assert wire.raw.pieces[1:] == [HEAD + BODY]


def test_the_loops_own_refusals_are_not_held_back(wire: Any) -> None:
    wire.sendall(HEAD)
    wire.begin()
    wire.sendall(HEAD)
    wire.end()
    wire.sendall(HEAD)
    assert wire.raw.pieces == [HEAD] * 3


def test_nothing_is_put_together_for_an_access_log_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def atoms(*_: Any) -> None:
        raise AssertionError("a line about the request was put together")

    configured = runpy.run_path("feltsite/gunicorn.conf.py")
    module, name = configured["logger_class"].rsplit(".", 1)
    made = object.__new__(getattr(importlib.import_module(module), name))  # without its handlers: they are everybody's
    made.cfg = Config()
    made.cfg.set("logconfig_dict", configured["logconfig_dict"])
    monkeypatch.setattr(made, "atoms", atoms)
    made.access(None, None, {}, timedelta(0))
