"""The worker's side of a program in a process of its own."""

import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from apps.workloads import printed
from apps.workloads.capabilities import JSON, Cancelled, Capability, Context, Failed
from apps.workloads.isolation import wire

logger = logging.getLogger("feltdb.worker")

LOOK_S = 0.1
"""Seconds between two looks at the limit and at whether to give up, while the child asks nothing."""

START_S = 60.0
"""Seconds that a child gets to start Python and Django before its program's own limit counts."""

GIVE_UP_S = 5.0
"""Seconds that a child gets to give up by itself once it is asked to."""

MAX_LINE_BYTES = 8_192
"""Bytes of one line of the log; the rest of a longer one is another line."""

MAX_PRINTED_LINES = 1_000
"""Lines of what one attempt prints that reach the log."""


def run(capability: Capability, input: JSON, context: Context) -> JSON:
    """Run the program in a child and return its output, or raise what it raised.

    A child that ends without a word is Failed of kind `worker_failure`, one beyond its limit of kind `timeout`; both
    have an unknown effect. Raises Cancelled where the child gave up, or was ended because it did not.
    """
    ours, theirs = socket.socketpair()
    with ours:
        try:
            child = _spawn(capability.name, theirs)
        finally:
            theirs.close()
        over = threading.Event()
        printing = (child.stdout, context.workload_id, over)
        threading.Thread(target=_log, args=printing, name="printed", daemon=True).start()
        try:
            return _attend(child, ours, capability, input, context)
        finally:
            _end(child)
            over.set()


def _spawn(name: str, theirs: socket.socket) -> "subprocess.Popen[bytes]":
    arguments = [sys.executable, "-m", "apps.workloads.isolation.child", name, str(theirs.fileno()), str(os.getpid())]
    child = subprocess.Popen(  # noqa: S603 - our own interpreter and module; the name is a registered one
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    return child


class _Watch:
    """How long the child may go on: its time limit, what is asked of its work, whether its process is still there."""

    def __init__(self, child: "subprocess.Popen[bytes]", context: Context) -> None:
        self._child = child
        self._context = context
        self._give_up_at: float | None = None
        self._gone = False
        self.limit(START_S)

    def limit(self, limit_s: float | None) -> None:
        """From now on it has so many seconds."""
        self._limit_s = limit_s
        self._until = None if limit_s is None else time.monotonic() + limit_s

    def look(self) -> None:
        """Raise Failed beyond the limit, and Cancelled where it does not give up although it was asked to."""
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            raise Failed("timeout", f"ran longer than {self._limit_s} s", effect="unknown")
        if self._give_up_at is None and self._context.cancelled():
            self._give_up_at = now + GIVE_UP_S
        if self._give_up_at is not None and now >= self._give_up_at:
            raise Cancelled

    def meanwhile(self) -> None:
        """Look, while nothing comes or goes. Raises Ended too where its process is gone and had nothing left to say.

        The connection alone does not tell: something that the program left behind may hold it open.
        """
        self.look()
        if self._gone:
            raise wire.Ended
        self._gone = self._child.poll() is not None


def _attend(
    child: "subprocess.Popen[bytes]", ours: socket.socket, capability: Capability, input: JSON, context: Context
) -> JSON:
    watch = _Watch(child, context)
    ours.settimeout(LOOK_S)
    try:
        wire.send(ours, _order(input, context), meanwhile=watch.meanwhile)
        while True:
            watch.look()
            told = wire.receive(ours, meanwhile=watch.meanwhile)
            if "began" in told:
                watch.limit(capability.time_limit_s)
            elif "ask" in told:
                wire.send(ours, _answer(context, told), meanwhile=watch.meanwhile)
            elif "output" in told:
                return told["output"]
            else:
                raise _end_told(told["refused"])
    except wire.Ended:
        raise Failed("worker_failure", _how_it_ended(child), effect="unknown") from None
    except wire.TooLarge as error:
        raise Failed("execution_error", f"the program said too much at once: {error}", effect="unknown") from error


def _end_told(told: dict[str, Any]) -> BaseException:
    if told["kind"] == "raised":
        return Failed("execution_error", f"{told['type']}: {told['message']}")
    return wire.exception(told)


def _order(input: JSON, context: Context) -> dict[str, Any]:
    return {
        "input": input,
        "workload_id": context.workload_id,
        "namespace": context.namespace,
        "attempt": context.attempt,
        "traceparent": context.traceparent,
        "deadline_at_ms": context.deadline_at_ms,
    }


def _answer(context: Context, told: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": _ASKED[told["ask"]](context, told["with"])}
    except Exception as error:  # whatever it is, it is the program's to deal with
        return {"refused": wire.refusal(error)}


_ASKED: dict[str, Callable[[Context, dict[str, Any]], Any]] = {
    "cancelled": lambda context, told: context.cancelled(),
    "heartbeat": lambda context, told: context.heartbeat(),
    "checkpoint": lambda context, told: context.checkpoint(told["state"]),
    "checkpoints": lambda context, told: list(context.checkpoints()),
    "commit": lambda context, told: wire.commit_out(
        context.commit(
            told["step"],
            [wire.mutation_in(each) for each in told["mutations"]],
            preconditions=[wire.precondition_in(each) for each in told["preconditions"]],
        )
    ),
    "get": lambda context, told: wire.record_out(context.get(told["collection"], told["record_id"])),
    "page": lambda context, told: [
        wire.record_out(each) for each in context.page(told["collection"], after=told["after"], limit=told["limit"])
    ],
    "query": lambda context, told: [
        wire.record_out(each)
        for each in context.query(
            told["collection"],
            where=told["where"],
            order_by=[(path, direction) for path, direction in told["order_by"]],
            limit=told["limit"],
        )
    ],
}


def _how_it_ended(child: "subprocess.Popen[bytes]") -> str:
    try:
        code = child.wait(GIVE_UP_S)
    except subprocess.TimeoutExpired:
        return "the program closed its connection to the worker"
    if code < 0:
        named = -code in {each.value for each in signal.Signals}
        return f"the program's process was ended by {signal.Signals(-code).name if named else f'signal {-code}'}"
    return f"the program ended its process with code {code}"


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the child and whatever it started: all of its session."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def _log(pipe: IO[bytes], workload_id: str, over: threading.Event) -> None:
    """Log what the program prints, line by line, a bounded number of them, with secrets masked."""
    with pipe:
        for number, line in enumerate(_lines(pipe.fileno(), over)):
            if number == MAX_PRINTED_LINES:
                logger.info("%s: it prints more; that is not kept", workload_id)
            if number < MAX_PRINTED_LINES:
                logger.info("%s: %s", workload_id, printed.masked(line.decode(errors="replace")))


def _lines(descriptor: int, over: threading.Event) -> Iterator[bytes]:
    """Yield lines, in pieces of MAX_LINE_BYTES, until the end of the output.

    Something that the program left behind may keep it open: once the attempt is over, until nothing more comes, for
    GIVE_UP_S at the most.
    """
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    until: float | None = None
    rest = b""
    while until is None or time.monotonic() < until:
        if until is None and over.is_set():
            until = time.monotonic() + GIVE_UP_S
        if not ready.poll(LOOK_S * 1000):
            if until is not None:
                break
            continue
        found = os.read(descriptor, MAX_LINE_BYTES)
        if not found:
            break
        *lines, rest = (rest + found).split(b"\n")
        yield from lines
        if len(rest) >= MAX_LINE_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest
