"""The socket as a thread sees it: it never waits without end; what a slow reader has not taken is left to the loop."""

import select
import socket
import time
from typing import Any

READ_WAIT_S = 5.0
"""For the next bytes of a body too large to gather: a thread does not wait longer for a silent client."""

OUTBOX_BYTES = 4 * 1024 * 1024
"""Of an answer left to the loop; beyond, the thread waits for the client itself."""


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

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return the next bytes. Raises TimeoutError where none come in time."""
        wait_s = READ_WAIT_S if self._timeout is None else min(self._timeout, READ_WAIT_S)
        self._wait(select.POLLIN, wait_s)
        return self.raw.recv(size, flags)

    def send(self, data: bytes, flags: int = 0) -> int:
        """Send all of it, as `sendall`."""
        self.sendall(data)
        return len(data)

    def sendall(self, data: bytes, flags: int = 0) -> None:
        """Send what the client takes now, keep the rest for the loop. Raises TimeoutError for one that takes none."""
        taken = self._send(memoryview(data)) if not self.outbox else 0
        self.outbox += memoryview(data)[taken:]
        until = time.monotonic() + self._write_wait_s
        while len(self.outbox) > OUTBOX_BYTES:
            self._wait(select.POLLOUT, until - time.monotonic())
            self.flush()

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
