"""Approvals (W42 to W47; W48 races real processes in `test_races.py`)."""

from dataclasses import replace

import pytest
from django.db import IntegrityError, transaction

from apps.keys.audit.models import AuditEvent
from apps.keys.principal import Principal, operator
from apps.workloads import limits
from apps.workloads.commands import ApprovalPolicy, ClaimNext, Failure, RetryPolicy, Subject, Timeouts
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Decision, Event, Workload
from apps.workloads.services import admit, cancel, claim_next, decide_approval, fail, heartbeat, retry, sweep
from apps.workloads.states import Approval
from tests.workloads.conftest import NAMESPACE, history_of, state_of
from tests.workloads.test_api import PATH, create, fits
from tests.workloads.test_lifecycle import refusal

pytestmark = pytest.mark.django_db

ADA = operator("ada")
BOTH = ApprovalPolicy(approver_kinds=frozenset({"human", "service"}))


def service(name):
    return Principal(kind="service", key_id=name, scopes=frozenset(), namespaces=frozenset())


@pytest.fixture
def decide(clock):
    def make(work, outcome="approved", *, by=ADA, input_hash=None, **members):
        return decide_approval(
            NAMESPACE,
            work.workload_id,
            Approval(outcome),
            by=by,
            input_hash=work.request.input_hash if input_hash is None else input_hash,
            now_ms=clock.ms,
            **members,
        )

    return make


def next_ids(clock):
    request = ClaimNext(
        namespace=NAMESPACE, worker_id="w", principal="worker:w", capabilities=frozenset({"identity"}), max=10
    )
    return [claim.workload_id for claim in claim_next(request, now_ms=clock.ms)]


def test_work_requiring_approval_is_never_claimable_before_an_authorized_decision_commits(
    make_work, take, decide, clock
):
    """W42."""
    work = make_work(approval=ApprovalPolicy())
    assert state_of(work) == "AWAITING_APPROVAL" and next_ids(clock) == []
    with refusal("WORKLOAD_APPROVAL_PENDING"):
        take(work)
    for outsider in (service("tests"), service("other"), Principal(**_worker())):
        with refusal("WORKLOAD_APPROVER_NOT_PERMITTED"):
            decide(work, by=outsider)
    with pytest.raises(WorkloadError) as stale:
        decide(work, input_hash="0" * 64)
    assert stale.value.code == "WORKLOAD_APPROVAL_STALE"
    assert stale.value.details == {"input_hash": work.request.input_hash}
    assert not Decision.objects.exists() and state_of(work) == "AWAITING_APPROVAL"

    clock.pass_ms(50)
    row, _, new = decide(work, reason=" looks right ")
    assert new and row.state == "READY" and row.eligible_at_ms == clock.ms
    clock.pass_ms(50)
    _, again, new = decide(work, by=operator("eve"), reason="me too")
    assert not new and (again.decider_id, again.reason, again.decided_at_ms) == ("ada", "looks right", clock.ms - 50)
    with pytest.raises(WorkloadError) as decided:
        decide(work, "rejected", reason="no")
    assert decided.value.code == "WORKLOAD_APPROVAL_DECIDED" and decided.value.details["decided_by"] == "human:ada"

    take(work)
    assert history_of(work) == [
        ("CREATED", "AWAITING_APPROVAL"),
        ("AWAITING_APPROVAL", "READY"),
        ("READY", "CLAIMED"),
    ]
    events = Event.objects.filter(workload=work).order_by("sequence")
    assert events[0].evidence == {"approval": "required"}
    assert (events[1].actor, events[1].evidence) == (
        "human:ada",
        {"decided_by": "ada", "decider_kind": "human", "reason": "looks right"},
    )
    assert [(each.action, each.target) for each in AuditEvent.objects.all()] == [("workload.approve", work.workload_id)]


def _worker():
    return {"kind": "worker", "key_id": "k", "worker_id": "w", "scopes": frozenset(), "namespaces": frozenset()}


