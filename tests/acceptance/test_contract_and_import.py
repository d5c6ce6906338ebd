"""At size, through real gunicorn with several processes: contracts raced on and changed, and flights imported.

Cost: about a minute on two idle cores: 100,000 records checked twice, 30,000 flights sent four times; by `make torture`
all 336,776.
"""

import json
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import httpx
import pytest
from feltdb_client import ApiError, FeltDB, NotFound, delete

from demo.flights import flights
from demo.instance import Instance
from tests.acceptance.test_state_races import together

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
BREAKING = 100_000
FLIGHTS = 336_776
SLICE = 30_000
BATCH = 500
EMAILS = 20


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with Instance(tmp_path_factory.mktemp("contracts") / "data", WEB_WORKERS="3") as running:
        running.start_server()
        yield running


@pytest.fixture(scope="module")
def key(instance: Instance) -> str:
    return instance.new_key("state:read", "state:write", "events:read", "schema:write")


def outcome(change: Callable[[], Any]) -> str:
    """Make a change; return `done`, or the code it was refused with."""
    try:
        change()
    except NotFound:
        return "NOT_FOUND"
    except ApiError as error:
        return error.code
    return "done"


def test_racing_clients_break_neither_what_is_unique_nor_a_reference(instance: Instance, key: str) -> None:
    people = {"unique": ["email"]}
    orders = {"references": [{"field": "customer", "collection": "people"}]}
    with FeltDB(instance.url, key) as db:
        db.activate_contract({"collections": {"people": people, "orders": orders}})

    def take(number: int) -> list[str]:
        with FeltDB(instance.url, key) as db:
            return [
                outcome(lambda turn=turn: db.put("people", f"{number}-{turn}", {"email": f"{turn}@x"}))
                for turn in range(EMAILS)
            ]

    for answers in zip(*together(take), strict=True):
        assert sorted(answers) == ["VALIDATION_FAILED"] * 7 + ["done"], "each address is taken once"

    with FeltDB(instance.url, key) as db:
        customers = [each.id for each in db.records("people")]
    assert len(customers) == EMAILS

    def use_or_remove(number: int) -> list[str]:
        with FeltDB(instance.url, key) as db:
            if number % 2:
                return [outcome(lambda one=one: db.commit([delete("people", one)])) for one in customers]
            return [
                outcome(lambda one=one: db.put("orders", f"{number}-{one}", {"customer": one})) for one in customers
            ]

    answers = [each for given in together(use_or_remove) for each in given]
    assert set(answers) <= {"done", "VALIDATION_FAILED"}
    with FeltDB(instance.url, key) as db:
        left = {each.id for each in db.records("people")}
        named = {each.value["customer"] for each in db.records("orders")}
    assert named <= left, "an order names somebody who is gone"
    assert set(customers) - left or named, "nothing happened: this proved nothing"


def test_a_contract_that_a_hundred_thousand_records_break_changes_nothing_and_a_good_one_builds_while_all_write(
    instance: Instance, key: str
) -> None:
    with FeltDB(instance.url, key) as db:
        before = db.contract()
        rows = (("parts", f"p-{n:06}", {"number": n, "weight": -n}) for n in range(BREAKING))
        assert db.import_records(rows).rows == BREAKING
        heavy = {"schema": {"properties": {"weight": {"minimum": 1}}}}
        wanted = {"collections": {**before.contract["collections"], "parts": {**heavy, "unique": ["number"]}}}
        at = db.runtime()["revision"]
        with pytest.raises(ApiError) as refused:
            db.activate_contract(wanted)
        assert refused.value.code == "CONTRACT_BROKEN"
        [breach] = refused.value.body["report"]["breaches"]
        assert (breach["collection"], breach["rule"], breach["count"]) == ("parts", "schema", BREAKING)
        assert [each["id"] for each in breach["samples"]] == [f"p-{n:06}" for n in range(10)]
        assert db.contract() == before
        assert db.runtime()["revision"] == at, "nothing was written"

    finished, written, refusals = threading.Event(), [0] * 3, []

    def write(number: int) -> None:
        with FeltDB(instance.url, key) as db:
            while not finished.is_set():
                done = outcome(lambda: db.put("parts", f"w-{number}-{written[number]}", _part(number, written[number])))
                refusals.append(done) if done != "done" else None
                written[number] += 1

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    good = {"collections": {**before.contract["collections"], "parts": {"unique": ["number"]}}}
    with FeltDB(instance.url, key) as db:
        made = db.activate_contract(good, revision=before.revision)
        at_activation = sum(written)
        finished.set()
        for writer in writers:
            writer.join(60)
        assert made.revision == before.revision + 1 and made.pending is None
        assert at_activation > 0 and refusals == [], "writes went on all the while"
        assert outcome(lambda: db.put("parts", "twice", {"number": 7})) == "VALIDATION_FAILED"
        assert db.count("parts") == BREAKING + sum(written)


