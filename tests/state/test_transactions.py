"""Transactions over HTTP: whole or not at all, preconditions, repeatable by their id."""

import pytest

PATH = "/v1/transactions"


def operation(record_id="o-1", **members):
    return {"collection": "orders", "id": record_id, **members}


def run(client, *operations, **members):
    return client.post_json(PATH, {"operations": list(operations), **members})


def value(client, record_id="o-1"):
    answer = client.get(f"/v1/collections/orders/{record_id}")
    return answer.json()["value"] if answer.status_code == 200 else None


def test_a_transaction_changes_several_records_under_one_revision(client):
    run(client, operation("o-2", value={"n": 2, "m": 1}), operation("o-3", value={}))
    answer = run(
        client,
        operation("o-1", value={"n": 1}),
        operation("o-2", merge={"n": None, "k": 3}),
        operation("o-3", delete=True),
        transactionId="t-1",
    )
    assert answer.status_code == 201
    instance = client.get("/v1/revision").json()["scope"]
    assert answer.json() == {
        "transactionId": "t-1",
        "baseRevision": 2,
        "commitRevision": 5,
        "status": "committed",
        "duplicate": False,
        "operationIds": [f"operation:{instance}:{n}" for n in (3, 4, 5)],
    }
    assert answer["FeltDB-Revision"] == "5"
    assert [value(client, name) for name in ("o-1", "o-2", "o-3")] == [{"n": 1}, {"m": 1, "k": 3}, None]


def test_an_operation_without_value_and_merge_deletes_as_in_the_reference(client):
    run(client, operation(value={}))
    assert run(client, operation()).status_code == 201
    assert value(client) is None


def test_deleting_what_is_absent_is_accepted_and_makes_no_operation(client):
    answer = run(client, operation(delete=True))
    assert (answer.status_code, answer.json()["operationIds"]) == (201, [])


def test_the_same_request_under_its_id_answers_200_and_is_done_once(client):
    first = run(client, operation(value={"n": 1, "m": 2}), transactionId="t-1")
    again = client.call(
        "POST",
        PATH,
        b'{ "transactionId":"t-1", "operations":[{"id":"o-1","value":{"m":2,"n":1},"collection":"orders"}] }',
    )
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {**first.json(), "duplicate": True}
    assert client.get("/v1/revision").json()["revision"] == 1


def test_another_request_under_a_known_id_is_a_conflict_and_changes_nothing(client):
    run(client, operation(value={"n": 1}), transactionId="t-1")
    answer = run(client, operation(value={"n": 1.0}), transactionId="t-1")
    refusal = answer.json()
    assert (answer.status_code, refusal["code"], refusal["committed"]) == (409, "IDEMPOTENCY_CONFLICT", False)
    assert refusal["transactionId"] == "t-1"
    assert type(value(client)["n"]) is int


def test_a_transaction_without_an_id_gets_one_by_which_it_can_be_asked_for(client):
    made = run(client, operation(value={})).json()
    asked = client.get(f"{PATH}/{made['transactionId']}")
    assert asked.status_code == 200
    assert {**asked.json(), "duplicate": False} == made


def test_an_id_that_was_never_committed_is_not_found(client):
    run(client, operation(value={}, expectedVersion=4), transactionId="t-1")
    for name in ("t-1", "t-2"):
        answer = client.get(f"{PATH}/{name}")
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("member", "predicate", "expected", "actual", "place"),
    [
        ({"value": {}, "requireAbsent": True}, "present", 0, 1, "requireAbsent"),
        ({"value": {}, "expectedVersion": 7}, "version", 7, 1, "expectedVersion"),
        ({"merge": {}, "expectedVersion": 7}, "version", 7, 1, "expectedVersion"),
        ({"delete": True, "expectedVersion": 7}, "version", 7, 1, "expectedVersion"),
        ({"value": {}, "expectedVersion": 0}, "version", 0, 1, "expectedVersion"),
    ],
)
def test_an_operations_own_condition_refuses_the_whole_transaction(client, member, predicate, expected, actual, place):
    run(client, operation("o-1", value={"n": 1}))
    answer = run(client, operation("o-2", value={}), operation("o-1", **member))
    refusal = answer.json()
    assert (answer.status_code, refusal["code"], refusal["committed"]) == (409, "PRECONDITION_FAILED", False)
    assert refusal["failure"] == {
        "predicate": predicate,
        "collection": "orders",
        "id": "o-1",
        "key": "orders:o-1",
        "expected": expected,
        "actual": actual,
    }
    assert refusal["details"] == {"pointer": f"/operations/1/{place}"}
    assert value(client, "o-2") is None


