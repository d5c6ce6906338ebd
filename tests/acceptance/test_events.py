"""Streams of the feed through real gunicorn: dropped and resumed, slow, too many, ended by keys and by a stop.

Cost: about twenty-five seconds, most of it starting two servers.
"""

import itertools
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from feltdb_client import FeltDB, put

from demo.instance import Instance, proportional_bytes, session_members
from feltsite import capacity

pytestmark = pytest.mark.acceptance
SCOPES = ("state:read", "state:write", "events:read")
ASKED_AT_ONCE = 1000
PROCESSES = 2
PATIENCE_S = 2  # of the server with a reader that takes nothing


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    environment = {"WEB_WORKERS": str(PROCESSES), "FELTDB_CONNECTION_DEADLINE_MS": str(PATIENCE_S * 1000)}
    with Instance(tmp_path_factory.mktemp("events") / "data", **environment) as running:
        running.start_server()
        yield running


@pytest.fixture(scope="module")
def keys(instance: Instance) -> list[str]:
    return [instance.new_key(*SCOPES) for _ in range(2)]


class Reader:
    """A stream read over a bare socket, so that nothing reads ahead of the test."""

    def __init__(
        self, instance: Instance, key: str, last_id: str | None = None, *, after: str = "start", buffer: int = 0
    ) -> None:
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(30)
        self.socket.connect(("127.0.0.1", instance.port))
        last = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        head = f"GET /v1/events?after={after} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n{last}\r\n"
        self.socket.sendall(head.encode())
        self.file = self.socket.makefile("rb")

    def status(self) -> int:
        """Read the answer's head."""
        found = int(self.file.readline().split()[1])
        self.headers = dict(line.decode().strip().split(": ", 1) for line in iter(self.file.readline, b"\r\n"))
        return found

    def chunks(self) -> Iterator[bytes]:
        """Read chunk by chunk; ends at the clean end of the stream, raises EOFError at any other."""
        while True:
            line = self.file.readline()
            if not line:
                raise EOFError
            size = int(line, 16)
            chunk = self.file.read(size)
            if len(chunk) < size or not self.file.readline():
                raise EOFError
            if not chunk:
                return
            yield chunk

    def frames(self) -> Iterator[dict[str, Any]]:
        """Read frames with data, each with its id."""
        for chunk in self.chunks():
            fields = dict(line.split(": ", 1) for line in chunk.decode().splitlines() if line[:1] not in ("", ":"))
            if "data" in fields:
                yield {"id": fields.get("id"), "event": fields["event"], **json.loads(fields["data"])}

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def opened(instance: Instance, key: str, last_id: str | None = None, **asked: Any) -> Reader:
    """Open a stream; asks again while the places of streams dropped a moment ago are not free yet."""
    for _ in range(200):
        reader = Reader(instance, key, last_id, **asked)
        status = reader.status()
        if status == 200:
            return reader
        assert status == 503
        reader.close()
        time.sleep(0.05)
    raise AssertionError("no place for a stream came free")


def first(reader: Reader, count: int) -> list[int]:
    """Return what the first so many events say, by the member `at` of their records."""
    return [frame["operations"][0]["value"]["at"] for frame in itertools.islice(reader.frames(), count)]


def test_dropped_at_every_frame_a_stream_loses_and_repeats_nothing(instance: Instance, keys: list[str]) -> None:
    sizes = [1 + (at * 7) % 5 for at in range(40)]
    with FeltDB(instance.url, keys[0]) as db:
        for at, size in enumerate(sizes):
            db.commit([put("dropped", f"{at}-{n}", {"of": at}) for n in range(size)])
    seen, last = [], None
    for _ in sizes:
        reader = opened(instance, keys[0], last)
        frame = next(reader.frames())
        reader.close()
        seen.append([each["sequence"] for each in frame["operations"]])
        last = frame["id"]
    assert [len(each) for each in seen] == sizes, "a transaction was split, lost or repeated"
    flat = [each for group in seen for each in group]
    assert flat == list(range(flat[0], flat[0] + sum(sizes)))


