"""Read bases, the fences made of them, and questions about an earlier revision, over HTTP."""

import time
from dataclasses import replace

import pytest

from apps.state.calls import Call
from feltdb_engine import Actor
from tests.state.test_questions import ids

NEW = [{"field": "status", "op": "eq", "value": "new"}]


def basis(client, records=(), predicates=()):
    body = {"records": [{"collection": "orders", "id": each} for each in records], "predicates": list(predicates)}
    answer = client.post_json("/v1/transactions/read-basis", body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def commit(client, *fences, **more):
    operations = [{"collection": "decided", "id": "d", "value": {}}]
    return client.post_json("/v1/transactions", {"operations": operations, "fences": list(fences), **more})


def broken(answer):
    body = answer.json()
    assert (answer.status_code, body["code"], body["committed"]) == (409, "FENCE_BROKEN", False)
    assert body["failure"]["predicate"] == "fence"
    return body["failure"]


def test_a_basis_gives_the_records_and_a_token_that_lets_a_commit_pass_while_nothing_changed(client, orders):
    orders("a", n=1)
    found = basis(client, ["a", "absent"])
    assert [each and each["value"] for each in found["records"]] == [{"n": 1}, None]
    assert found["revision"] == 1
    assert commit(client, found["token"]).status_code == 201
    assert commit(client, found).status_code == 201, "the whole answer is a fence too, as the reference has it"


@pytest.mark.parametrize("change", ["written", "deleted", "created"])
def test_a_record_that_changed_since_breaks_the_fence_and_nothing_is_committed(client, orders, change):
    orders("a", n=1)
    token = basis(client, ["a", "b"])["token"]
    if change == "written":
        orders("a", n=1)
    elif change == "deleted":
        client.delete("/v1/collections/orders/a")
    else:
        orders("b", n=1)
    failure = broken(commit(client, token))
    assert (failure["kind"], failure["id"]) == ("record", "b" if change == "created" else "a")
    assert client.get("/v1/collections/decided").json()["records"] == []


def test_a_phantom_breaks_the_fence_and_a_row_that_does_not_match_does_not(client, orders):
    orders("a", status="new")
    token = basis(client, predicates=[{"collection": "orders", "where": NEW}])["token"]
    orders("b", status="sent")
    assert commit(client, token).status_code == 201
    orders("c", status="new")
    assert broken(commit(client, token))["kind"] == "predicate"


def test_the_references_form_of_a_condition_and_a_whole_collection_fence_too(client, orders):
    short = basis(client, predicates=[{"collection": "orders", "where": [{"field": "status", "eq": "new"}]}])["token"]
    whole = basis(client, predicates=[{"collection": "orders"}])["token"]
    orders("a", status="sent")
    assert commit(client, short).status_code == 201
    broken(commit(client, short, whole))


def test_a_repeated_transaction_answers_its_first_outcome_though_its_fence_is_broken_by_now(client, orders):
    orders("a", n=1)
    token = basis(client, ["a"])["token"]
    assert commit(client, token, transactionId="t-1").status_code == 201
    orders("a", n=2)
    again = commit(client, token, transactionId="t-1")
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    other = commit(client, transactionId="t-1")
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT"), (
        "the fence is part of the request"
    )


def test_a_token_of_another_namespace_or_of_nobody_is_refused(client, api, make_key, orders):
    from apps.keys.services import ensure_namespace

    other = api(make_key(namespaces=[ensure_namespace("elsewhere").name]))
    token = basis(other, ["a"])["token"]
    for fence in (token, "nonsense", {"token": "nonsense"}):
        answer = commit(client, fence)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
        assert answer.json()["details"]["pointer"] == "/fences/0"


def test_a_key_for_some_collections_learns_nothing_of_others_by_bases_or_fences(client, api, make_key, orders):
    orders("a", n=1)
    narrow = api(make_key(collections=["decided"]))
    body = {"records": [{"collection": "orders", "id": "a"}]}
    token = basis(client, ["a"])["token"]
    by_predicate = basis(client, predicates=[{"collection": "orders"}])["token"]
    orders("a", n=2)
    for answer in (
        narrow.post_json("/v1/transactions/read-basis", body),
        narrow.post_json("/v1/transactions/read-basis", {"predicates": [{"collection": "orders"}]}),
        commit(narrow, token),
        commit(narrow, by_predicate),
    ):
        assert (answer.status_code, answer.json()["reason"]) == (403, "COLLECTION_DENIED")
        assert "failure" not in answer.json()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"records": [], "predicates": []}, ""),
        ({"records": [{"collection": "orders"}]}, "/records/0/id"),
        ({"records": [{"collection": "orders", "id": "a"}] * 1001}, "/records"),
        ({"predicates": [{"collection": "orders"}] * 17}, "/predicates"),
        ({"predicates": [{"where": []}]}, "/predicates/0/collection"),
        ({"reads": []}, "/reads"),
    ],
)
def test_a_basis_of_nothing_or_of_too_much_is_refused(client, body, pointer):
    answer = client.post_json("/v1/transactions/read-basis", body)
    assert (answer.status_code, answer.json()["details"]) == (400, {"pointer": pointer})


