"""Work over HTTP, as a client meets it."""

import threading
import time

import pytest
from jsonschema import Draft202012Validator

from apps.http import openapi
from apps.workloads import limits
from apps.workloads.api import urls  # noqa: F401 - every route registers its shapes
from apps.workloads.models import Workload

PATH = "/v1/workloads"


@pytest.fixture
def client(api):
    return api()


@pytest.fixture
def worker(api, make_key):
    return api(make_key(worker_id="w1", scopes=["workload:claim", "workload:execute"]))


def create(client, key="k1", **members):
    return client.post_json(PATH, {"definition_id": "identity", "idempotency_key": key, "input": {"n": 1}, **members})


def fits(shape, value):
    """Tell that an answer is what the OpenAPI document says."""
    schema = {**openapi._schemas[shape], "components": {"schemas": openapi._schemas}}
    Draft202012Validator(schema).validate(value)
    return value


def claim_and_start(worker, workload_id, **members):
    answer = worker.post_json(f"{PATH}/{workload_id}/claim", {"worker_id": "w1", "lease_ms": 30_000, **members})
    assert answer.status_code == 200, answer.content
    claim = fits("WorkloadClaim", answer.json())
    fence = {name: claim[name] for name in ("worker_id", "claim_id", "fencing_token")}
    assert worker.post_json(f"{PATH}/{workload_id}/start", fence).status_code == 204
    return fence


def test_work_is_created_found_listed_run_and_its_result_and_history_read(client, worker):
    answer = create(client, priority=3)
    assert answer.status_code == 201
    work = fits("Workload", answer.json())
    workload_id = work["workload_id"]
    assert answer["Location"] == f"{PATH}/{workload_id}" and "Idempotent-Replay" not in answer
    assert work["tenant_id"] == "test" and work["state"] == "READY" and work["requested_by"]["kind"] == "service"

    fence = claim_and_start(worker, workload_id)
    beat = worker.post_json(f"{PATH}/{workload_id}/heartbeat", {**fence, "extend_ms": 60_000}).json()
    assert not fits("WorkloadHeartbeatAnswer", beat)["cancel_requested"]
    report = {**fence, "result_id": "r1", "output": {"k": 1}, "artifacts": ["a"], "schema_version": 2}
    done = worker.post_json(f"{PATH}/{workload_id}/complete", report)
    assert done.status_code == 200 and fits("WorkloadResult", done.json())["output"] == {"k": 1}
    again = worker.post_json(f"{PATH}/{workload_id}/complete", report)
    assert again.json() == done.json() and again["Idempotent-Replay"] == "true"

    read = fits("Workload", client.get(f"{PATH}/{workload_id}").json())
    assert read["state"] == "SUCCEEDED" and read["current_claim"] is None and read["result"]["result_id"] == "r1"
    history = fits("WorkloadHistory", client.get(f"{PATH}/{workload_id}/history").json())
    assert [event["to"] for event in history["events"]] == ["READY", "CLAIMED", "RUNNING", "SUCCEEDED"]
    assert history["events"][1]["actor"] == "w1"
    result = fits("WorkloadResultAnswer", client.get(f"{PATH}/{workload_id}/result").json())
    assert result["state"] == "SUCCEEDED" and result["result"]["attempt_id"].endswith("_1")


