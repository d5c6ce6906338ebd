"""The client's triggers and work: against this server in process, and against one that takes the work away."""

import json

import httpx
import pytest
from feltdb_client import ApiError, Failed, FeltDB, NotFound, Patience

from apps.triggers.evaluator import Evaluator
from feltsite.wsgi import application
from tests.clients.test_against_server import InProcess, one_connection  # noqa: F401


@pytest.fixture
def shop(make_key, data_dir, one_connection):  # noqa: F811
    with FeltDB("http://127.0.0.1", make_key().secret, transport=InProcess(application)) as client:
        yield client


@pytest.fixture
def worker(make_key, data_dir, one_connection):  # noqa: F811
    key = make_key(name="w", scopes=["workload:claim", "workload:execute"], worker_id="w-1")
    with FeltDB("http://127.0.0.1", key.secret, transport=InProcess(application)) as client:
        yield client


def test_work_is_asked_for_once_done_by_a_worker_and_its_result_read(shop, worker):
    asked = shop.request_work("pack", {"order": 7}, idempotency_key="k", priority=2)
    assert (
        shop.request_work("pack", {"order": 7}, idempotency_key="k", priority=2)["workload_id"] == asked["workload_id"]
    )
    assert shop.result(asked["workload_id"])["result"] is None
    done = worker.work_once("w-1", {"pack": lambda job: {"packed": job.input["order"]}})
    assert done == asked["workload_id"]
    assert worker.work_once("w-1", {"pack": lambda job: None}) is None
    assert shop.workload(done)["state"] == "SUCCEEDED" and shop.workload(done)["priority"] == 2
    assert shop.result(done)["result"]["output"] == {"packed": 7}
    assert shop.workload("workload_none") is None
    with pytest.raises(NotFound):
        shop.result("workload_none")


def test_what_a_program_raises_or_cannot_say_is_a_failure_and_the_worker_goes_on(shop, worker):
    def refuses(job):
        raise Failed("no_such_order", "7", effect="none")

    def breaks(job):
        raise RuntimeError("broken")

    for program, kind in (
        (refuses, "no_such_order"),
        (breaks, "execution_error"),
        (lambda job: {1, 2}, "execution_error"),
    ):
        asked = shop.request_work("pack", retry_policy={"max_attempts": 1})
        assert worker.work_once("w-1", {"pack": program}) == asked["workload_id"]
        found = shop.workload(asked["workload_id"])
        assert found["state"] == "DEAD_LETTER" and kind in json.dumps(found)


def test_a_trigger_is_defined_and_the_work_of_a_change_has_its_record(shop, worker):
    definition = {
        "trigger_id": "paid",
        "source_collection": "orders",
        "change_kind": "insert",
        "target_capability": "pack",
    }
    assert shop.define_trigger(definition)["revision"] == shop.define_trigger(definition)["revision"] == 1
    shop.create("orders", {"total": 3}, record_id="1")
    Evaluator().run_once()
    seen = []
    assert worker.work_once("w-1", {"pack": lambda job: seen.append(job.input["record"])}) is not None
    assert seen == [{"total": 3}]


def test_a_key_of_another_worker_is_refused_at_once(worker):
    with pytest.raises(ApiError, match="worker"):
        worker.run_worker("w-2", {"pack": lambda job: None})


CLAIM = {
    "workload_id": "workload_1",
    "definition_id": "pack",
    "input": None,
    "worker_id": "w",
    "claim_id": "c",
    "fencing_token": 4,
}


def told(heartbeat: httpx.Response) -> tuple[FeltDB, list[tuple[str, dict]]]:
    """A client of a server that gives one piece of work and answers its heartbeats so; and the words it hears."""
    words: list[tuple[str, dict]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        word = request.url.path.rsplit("/", 1)[1]
        words.append((word, json.loads(request.content)))
        if word == "claim":
            return httpx.Response(200, json={"claims": [CLAIM]})
        return heartbeat if word == "heartbeat" else httpx.Response(200, json={})

    return FeltDB("http://test", "fdb_x", transport=httpx.MockTransport(answer)), words


def until_stopped(job):
    assert job.stop.wait(30)


def test_a_program_is_told_when_its_work_is_cancelled_and_the_worker_confirms_it():
    db, words = told(httpx.Response(200, json={"cancel_requested": True}))
    db.work_once("w", {"pack": until_stopped}, lease_s=0.03)
    assert [word for word, _ in words[:3]] == ["claim", "start", "heartbeat"] and words[-1][0] == "cancelled"
    assert words[-1][1] == {"worker_id": "w", "claim_id": "c", "fencing_token": 4}


def test_a_program_is_told_when_somebody_else_holds_its_work():
    db, words = told(httpx.Response(409, json={"code": "WORKLOAD_STALE_FENCE"}))
    db.work_once("w", {"pack": until_stopped}, lease_s=0.03)
    assert [word for word, _ in words].count("heartbeat") == 1


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "localhost:8000", "", "ftp://127.0.0.1", "http://"])
def test_an_address_that_can_be_none_is_refused_at_once(url):
    with pytest.raises(ValueError, match="url must be as http"):
        FeltDB(url, "fdb_x")


@pytest.mark.parametrize("key", ["", " ", "fdb_\n_x", "two words", "schlüssel"])
def test_a_key_that_can_be_none_is_refused_at_once_and_not_shown(key):
    with pytest.raises(ValueError, match="a key is one word") as refused:
        FeltDB("http://127.0.0.1", key)
    assert not key.strip() or key not in str(refused.value)


@pytest.mark.parametrize("url", ["http://test", "http://test/", "http://test/v1", "http://test/v1/"])
def test_an_address_may_end_with_v1_and_a_key_with_the_end_of_its_line(url):
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(404, json={"code": "NOT_FOUND"})

    client = FeltDB(url, "fdb_x\n", transport=httpx.MockTransport(answer), patience=Patience(total_s=1))
    assert client.get("orders", "1") is None
    assert str(asked[0].url) == "http://test/v1/collections/orders/1"
    assert asked[0].headers["Authorization"] == "Bearer fdb_x"
