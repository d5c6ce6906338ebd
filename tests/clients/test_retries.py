"""The Python client's patience: what it repeats, under which id, and what it says when patience ends."""

import json

import httpx
import pytest
from feltdb_client import (
    ApiError,
    Conflict,
    FeltDB,
    IdempotencyConflict,
    NotFound,
    OutcomeUnknown,
    Patience,
    PreconditionFailed,
    Unreachable,
    VersionConflict,
    put,
)
from feltdb_client.retry import RETRIED_CODES

from apps.http.codes import CODES

RECORD = {"id": "a", "key": "c:a", "version": 1, "sequence": 1, "updated_at_ms": 5, "value": {"n": 1}}
OUTCOME = {
    "transactionId": "t",
    "baseRevision": 0,
    "commitRevision": 1,
    "status": "committed",
    "duplicate": False,
    "operationIds": ["operation:i:1"],
}


def test_every_code_the_client_repeats_is_one_of_the_servers():
    assert set(CODES) >= RETRIED_CODES


class Script:
    """Answers requests one after another; remembers them and how long the client slept."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.requests = []
        self.slept = []

    def client(self, **members):
        now = [0.0]

        def sleep(seconds):
            self.slept.append(seconds)
            now[0] += seconds

        patience = Patience(monotonic=lambda: now[0], sleep=sleep, jitter=lambda: 1.0, **members)
        return FeltDB("http://feltdb", "fdb_test", patience=patience, transport=httpx.MockTransport(self.answer))

    def answer(self, request):
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        status, body, *headers = step
        return httpx.Response(status, json=body, headers=headers[0] if headers else None)


def refused(status, code, **members):
    return status, {"code": code, "message": "no", "request_id": "r", **members}


LOST = httpx.ReadTimeout("lost")
DOWN = httpx.ConnectError("refused")


def test_every_write_carries_one_transaction_id_over_all_its_attempts():
    script = Script(LOST, refused(503, "SERVICE_OVERLOADED"), (201, RECORD))
    with script.client() as db:
        db.create("c", {"n": 1})
    keys = {request.headers["Idempotency-Key"] for request in script.requests}
    assert len(script.requests) == 3
    assert len(keys) == 1 and keys != {""}


def test_two_writes_carry_different_ids_and_a_given_id_is_kept():
    script = Script((200, RECORD))
    with script.client() as db:
        db.put("c", "a", {})
        db.put("c", "a", {})
        db.put("c", "a", {}, transaction_id="mine")
    first, second, third = (request.headers["Idempotency-Key"] for request in script.requests)
    assert first != second
    assert third == "mine"


def test_a_transaction_is_repeated_with_the_id_in_its_body():
    script = Script(LOST, (200, OUTCOME))
    with script.client() as db:
        db.commit([put("c", "a", {})])
    bodies = [json.loads(request.content) for request in script.requests]
    assert bodies[0] == bodies[1]
    assert bodies[0]["transactionId"]


@pytest.mark.parametrize(
    "failure",
    [
        LOST,
        DOWN,
        httpx.RemoteProtocolError("cut"),
        refused(503, "COMMIT_UNKNOWN"),
        refused(503, "SERVICE_OVERLOADED", reason="DEADLINE"),
        refused(503, "STORAGE_REBUILDING"),
        refused(429, "RATE_LIMITED"),
        (502, {}),
        (504, {}),
    ],
)
def test_what_may_pass_is_repeated_until_it_succeeds(failure):
    script = Script(failure, failure, (200, RECORD))
    with script.client() as db:
        assert db.put("c", "a", {"n": 1}).version == 1
    assert len(script.requests) == 3


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(404, "NOT_FOUND"), NotFound),
        (refused(409, "CONFLICT"), Conflict),
        (refused(409, "VERSION_CONFLICT", currentVersion=7), VersionConflict),
        (refused(409, "PRECONDITION_FAILED", failure={"predicate": "version"}), PreconditionFailed),
        (refused(409, "IDEMPOTENCY_CONFLICT"), IdempotencyConflict),
        (refused(409, "SOMETHING_NEW"), Conflict),
        (refused(507, "STORAGE_FULL"), ApiError),
        (refused(503, "STORAGE_FAILED"), ApiError),
        (refused(401, "AUTHENTICATION_REQUIRED"), ApiError),
        (refused(500, "INTERNAL_ERROR"), ApiError),
    ],
)
def test_what_will_not_pass_is_raised_at_once_with_its_code(answer, kind):
    script = Script(answer)
    with script.client() as db, pytest.raises(kind) as raised:
        db.compare_and_set("c", "a", 1, {})
    assert type(raised.value) is kind
    assert raised.value.code == answer[1]["code"]
    assert len(script.requests) == 1
    if kind is VersionConflict:
        assert raised.value.current_version == 7
    if kind is PreconditionFailed:
        assert raised.value.failure == {"predicate": "version"}


def test_waits_double_up_to_the_longest_and_end_with_patience():
    script = Script(DOWN)
    with script.client(total_s=10.0, first_wait_s=1.0, longest_wait_s=3.0) as db, pytest.raises(Unreachable):
        db.get("c", "a")
    assert script.slept == [1.0, 2.0, 3.0, 3.0]


def test_the_server_decides_how_long_to_wait_at_least():
    script = Script((*refused(503, "SERVICE_OVERLOADED"), {"Retry-After": "7"}), (200, RECORD))
    with script.client() as db:
        db.get("c", "a")
    assert script.slept == [7.0]


@pytest.mark.parametrize("last", [LOST, refused(503, "COMMIT_UNKNOWN"), (502, {})])
def test_a_write_that_may_have_happened_ends_in_its_transaction_id(last):
    script = Script(last, DOWN)
    with script.client(total_s=1.0) as db, pytest.raises(OutcomeUnknown) as raised:
        db.put("c", "a", {}, transaction_id="mine")
    assert raised.value.transaction_id == "mine"


@pytest.mark.parametrize(
    "last", [DOWN, refused(503, "SERVICE_OVERLOADED"), refused(503, "SERVICE_OVERLOADED", reason="DEADLINE")]
)
def test_a_write_that_certainly_did_nothing_does_not_claim_otherwise(last):
    script = Script(last)
    with script.client(total_s=1.0) as db, pytest.raises(Unreachable):
        db.put("c", "a", {})


def test_a_read_never_ends_in_an_unknown_outcome():
    script = Script(LOST)
    with script.client(total_s=1.0) as db, pytest.raises(Unreachable):
        db.get("c", "a")


def test_an_address_that_is_no_feltdb_server_is_said_so():
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text="<html>"))
    with FeltDB("http://elsewhere", "k", transport=transport) as db, pytest.raises(Unreachable, match="not JSON"):
        db.runtime()


def test_a_refusal_without_a_readable_body_is_still_an_error():
    transport = httpx.MockTransport(lambda request: httpx.Response(418, text="teapot"))
    with FeltDB("http://elsewhere", "k", transport=transport) as db, pytest.raises(ApiError) as raised:
        db.runtime()
    assert (raised.value.status, raised.value.code) == (418, "UNREADABLE_ANSWER")


def test_values_json_cannot_say_are_refused_before_anything_is_sent():
    script = Script((200, RECORD))
    with script.client() as db, pytest.raises(ValueError):
        db.put("c", "a", {"n": float("nan")})
    assert script.requests == []
