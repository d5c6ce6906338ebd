"""A whole request is told from its bytes, in whatever pieces; what cannot be followed is left to the parser."""

import random
from urllib.parse import unquote_to_bytes

import pytest
from gunicorn.config import Config
from gunicorn.http import RequestParser

from feltsite.serving import framing
from feltsite.serving.framing import MAX_BODY_BYTES, MAX_HEAD_BYTES, Framing, target

WHOLE = [
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\ncontent-LENGTH : 0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nTrailer: y\r\n\r\n",
]
PASSED_ON = [
    b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 4000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1),
    b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 9000,
]


@pytest.mark.parametrize("request_bytes", WHOLE)
def test_a_request_is_whole_with_its_last_byte_and_not_before(request_bytes: bytes) -> None:
    buffer, following = bytearray(), Framing()
    for place in range(len(request_bytes)):
        assert not following.ready(buffer), buffer
        buffer.append(request_bytes[place])
    assert following.ready(buffer) and following.whole


@pytest.mark.parametrize("request_bytes", WHOLE)
def test_what_follows_a_whole_request_is_left_in_the_buffer(request_bytes: bytes) -> None:
    buffer, following = bytearray(request_bytes + b"GET /next"), Framing()
    assert following.ready(buffer) and following.whole
    following.drop(buffer)
    assert buffer == b"GET /next"


def test_pieces_of_any_size_tell_the_same() -> None:
    seed = random.randrange(10**9)
    chance = random.Random(seed)
    for _ in range(300):
        chunks = [chance.randbytes(chance.choice([1, 2, 15, 16, 300])) for _ in range(chance.randrange(1, 6))]
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        whole = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + body
        buffer, following, place = bytearray(), Framing(), 0
        while place < len(whole):
            assert not following.ready(buffer), seed
            piece = chance.randrange(1, 40)
            buffer += whole[place : place + piece]
            place += piece
        assert following.ready(buffer) and following.whole, seed


@pytest.mark.parametrize("request_bytes", PASSED_ON)
def test_what_cannot_be_followed_is_handed_over_and_not_whole(request_bytes: bytes) -> None:
    following = Framing()
    assert following.ready(bytearray(request_bytes)) and not following.whole


def test_a_head_without_end_is_handed_over_at_its_limit() -> None:
    following, head = Framing(), b"GET / HTTP/1.1\r\nA: "
    buffer = bytearray(head + b"a" * (MAX_HEAD_BYTES - len(head)))
    assert not following.ready(buffer)
    buffer += b"a"
    assert following.ready(buffer) and not following.whole


def test_chunks_without_end_are_handed_over_at_the_limit() -> None:
    buffer, following = bytearray(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), Framing()
    piece = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
    for _ in range(MAX_BODY_BYTES // len(piece) + 1):
        assert not following.ready(buffer)
        buffer += piece
    assert following.ready(buffer) and not following.whole


def test_one_huge_chunk_is_handed_over_before_it_is_in() -> None:
    buffer = bytearray(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFF\r\naa")
    following = Framing()
    assert following.ready(buffer) and not following.whole


def test_a_client_that_waits_to_be_told_to_go_on_is_told_once_and_its_header_is_gone() -> None:
    buffer = bytearray(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    following = Framing()
    assert not following.ready(buffer) and following.continues
    assert b"xpect" not in buffer
    following.continues = False
    buffer += b"{}"
    assert following.ready(buffer) and following.whole and not following.continues
    assert bytes(buffer) == b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"


def test_the_path_is_read_from_the_request_line() -> None:
    assert target(bytearray(b"GET /health?x=1 HTTP/1.1\r\n\r\n")) == (b"GET", b"/health")
    assert target(bytearray(b"GARBAGE\r\n\r\n")) == (b"", b"")
    assert framing.target(bytearray(b"")) == (b"", b"")


@pytest.mark.parametrize(
    "spelled",
    [
        b"/admin/login/",
        b"/admin/%6cogin/?next=/",
        b"/admin/login/#part",
        b"http://somewhere:80/admin/login/",
        b"http://somewhere:80/%61dmin/login/?x#y",
    ],
)
def test_the_path_is_the_one_that_the_servers_parser_finds_however_it_is_spelled(spelled: bytes) -> None:
    sent = b"POST " + spelled + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    parsed = next(RequestParser(Config(), iter([sent]), None))
    assert target(bytearray(sent)) == (b"POST", unquote_to_bytes(parsed.path)) == (b"POST", b"/admin/login/")
