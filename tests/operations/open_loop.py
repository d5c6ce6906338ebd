"""A client that sends at a fixed rate whatever comes back, and keeps a journal: run as a process by `load.py`.

    python open_loop.py PORT KEY RATE SECONDS CONNECTIONS

RATE 0 is a closed loop: each connection sends its next request when it has its answer. Every request is a transaction
with an id of its own, so that what became of it can be asked for. Prints one JSON document, as `load.Load` names it.

Its own HTTP, since the clients that are there cannot send ten times what the server does from one core. A connection
that ends is opened anew; whatever had been sent on it and not answered is *unknown*, never thought to be refused.
"""

import asyncio
import contextlib
import gc
import json
import sys
import time
from collections import deque

FILLING = "a" * 200
ANSWER_S = 60.0
"""An answer that has not come by then never will: far beyond every deadline of the server."""

CONNECT_S = 20.0
SHOWN_TROUBLES = 5


class Connection(asyncio.Protocol):
    """One connection, one transaction at a time; tells its client of each answer, and of its end."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.usable = False
        self.asked = ""
        self.since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.usable = True

    def ask(self, name: str, request: bytes) -> None:
        """Send the transaction of that name."""
        assert self._transport is not None and not self.asked
        self.asked, self.since = name, time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        try:
            status = int(head.split(b" ", 2)[1])
            length = int(head.split(b"\r\ncontent-length:", 1)[1].split(b"\r\n", 1)[0])
        except (IndexError, ValueError):
            self.end(f"not an answer: {bytes(self._buffer[:200])!r}")
            return
        if len(self._buffer) < end + 4 + length:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        if b"\r\nconnection: close" in head:
            self.close()
        name, self.asked = self.asked, ""
        if name:
            self._client.answered(self, name, time.perf_counter() - self.since, status, body)
        else:
            self.end("an answer to nothing")

    def connection_lost(self, error: Exception | None) -> None:
        self.end(f"the connection ended: {error}")

    def close(self) -> None:
        """Use it no more."""
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def end(self, why: str) -> None:
        """Give up: what was asked and not answered is unknown."""
        self.close()
        name, self.asked = self.asked, ""
        if name:
            self._client.lost(self, name, why)


class Client:
    """So many connections; in the open loop a transaction that finds none free is counted as not sent."""

    def __init__(self, port: int, key: str, prefix: str) -> None:
        self._port = port
        self._prefix = prefix
        self._number = 0
        self._closed_loop_until = 0.0
        name = f"{prefix}-{0:08}"
        operation = {"collection": "load", "id": name, "value": {"n": 1, "text": FILLING}}
        body = json.dumps({"transactionId": name, "operations": [operation]})
        head = (
            "POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._pieces = (head + body).encode().split(name.encode())
        self._opening: set[asyncio.Task[None]] = set()
        self.free: deque[Connection] = deque()
        self.busy: set[Connection] = set()
        self.seconds: dict[int, list[float]] = {}
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.unknown: list[str] = []
        self.unsent = 0
        self.reconnected = 0
        self.troubles: list[str] = []

    async def connect(self) -> None:
        """Open a connection, trying again for a while: a busy machine may take its time. It is free, then."""
        until = time.perf_counter() + CONNECT_S
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                loop = asyncio.get_running_loop()
                opening = loop.create_connection(lambda: Connection(self), "127.0.0.1", self._port)
                self._rest((await asyncio.wait_for(opening, 5))[1])
                return
            if time.perf_counter() > until:
                self.trouble("the server takes no connection")
                return
            await asyncio.sleep(0.05)

    def send(self) -> bool:
        """Send one transaction on a free connection. False where there is none."""
        while self.free:
            connection = self.free.popleft()
            if not connection.usable:  # closed while it was free: nothing was sent on it
                self._replace()
                continue
            self._number += 1
            name = f"{self._prefix}-{self._number:08}"
            self.busy.add(connection)
            connection.ask(name, name.encode().join(self._pieces))
            return True
        return False

    def answered(self, connection: Connection, name: str, seconds: float, status: int, body: bytes) -> None:
        """Sort the answer: acknowledged, refused before anything was changed, or unknown."""
        self.seconds.setdefault(status, []).append(seconds)
        if status in (200, 201):
            self.acknowledged.append(name)
        elif status == 503 and b'"SERVICE_OVERLOADED"' in body:
            self.refused.append(name)
        else:
            self.unknown.append(name)
            if b'"COMMIT_UNKNOWN"' not in body:
                self.trouble(f"{name}: {status} {body[:300]!r}")
        self.busy.discard(connection)
        self._rest(connection)

    def lost(self, connection: Connection, name: str, why: str) -> None:
        """Note that nothing is known of a transaction that was sent."""
        self.unknown.append(name)
        self.trouble(f"{name}: {why}")
        self.busy.discard(connection)
        self._rest(connection)

    def trouble(self, what: str) -> None:
        """Keep the first few."""
        if len(self.troubles) < SHOWN_TROUBLES:
            self.troubles.append(what)

    def _rest(self, connection: Connection) -> None:
        self.free.append(connection)
        if time.perf_counter() < self._closed_loop_until:
            self.send()

    def _replace(self) -> None:
        self.reconnected += 1
        task = asyncio.get_running_loop().create_task(self.connect())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def open_loop(self, rate: float, seconds: float) -> None:
        """Start `rate` transactions a second."""
        started, due = time.perf_counter(), 0
        while (passed := time.perf_counter() - started) < seconds:
            while due < passed * rate:
                due += 1
                self.unsent += not self.send()
            await asyncio.sleep(0.001)

    async def closed_loop(self, seconds: float) -> None:
        """Keep every connection busy."""
        self._closed_loop_until = time.perf_counter() + seconds
        for _ in range(len(self.free)):
            self.send()
        await asyncio.sleep(seconds)

    async def finish(self) -> None:
        """Wait for the answers that are due; what does not come in time is unknown."""
        until = time.perf_counter() + ANSWER_S
        while self.busy and time.perf_counter() < until:
            await asyncio.sleep(0.005)
        for connection in list(self.busy):
            connection.end("no answer in time")


async def main() -> None:
    """Run as the module's text says."""
    port, key, rate, seconds, connections = sys.argv[1:6]
    client = Client(int(port), key, f"{time.time_ns():x}")
    for _ in range(int(connections)):
        await client.connect()
    if len(client.free) < int(connections):
        raise SystemExit("the server takes no connection")
    gc.freeze()
    started = time.perf_counter()
    if float(rate):
        await client.open_loop(float(rate), float(seconds))
    else:
        await client.closed_loop(float(seconds))
    await client.finish()
    names = ("seconds", "acknowledged", "refused", "unknown", "unsent", "reconnected", "troubles")
    print(json.dumps({"took_s": time.perf_counter() - started, **{name: getattr(client, name) for name in names}}))


if __name__ == "__main__":
    asyncio.run(main())
