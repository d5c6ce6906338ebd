"""Edited retry: new work of what was asked for in work that ended."""

import pytest

from apps.workloads.commands import ApprovalPolicy, Subject
from apps.workloads.services import decide_approval, resubmit
from apps.workloads.states import Approval
from tests.workloads.conftest import NAMESPACE, history_of
from tests.workloads.test_api import PATH, create, fits
from tests.workloads.test_approving import ADA
from tests.workloads.test_lifecycle import refusal

pytestmark = pytest.mark.django_db


def test_ended_work_is_asked_for_again_with_edits_as_new_work(api):
    client = api()
    asked = {"priority": 3, "retry_policy": {"max_attempts": 5}, "timeouts": {"queue_ms": 60_000}}
    old = create(client, capability_snapshot=["identity", "printer"], **asked).json()
    where = f"{PATH}/{old['workload_id']}"
    body = {"idempotency_key": "again", "input": {"n": 2}, "timeouts": {"claim_ms": 5}}
    early = client.post_json(f"{where}/resubmit", body)
    assert (early.status_code, early.json()["code"]) == (409, "WORKLOAD_TRANSITION_DENIED")
    assert client.post_json(f"{where}/cancel", {}).status_code == 200

    answer = client.post_json(f"{where}/resubmit", body)
    assert answer.status_code == 201 and answer["Location"] == f"{PATH}/{answer.json()['workload_id']}"
    new = fits("Workload", answer.json())
    assert new["workload_id"] != old["workload_id"] and new["trigger"] == f"resubmit:{old['workload_id']}"
    assert (new["state"], new["input"], new["timeouts"]) == ("READY", {"n": 2}, {"claim_ms": 5})
    for member in ("priority", "retry_policy", "capability_snapshot", "definition_id"):
        assert new[member] == old[member], member
    again = client.post_json(f"{where}/resubmit", body)
    assert again["Idempotent-Replay"] == "true" and again.json()["workload_id"] == new["workload_id"]
    conflict = client.post_json(f"{where}/resubmit", {**body, "priority": 9})
    assert conflict.json()["details"]["fields"] == ["priority"]
    read = client.get(where).json()
    assert read["state"] == "CANCELLED" and read["input"] == {"n": 1}


def test_another_definition_drops_what_the_old_one_needed(api):
    client = api()
    old = create(client, capability_snapshot=["identity", "printer"]).json()
    client.post_json(f"{PATH}/{old['workload_id']}/cancel", {})
    body = {"idempotency_key": "again", "definition_id": "search"}
    new = client.post_json(f"{PATH}/{old['workload_id']}/resubmit", body).json()
    assert (new["definition_id"], new["capability_snapshot"]) == ("search", ["search"])


def test_a_key_that_may_not_read_work_cannot_read_it_by_asking_again(api, make_key):
    work = create(api()).json()
    blind = api(make_key(scopes=["workload:create"]))
    answer = blind.post_json(f"{PATH}/{work['workload_id']}/resubmit", {"idempotency_key": "again"})
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")


def test_approval_is_needed_anew_and_rejected_work_may_be_asked_for_again(make_work, clock):
    work = make_work(approval=ApprovalPolicy())
    decide_approval(
        NAMESPACE,
        work.workload_id,
        Approval.REJECTED,
        by=ADA,
        input_hash=work.request.input_hash,
        now_ms=clock.ms,
        reason="too much",
    )
    asked = {"by": ADA, "requested_by": Subject(kind="human", id="ada"), "idempotency_key": "less", "now_ms": clock.ms}
    made = resubmit(NAMESPACE, work.workload_id, edits={"input": 1}, **asked).workload
    assert history_of(made) == [("CREATED", "AWAITING_APPROVAL")]
    with refusal("WORKLOAD_NOT_FOUND"):
        resubmit("other", work.workload_id, edits={}, **asked)
