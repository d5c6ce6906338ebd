"""What the server works out once gives what gunicorn's own way gives, piece by piece."""

import io
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn import util
from gunicorn.config import Config
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from gunicorn.http.wsgi import Response

from feltsite.serving.answering import Answer, SettledFor, answered, http_date

TRUSTED, STRANGER = ("10.1.2.3", 4000), ("10.9.9.9", 4000)


@pytest.fixture
def cfg() -> Config:
    """A configuration that believes some proxies."""
    made = Config()
    made.set("forwarded_allow_ips", "10.1.2.0/24,::1")
    return made


def parsed(cfg: Any, peer: Any, *lines: str) -> Request:
    """Return the request of these header lines as gunicorn parses it."""
    text = "\r\n".join(["GET /v1/revision HTTP/1.1", "Host: here", *lines, "", ""])
    return Request(cfg, IterUnreader([text.encode()]), peer)


def test_every_setting_is_what_it_was(cfg: Config) -> None:
    settled = SettledFor(cfg)(TRUSTED)
    for name in set(cfg.settings) - {"forwarded_allow_ips"}:
        assert getattr(settled, name) == getattr(cfg, name), name
    assert settled.is_ssl is cfg.is_ssl
    assert settled.address == cfg.address


@pytest.mark.parametrize("peer", [TRUSTED, STRANGER, ("::1", 4000), ("not an address", 1), "/run/a.socket"])
def test_a_peer_is_believed_as_before(cfg: Config, peer: Any) -> None:
    before = parsed(cfg, peer, "X-Forwarded-Proto: https")
    settled = parsed(SettledFor(cfg)(peer), peer, "X-Forwarded-Proto: https")
    assert settled.scheme == before.scheme
    assert settled._peer_trusted_for_forwarded() == before._peer_trusted_for_forwarded()


def test_only_a_trusted_peer_speaks_for_others(cfg: Config) -> None:
    assert parsed(SettledFor(cfg)(TRUSTED), TRUSTED, "X-Forwarded-Proto: https").scheme == "https"
    assert parsed(SettledFor(cfg)(STRANGER), STRANGER, "X-Forwarded-Proto: https").scheme == "http"


HEADS = [
    [],
    [("Content-Type", "application/json"), ("Content-Length", "12"), ("ETag", '"1"')],
    [("content-length", " 7 "), ("X-Two", "a"), ("X-Two", "b")],
    [("Content-Length", "1"), ("Content-Length", "2")],
    [("Content-Length", "many")],
    [("Server", "mine"), ("Date", "today"), ("X-Kept", "yes")],
    [("Connection", "upgrade"), ("Upgrade", "websocket")],
    [("Transfer-Encoding", "chunked")],
    [("X-Empty", ""), ("X-Spaces", " \t in between \t ")],
    [("X-Bytes", "\x80\xff")],
    [("X-Split", "a\r\nSet-Cookie: b")],
    [("X-Split", "a\nX-More: b")],
    [("X-Split\nX-More", "a")],
    [("X-Nul", "a\0b")],
    [("X-Wide", "\u0141")],
    [("X Space", "a")],
    [("X:Colon", "a")],
    [("X", "a\nY\nb")],
    [("X\na\nY", "b")],
    [("X-Last", "a\n")],
    [("X-Last\n", "a")],
    [("", "a")],
    [("X-Number", 3)],
    [(b"X-Bytes", "a")],
]


@pytest.mark.parametrize("head", HEADS)
def test_a_head_is_taken_or_refused_as_before(cfg: Config, head: Any) -> None:
    def outcome(kind: Any) -> Any:
        answer = kind(parsed(cfg, TRUSTED), None, cfg)
        try:
            answer.process_headers(head)
        except Exception as error:
            return type(error)
        return answer.headers, answer.response_length, answer.upgrade

    assert outcome(Answer) == outcome(Response)


@pytest.mark.parametrize("at", [0, 1_700_000_000, 1_700_000_000.9, 4_102_444_800])
def test_dates_are_written_as_before(at: float) -> None:
    assert http_date(at) == util.http_date(at)


def test_the_date_of_now_moves_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for second in (100, 101):
        monkeypatch.setattr("feltsite.serving.answering.time.time", lambda second=second: second + 0.5)
        assert http_date() == util.http_date(second)


class Socket(io.BytesIO):
    """Takes what is sent."""

    def sendall(self, data: bytes) -> None:
        """Keep it."""
        self.write(data)

    def shutdown(self, how: int) -> None:
        """Nothing."""

    def settimeout(self, seconds: float) -> None:
        """Nothing."""

    def recv(self, size: int) -> bytes:
        """Give the end: the client sends no more."""
        return b""

    def close(self) -> None:
        """Stay readable."""


def asked(cfg: Config, application: Any, *, keep: bool = True) -> tuple[Any, bytes]:
    """Return what `answered` tells (or raises), and what went out."""
    conn = SimpleNamespace(sock=Socket(), client=TRUSTED, server=("127.0.0.1", 80), cfg=SettledFor(cfg)(TRUSTED))
    try:
        told: Any = answered(application, parsed(conn.cfg, TRUSTED), conn, logging.getLogger("test"), keep=keep)
    except (RuntimeError, StopIteration, ConnectionResetError) as error:
        told = type(error)
    return told, conn.sock.getvalue()


class Pieces(list[bytes]):
    """An answer's pieces, that know whether they were closed."""

    closed = False

    def close(self) -> None:
        """Note it."""
        self.closed = True


@pytest.mark.parametrize("keep", [True, False])
def test_a_connection_is_kept_unless_it_must_not_be(cfg: Config, keep: bool) -> None:
    pieces = Pieces([b"wh", b"ole"])

    def application(environ: dict[str, Any], start: Any) -> Any:
        assert environ["wsgi.multithread"] is True
        start("200 OK", [("Content-Length", "5")])
        return pieces

    told, sent = asked(cfg, application, keep=keep)
    assert told is keep
    assert pieces.closed
    assert sent.startswith(b"HTTP/1.1 200 OK\r\n") and sent.endswith(b"\r\n\r\nwhole")
    assert (b"Connection: keep-alive" if keep else b"Connection: close") in sent


def test_a_failure_before_the_head_is_the_servers_to_answer(cfg: Config) -> None:
    def application(environ: dict[str, Any], start: Any) -> Any:
        raise RuntimeError("no")

    assert asked(cfg, application) == (RuntimeError, b"")


def test_an_answer_that_breaks_off_gets_nothing_more(cfg: Config) -> None:
    def application(environ: dict[str, Any], start: Any) -> Any:
        start("200 OK", [("Content-Length", "50")])
        yield b"half"
        raise RuntimeError("no")

    told, sent = asked(cfg, application)
    assert told is StopIteration
    assert sent.endswith(b"\r\n\r\nhalf")


def test_a_client_that_is_gone_is_no_failure_of_the_application(cfg: Config) -> None:
    def application(environ: dict[str, Any], start: Any) -> Any:
        start("200 OK", [("Content-Length", "50")])
        yield b"half"
        raise ConnectionResetError

    assert asked(cfg, application)[0] is ConnectionResetError