def test_rejected_work_never_runs_and_a_rejection_is_final(make_work, take, decide, clock):
    """W43."""
    work = make_work(approval=ApprovalPolicy())
    with pytest.raises(WorkloadError) as nothing_said:
        decide(work, "rejected", reason="  ")
    assert (nothing_said.value.code, nothing_said.value.details) == ("WORKLOAD_INVALID", {"pointer": "/reason"})
    with refusal("WORKLOAD_SECRET_REJECTED"):
        decide(work, "rejected", reason="Bearer abcdefghijklmnop123")
    assert decide(work, "rejected", reason="over budget")[0].state == "REJECTED"
    assert decide(work, "rejected", reason="again")[2] is False
    with refusal("WORKLOAD_REJECTED"):
        take(work)
    with refusal("WORKLOAD_APPROVAL_DECIDED"):
        decide(work)
    for late in (cancel, retry):
        with refusal("WORKLOAD_TRANSITION_DENIED"):
            late(NAMESPACE, work.workload_id, actor="human:ada", now_ms=clock.ms)
    assert next_ids(clock) == [] and history_of(work)[-1] == ("AWAITING_APPROVAL", "REJECTED")


def test_a_policy_narrows_approvers_and_excludes_the_requester(make_work, decide):
    """W44."""
    listed = replace(BOTH, approvers=frozenset({Subject(kind="human", id="ada"), Subject(kind="service", id="tests")}))
    work = make_work(approval=listed)
    for outsider in (operator("eve"), service("other"), service("tests")):
        with refusal("WORKLOAD_APPROVER_NOT_PERMITTED"):
            decide(work, by=outsider)
    assert decide(work)[0].state == "READY"
    other = make_work("k2", approval=BOTH)
    assert decide(other, by=service("someone"))[0].state == "READY"


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"approval": ApprovalPolicy(approver_kinds=frozenset())}, "/approval/approver_kinds"),
        ({"approval": ApprovalPolicy(approver_kinds=frozenset({"agent"}))}, "/approval/approver_kinds"),
        ({"approval": ApprovalPolicy(approvers=frozenset())}, "/approval/approvers"),
        (
            {"approval": ApprovalPolicy(approvers=frozenset({Subject(kind="service", id="s")}))},
            "/approval/approvers",
        ),
        (
            {"approval": ApprovalPolicy(approvers=frozenset({Subject(kind="human", id=" ")}))},
            "/approval/approvers",
        ),
        (
            {
                "approval": ApprovalPolicy(
                    approvers=frozenset(Subject(kind="human", id=str(n)) for n in range(limits.MAX_APPROVERS + 1))
                )
            },
            "/approval/approvers",
        ),
        ({"timeouts": Timeouts(approval_ms=1)}, "/timeouts/approval_ms"),
    ],
)
def test_a_policy_that_cannot_be_met_is_refused(make_work, members, pointer):
    """W45."""
    with pytest.raises(WorkloadError) as refused:
        make_work(**members)
    assert (refused.value.code, refused.value.details) == ("WORKLOAD_INVALID", {"pointer": pointer})
    assert not Workload.objects.exists()


def test_a_policy_is_compared_on_replay_and_required_for_a_decision(make_work, command, decide, clock):
    """W45; and the reference's defect: a workload with both approval and `not_before` can be replayed."""
    plain = make_work("plain")
    with refusal("WORKLOAD_APPROVAL_NOT_REQUIRED"):
        decide(plain)
    asked = {"approval": ApprovalPolicy(), "not_before_at_ms": clock.ms + 5_000}
    work = make_work("both", **asked)
    for _ in range(2):
        again = admit(command("both", **asked), now_ms=clock.pass_ms(10))
        assert not again.created and again.workload.workload_id == work.workload_id
        decide(work)
    with pytest.raises(WorkloadError) as conflict:
        admit(command("both", **{**asked, "approval": BOTH}), now_ms=clock.ms)
    assert conflict.value.details["fields"] == ["approval"]
    assert Workload.objects.get(pk=work.pk).eligible_at_ms == asked["not_before_at_ms"]


def test_work_whose_approval_wait_expired_never_runs_on_a_late_approval(make_work, take, decide, clock):
    """W46."""
    work = make_work(approval=ApprovalPolicy(), timeouts=Timeouts(approval_ms=1_000))
    clock.pass_ms(1_000)
    with refusal("WORKLOAD_TIMED_OUT"):
        decide(work)
    assert state_of(work) == "DEAD_LETTER"
    with pytest.raises(WorkloadError) as late:
        decide(work)
    assert late.value.code == "WORKLOAD_APPROVAL_NOT_ACTIONABLE" and late.value.details == {"state": "DEAD_LETTER"}
    assert retry(NAMESPACE, work.workload_id, actor="human:ada", now_ms=clock.ms).state == "AWAITING_APPROVAL"
    with refusal("WORKLOAD_APPROVAL_PENDING"):
        take(work)
    clock.pass_ms(999)
    assert not sweep(now_ms=clock.ms).timed_out, "the wait began anew"
    clock.pass_ms(1)
    assert sweep(now_ms=clock.ms).timed_out == [work.workload_id]


