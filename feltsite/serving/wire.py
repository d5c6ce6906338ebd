"""The socket as a thread sees it: it never waits without end; what a slow reader has not taken is left to the loop.

An answer without an end, a stream, is left to nobody: its thread waits for the client, for a bounded time.
"""

import errno
import select
import socket
import time
from typing import Any

from apps.http import stopping

READ_WAIT_S = 5.0
"""For the next bytes of a body too large to gather: a thread does not wait longer for a silent client."""

OUTBOX_BYTES = 4 * 1024 * 1024
"""Of an answer left to the loop; beyond, the thread waits for the client itself."""

STOP_LOOK_S = 0.25
"""How often a stream that waits for its client looks whether the process is to stop."""


class Wire:
    """Stands in for a connected socket in the server's parser and response. Always non-blocking underneath.

    `outbox` holds what was answered and not yet taken; only the loop touches it while no thread has the connection.
    """

    def __init__(self, sock: socket.socket, *, write_wait_s: float) -> None:
        sock.setblocking(False)
        self.raw = sock
        self.outbox = bytearray()
        self._write_wait_s = write_wait_s
        self._timeout: float | None = None
        self._streaming = False
        self._holds = False
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def setblocking(self, flag: bool) -> None:
        """Change nothing: the loop relies on a socket that never blocks."""

    def settimeout(self, seconds: float | None) -> None:
        """Bound the reads that follow."""
        self._timeout = seconds

    def gettimeout(self) -> float | None:
        """Return what `settimeout` was given."""
        return self._timeout

    def begin(self) -> None:
        """Begin a request: what was said of the answer before holds no longer."""
        self._streaming = False
        self._holds, self._head = True, b""

    def end(self) -> None:
        """End a request: send what of its answer is still held back. Raises as `sendall`."""
        self._holds = False
        if self._head:
            self.sendall(b"")

    def stream(self) -> None:
        """Say that the answer is a stream: each piece is waited for, and nothing of it is left to the loop."""
        self._streaming = True

    def gone(self) -> bool:
        """Tell whether the client has closed the connection, or its side of it."""
        poll = select.poll()
        poll.register(self.raw, select.POLLRDHUP)
        return bool(poll.poll(0))

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return the next bytes. Raises TimeoutError where none come in time."""
        wait_s = READ_WAIT_S if self._timeout is None else min(self._timeout, READ_WAIT_S)
        self._wait(select.POLLIN, wait_s)
        return self.raw.recv(size, flags)

    def send(self, data: bytes, flags: int = 0) -> int:
        """Send all of it at once: it is no part of the answer."""
        self._send_now(data)
        return len(data)

    def sendall(self, data: bytes, flags: int = 0) -> None:
        """Send what the client takes now, keep the rest for the loop. Raises TimeoutError for one that takes none.

        The server writes an answer's head first and alone: from `begin` on the first piece is held back, to go out with
        what follows or at the `end`.
        Of a stream everything is sent, else ConnectionResetError raised: the client is too slow, or the process stops.
        """
        if self._holds and not self._streaming:
            self._holds, self._head = False, data
            return
        head, self._head = self._head, b""
        self._send_now(head + data if head else data)

    def _send_now(self, data: bytes) -> None:
        taken = 0 if self.outbox and not self.flush() else self._send(memoryview(data))
        self.outbox += memoryview(data)[taken:]
        until = time.monotonic() + self._write_wait_s
        if self._streaming:
            self._send_all(until)
        while len(self.outbox) > OUTBOX_BYTES:
            self._wait(select.POLLOUT, until - time.monotonic())
            self.flush()

    def _send_all(self, until: float) -> None:
        while self.outbox and not self.flush():
            left = until - time.monotonic()
            if left <= 0 or stopping.begun():
                self.outbox.clear()
                raise ConnectionResetError(errno.ECONNRESET, "the client of a stream took too little in time")
            try:
                self._wait(select.POLLOUT, min(left, STOP_LOOK_S))
            except TimeoutError:
                continue

    def flush(self) -> bool:
        """Send of the outbox what the client takes now. Tell whether it is empty."""
        del self.outbox[: self._send(memoryview(bytes(self.outbox[: 1024 * 1024])))]
        return not self.outbox

    def _send(self, data: memoryview) -> int:
        sent = 0
        while sent < len(data):
            try:
                sent += self.raw.send(data[sent:])
            except BlockingIOError:
                break
        return sent

    def _wait(self, event: int, seconds: float) -> None:
        poll = select.poll()
        poll.register(self.raw, event)
        if seconds <= 0 or not poll.poll(seconds * 1000):
            raise TimeoutError("the client neither sent nor took anything in time")
