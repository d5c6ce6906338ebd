"""The Python client against this server, in process: every method does what it says."""

import itertools
import sys

import httpx
import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from feltdb_client import (
    NOW,
    FeedCompacted,
    FeltDB,
    IdempotencyConflict,
    NotFound,
    PreconditionFailed,
    VersionConflict,
    delete,
    merge,
    put,
    require_absent,
    require_equal,
    require_present,
    require_version,
)

from feltsite.wsgi import application


class InProcess(httpx.WSGITransport):
    """Hands requests to the WSGI application with the raw target, as gunicorn does and httpx alone does not."""

    def handle_request(self, request):
        def with_target(environ, start_response):
            return application({**environ, "RAW_URI": request.url.raw_path.decode("ascii")}, start_response)

        return httpx.WSGITransport(with_target, wsgi_errors=sys.stderr).handle_request(request)


@pytest.fixture
def one_connection():
    """Keep the test's database connection, with the transaction around the test, over every request."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def db(make_key, data_dir, one_connection):
    with FeltDB("http://127.0.0.1", make_key().secret, transport=InProcess(application)) as client:
        yield client


def test_records_are_created_read_replaced_merged_swapped_and_deleted(db):
    made = db.create("orders", {"n": 1})
    named = db.create("orders", {"n": 1}, record_id="a/b %")
    assert db.get("orders", made.id) == made
    assert db.get("orders", "a/b %") == named
    assert db.put("orders", "a/b %", {"n": 2}, version=1).version == 2
    assert db.merge("orders", "a/b %", {"m": 3}).value == {"n": 2, "m": 3}
    assert db.compare_and_set("orders", "a/b %", 3, {"n": 4}).version == 4
    with pytest.raises(VersionConflict) as conflict:
        db.compare_and_set("orders", "a/b %", 3, {"n": 5})
    assert conflict.value.current_version == 4
    assert db.delete("orders", "a/b %") is True
    assert db.delete("orders", "a/b %") is False
    assert db.get("orders", "a/b %") is None
    with pytest.raises(NotFound):
        db.merge("orders", "a/b %", {})


def test_exact_numbers_and_text_survive_the_round_trip(db):
    value = {"big": 2**64 - 1, "low": -(2**63), "one": 1.0, "text": "é\U0001f600", "tiny": 5e-324}
    db.put("orders", "a", value)
    found = db.get("orders", "a").value
    assert found == value
    assert type(found["one"]) is float


def test_transactions_are_whole_repeatable_and_can_be_asked_for(db):
    operations = [put("orders", "a", {"n": 1}, create=True), put("orders", "b", {"n": 2})]
    done = db.commit(operations, preconditions=[require_absent("orders", "c")], transaction_id="t-1")
    assert (done.revision, done.duplicate, len(done.operation_ids)) == (2, False, 2)
    assert db.commit(operations, preconditions=[require_absent("orders", "c")], transaction_id="t-1").duplicate
    assert db.outcome("t-1").revision == 2
    assert db.outcome("t-2") is None
    with pytest.raises(IdempotencyConflict):
        db.commit([put("orders", "a", {})], transaction_id="t-1")
    with pytest.raises(PreconditionFailed) as refusal:
        db.commit([delete("orders", "b"), merge("orders", "a", {}, version=9)])
    assert refusal.value.failure["actual"] == 1
    conditions = [
        require_present("orders", "a"),
        require_version("orders", "b", 1),
        require_equal("orders", "a", "/n", 1),
    ]
    assert db.commit([delete("orders", "b", version=1)], preconditions=conditions).revision == 3


def test_iterators_read_page_by_page_to_the_end(db):
    db.commit([put("orders", f"{n:03}", {"n": n, "even": n % 2 == 0}) for n in range(25)])
    assert [each.value["n"] for each in db.records("orders", batch=4)] == list(range(25))
    even = [{"field": "even", "op": "eq", "value": True}]
    found = [each.value for each in db.query("orders", where=even, order_by=[("n", "desc")], select=["n"], batch=5)]
    assert found == [{"n": n} for n in range(24, -1, -2)]
    assert db.collections() == {"orders": 25}


def test_following_the_feed_gives_every_operation_once_in_order(db):
    for n in range(7):
        db.commit([put("orders", f"{n}-{m}", {}) for m in range(3)])
    pages = itertools.islice(db.follow(limit=6, wait_s=0), 4)
    sequences = [each.sequence for page in pages for each in page.operations]
    assert sequences == list(range(1, 22))
    assert db.changes(NOW).operations == ()


def test_a_snapshot_and_the_feed_after_it_miss_nothing(db):
    db.put("orders", "a", {"n": 1})
    cursor, records = db.snapshot()
    db.put("orders", "a", {"n": 2})
    db.put("orders", "b", {"n": 1})
    state = {each.key: each.version for _, each in records}
    for operation in db.changes(cursor).operations:
        state[operation.key] = max(state.get(operation.key, 0), operation.version)
    assert state == {"orders:a": 2, "orders:b": 1}


def test_a_gap_in_the_feed_is_raised_or_handed_over():
    gone = {"code": "FEED_COMPACTED", "message": "gone", "request_id": "r", "details": {"floor": 5, "head": 9}}
    page = {"operations": [], "cursor": "i-9", "head": 9, "floor": 5}
    asked = []

    def answer(request):
        asked.append(request.url.params["after"])
        return httpx.Response(410, json=gone) if asked[-1] == "i-1" else httpx.Response(200, json=page)

    with FeltDB("http://feltdb", "k", transport=httpx.MockTransport(answer)) as client:
        with pytest.raises(FeedCompacted):
            next(client.follow("i-1"))
        stopped = RuntimeError("enough")

        def on_gap(gap):
            assert gap.details["floor"] == 5
            if len(asked) > 3:
                raise stopped
            return "i-1"

        with pytest.raises(RuntimeError):
            next(client.follow("i-1", on_gap=on_gap))
    assert asked == ["i-1"] * 4


def test_the_client_says_what_the_server_is(db):
    assert db.runtime()["protocol_version"] == 1
