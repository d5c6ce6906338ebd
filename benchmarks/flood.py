"""`python -m benchmarks.flood`: the rate that a key keeps while 200 wrong sign-ins come at once, again and again.

A server of its own with its default settings, a process that reads one record with a service key, and a process that
signs in wrongly: as many names as attempts, from as many addresses (127.0.0.0/8), so that no limit on failing ends the
flood. Slices without and with the flood take turns; the share is the median of the rounds' shares. Also told: what the
two were answered, and the most memory that the server's processes had.
"""

import argparse
import http.client
import json
import multiprocessing
import selectors
import socket
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from demo.instance import Instance, proportional_bytes, session_members

PATH = "/v1/collections/orders/o-1"
SETTLE_S = 0.3


def main() -> None:
    """Read the options, make the instance, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.flood", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, help="slices of each (default 7)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a slice (default 3)")
    parser.add_argument("--at-once", type=int, default=200, help="wrong sign-ins at once (default 200)")
    parser.add_argument("--callers", type=int, default=1, help="service clients at once (default 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="feltdb-bench-") as folder:
        with Instance(Path(folder) / "data", DATABASE_URL="") as instance:
            secret = instance.new_key("state:read", "state:write")
            instance.start_server()
            with instance.client(secret) as client:
                assert client.put(PATH.removeprefix("/v1"), json={"amount": 1}).status_code == 201
            measure(instance, secret, options)


def measure(instance: Instance, secret: str, options: argparse.Namespace) -> None:
    """Take the slices in turns and print the share."""
    services = [Child(serve, instance.port, secret) for _ in range(options.callers)]
    attacker = Child(attack, instance.port, options.at_once)
    shares: list[float] = []
    idle_rates: list[float] = []
    answers: Counter[int] = Counter()
    refused: Counter[int] = Counter()
    most = before = memory(instance)
    for _ in range(options.rounds):
        rates = []
        for flooded in (False, True):
            if flooded:
                attacker.ask(options.seconds + 2 * SETTLE_S)
                time.sleep(SETTLE_S)
            for service in services:
                service.ask(options.seconds)
            most = max(most, memory(instance))
            found = [service.answer() for service in services]
            most = max(most, memory(instance))
            rates.append(sum(each[200] for each in found) / options.seconds)
            for each in found:
                answers.update(each)
            if flooded:
                refused.update(attacker.answer())
            time.sleep(SETTLE_S)
        shares.append(rates[1] / rates[0])
        idle_rates.append(rates[0])
    for child in (*services, attacker):
        child.end()
    print(f"share of its rate a service key keeps: {statistics.median(shares):.2f}")
    print(f"rounds: {', '.join(f'{share:.2f}' for share in shares)}")
    print(f"without the flood: {statistics.median(idle_rates):.0f} reads/s; service answers {dict(answers)}")
    print(f"wrong sign-ins answered: {dict(refused)}")
    print(f"memory: {before >> 20} MiB before, {most >> 20} MiB at most")


class Child:
    """A process that does a slice when it is told how long, and answers with counts of statuses."""

    def __init__(self, work: Callable[..., None], *given: object) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=work, args=(theirs, *given), daemon=True)
        self._process.start()

    def ask(self, seconds: float) -> None:
        """Begin a slice."""
        self._pipe.send(seconds)

    def answer(self) -> Counter[int]:
        """Wait for the slice's end."""
        found: Counter[int] = self._pipe.recv()
        return found

    def end(self) -> None:
        """Let it go."""
        self._pipe.send(None)
        self._process.join()


def serve(pipe: Connection, port: int, secret: str) -> None:
    """Read one record again and again over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {secret}"}
    while (seconds := pipe.recv()) is not None:
        until, found = time.monotonic() + seconds, Counter[int]()
        while time.monotonic() < until:
            connection.request("GET", PATH, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 503 or json.loads(body)["value"] == {"amount": 1}, body
            found[answer.status] += 1
        pipe.send(found)


def attack(pipe: Connection, port: int, at_once: int) -> None:
    """Send so many wrong sign-ins at once, wait for all answers, and again; every attempt of another name."""
    number = 0
    while (seconds := pipe.recv()) is not None:
        until, found = time.monotonic() + seconds, Counter[int]()
        while time.monotonic() < until:
            found.update(burst(port, range(number, number + at_once)))
            number += at_once
        pipe.send(found)


def burst(port: int, numbers: range) -> list[int]:
    """Open a connection for each number, send on all, and return the statuses."""
    statuses: list[int] = []
    with selectors.DefaultSelector() as ready:
        for number in numbers:
            one = socket.socket()
            one.settimeout(30)
            one.bind((f"127.{1 + number // 62500 % 250}.{1 + number // 250 % 250}.{1 + number % 250}", 0))
            one.connect(("127.0.0.1", port))
            body = json.dumps({"username": f"nobody{number}", "password": f"wrong {number}"})
            one.sendall(
                f"POST /v1/auth/signin HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            ready.register(one, selectors.EVENT_READ)
        while ready.get_map():
            for key, _ in ready.select(30):
                one = key.fileobj  # type: ignore[assignment]
                answer = one.recv(65536)
                statuses.append(int(answer.split(b" ", 2)[1]) if answer else 0)
                ready.unregister(one)
                one.close()
    return statuses


def memory(instance: Instance) -> int:
    """Return the memory of the server's processes, in bytes."""
    assert instance.server is not None
    return sum(map(proportional_bytes, session_members(instance.server.pid)))


if __name__ == "__main__":
    main()
