"""Bytes that are no honest request, over real sockets to the running server with several processes. About 20 seconds.

Each case is answered with its code and leaves the connection safe: either it is closed, or the very next request on it
is answered as itself. What is hidden in a body is never answered. Nothing leaves a traceback in the log.
"""

import contextlib
import re
import socket
from collections.abc import Iterator

import pytest

from demo.instance import Instance

pytestmark = pytest.mark.acceptance

QUERY = b'{"collection":"orders"}'
CHUNKED = b"Transfer-Encoding: chunked\r\n"
ONE_CHUNK = b"17\r\n" + QUERY + b"\r\n"
LENGTH = b"Content-Length: 23\r\n"
END = b"0\r\n\r\n"


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    environment = {"WEB_WORKERS": "2", "FELTDB_CONNECTION_DEADLINE_MS": "4000"}
    with Instance(tmp_path_factory.mktemp("attacked") / "data", **environment) as running:
        running.start_server()
        yield running
        log = running.log_path.read_text()
        assert "Traceback" not in log and " ERROR " not in log, log[-6000:]


@pytest.fixture(scope="module")
def key(instance: Instance) -> bytes:
    return instance.new_key("*").encode()


def ask(instance: Instance, raw: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """Send the bytes; return every answer until the server closes: status, headers by lower-case name, body."""
    with socket.create_connection(("127.0.0.1", instance.port), timeout=30) as connection:
        rest = b""
        # A server that refuses may close while the rest is still on its way: what it answered before counts.
        with contextlib.suppress(ConnectionError):
            connection.sendall(raw)
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                rest += piece
    methods = re.findall(rb"(?:^|\r\n)([A-Z]+) [^\r\n]* HTTP/1\.1(?=\r\n)", raw)
    found = []
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        status = int(first.split()[1])
        bare = status in (100, 204) or methods[len(found) : len(found) + 1] == [b"HEAD"]
        length = 0 if bare else int(headers["content-length"])
        found.append((status, headers, rest[:length]))
        rest = rest[length:]
    return found


def request(key: bytes, line: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
    """Return a request with the key; `line` is method and target."""
    return line + b" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key + b"\r\n" + headers + b"\r\n" + body


def post(key: bytes, headers: bytes, body: bytes = QUERY) -> bytes:
    return request(key, b"POST /v1/query", b"Content-Type: application/json\r\n" + headers, body)


def hidden(key: bytes) -> bytes:
    return request(key, b"GET /v1/revision", b"X-Request-ID: hidden\r\n")


def last(key: bytes) -> bytes:
    return request(key, b"GET /v1/revision", b"X-Request-ID: last\r\nConnection: close\r\n")


FRAMING: dict[str, tuple[bytes, bytes, int]] = {
    "length and chunks": (b"Content-Length: 5\r\n" + CHUNKED, END, 400),
    "chunks and length": (CHUNKED + b"Content-Length: 5\r\n", END, 400),
    "two lengths alike": (LENGTH + LENGTH, QUERY, 400),
    "two lengths": (LENGTH + b"Content-Length: 0\r\n", QUERY, 400),
    "a list of lengths": (b"Content-Length: 23, 23\r\n", QUERY, 400),
    "a length with a sign": (b"Content-Length: +23\r\n", QUERY, 400),
    "a negative length": (b"Content-Length: -1\r\n", QUERY, 400),
    "a hexadecimal length": (b"Content-Length: 0x17\r\n", QUERY, 400),
    "a length of other digits": (b"Content-Length: \xb2\xb3\r\n", QUERY, 400),
    "an empty length": (b"Content-Length: \r\n", QUERY, 400),
    "a length in two parts": (b"Content-Length: 2 3\r\n", QUERY, 400),
    "a space before the colon of a length": (b"Content-Length : 23\r\n", QUERY, 400),
    "a space before the colon of chunks": (b"Transfer-Encoding : chunked\r\n", END, 400),
    "another coding": (b"Transfer-Encoding: xchunked\r\n", END, 501),
    "a coding in quotes": (b'Transfer-Encoding: "chunked"\r\n', END, 501),
    "a coding with a parameter": (b"Transfer-Encoding: chunked;q=1\r\n", END, 501),
    "chunks of a coding nobody undoes": (b"Transfer-Encoding: gzip, chunked\r\n", ONE_CHUNK + END, 501),
    "chunks, then identity": (b"Transfer-Encoding: chunked, identity\r\n", END, 400),
    "identity, then chunks": (b"Transfer-Encoding: identity, chunked\r\n", ONE_CHUNK + END, 501),
    "identity": (b"Transfer-Encoding: identity\r\n" + LENGTH, QUERY, 400),
    "chunks twice": (CHUNKED + CHUNKED, END, 400),
    "a vertical tab before chunks": (b"Transfer-Encoding: \x0bchunked\r\n", END, 400),
    "chunks on the next line": (b"Transfer-Encoding:\r\n chunked\r\n", END, 400),
    "an extension with a line feed": (CHUNKED, b"17;a\n" + QUERY + b"\r\n" + END, 400),
    "an extension with a carriage return": (CHUNKED, b"17;a\rb\r\n" + QUERY + b"\r\n" + END, 400),
    "chunks by line feeds": (CHUNKED, b"17\n" + QUERY + b"\n0\n\n", 400),
    "a chunk's size with 0x": (CHUNKED, b"0x17\r\n" + QUERY + b"\r\n" + END, 400),
    "a chunk's size with a sign": (CHUNKED, b"+17\r\n" + QUERY + b"\r\n" + END, 400),
    "a negative chunk": (CHUNKED, b"-1\r\n" + QUERY + b"\r\n" + END, 400),
    "a chunk's size with an underscore": (CHUNKED, b"1_7\r\n" + QUERY + b"\r\n" + END, 400),
    "a space before a chunk's size": (CHUNKED, b" 17\r\n" + QUERY + b"\r\n" + END, 400),
    "a chunk longer than it says": (CHUNKED, b"17\r\n" + QUERY + b"XX" + END, 400),
    "a chunk shorter than it says": (CHUNKED, b"30\r\n" + QUERY + b"\r\n" + END, 400),
    "a chunk of any size": (CHUNKED, b"FFFFFFFFFFFFFFFFF\r\n" + QUERY, 400),
    "a trailer that is a length": (CHUNKED, ONE_CHUNK + b"0\r\nContent-Length: 5\r\n\r\n", 400),
    "a trailer that is none": (CHUNKED, ONE_CHUNK + b"0\r\nno colon\r\n\r\n", 400),
    "trailers without end": (CHUNKED, ONE_CHUNK + b"0\r\nA: " + b"a" * 70_000 + b"\r\n\r\n", 400),
    "an expectation nobody meets": (b"Expect: 200-ok\r\n" + LENGTH, QUERY, 417),
}


@pytest.mark.parametrize("name", FRAMING)
def test_a_body_whose_end_is_in_doubt_is_refused_and_nothing_behind_it_is_answered(
    name: str, instance: Instance, key: bytes
) -> None:
    headers, body, status = FRAMING[name]
    answers = ask(instance, post(key, headers, body) + hidden(key))
    assert [each[0] for each in answers] == [status]
    assert answers[0][1]["content-type"] == "application/json"


SOUND: dict[str, tuple[bytes, bytes, list[int]]] = {
    "a length with a nought before it": (b"Content-Length: 023\r\n", QUERY, [200]),
    "a tab before chunks": (b"Transfer-Encoding:\tchunked\r\n", ONE_CHUNK + END, [200]),
    "chunks in any case": (b"Transfer-Encoding: ChUnKeD\r\n", ONE_CHUNK + END, [200]),
    "extensions": (CHUNKED, b'17;a=b;c="d"\r\n' + QUERY + b"\r\n0;x\r\n\r\n", [200]),
    "a trailer": (CHUNKED, ONE_CHUNK + b"0\r\nX-Sum: 5\r\n\r\n", [200]),
    "a name with an underscore is none of ours": (b"Transfer_Encoding: chunked\r\n" + LENGTH, QUERY, [200]),
    "an expectation": (b"Expect: 100-continue\r\n" + LENGTH, QUERY, [100, 200]),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_body_is_read_to_its_end_and_the_next_request_is_answered_as_itself(
    name: str, instance: Instance, key: bytes
) -> None:
    headers, body, statuses = SOUND[name]
    answers = ask(instance, post(key, headers, body) + last(key))
    assert [each[0] for each in answers] == [*statuses, 200]
    assert answers[-1][1]["x-request-id"] == "last"


UNREAD: dict[str, tuple[bytes, bytes, int]] = {
    "a read": (b"GET /v1/revision", b"", 200),
    "a delete": (b"DELETE /v1/collections/orders/none", b"", 404),
    "options": (b"OPTIONS /v1/revision", b"", 204),
    "another media type": (b"PUT /v1/collections/orders/none", b"Content-Type: text/plain\r\n", 415),
    "no such route": (b"POST /v1/nothing", b"", 404),
    "no such method": (b"POST /v1/revision", b"", 405),
    "no such namespace": (b"POST /v1/query", b"FeltDB-Namespace: elsewhere\r\n", 403),
    "another protocol": (b"POST /v1/query", b"FeltDB-Protocol: 9\r\n", 426),
}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("name", UNREAD)
def test_a_body_that_nobody_read_is_never_taken_for_a_request(
    name: str, chunked: bool, instance: Instance, key: bytes
) -> None:
    line, headers, status = UNREAD[name]
    body = hidden(key)
    if chunked:
        headers, body = headers + CHUNKED, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        headers += b"Content-Length: %d\r\n" % len(body)
    answers = ask(instance, request(key, line, headers, body) + last(key))
    assert [(each[0], each[1]["x-request-id"] == "last") for each in answers] == [(status, False), (200, True)]


HEADS = [
    "/v1/runtime",
    "/v1/nothing",
    "/v1/export",
    "/v1/events",
    "/v1/openapi.json",
    "/v1/docs",
    "/health",
    "/metrics",
]


@pytest.mark.parametrize("path", HEADS)
def test_head_sends_no_body_that_would_be_taken_for_the_next_answer(path: str, instance: Instance, key: bytes) -> None:
    answers = ask(instance, request(key, b"HEAD " + path.encode()) + last(key))
    assert answers[-1][0] == 200 and answers[-1][1]["x-request-id"] == "last"
    assert [each[0] for each in answers] == [404 if path == "/v1/nothing" else 200, 200]


TARGETS: dict[bytes, int] = {
    b"GET http://localhost/v1/revision": 200,
    b"GET http://evil.example/v1/revision": 400,
    b"GET http://a:b@localhost/v1/revision": 400,
    b"GET http://[v1.x]/v1/revision": 400,
    b"GET http://localhost": 200,
    b"OPTIONS *": 404,
    b"GET //v1/revision": 404,
    b"GET //evil.example/v1/revision": 404,
    b"GET /v1/collections/../revision": 400,
    b"GET /v1/collections/%2e%2e/revision": 400,
    b"GET /v1/collections/o/%2E%2e": 400,
    b"GET /v1%2frevision": 404,
    b"GET /v1/collections/o/a%00b": 400,
    b"GET /v1/collections/o%00/a": 400,
    b"GET /v1/keys/a%00b": 404,
    b"GET /v1/workloads/%00": 404,
    b"GET /v1/triggers/%00": 404,
    b"GET /v1/collections/o/%c0%af": 400,
    b"GET /v1/collections/o/%ed%a0%80": 400,
    b"GET /v1/collections/o/%f4%90%80%80": 400,
    b"GET /v1/collections/o/%zz": 400,
    b"GET /v1/collections/o/%": 400,
    b"GET /v1/collections/o?limit=%zz": 400,
    b"GET /v1/collections/o?cursor=%00": 422,
    b"GET /v1/collections/o?cursor=%ff%fe": 422,
    b"GET /v1/collections/o?limit=%EF%BC%91": 400,
    b"GET /v1/collections/o?limit=1&limit=2": 400,
    b"GET /v1/collections/o?" + b"&".join([b"a=1"] * 2000): 400,
}


@pytest.mark.parametrize("line", TARGETS, ids=lambda line: line[:60].decode())
def test_a_target_of_any_form_is_what_it_says_or_refused(line: bytes, instance: Instance, key: bytes) -> None:
    answers = ask(instance, request(key, line) + last(key))
    assert [(each[0], each[1]["x-request-id"] == "last") for each in answers] == [(TARGETS[line], False), (200, True)]


MALFORMED = [
    b"GET localhost:80 HTTP/1.1\r\nHost: localhost\r\n",
    b"GET * HTTP/1.1\r\nHost: localhost\r\n",
    b"GET http://[::1/v1/revision HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /v1/rev ision HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /v1/collections/o/a\0b HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /v1/collections/o/\xc0\xaf HTTP/1.1\r\nHost: localhost\r\n",
    b"get /v1/revision HTTP/1.1\r\nHost: localhost\r\n",
    b"F(O)O /v1/revision HTTP/1.1\r\nHost: localhost\r\n",
    b"A" * 300 + b" /v1/revision HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /v1/revision HTTP/2.0\r\nHost: localhost\r\n",
    b"GET /v1/revision\r\n",
    b"PRI * HTTP/2.0\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 600 + b"\r\n",
    b"GET /v1/revision HTTP/1.1\r\n",
    b"GET /v1/revision HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n",
    b"GET /v1/revision HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n c\r\n",
    b"GET /v1/revision HTTP/1.1\r\nHost: localhost\r\nX-A: b\rX-B: c\r\n",
    b"GET /v1/revision HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: a\rSet-Cookie: b\r\n",
    b"GET /v1/revision HTTP/1.1\r\nHost: localhost\r\nFeltDB-Namespace: a\0b\r\n",
    b"GET /v1/revision HTTP/1.1\r\nHost: localhost\r\n: x\r\n",
    b"GET /v1/revision HTTP/1.1\r\nHost: localhost\r\nno colon\r\n",
]


@pytest.mark.parametrize("raw", MALFORMED, ids=lambda raw: repr(raw[:70])[2:-1])
def test_what_is_no_request_of_http_is_refused_and_the_connection_closed(
    raw: bytes, instance: Instance, key: bytes
) -> None:
    [(status, headers, body)] = ask(instance, raw + b"\r\n" + hidden(key))
    assert (status, headers["content-type"]) == (400, "application/json")
    assert b'"code":"REQUEST_REFUSED"' in body and b"<" not in body


def test_headers_without_end_or_number_are_refused(instance: Instance, key: bytes) -> None:
    many = b"".join(b"X-%d: 1\r\n" % n for n in range(300))
    long = b"X-Long: " + b"a" * 70_000 + b"\r\n"
    for headers in (many, long):
        [(status, _, body)] = ask(instance, request(key, b"GET /v1/revision", headers))
        assert (status, b'"code":"HEADERS_TOO_LARGE"' in body) == (431, True)


def test_a_request_that_never_ends_is_told_so_at_its_deadline(instance: Instance, key: bytes) -> None:
    for raw in (
        request(key, b"GET /v1/revision").replace(b"\r\n", b"\n"),
        post(key, b"Content-Length: 100\r\n"),
        post(key, CHUNKED, ONE_CHUNK),
    ):
        [(status, _, body)] = ask(instance, raw)
        assert (status, b'"code":"REQUEST_TIMEOUT"' in body) == (408, True)


LIES = [
    b"X-HTTP-Method-Override: DELETE\r\n",
    b"Remote-User: admin\r\nREMOTE_USER: admin\r\n",
    b"PATH_INFO: /health\r\nScript-Name: /health\r\n",
    b"X-Original-URL: /health\r\nX-Rewrite-URL: /health\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n",
    b"Cookie: sessionid=x; feltdb_session=x\r\n",
    b"Authorization: Bearer x\r\n",
]


@pytest.mark.parametrize("headers", LIES, ids=lambda headers: headers.split(b":")[0].decode())
def test_no_header_speaks_for_who_asks_or_for_what(headers: bytes, instance: Instance, key: bytes) -> None:
    plain = b"GET /v1/revision HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"
    assert [each[0] for each in ask(instance, plain + last(key))] == [401, 200]


def test_two_keys_in_one_request_are_none(instance: Instance, key: bytes) -> None:
    twice = request(key, b"GET /v1/revision", b"Authorization: Bearer x\r\n")
    assert [each[0] for each in ask(instance, twice + last(key))] == [401, 200]


@pytest.mark.parametrize("given", ["a%0d%0aSet-Cookie:%20x=1", "a%0aX: 1", "%C2%85", "%7f"])
def test_an_id_that_would_end_a_header_is_refused(given: str, instance: Instance, key: bytes) -> None:
    path = given.replace(" ", "%20").encode()
    put = request(
        key,
        b"PUT /v1/collections/orders/" + path,
        b"Content-Type: application/json\r\nContent-Length: 2\r\n",
        b"{}",
    )
    answers = ask(instance, put + last(key))
    assert [each[0] for each in answers] == [400, 200]
    assert all("set-cookie" not in each[1] and "x" not in each[1] for each in answers)


@pytest.mark.parametrize("named", ['a"b', "a;b=c", "ü€\U0001f600", "a\\u2028b", "a b, c", "<script>", "W/1"])
def test_the_address_of_what_was_made_is_plain_and_leads_to_it(named: str, instance: Instance, key: bytes) -> None:
    body = b'{"id": "%b"}' % named.replace('"', '\\"').encode()
    headers = b"Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n" % len(body)
    [(status, told, _)] = ask(instance, request(key, b"POST /v1/collections/named", headers, body))
    assert status == 201 and re.fullmatch(r"[!-~]+", told["location"]) and told["etag"] == '"1"'
    line = b"GET " + told["location"].encode()
    assert ask(instance, request(key, line, b"Connection: close\r\n"))[0][0] == 200
