"""What the server refuses by itself, before there is a request: a malformed line, headers without end.

gunicorn answers those with a page of its own and has no setting for it; `feltsite/gunicorn.conf.py` puts `write_error`
in the place of the one function that writes it.
"""

import socket
from http import HTTPStatus

from apps.http import envelope, strict_json
from apps.http.codes import CODES, code_for
from apps.http.errors import ApiError


def answer(status: int) -> bytes:
    """Return a whole HTTP answer with the envelope, after which the connection closes."""
    code = code_for(status)
    request_id = envelope.new_request_id()
    body = strict_json.dumps(envelope.body(ApiError(code, CODES[code].title + "."), request_id))
    status = CODES[code].status
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nX-Request-ID: {request_id}\r\n\r\n"
    )
    return head.encode("ascii") + body


def write_error(sock: socket.socket, status_int: int, reason: str, mesg: str) -> None:
    """Take the place of `gunicorn.util.write_error`; the reason stays in the server's log.

    The answer is far smaller than any socket's buffer, so that this never waits for a client that does not read.
    """
    sock.sendall(answer(status_int))