def test_a_condition_that_is_none_is_refused_with_its_place(client):
    bad = {"predicates": [{"collection": "orders", "where": [{"field": "a", "op": "like", "value": 1}]}]}
    answer = client.post_json("/v1/transactions/read-basis", bad)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_QUERY")
    assert answer.json()["details"]["pointer"].startswith("/predicates/0/where")


def test_more_fences_than_may_be_are_refused(client, orders):
    token = basis(client, ["a"])["token"]
    assert commit(client, *[token] * 16).status_code == 201
    assert commit(client, *[token] * 17).status_code == 400


def test_a_transaction_named_read_basis_is_asked_for_like_any_other(client):
    commit(client, transactionId="read-basis")
    assert client.get("/v1/transactions/read-basis").json()["status"] == "committed"


def test_a_query_of_an_earlier_revision_sees_exactly_that(client, orders):
    orders("a", status="new")
    orders("b", status="sent")
    then = client.get("/v1/revision").json()["revision"]
    orders("a", status="sent")
    orders("c", status="new")
    client.delete("/v1/collections/orders/b")
    question = {"collection": "orders", "asOf": then}
    answer = client.post_json("/v1/query", question)
    assert [(each["id"], each["value"]["status"]) for each in answer.json()["records"]] == [("a", "new"), ("b", "sent")]
    assert answer["FeltDB-Revision"] == str(then)
    assert client.post_json("/v1/query", {**question, "where": NEW, "count": True, "limit": 0}).json()["count"] == 1
    first = client.post_json("/v1/query", {**question, "limit": 1}).json()
    assert ids(client.post_json("/v1/query", {**question, "limit": 1, "cursor": first["next_cursor"]})) == ["b"]
    for elsewhere in ({"collection": "orders"}, {"collection": "orders", "asOf": then + 1}):
        other = client.post_json("/v1/query", {**elsewhere, "cursor": first["next_cursor"]})
        assert (other.status_code, other.json()["code"]) == (422, "INVALID_CURSOR")


@pytest.mark.parametrize(("as_of", "status"), [(-1, 400), ("1", 400), (1.0, 400), (99, 410), (2, 422)])
def test_a_revision_that_is_none_is_refused(client, as_of, status):
    operations = [{"collection": "orders", "id": each, "value": {}} for each in "abc"]
    client.post_json("/v1/transactions", {"operations": operations})
    answer = client.post_json("/v1/query", {"collection": "orders", "asOf": as_of})
    assert answer.status_code == status, "2 lies inside a transaction"


def test_a_scan_stops_before_its_deadline_and_says_where_to_go_on(client, orders, monkeypatch):
    from apps.state.services import queries

    for n in range(3000):
        orders(f"o-{n:04}", n=n) if n in (0, 2999) else None
    operations = [{"collection": "orders", "id": f"o-{n:04}", "value": {"n": n}} for n in range(1, 2999)]
    client.post_json("/v1/transactions", {"operations": operations})
    question = {"collection": "orders", "where": [{"field": "n", "op": "eq", "value": 2999}]}
    monkeypatch.setattr(queries.Call, "read_until", property(lambda call: time.monotonic() + 0.001))
    answer = client.post_json("/v1/query", question)
    turns = 0
    while answer.status_code == 503:
        turns += 1
        assert (answer.json()["code"], answer.json()["reason"]) == ("SERVICE_OVERLOADED", "DEADLINE")
        cursor = answer.json()["next_cursor"]
        assert cursor is not None
        monkeypatch.undo() if turns > 20 else None
        answer = client.post_json("/v1/query", {**question, "cursor": cursor})
    assert ids(answer) == ["o-2999"] and turns > 0


def test_reads_leave_a_margin_before_the_deadline():
    call = Call(namespace="n", actor=Actor(), now_ms=0, deadline=time.monotonic() + 10)
    assert call.deadline - 0.26 < call.read_until < call.deadline
    late = replace(call, deadline=time.monotonic() - 1)
    assert late.read_until == late.deadline


def test_a_count_goes_on_over_the_scan_budget_of_one_call(client, monkeypatch, orders):
    from feltdb_engine import limits

    for n in range(7):
        orders(f"o-{n}", n=n % 2)
    monkeypatch.setattr(limits, "SCAN_BUDGET_RECORDS", 2)
    question = {"collection": "orders", "where": [{"field": "n", "op": "eq", "value": 0}], "count": True, "limit": 0}
    assert client.post_json("/v1/query", question).json()["count"] == 4
