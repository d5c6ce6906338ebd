"""What the server's loop answers by itself, without a thread: that it is busy, or that a request came in too slowly.

Counted as the middleware counts; the texts are the same. A refusal is made once and given again with an id of its own:
while most are refused, what one costs decides how many can be accepted.
"""

from functools import cache
from typing import Any

from apps.http import envelope, measures, strict_json
from apps.http.codes import CODES
from apps.http.console import CONSOLE_PREFIX
from apps.http.errors import ApiError
from apps.operations.admission import NEVER_SHED, SIGN_IN, Lane, overloaded

PROBES = frozenset(path.encode() for path in NEVER_SHED)
CONSOLE = CONSOLE_PREFIX.encode()
SIGNING_IN = frozenset((method.encode(), path.encode()) for method, path in SIGN_IN)


def busy(*, keep: bool, sign_in: bool = False) -> bytes:
    """Return the whole answer to a request for which not even a thread is free; `sign_in` tells which lane's it is."""
    for count in _counts_of_busy(Lane.SIGN_IN if sign_in else Lane.API):
        count.inc()
    return _busy(keep).replace(_NO_ID, envelope.new_request_id().encode())


def too_slow() -> bytes:
    """Return the whole answer to a request that did not come in whole in time."""
    error = ApiError("REQUEST_TIMEOUT", "The request did not come in whole in time; send it faster, or again.")
    for count in _counts(error):
        count.inc()
    return _answer(error, "Request Timeout", keep=False).replace(_NO_ID, envelope.new_request_id().encode())


def _counts(error: ApiError) -> tuple[Any, ...]:
    return measures.REFUSALS.labels(error.code), measures.REQUESTS.labels("none", "OTHER", error.status)


@cache
def _counts_of_busy(lane: Lane) -> tuple[Any, ...]:
    return (measures.SHED.labels(lane), *_counts(overloaded()))


@cache
def _busy(keep: bool) -> bytes:
    return _answer(overloaded(), "Service Unavailable", keep=keep)


_NO_ID = envelope.new_request_id().encode()
"""Stands where an answer's request id belongs; random, so that it is nothing else in it."""


def _answer(error: ApiError, phrase: str, *, keep: bool) -> bytes:
    body = strict_json.dumps(envelope.body(error, _NO_ID.decode()))
    lines = [
        f"HTTP/1.1 {CODES[error.code].status} {phrase}",
        f"Connection: {'keep-alive' if keep else 'close'}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-ID: {_NO_ID.decode()}",
        *(f"{name}: {value}" for name, value in error.headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + body
