"""A client that sends at a fixed rate whatever comes back, and keeps a journal: for `test_overload.py`, as a process.

    python open_loop.py PORT KEY RATE SECONDS CONNECTIONS

RATE 0 is a closed loop: each connection sends its next request when it has its answer. Prints one JSON document:
seconds of each answer by status, and the ids that were acknowledged.
"""

import asyncio
import json
import sys
import time

BODY = b'{"n":1,"text":"' + b"a" * 200 + b'"}'


class Client:
    """So many kept connections; a request that finds none free is counted as not sent."""

    def __init__(self, port: int, key: str) -> None:
        self.port = port
        self.head = f"Host: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n".encode()
        self.free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.seconds: dict[int, list[float]] = {}
        self.acknowledged: list[str] = []
        self.broken = 0

    async def connect(self) -> None:
        self.free.append(await asyncio.open_connection("127.0.0.1", self.port))

    async def put(self, name: str) -> None:
        """Send one write and take its answer; a connection that was closed is replaced."""
        reader, writer = self.free.pop()
        started = time.perf_counter()
        try:
            writer.write(
                b"PUT /v1/collections/load/%s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s"
                % (name.encode(), self.head, len(BODY), BODY)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            self.broken += 1
            await self.connect()
            return
        status = int(head.split(b" ", 2)[1])
        self.seconds.setdefault(status, []).append(time.perf_counter() - started)
        if status in (200, 201):
            self.acknowledged.append(name)
        if b"connection: close" in head.lower():
            writer.close()
            await self.connect()
        else:
            self.free.append((reader, writer))


async def open_loop(client: Client, rate: float, seconds: float, prefix: str) -> int:
    """Start `rate` writes a second; return how many could not be sent for want of a connection."""
    tasks: set[asyncio.Task[None]] = set()
    started, sent, unsent = time.perf_counter(), 0, 0
    while (passed := time.perf_counter() - started) < seconds:
        while sent < passed * rate:
            sent += 1
            if client.free:
                task = asyncio.create_task(client.put(f"{prefix}-{sent}"))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            else:
                unsent += 1
        await asyncio.sleep(0.001)
    await asyncio.gather(*tasks)
    return unsent


async def closed_loop(client: Client, seconds: float, prefix: str) -> int:
    """Keep every connection busy."""
    until = time.perf_counter() + seconds

    async def one(number: int) -> None:
        sent = 0
        while time.perf_counter() < until:
            sent += 1
            await client.put(f"{prefix}-{number}-{sent}")

    await asyncio.gather(*(one(number) for number in range(len(client.free))))
    return 0


async def main() -> None:
    """Run as the module's text says."""
    port, key, rate, seconds, connections = sys.argv[1:6]
    client = Client(int(port), key)
    for _ in range(int(connections)):
        await client.connect()
    prefix = f"{time.time_ns()}"
    if float(rate):
        unsent = await open_loop(client, float(rate), float(seconds), prefix)
    else:
        unsent = await closed_loop(client, float(seconds), prefix)
    found = {"seconds": client.seconds, "acknowledged": client.acknowledged, "unsent": unsent, "broken": client.broken}
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