def _part(number: int, turn: int) -> dict[str, int]:
    return {"number": BREAKING + 3 * turn + number}


def lines(rows: int, bad: int | None) -> Iterator[bytes]:
    """So many flights, a line each; the one numbered `bad` has a value that is no object."""
    for number, (name, value) in enumerate(flights(rows), 1):
        said: Any = "delayed" if number == bad else value
        yield json.dumps({"id": name, "value": said}, separators=(",", ":")).encode() + b"\n"


def pieces(source: Iterator[bytes]) -> Iterator[bytes]:
    while piece := b"".join(islice(source, 2000)):
        yield piece


def import_around_a_bad_row(instance: Instance, key: str, rows: int) -> None:
    """Import flights of which the middle one is bad, account for every one, mend it and go on, and account again."""
    bad, collection = rows // 2, f"flights-{rows}"
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson", "Idempotency-Key": collection}
    url = f"{instance.url}/v1/import?collection={collection}&mode=insert"

    def send(bad: int | None) -> list[dict[str, Any]]:
        answer = httpx.post(url, headers=headers, content=pieces(lines(rows, bad)), timeout=300)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def account(db: FeltDB, there: int) -> None:
        """The first `there` flights are in as they were sent, written once, and nothing else is."""
        found = {each.id: (each.version, each.value) for each in db.records(collection)}
        assert found == {name: (1, value) for name, value in flights(there)}

    with FeltDB(instance.url, key) as db:
        before = db.runtime()["revision"]
        told = send(bad)
        whole = (bad - 1) // BATCH * BATCH
        assert (told[-1]["row"], told[-1]["rows"], told[-1]["batches"]) == (bad, whole, whole // BATCH)
        assert told[-1]["error"]["code"] == "VALIDATION_ERROR"
        assert told[-1]["error"]["details"] == {"pointer": "/value"}
        assert [each["rows"] for each in told] == sorted(each["rows"] for each in told), "progress goes one way"
        account(db, whole)
        assert send(bad)[-1]["row"] == bad, "unmended it stops at the same row"
        assert db.runtime()["revision"] == before + whole, "and writes nothing"
        last = send(None)[-1]
        assert (last["complete"], last["rows"], last["records"]) == (True, rows, rows)
        assert last["repeated"] == whole // BATCH, "what was in is passed over"
        account(db, rows)
        last = send(None)[-1]
        assert (last["complete"], last["repeated"]) == (True, last["batches"]), "once more, it is all in already"
        assert db.runtime()["revision"] == before + rows, "each flight was written once"


def test_flights_with_a_bad_row_in_the_middle_stop_exactly_there_and_mended_go_on(instance: Instance, key: str) -> None:
    import_around_a_bad_row(instance, key, SLICE)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_so_do_all_flights_of_the_year(instance: Instance, key: str) -> None:
    import_around_a_bad_row(instance, key, FLIGHTS)
