"""Every place for a stream of events taken, by many more clients than there are places."""

import contextlib
import resource
import socket
from collections.abc import Iterator
from dataclasses import dataclass

ASKED = 1000


@dataclass(frozen=True, kw_only=True)
class Opened:
    """How many of those asked for are served."""

    served: int


@contextlib.contextmanager
def asked(port: int, keys: list[str]) -> Iterator[Opened]:
    """Ask for streams, keep those that are served open, and close them at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * ASKED)), hard))
    with contextlib.ExitStack() as stack:
        sockets = []
        for number in range(ASKED):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            key = keys[number % len(keys)]
            head = f"GET /v1/events?after=now HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
            one.sendall(head.encode())
            sockets.append(one)
        statuses = [int(one.recv(64).split()[1]) for one in sockets]
        if set(statuses) - {200, 503}:
            raise RuntimeError(f"streams were answered {sorted(set(statuses))}")
        yield Opened(served=statuses.count(200))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
