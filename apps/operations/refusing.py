"""What the server's loop answers by itself, without a thread: that it is busy, or that a request came in too slowly.

Counted as the middleware counts; the texts are the same.
"""

from apps.http import envelope, measures, strict_json
from apps.http.codes import CODES
from apps.http.console import CONSOLE_PREFIX
from apps.http.errors import ApiError
from apps.operations.admission import NEVER_SHED, SIGN_IN, Lane, overloaded

PROBES = frozenset(path.encode() for path in NEVER_SHED)
CONSOLE = CONSOLE_PREFIX.encode()
SIGNING_IN = SIGN_IN.encode()


def busy(*, keep: bool, sign_in: bool = False) -> bytes:
    """Return the whole answer to a request for which not even a thread is free; `sign_in` tells which lane's it is."""
    measures.SHED.labels(Lane.SIGN_IN if sign_in else Lane.API).inc()
    return _answer(overloaded(), "Service Unavailable", keep=keep)


def too_slow() -> bytes:
    """Return the whole answer to a request that did not come in whole in time."""
    error = ApiError("REQUEST_TIMEOUT", "The request did not come in whole in time; send it faster, or again.")
    return _answer(error, "Request Timeout", keep=False)


def _answer(error: ApiError, phrase: str, *, keep: bool) -> bytes:
    measures.REFUSALS.labels(error.code).inc()
    measures.REQUESTS.labels("none", "OTHER", error.status).inc()
    request_id = envelope.new_request_id()
    body = strict_json.dumps(envelope.body(error, request_id))
    lines = [
        f"HTTP/1.1 {CODES[error.code].status} {phrase}",
        f"Connection: {'keep-alive' if keep else 'close'}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-ID: {request_id}",
        *(f"{name}: {value}" for name, value in error.headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + body