def test_the_same_request_again_is_a_replay_and_another_is_a_conflict_naming_its_fields(client):
    first = create(client)
    again = create(client)
    assert again.status_code == 201 and again["Idempotent-Replay"] == "true" and again.json() == first.json()
    other = create(client, priority=1, input=2)
    assert other.status_code == 409
    body = other.json()
    assert body["code"] == "CONFLICT" and body["details"]["reason"] == "IDEMPOTENCY_KEY_REUSED"
    assert body["details"]["fields"] == ["input", "priority"] and body["details"]["retryable"] is False


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([], ""),
        ({}, ""),
        ({"definition_id": 1, "idempotency_key": "k"}, "/definition_id"),
        ({"definition_id": "d", "idempotency_key": "k", "prioriti": 1}, ""),
        ({"definition_id": "d", "idempotency_key": "k", "priority": "1"}, "/priority"),
        ({"definition_id": "d", "idempotency_key": "k", "priority": True}, "/priority"),
        ({"definition_id": "d", "idempotency_key": "k", "priority": 1.0}, "/priority"),
        ({"definition_id": "d", "idempotency_key": "k", "retry_policy": {"tries": 1}}, "/retry_policy"),
        ({"definition_id": "d", "idempotency_key": "k", "dependencies": [{"workload_id": 1}]}, "/dependencies/0"),
        ({"definition_id": "d", "idempotency_key": "k", "tenant_id": "other"}, "/tenant_id"),
    ],
)
def test_a_body_of_the_wrong_shape_is_refused_with_its_place(client, body, pointer):
    answer = client.post_json(PATH, body)
    assert answer.status_code == 400 and answer.json()["code"] == "VALIDATION_ERROR"
    assert answer.json()["details"]["pointer"].startswith(pointer)


@pytest.mark.parametrize(
    ("members", "pointer", "message"),
    [
        ({"approval": {"approver_kinds": ["robot"]}}, "/approval/approver_kinds/0", "Must be one of human, service."),
        ({"approval": {"approvers": [{"kind": "human", "id": ""}]}}, "/approval/approvers/0/id", "Must be 1 or more"),
        ({"approval": {"by": 1}}, "/approval", "There is no member by here."),
        ({"approval": "yes"}, "/approval", "Must be object or null."),
        ({"capability_snapshot": [""]}, "/capability_snapshot/0", "Must be 1 or more characters long."),
    ],
)
def test_a_refusal_of_shape_names_the_innermost_place_and_says_in_words_what_would_fit(
    client, members, pointer, message
):
    answer = create(client, **members)
    assert answer.status_code == 400
    assert answer.json()["details"]["pointer"] == pointer and answer.json()["message"].startswith(message)


def test_a_batch_of_no_reports_and_a_wait_without_end_are_refused_in_words(client):
    for path, body, message in (
        ("complete", {"worker_id": "w1", "reports": []}, "Must hold 1 or more items."),
        ("claim", {"worker_id": "w1", "capabilities": ["a"], "wait_ms": -1}, "Must be at least 0."),
        ("claim", {"worker_id": "w1", "capabilities": ["a"], "wait_ms": 10**9}, "Must be at most 30000."),
    ):
        answer = client.post_json(f"{PATH}/{path}", body)
        assert answer.status_code == 400 and answer.json()["message"] == message


@pytest.mark.parametrize(
    ("members", "status", "code"),
    [
        ({"input": {"password": "x"}}, 422, "WORKLOAD_SECRET_REJECTED"),
        ({"timeouts": {"queue_ms": 0}}, 422, "WORKLOAD_INVALID"),
        ({"authorization_snapshot": {"subject": {"kind": "human", "id": "x"}}}, 403, "WORKLOAD_UNAUTHORIZED"),
        ({"dependencies": [{"workload_id": "workload_none"}]}, 422, "WORKLOAD_INVALID"),
        ({"input": "x" * limits.MAX_INPUT_BYTES}, 422, "WORKLOAD_INVALID"),
    ],
)
def test_what_the_rules_refuse_has_its_code(client, members, status, code):
    answer = create(client, **members)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_what_a_claim_is_refused_for_has_its_code(client, worker):
    now = time.time_ns() // 1_000_000
    later = create(client, "later", not_before_at_ms=now + 60_000).json()["workload_id"]
    needs = create(client, "needs", capability_snapshot=["pack"]).json()["workload_id"]
    held = create(client, "held").json()["workload_id"]
    claim_and_start(worker, held)
    cases = [
        ("workload_none", {}, 404, "WORKLOAD_NOT_FOUND"),
        (later, {}, 409, "WORKLOAD_NOT_YET_ELIGIBLE"),
        (needs, {"capabilities": ["sweep"]}, 403, "WORKLOAD_CAPABILITY_DENIED"),
        (held, {}, 409, "WORKLOAD_NOT_READY"),
        (later, {"lease_ms": 999}, 422, "WORKLOAD_INVALID"),
    ]
    for workload_id, members, status, code in cases:
        answer = worker.post_json(f"{PATH}/{workload_id}/claim", {"worker_id": "w1", **members})
        assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_report_under_a_stale_fence_is_409_and_one_without_a_claim_422(client, worker):
    workload_id = create(client).json()["workload_id"]
    fence = claim_and_start(worker, workload_id)
    stale = {**fence, "fencing_token": 7}
    report = {"result_id": "r", "output": 1}
    answer = worker.post_json(f"{PATH}/{workload_id}/complete", {**stale, **report})
    assert (answer.status_code, answer.json()["code"]) == (409, "WORKLOAD_STALE_FENCE")
    failed = worker.post_json(f"{PATH}/{workload_id}/fail", {**fence, "kind": "execution_error", "error": "broke"})
    assert failed.json() == {"state": "DEAD_LETTER"}
    answer = worker.post_json(f"{PATH}/{workload_id}/complete", {**fence, **report})
    assert (answer.status_code, answer.json()["code"]) == (422, "WORKLOAD_CLAIM_INVALID")


def test_a_manager_who_claims_for_a_worker_holds_the_claim_alone(client, api, make_key, worker):
    workload_id = create(client).json()["workload_id"]
    manager = api(make_key(scopes=["workload:claim", "workload:execute", "worker:manage"]))
    fence = claim_and_start(manager, workload_id)
    answer = worker.post_json(f"{PATH}/{workload_id}/heartbeat", {**fence, "extend_ms": 5_000})
    assert (answer.status_code, answer.json()["code"]) == (403, "WORKLOAD_UNAUTHORIZED")


def test_a_dead_letter_is_found_by_its_state_and_retried(client, worker):
    workload_id = create(client).json()["workload_id"]
    worker.post_json(f"{PATH}/{workload_id}/fail", {**claim_and_start(worker, workload_id), "kind": "broken"})
    dead = client.get(f"{PATH}?state=DEAD_LETTER").json()["workloads"]
    assert [work["workload_id"] for work in dead] == [workload_id] and dead[0]["last_failure"].startswith("broken")
    assert client.post_json(f"{PATH}/{workload_id}/retry", {"reason": "fixed"}).status_code == 204
    assert client.post_json(f"{PATH}/{workload_id}/retry").status_code == 409
    assert client.get(f"{PATH}/{workload_id}").json()["state"] == "READY"


def test_a_cancellation_is_immediate_or_asked_for_and_confirmed(client, worker):
    waiting = create(client, "a").json()["workload_id"]
    assert client.post_json(f"{PATH}/{waiting}/cancel").json() == {"state": "CANCELLED"}
    held = create(client, "b").json()["workload_id"]
    fence = claim_and_start(worker, held)
    asked = client.post_json(f"{PATH}/{held}/cancel", {"reason": "not wanted", "grace_ms": 10_000})
    assert asked.json() == {"state": "CANCELLATION_REQUESTED"}
    beat = worker.post_json(f"{PATH}/{held}/heartbeat", {**fence, "extend_ms": 5_000}).json()
    assert beat["cancel_requested"] is True and beat["cancel_deadline_at_ms"] > beat["last_heartbeat_at_ms"]
    assert worker.post_json(f"{PATH}/{held}/cancelled", fence).status_code == 204
    assert client.get(f"{PATH}/{held}").json()["state"] == "CANCELLED"