def test_a_merge_of_what_is_absent_refuses_the_whole_transaction(client):
    answer = run(client, operation("o-2", value={}), operation("o-1", merge={}))
    refusal = answer.json()
    assert (answer.status_code, refusal["code"]) == (409, "PRECONDITION_FAILED")
    assert refusal["failure"] == {"predicate": "missing", "collection": "orders", "id": "o-1", "key": "orders:o-1"}
    assert refusal["details"] == {"pointer": "/operations/1/merge"}
    assert value(client, "o-2") is None


@pytest.mark.parametrize(
    ("condition", "holds", "predicate", "place"),
    [
        ({"id": "o-1", "requirePresent": True}, True, None, None),
        ({"id": "o-9", "requirePresent": True}, False, "missing", "requirePresent"),
        ({"id": "o-9", "requireAbsent": True}, True, None, None),
        ({"id": "o-1", "requireAbsent": True}, False, "present", "requireAbsent"),
        ({"id": "o-1", "expectedVersion": 1}, True, None, None),
        ({"id": "o-9", "expectedVersion": 0}, True, None, None),
        ({"id": "o-1", "expectedVersion": 2}, False, "version", "expectedVersion"),
        ({"id": "o-1", "pointer": "/a/0", "equals": 1}, True, None, None),
        ({"id": "o-1", "pointer": "/a/0", "equals": 1.0}, False, "equals", "equals"),
        ({"id": "o-1", "pointer": "/none", "equals": None}, False, "equals", "equals"),
        ({"id": "o-1", "pointer": "", "equals": {"a": [1]}}, True, None, None),
        ({"id": "o-1", "expectedVersion": 1, "pointer": "/a", "equals": []}, False, "equals", "equals"),
        ({"id": "o-1", "require_present": True, "expected_version": 2}, False, "version", "expectedVersion"),
    ],
)
def test_preconditions_decide_over_the_whole_transaction(client, condition, holds, predicate, place):
    run(client, operation("o-1", value={"a": [1]}))
    hold = {"collection": "orders", "id": "o-1", "requirePresent": True, "expectedVersion": 1}
    answer = run(client, operation("o-2", value={}), preconditions=[hold, hold, {"collection": "orders", **condition}])
    assert answer.status_code == (201 if holds else 409)
    assert (value(client, "o-2") is not None) is holds
    if not holds:
        assert answer.json()["failure"]["predicate"] == predicate
        assert answer.json()["details"] == {"pointer": f"/preconditions/2/{place}"}
        assert answer.json()["committed"] is False


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([], ""),
        ({}, "/operations"),
        ({"operations": []}, "/operations"),
        ({"operations": {}}, "/operations"),
        ({"operations": [7]}, "/operations/0"),
        ({"operations": [{}]}, "/operations/0/collection"),
        ({"operations": [{"collection": "-", "id": "a"}]}, "/operations/0/collection"),
        ({"operations": [{"collection": "a", "id": ".."}]}, "/operations/0/id"),
        ({"operations": [operation(value=None)]}, "/operations/0/value"),
        ({"operations": [operation(value=[])]}, "/operations/0/value"),
        ({"operations": [operation(merge=7)]}, "/operations/0/merge"),
        ({"operations": [operation(value={}, merge={})]}, "/operations/0"),
        ({"operations": [operation(value={}, delete=True)]}, "/operations/0"),
        ({"operations": [operation(delete="yes")]}, "/operations/0/delete"),
        ({"operations": [operation(delete=False)]}, "/operations/0"),
        ({"operations": [operation(value={}, requireAbsent=1)]}, "/operations/0/requireAbsent"),
        ({"operations": [operation(requireAbsent=True)]}, "/operations/0/requireAbsent"),
        ({"operations": [operation(merge={}, requireAbsent=True)]}, "/operations/0/requireAbsent"),
        ({"operations": [operation(value={}, requireAbsent=True, expectedVersion=0)]}, "/operations/0"),
        ({"operations": [operation(value={}, expectedVersion="1")]}, "/operations/0/expectedVersion"),
        ({"operations": [operation(value={}, expectedLeaseId="x")]}, "/operations/0/expectedLeaseId"),
        ({"operations": [operation(value={}), operation(delete=True)]}, "/operations/1"),
        ({"operations": [operation(value={})], "transactionId": ""}, "/transactionId"),
        ({"operations": [operation(value={})], "transactionId": None}, "/transactionId"),
        ({"operations": [operation(value={})], "transactionId": "x" * 129}, "/transactionId"),
        ({"operations": [operation(value={})], "transactionId": "a\nb"}, "/transactionId"),
        ({"operations": [operation(value={})], "transactionId": "a", "transaction_id": "a"}, "/transaction_id"),
        ({"operations": [operation(value={})], "preconditions": [operation()]}, "/preconditions/0"),
        (
            {"operations": [operation(value={})], "preconditions": [operation(requireAbsent=False)]},
            "/preconditions/0",
        ),
        (
            {"operations": [operation(value={})], "preconditions": [operation(pointer="/a")]},
            "/preconditions/0",
        ),
        (
            {"operations": [operation(value={})], "preconditions": [operation(pointer="a", equals=1)]},
            "/preconditions/0/pointer",
        ),
        (
            {"operations": [operation(value={})], "preconditions": [operation(pointer="/a~2", equals=1)]},
            "/preconditions/0/pointer",
        ),
        ({"operations": [operation(value={})], "fences": [{}]}, "/fences/0/token"),
        ({"operations": [operation(value={})], "fences": [7]}, "/fences/0"),
        ({"operations": [operation(value={})], "more": 1}, "/more"),
    ],
)
def test_a_transaction_that_is_not_one_is_refused_with_its_pointer(client, body, pointer):
    answer = client.post_json(PATH, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"] == {"pointer": pointer}
    assert client.get("/v1/revision").json()["revision"] == 0


@pytest.mark.parametrize(
    ("second", "pointer"),
    [
        (operation("o-2", value={"t": "x" * 1_100_000}), "/operations/1/value"),
        (operation("o-1", merge={"u": "x" * 600_000}), "/operations/1/merge"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused_with_its_place_and_never_committed(client, second, pointer):
    run(client, operation("o-1", value={"t": "x" * 600_000}))
    answer = run(client, operation("o-3", value={}), second)
    refusal = answer.json()
    assert (answer.status_code, refusal["code"], refusal["committed"]) == (422, "VALIDATION_FAILED", False)
    assert refusal["details"] == {"pointer": pointer}
    assert client.get("/v1/revision").json()["revision"] == 1


def test_ten_thousand_operations_are_one_transaction_and_one_more_is_refused(client):
    operations = [operation(f"o-{n}", value={"n": n}) for n in range(10_000)]
    answer = run(client, *operations)
    assert (answer.status_code, len(answer.json()["operationIds"])) == (201, 10_000)
    over = run(client, *operations, operation("one-more", value={}))
    assert (over.status_code, over.json()["details"]) == (400, {"pointer": "/operations"})


def test_values_in_a_transaction_are_stored_as_given_with_their_ids(client):
    run(client, operation("o-1", value={"id": 17, "n": 1}))
    assert value(client) == {"id": 17, "n": 1}


def test_a_transaction_of_several_mebibytes_is_taken(client):
    operations = [operation(f"o-{n}", value={"t": "x" * 1_000_000}) for n in range(8)]
    assert run(client, *operations).status_code == 201