def test_the_queue_deadline_begins_with_the_approval(make_work, decide, clock):
    work = make_work(approval=ApprovalPolicy(), timeouts=Timeouts(queue_ms=1_000))
    clock.pass_ms(60_000)
    assert not sweep(now_ms=clock.ms).timed_out
    decide(work)
    clock.pass_ms(999)
    assert not sweep(now_ms=clock.ms).timed_out
    clock.pass_ms(1)
    assert sweep(now_ms=clock.ms).timed_out == [work.workload_id]


def test_approval_stands_across_attempts_and_cancellation_ends_the_wait(make_work, run, take, decide, clock):
    """W47."""
    policy = RetryPolicy(max_attempts=1)
    work = make_work(approval=ApprovalPolicy(), retry_policy=policy)
    decide(work)
    fail(run(work).fence, Failure(kind="broken"), now_ms=clock.ms)
    assert retry(NAMESPACE, work.workload_id, actor="human:ada", now_ms=clock.ms).state == "READY"
    heartbeat(run(work).fence, extend_ms=1_000, now_ms=clock.ms)
    waiting = make_work("k2", approval=ApprovalPolicy())
    assert cancel(NAMESPACE, waiting.workload_id, actor="human:ada", now_ms=clock.ms).state == "CANCELLED"
    with refusal("WORKLOAD_APPROVAL_NOT_ACTIONABLE"):
        decide(waiting)


@pytest.mark.parametrize(
    "values",
    [
        {"state": "READY"},
        {"state": "CANCELLED", "approval": "rejected"},
        {"state": "REJECTED"},
        {"approval": "none"},
        {"approval": "approved"},
    ],
)
def test_the_database_itself_lets_no_unapproved_work_run(make_work, values):
    work = make_work(approval=ApprovalPolicy())
    with pytest.raises(IntegrityError, match="workload_runs_only_approved"), transaction.atomic():
        Workload.objects.filter(pk=work.pk).update(**values)


def test_a_decision_is_one_by_who_may_decide_and_a_rejection_has_a_reason(make_work, decide):
    work, other = make_work(approval=ApprovalPolicy()), make_work("k2", approval=ApprovalPolicy())
    decide(work)
    stored = Decision.objects.get()
    for values, constraint in (
        ({"outcome": "maybe"}, "decision_outcome_is_known"),
        ({"decider_kind": "agent"}, "decision_by_who_may_decide"),
        ({"outcome": "rejected", "reason": ""}, "decision_to_reject_has_a_reason"),
    ):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            Decision.objects.filter(pk=stored.pk).update(**values)
    with pytest.raises(IntegrityError), transaction.atomic():
        Decision(**{**_members(stored), "workload_id": work.pk, "outcome": "approved"}).save(force_insert=True)
    assert not Decision.objects.filter(workload=other).exists()


def _members(row):
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def test_approval_over_http(api, make_key):
    asking, deciding = api(make_key(name="a")), api(make_key(name="b", scopes=["workload:approve", "workload:read"]))
    made = create(asking, approval={"approver_kinds": ["service"]})
    work = fits("Workload", made.json())
    assert work["state"] == "AWAITING_APPROVAL"
    assert work["approval"] == {"policy": {"approver_kinds": ["service"]}, "standing": "pending"}
    where = f"{PATH}/{work['workload_id']}"
    body = {"input_hash": work["input_hash"]}
    assert deciding.post_json(f"{where}/reject", body).json()["code"] == "VALIDATION_ERROR"
    own = asking.post_json(f"{where}/approve", body)
    assert (own.status_code, own.json()["code"]) == (403, "WORKLOAD_APPROVER_NOT_PERMITTED")
    answer = deciding.post_json(f"{where}/approve", body)
    assert answer.status_code == 200 and "Idempotent-Replay" not in answer
    assert fits("WorkloadDecided", answer.json())["state"] == "READY"
    again = deciding.post_json(f"{where}/approve", body)
    assert again["Idempotent-Replay"] == "true" and again.json() == answer.json()
    read = fits("Workload", deciding.get(where).json())
    assert read["decision"] == answer.json()["decision"] and read["approval"]["standing"] == "approved"
    other = deciding.post_json(f"{where}/reject", {**body, "reason": "no"})
    assert (other.status_code, other.json()["code"]) == (409, "WORKLOAD_APPROVAL_DECIDED")
