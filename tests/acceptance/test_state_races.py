"""Clients racing each other through real gunicorn with several processes: no lost update, nothing done twice.

Cost: about twenty seconds, most of it starting the server.
"""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from feltdb_client import FeltDB, VersionConflict, put

from demo.instance import Instance

pytestmark = pytest.mark.acceptance
THREADS = 8
ROUNDS = 20


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with Instance(tmp_path_factory.mktemp("races") / "data", WEB_WORKERS="3") as running:
        running.start_server()
        yield running


@pytest.fixture(scope="module")
def key(instance: Instance) -> str:
    return instance.new_key("state:read", "state:write", "events:read")


@pytest.fixture
def db(instance: Instance, key: str) -> Iterator[FeltDB]:
    with FeltDB(instance.url, key) as client:
        yield client


def together(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """Run `work(n)` in so many threads, started at one moment; return what they gave, raising what they raised."""
    gate, results, failures = threading.Barrier(threads), [None] * threads, []

    def run(number: int) -> None:
        try:
            gate.wait(30)
            results[number] = work(number)
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(120)
    if failures:
        raise failures[0]
    return results


def test_racing_compare_and_set_loses_no_update(instance: Instance, key: str) -> None:
    with FeltDB(instance.url, key) as setup:
        setup.put("counters", "swapped", {"n": 0})

    def count(_: int) -> int:
        refused = 0
        with FeltDB(instance.url, key) as client:
            done = 0
            while done < ROUNDS:
                seen = client.get("counters", "swapped")
                assert seen is not None
                try:
                    client.compare_and_set("counters", "swapped", seen.version, {"n": seen.value["n"] + 1})
                    done += 1
                except VersionConflict:
                    refused += 1
        return refused

    refused = sum(together(count))
    with FeltDB(instance.url, key) as client:
        final = client.get("counters", "swapped")
    assert final is not None
    assert final.value == {"n": THREADS * ROUNDS}
    assert final.version == THREADS * ROUNDS + 1
    assert refused > 0, "nobody ever collided: this proved nothing"


def test_racing_merge_patches_all_land(instance: Instance, key: str) -> None:
    with FeltDB(instance.url, key) as setup:
        setup.put("counters", "merged", {})

    def merge(number: int) -> list[dict[str, Any]]:
        with FeltDB(instance.url, key) as client:
            return [
                dict(client.merge("counters", "merged", {f"{number}-{turn}": turn}).value) for turn in range(ROUNDS)
            ]

    answers = together(merge)
    with FeltDB(instance.url, key) as client:
        final = client.get("counters", "merged")
    assert final is not None
    assert final.value == {f"{number}-{turn}": turn for number in range(THREADS) for turn in range(ROUNDS)}
    assert final.version == THREADS * ROUNDS + 1
    for number, seen in enumerate(answers):
        for turn, value in enumerate(seen):
            assert value[f"{number}-{turn}"] == turn, "an answer does not show its own write"


def test_one_transaction_id_sent_by_everybody_is_committed_once(instance: Instance, key: str) -> None:
    def send(_: int) -> list[tuple[int, bool]]:
        with FeltDB(instance.url, key) as client:
            outcomes = [
                client.commit([put("once", f"r-{turn}", {"turn": turn})], transaction_id=f"once-{turn}")
                for turn in range(ROUNDS)
            ]
        return [(each.revision, each.duplicate) for each in outcomes]

    by_turn = list(zip(*together(send), strict=True))
    for answers in by_turn:
        assert len({revision for revision, _ in answers}) == 1
        assert [duplicate for _, duplicate in answers].count(False) == 1
    with FeltDB(instance.url, key) as client:
        assert [each.version for each in client.records("once")] == [1] * ROUNDS


def admitted(client: httpx.Client, record: dict[str, Any]) -> int:
    """Create the record and return the status; sent again as long as the server is too busy to look at it."""
    while (status := client.post("/v1/collections/made", json=record).status_code) == 503:
        time.sleep(0.05)
    return status


def test_one_id_created_by_everybody_is_created_once(instance: Instance, key: str) -> None:
    def create(_: int) -> list[int]:
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=instance.url, headers=headers) as client:
            return [admitted(client, {"id": f"m-{n}"}) for n in range(ROUNDS)]

    for codes in zip(*together(create), strict=True):
        assert sorted(codes) == [201] + [409] * (THREADS - 1)


