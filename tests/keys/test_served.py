"""The boundary as a real server holds it: several processes of gunicorn, raw sockets, many callers. About 40 s.

Not here: what each rule says (the tests beside this one, in process).
"""

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlencode

import argon2
import httpx
import pytest

from demo.instance import Instance, proportional_bytes, session_members
from tests.keys.test_timing import asked_us, paired, told_apart, unknown_ids, wrong_secrets
from tests.postgres import database

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]

WORKERS = 3
CALLERS = 100
FLOOD = 200
HASH_BYTES = 19 * 1024 * 1024
CURRENT = "/v1/keys/current"
TOKEN = "c" * 32
PASSWORD = "a long enough pass phrase"
MAKE_PERSON = f"""
from apps.keys.principal import operator
from apps.operations.services.operators import Role, create_operator
create_operator(name="root", password={PASSWORD!r}, role=Role.ADMINISTRATOR, by=operator("tests"))
"""


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """Nothing, which is SQLite; or a database made for this on the PostgreSQL that the tests run on."""
    if os.environ.get("FELTDB_TEST_DATABASE") != "postgres":
        yield ""
        return
    with database("feltdb_served") as url:
        yield url


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Instance]:
    """A server of several processes that logs all it can."""
    environment = {
        "DATABASE_URL": database_url,
        "WEB_WORKERS": str(WORKERS),
        "FELTDB_MAX_IN_FLIGHT": "12" if database_url else "64",  # PostgreSQL gives each thread a connection
        "FELTDB_FEED_MAX_WAITING": "1",
        "ACCESS_LOG": "true",
        "LOG_LEVEL": "DEBUG",
    }
    with Instance(tmp_path_factory.mktemp("served") / "data", **environment) as made:
        made.start_server()
        yield made


@pytest.fixture(scope="module")
def admin(instance: Instance) -> Iterator["Caller"]:
    """Somebody who may do everything."""
    with Caller(instance, instance.new_key("*")) as caller:
        yield caller


def new_key(admin: "Caller", *scopes: str) -> dict[str, Any]:
    """Return a key just made over HTTP, with its secret."""
    status, body = admin.call("POST", "/v1/keys", {"name": "served", "scopes": scopes, "namespaces": ["default"]})
    assert status == 201, body
    made: dict[str, Any] = json.loads(body)
    return made


class Caller:
    """A connection that is kept and made anew where the server closed it."""

    def __init__(self, instance: Instance, secret: str) -> None:
        self._port = instance.port
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str = "GET", path: str = CURRENT, body: Any = None) -> tuple[int, bytes]:
        """Return status and body; status 0 where the connection broke, also when made anew."""
        kept = self._connection is not None
        answer = self._call(method, path, body)
        return self._call(method, path, body) if kept and answer[0] == 0 else answer

    def _call(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        headers = {**self._headers, **({"Content-Type": "application/json"} if body is not None else {})}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return 0, b""

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def raw(instance: Instance, header: bytes) -> tuple[int, bytes]:
    """Send a request whose Authorization header is exactly these bytes; return status and the whole answer."""
    with socket.create_connection(("127.0.0.1", instance.port), timeout=30) as connection:
        try:
            connection.sendall(
                b"GET /v1/keys/current HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: "
                + header
                + b"\r\n\r\n"
            )
        except OSError:
            pass  # refused before all of it was sent; the answer is there all the same
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1]), answer


def endings(instance: Instance, admin: Caller) -> dict[str, tuple[str, Callable[[], None]]]:
    """Return secrets, and how each ends: over HTTP, from the command line, by rotation."""
    made = {}
    for name in ("revoked over HTTP", "revoked by the command", "rotated away"):
        made[name] = new_key(admin, "state:read")

    def admitted(*call: Any) -> int:
        """Make the call again where the server is full, as it asks for, and return its status."""
        while (status := admin.call(*call)[0]) == 503:
            time.sleep(0.05)
        return status

    def by_http() -> None:
        assert admitted("DELETE", f"/v1/keys/{made['revoked over HTTP']['id']}") == 204

    def by_command() -> None:
        instance.manage("keys", "revoke", made["revoked by the command"]["id"])

    def by_rotation() -> None:
        assert admitted("POST", f"/v1/keys/{made['rotated away']['id']}/rotate", {}) == 201

    ends = dict(zip(made, (by_http, by_command, by_rotation), strict=True))
    return {name: (made[name]["secret"], ends[name]) for name in made}


