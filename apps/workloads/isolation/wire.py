"""Messages between a worker and a program in a process of its own: JSON, each preceded by its length in four bytes.

child asks       {"ask": "get" | ..., "with": {...}}
worker answers   {"answer": value} | {"refused": {"kind": "cancelled" | "failed" | "raised", ...}}
child says       {"began": true}, once: from here on its time limit counts
child ends with  {"output": value} | {"refused": {...}}
"""

import socket
import struct
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from apps.http import strict_json
from apps.workloads.capabilities import Cancelled, CommitResult, Failed, Mutation, Precondition, Record

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Bytes of one message: a page of records is the largest that is meant; an output beyond its own limit is refused."""

_LENGTH = struct.Struct(">I")


class TooLarge(Exception):
    """The other side announced more than MAX_MESSAGE_BYTES."""


class Ended(Exception):
    """The other side is gone."""


def send(end: socket.socket, message: dict[str, Any], *, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Send a message. Raises Ended, TooLarge, and TypeError or ValueError for what JSON cannot say.

    `meanwhile` is called each time that the socket's time-out passes and nothing could be sent; it may raise.
    """
    raw = strict_json.exact(message)
    if len(raw) > MAX_MESSAGE_BYTES:
        raise TooLarge(f"{len(raw)} bytes")
    left = memoryview(_LENGTH.pack(len(raw)) + raw)
    while left:
        try:
            left = left[end.send(left) :]
        except TimeoutError:
            meanwhile()
        except OSError as error:
            raise Ended from error


def receive(end: socket.socket, *, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Return the next message. Raises Ended, TooLarge.

    `meanwhile` is called each time that the socket's time-out passes and nothing came; it may raise.
    """
    (length,) = _LENGTH.unpack(_exactly(end, _LENGTH.size, meanwhile))
    if length > MAX_MESSAGE_BYTES:
        raise TooLarge(f"{length} bytes")
    message: dict[str, Any] = strict_json.loads(bytes(_exactly(end, length, meanwhile)))
    return message


def _exactly(end: socket.socket, count: int, meanwhile: Callable[[], None]) -> bytearray:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = end.recv(min(count - len(parts), 1 << 20))
        except TimeoutError:
            meanwhile()
            continue
        except OSError as error:
            raise Ended from error
        if not part:
            raise Ended
        parts += part
    return parts


def refusal(error: BaseException) -> dict[str, Any]:
    """Return how an exception is told to the other side."""
    if isinstance(error, Cancelled):
        return {"kind": "cancelled"}
    if isinstance(error, Failed):
        return {
            "kind": "failed",
            "failure": error.kind,
            "message": error.message,
            "effect": error.effect,
            "retry_after_ms": error.retry_after_ms,
        }
    return {"kind": "raised", "type": type(error).__name__, "message": str(error)}


def exception(told: dict[str, Any]) -> BaseException:
    """Return the exception that was told; one of neither kind of ours is a RuntimeError that names it."""
    if told["kind"] == "cancelled":
        return Cancelled()
    if told["kind"] == "failed":
        return Failed(told["failure"], told["message"], effect=told["effect"], retry_after_ms=told["retry_after_ms"])
    return RuntimeError(f"{told['type']}: {told['message']}")


def record_out(record: Record | None) -> Any:
    """Return a record's JSON form."""
    return None if record is None else list(record)


def record_in(told: Any) -> Record | None:
    """Return the record told."""
    return None if told is None else Record(*told)


def mutation_in(told: dict[str, Any]) -> Mutation:
    """Return the mutation told."""
    return Mutation(**told)


def precondition_in(told: dict[str, Any]) -> Precondition:
    """Return the precondition told."""
    return Precondition(**told)


def commit_out(result: CommitResult) -> dict[str, Any]:
    """Return a commit's JSON form."""
    return asdict(result)


def commit_in(told: dict[str, Any]) -> CommitResult:
    """Return the commit told."""
    return CommitResult(**{**told, "sequences": tuple(told["sequences"]), "versions": tuple(told["versions"])})