def test_a_waiting_reader_sees_every_change_once_and_in_order_while_all_write(db: FeltDB, instance, key) -> None:
    begin = db.changes("now").cursor
    total = THREADS * ROUNDS * 2
    seen: list[Any] = []

    def read() -> None:
        with FeltDB(instance.url, key) as client:
            for page in client.follow(begin, limit=7, wait_s=5):
                seen.append(page.operations)
                if sum(map(len, seen)) >= total:
                    return

    reader = threading.Thread(target=read)
    reader.start()

    def write(number: int) -> None:
        with FeltDB(instance.url, key) as client:
            for turn in range(ROUNDS):
                names = (f"{number}-{turn}-a", f"{number}-{turn}-b")
                client.commit([put("fed", name, {"of": turn}) for name in names])

    together(write)
    reader.join(60)
    assert not reader.is_alive()
    flat = [operation for page in seen for operation in page]
    assert len(flat) == total
    sequences = [operation.sequence for operation in flat]
    assert sequences == list(range(sequences[0], sequences[0] + total))
    for page in seen:
        transactions = [operation.transaction_id for operation in page]
        assert all(transactions.count(each) == 2 for each in transactions), "a transaction was split over pages"


def test_a_waiting_reader_is_woken_by_a_write_in_another_process(db: FeltDB, instance, key) -> None:
    begin = db.changes("now").cursor
    waited = []

    def wait(_: int) -> None:
        with FeltDB(instance.url, key) as client:
            page = client.changes(begin, wait_s=20)
            waited.append((time.monotonic(), page.operations[0].id))

    waiting = threading.Thread(target=together, args=(wait, 4))
    waiting.start()
    time.sleep(1)
    written = time.monotonic()
    db.put("wakes", "w-1", {})
    waiting.join(30)
    assert [name for _, name in waited] == ["w-1"] * 4
    assert max(at for at, _ in waited) - written < 10


def test_stopping_the_server_answers_waiting_readers_and_lets_go_at_once(tmp_path: Path) -> None:
    with Instance(tmp_path / "data", WEB_WORKERS="2") as own:
        own.start_server()
        key = own.new_key("state:read", "events:read")
        with FeltDB(own.url, key) as client:
            begin = client.changes("now").cursor
        answers: list[int] = []

        def wait(_: int) -> None:
            headers = {"Authorization": f"Bearer {key}"}
            url = f"{own.url}/v1/changes?wait=30&after={begin}"
            answers.append(httpx.get(url, headers=headers, timeout=60).status_code)

        waiting = threading.Thread(target=together, args=(wait, 4))
        waiting.start()
        time.sleep(1)
        began = time.monotonic()
        own.stop()
        waiting.join(30)
        assert time.monotonic() - began < 20
        assert answers == [200] * 4


def raw(instance: Instance, key: str, request: str, body: bytes = b"", **headers: str) -> tuple[int, dict, bytes]:
    """Send a request whose target is not touched by any client library."""
    method, target = request.split(" ", 1)
    connection = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=30)
    connection.putrequest(method, target, skip_host=False)
    for name, value in {"Authorization": f"Bearer {key}", **headers}.items():
        connection.putheader(name, value)
    if body:
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body or None)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


@pytest.mark.parametrize("record_id", ["a/b", "100%", "%2F", "é 日本", "..a", "a?b#c", "a:b;c"])
def test_ids_of_any_characters_reach_their_record_through_gunicorn(db: FeltDB, record_id: str) -> None:
    made = db.put("named", record_id, {"n": 1})
    assert made.id == record_id
    assert db.get("named", record_id) == made
    assert db.delete("named", record_id)


@pytest.mark.parametrize("segment", ["%", "%zz", "%ff", "%01", ".", "..", "%2e%2e"])
def test_segments_that_are_not_well_formed_are_refused_through_gunicorn(instance, key, segment) -> None:
    status, headers, body = raw(instance, key, f"GET /v1/collections/named/{segment}")
    assert (status, headers["Content-Type"]) == (400, "application/json")
    assert b'"VALIDATION_ERROR"' in body


def test_bodies_in_chunks_are_read_and_bounded(instance: Instance, key: str) -> None:
    def chunks(count: int) -> Iterator[bytes]:
        yield b'{"t":"'
        for _ in range(count):
            yield b"x" * 65536
        yield b'"}'

    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with httpx.Client(base_url=instance.url, headers=headers, timeout=30) as client:
        assert client.put("/v1/collections/chunked/a", content=chunks(4)).status_code == 201
        over = client.put("/v1/collections/chunked/b", content=chunks(40))
    assert (over.status_code, over.json()["code"]) == (413, "BODY_TOO_LARGE")


def test_a_read_of_a_known_version_and_a_head_have_no_body(instance: Instance, key: str, db: FeltDB) -> None:
    db.put("named", "known", {"n": 1})
    status, headers, body = raw(instance, key, "GET /v1/collections/named/known", **{"If-None-Match": '"1"'})
    assert (status, body, headers["ETag"]) == (304, b"", '"1"')
    status, headers, body = raw(instance, key, "HEAD /v1/collections/named/known")
    assert (status, body, headers["Content-Type"]) == (200, b"", "application/json")