def test_once_ending_a_key_has_returned_no_request_that_begins_passes_in_any_process(
    instance: Instance, admin: Caller
) -> None:
    ways = endings(instance, admin)
    names = list(ways)
    passed: list[tuple[str, float]] = []
    refused_later: dict[str, set[int]] = {name: set() for name in names}
    heard: set[int] = set()
    ended: dict[str, float] = {}
    stop = threading.Event()

    def calls(number: int) -> None:
        name = names[number % len(names)]
        with Caller(instance, ways[name][0]) as caller:
            while not stop.is_set() and number not in refused_later[name]:
                began = time.monotonic()
                status, _ = caller.call()
                if status == 200:
                    passed.append((name, began))
                    heard.add(number)
                elif status == 401 and name in ended and began > ended[name]:
                    refused_later[name].add(number)

    threads = [threading.Thread(target=calls, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    try:
        known = time.monotonic() + 60
        while len(heard) < CALLERS and time.monotonic() < known:
            time.sleep(0.05)
        for name, (_, end) in ways.items():
            end()
            ended[name] = time.monotonic()
        everybody = time.monotonic() + 60
        while sum(map(len, refused_later.values())) < CALLERS and time.monotonic() < everybody:
            time.sleep(0.05)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(heard) == CALLERS, "not every caller's key was in use: this would prove less"
    assert [(name, began) for name, began in passed if began > ended[name]] == []
    assert sum(map(len, refused_later.values())) == CALLERS, "not every caller was heard after its key had ended"


def test_any_bytes_as_a_key_are_refused_and_never_break_anything(instance: Instance, admin: Caller) -> None:
    secret = new_key(admin, "state:read")["secret"].encode()
    assert raw(instance, b"Bearer " + secret)[0] == 200
    cases: dict[str, tuple[bytes, set[int]]] = {}
    for byte in range(0x80, 0x100):
        cases[f"byte {byte:02x}"] = (b"Bearer " + secret[:-1] + bytes([byte]), {401})
    for length in range(201):
        cases[f"length {length}"] = (b"Bearer " + b"a" * length, {401})
        cases[f"cut to {length}"] = (b"Bearer " + secret[: min(length, len(secret) - 1)], {401})
    # What is no HTTP the server refuses itself: control bytes with 400, headers beyond its limit with 431.
    cases["NUL"] = (b"Bearer " + secret + b"\0", {400})
    cases["only NUL"] = (b"\0", {400})
    cases["100 KB"] = (b"Bearer " + b"f" * 100_000, {431})
    cases["all of them"] = (b"Bearer " + bytes(range(0x80, 0x100)), {401})
    cases["UTF-8"] = (("Bearer fdb_live_" + "é" * 31).encode(), {401})
    for scheme in (b"Basic ", b"bearer", b"Bearer\t", b"", b"Bearer Bearer ", b"Bearer fdb_session_", b"Bearer \xa0"):
        cases[f"scheme {scheme!r}"] = (scheme + secret, {401})
    told = {name: raw(instance, header) for name, (header, _) in cases.items()}
    wrong = {name: status for name, (status, _) in told.items() if status not in cases[name][1]}
    assert wrong == {}
    assert not any(secret[21:-6] in answer for _, answer in told.values())
    log = instance.log_path.read_bytes()
    assert b"/v1/keys/current" in log, "nothing was logged: this would prove nothing"
    assert secret[21:-6] not in log and b"Traceback" not in log
    assert raw(instance, b"Bearer " + secret)[0] == 200


def test_over_http_too_an_unknown_id_takes_as_long_as_a_wrong_secret(instance: Instance, admin: Caller) -> None:
    known = [new_key(admin, "state:read")["id"] for _ in range(3)]
    with closing(http.client.HTTPConnection("127.0.0.1", instance.port, timeout=30)) as connection:
        measure = asked_us(connection)
        pairs = partial(paired, measure, wrong_secrets(known), unknown_ids())
        pairs(50)  # warm
        assert told_apart(pairs, most_pairs=800) == set()


@pytest.fixture(scope="module")
def argon2_key(instance: Instance) -> str:
    """An imported key that only Argon2 can tell, so that unknown tokens of that form have to be tried against it."""
    kept = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1).hash("fdb_live_" + "9" * 48)
    path = instance.data_dir / "api-keys.json"
    record = {"id": "imported1", "name": "old", "hash": kept, "scopes": ["state:read"], "namespaces": ["default"]}
    path.write_text(json.dumps([record]))
    instance.manage("keys", "import", str(path))
    return "fdb_live_" + "9" * 48


def flooded(instance: Instance, attack: Callable[[int], int]) -> list[int]:
    """Make all attacks at once; return their statuses."""
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda n=n: statuses.append(attack(n))) for n in range(FLOOD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def at_the_console(instance: Instance) -> httpx.Client:
    """Return the browser of an administrator who has signed in."""
    instance.manage("shell", "-c", MAKE_PERSON)
    browser = httpx.Client(base_url=instance.url, timeout=30)
    browser.get("/admin/login/")
    form = {"username": "root", "password": PASSWORD, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    assert browser.post("/admin/login/", data=form).status_code == 302
    return browser


@pytest.mark.parametrize("door", ["imported keys", "passwords"])
def test_a_flood_of_wrong_secrets_is_refused_while_keys_are_served_and_memory_stays_bounded(
    instance: Instance, admin: Caller, argon2_key: str, door: str
) -> None:
    service = Caller(instance, new_key(admin, "state:read")["secret"])
    assert service.call()[0] == 200
    before, most = memory(instance), [0]
    served: list[int] = []
    stop = threading.Event()

    def serve() -> None:
        with service:
            while not stop.is_set():
                served.append(service.call()[0])

    def watch() -> None:
        while not stop.is_set():
            most[0] = max(most[0], memory(instance))
            time.sleep(0.02)

    def attack(number: int) -> int:
        with Caller(instance, f"fdb_live_{number:048d}") as caller:
            if door == "imported keys":
                return caller.call()[0]
            body = {"username": f"nobody{number % 7}", "password": f"wrong {number}"}
            return caller.call("POST", "/v1/auth/signin", body)[0]

    threads = [threading.Thread(target=each) for each in (serve, watch)]
    for thread in threads:
        thread.start()
    try:
        statuses = flooded(instance, attack)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(statuses) <= {401, 429, 503} and len(statuses) == FLOOD, statuses
    assert 503 in statuses or 429 in statuses, "everybody had a turn: this was no flood"
    # Signing in takes no permit of keys. Tokens of the imported form are keys' own kind: while as many requests as may
    # be are in flight, anybody gets 503 and is told to come again.
    assert set(served) <= ({200} if door == "passwords" else {200, 503}) and served.count(200) > 10, served
    # Two hashes at once in each process, and something for the requests themselves.
    assert most[0] - before < WORKERS * 2 * HASH_BYTES + 200 * 1024 * 1024


def test_a_flood_of_wrong_passwords_at_the_console_holds_up_neither_keys_nor_who_is_at_the_console(
    instance: Instance, admin: Caller
) -> None:
    browser = at_the_console(instance)
    service = Caller(instance, new_key(admin, "state:read")["secret"])
    served: list[int] = []
    pages: list[int] = []
    stop = threading.Event()

    def serve() -> None:
        with service:
            while not stop.is_set():
                served.append(service.call()[0])

    def look() -> None:
        with closing(browser):
            while not stop.is_set():
                pages.append(browser.get("/admin/keys/apikey/").status_code)

    def attack(number: int) -> int:
        address = f"127.0.{1 + number // 200}.{1 + number % 200}"  # as many as no limit on failing of an address ends
        path = "/admin/login/" if number % 2 else "/%61dmin/login/"
        made = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=60, source_address=(address, 0))
        with closing(made) as connection:
            form = urlencode({"username": f"nobody{number}", "password": "wrong", "csrfmiddlewaretoken": TOKEN})
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": f"csrftoken={TOKEN}"}
            connection.request("POST", path, form, headers)
            return connection.getresponse().status

    threads = [threading.Thread(target=each) for each in (serve, look)]
    for thread in threads:
        thread.start()
    try:
        statuses = flooded(instance, attack) + flooded(instance, attack)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(statuses) <= {200, 429, 503} and len(statuses) == 2 * FLOOD, statuses
    assert statuses.count(503) > FLOOD // 4, "everybody had a turn: this was no flood"
    assert statuses.count(200) > 0, "no password was looked at: the flood never came to the hash"
    assert set(served) == {200} and set(pages) == {200}, (served, pages)
    assert len(served) > 10 and len(pages) > 5, (len(served), len(pages))


def test_after_the_flood_the_imported_key_still_opens(instance: Instance, argon2_key: str) -> None:
    until = time.monotonic() + 30
    with Caller(instance, argon2_key) as caller:
        while (answer := caller.call())[0] == 503 and time.monotonic() < until:
            time.sleep(0.1)
    assert answer[0] == 200 and json.loads(answer[1])["id"] == "imported1"


def memory(instance: Instance) -> int:
    """Return the memory of the server's processes, in bytes."""
    assert instance.server is not None
    return sum(map(proportional_bytes, session_members(instance.server.pid)))