def test_a_reader_that_takes_nothing_is_let_go_and_holds_up_nobody(instance: Instance, keys: list[str]) -> None:
    server = instance.server
    assert server is not None
    text, count = "x" * 500_000, 60
    with FeltDB(instance.url, keys[0]) as db:
        begin = db.changes("now").cursor
        before = max(proportional_bytes(pid, "Pss_Anon") for pid in session_members(server.pid))
        slow = [opened(instance, keys[0], begin, buffer=4096) for _ in range(2)]
        quick = opened(instance, keys[1], begin)
        arrived: list[int] = []
        reading = threading.Thread(target=lambda: arrived.extend(first(quick, count)))
        reading.start()
        for at in range(count):
            db.put("slow", f"s-{at}", {"at": at, "text": text})
        reading.join(60)
    assert arrived == list(range(count))
    grown = max(proportional_bytes(pid, "Pss_Anon") for pid in session_members(server.pid)) - before
    time.sleep(PATIENCE_S)
    for reader in slow:
        with pytest.raises((EOFError, ConnectionError)):
            list(reader.frames())  # what was under way in the sockets, and then the end
        reader.close()
    quick.close()
    resumed = opened(instance, keys[0], begin)
    assert first(resumed, count) == list(range(count))
    resumed.close()
    assert grown < 2 * count * len(text), "the server keeps for slow readers what they do not take"


def test_of_a_thousand_streams_asked_for_at_once_the_stated_number_is_served_and_all_else_goes_on(
    instance: Instance, keys: list[str]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * ASKED_AT_ONCE)), hard))
    per_process = capacity.of({"WEB_WORKERS": str(PROCESSES)}).streams
    with FeltDB(instance.url, keys[0]) as db:
        db.put("asked", "a", {"n": 1})
    answers: list[tuple[int, Reader]] = []
    readers = [Reader(instance, keys[at % len(keys)], after="now") for at in range(ASKED_AT_ONCE)]
    try:
        reads = [_get(instance, keys[0]) for _ in range(50)]
        for reader in readers:
            answers.append((reader.status(), reader))
        reads += [_get(instance, keys[0]) for _ in range(50)]
        served = [reader for status, reader in answers if status == 200]
        refused = [reader for status, reader in answers if status == 503]
        assert len(served) + len(refused) == ASKED_AT_ONCE
        assert len(served) == PROCESSES * per_process
        assert {reader.headers["Retry-After"] for reader in refused} == {"1"}
        assert reads.count(200) > 90, "reads went on, at most refused for a moment in the rush"
        assert set(reads) <= {200, 503}
        assert reads[-20:] == [200] * 20, "with every place for a stream taken"
        with FeltDB(instance.url, keys[0]) as db:
            db.put("asked", "b", {"n": 2})
        for reader in served:
            assert next(reader.frames())["operations"][0]["id"] == "b"
    finally:
        for reader in readers:
            reader.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    opened(instance, keys[0]).close()


def _get(instance: Instance, key: str) -> int:
    url = f"{instance.url}/v1/collections/asked/a"
    return httpx.get(url, headers={"Authorization": f"Bearer {key}"}, timeout=30).status_code


def test_a_revoked_key_takes_its_streams_with_it(instance: Instance) -> None:
    key = instance.new_key(*SCOPES)
    reader = opened(instance, key, after="now")
    key_id = httpx.get(f"{instance.url}/v1/keys/current", headers={"Authorization": f"Bearer {key}"}).json()["id"]
    instance.manage("keys", "revoke", key_id)
    *_, last = reader.frames()
    reader.close()
    assert (last["event"], last["id"], last["code"]) == ("error", None, "AUTHENTICATION_REQUIRED")


def test_a_stop_ends_every_stream_at_once_and_cleanly(tmp_path: Path) -> None:
    with Instance(tmp_path / "data", WEB_WORKERS="2") as own:
        own.start_server()
        key = own.new_key(*SCOPES)
        readers = [opened(own, key) for _ in range(3)]
        stuck = opened(own, key, buffer=4096)
        with FeltDB(own.url, key) as db:
            for at in range(40):
                db.put("stopped", f"s-{at}", {"text": "x" * 500_000})
        counts: list[int] = []
        threads = [threading.Thread(target=lambda one=one: counts.append(len(list(one.frames())))) for one in readers]
        for thread in threads:
            thread.start()
        time.sleep(1)
        began = time.monotonic()
        own.stop()
        took = time.monotonic() - began
        for thread in threads:
            thread.join(30)
        assert counts == [40, 40, 40], "each stream ended cleanly, with all it was sent"
        assert took < 12, f"stopping took {took:.1f} s"
        for reader in [*readers, stuck]:
            reader.close()