def test_a_list_is_paged_newest_first_stable_under_writes_and_filtered(client):
    made = [create(client, f"k{number}", trigger=f"t{number % 2}").json()["workload_id"] for number in range(5)]
    first = fits("WorkloadPage", client.get(f"{PATH}?limit=2").json())
    create(client, "newer")
    second = client.get(f"{PATH}?limit=2&cursor={first['next_cursor']}").json()
    third = client.get(f"{PATH}?limit=2&cursor={second['next_cursor']}").json()
    listed = [work["workload_id"] for page in (first, second, third) for work in page["workloads"]]
    assert listed == made[::-1] and third["next_cursor"] is None
    assert [work["workload_id"] for work in client.get(f"{PATH}?trigger=t1").json()["workloads"]] == [made[3], made[1]]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "state=LOST", "colour=red"])
def test_a_list_refuses_what_it_does_not_know(client, query):
    answer = client.get(f"{PATH}?{query}")
    assert answer.status_code == 400 and answer.json()["details"]["field"] == query.split("=")[0]


def test_a_cursor_belongs_to_its_list(client):
    for number in range(3):
        create(client, f"k{number}")
    cursor = client.get(f"{PATH}?limit=1").json()["next_cursor"]
    for query in (f"state=READY&cursor={cursor}", "cursor=abc"):
        answer = client.get(f"{PATH}?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_CURSOR")


def test_the_next_work_is_claimed_in_batches_by_capability(client, worker):
    for number in range(3):
        create(client, f"k{number}", priority=number)
    create(client, "other", definition_id="pack")
    ask = {"worker_id": "w1", "capabilities": ["identity"], "max": 2}
    claims = fits("WorkloadClaims", worker.post_json(f"{PATH}/claim", ask).json())["claims"]
    priorities = [Workload.objects.get(workload_id=claim["workload_id"]).priority for claim in claims]
    assert priorities == [2, 1] and claims[0]["input"] == {"n": 1}
    assert len(worker.post_json(f"{PATH}/claim", ask).json()["claims"]) == 1
    assert worker.post_json(f"{PATH}/claim", ask).json() == {"claims": []}


def test_a_work_of_another_namespace_is_not_there(client, api, make_key, namespace):
    from apps.keys.services import ensure_namespace

    workload_id = create(client).json()["workload_id"]
    ensure_namespace("another")
    stranger = api(make_key(namespaces=["another"]))
    for path in (f"{PATH}/{workload_id}", f"{PATH}/{workload_id}/history", f"{PATH}/{workload_id}/result"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "WORKLOAD_NOT_FOUND")
    assert stranger.get(PATH).json()["workloads"] == []


@pytest.mark.django_db(transaction=True)
def test_a_waiting_claim_is_answered_as_soon_as_there_is_work(api, make_key, command):
    from apps.workloads.clock import now_ms
    from apps.workloads.services import admit

    worker = api(make_key(worker_id="w1"))
    ask = {"worker_id": "w1", "capabilities": ["identity"], "wait_ms": 20_000}

    def admit_later():
        from django.db import connection

        time.sleep(0.3)
        admit(command("late"), now_ms=now_ms())
        connection.close()

    thread = threading.Thread(target=admit_later)
    thread.start()
    began = time.monotonic()
    claims = worker.post_json(f"{PATH}/claim", ask).json()["claims"]
    waited = time.monotonic() - began
    thread.join()
    assert len(claims) == 1 and 0.25 < waited < 15


def test_a_waiting_claim_without_work_ends_in_time(worker, monkeypatch):
    began = time.monotonic()
    ask = {"worker_id": "w1", "capabilities": ["identity"], "wait_ms": 200}
    assert worker.post_json(f"{PATH}/claim", ask).json() == {"claims": []}
    assert 0.2 <= time.monotonic() - began < 10
    refused = worker.post_json(f"{PATH}/claim", {**ask, "wait_ms": limits.MAX_WAIT_MS + 1})
    assert refused.status_code == 400
