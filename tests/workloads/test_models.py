"""Every invariant, tried at the database itself: no code of ours stands between these writes and the constraint."""

import pytest
from django.db import IntegrityError, connection, transaction

from apps.workloads.models import Attempt, Checkpoint, Dependency, Event, Lane, Request, Result, Workload

pytestmark = pytest.mark.django_db


def refused(constraint: str, write):
    """Tell that the write breaks exactly this constraint (SQLite names columns instead for unique ones)."""
    with pytest.raises(IntegrityError) as error, transaction.atomic():
        write()
    if connection.vendor == "postgresql" or "UNIQUE" not in str(error.value):
        assert constraint in str(error.value)


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"state": "CREATED"}, "workload_state_rests"),
        ({"state": "FAILED"}, "workload_state_rests"),
        ({"state": "RECOVERING"}, "workload_state_rests"),
        ({"state": "TIMED_OUT"}, "workload_state_rests"),
        ({"state": "INVENTED"}, "workload_state_rests"),
        ({"state": "CLAIMED"}, "workload_claim_exactly_when_claimed"),
        ({"worker_id": "w"}, "workload_claim_exactly_when_claimed"),
        ({"lease_expires_at_ms": 5, "heartbeat_at_ms": 1}, "workload_claim_exactly_when_claimed"),
        ({"started_at_ms": 1}, "workload_start_exactly_when_started"),
        ({"cancel_deadline_at_ms": 1}, "workload_cancel_deadline_exactly_when_requested"),
        # A negative fence breaks three rules; which one the database names first is its own affair.
        ({"fencing_token": -1, "attempt_count": -1}, "workload_"),
        ({"fencing_token": 1}, "workload_one_attempt_per_fence"),
        ({"budget_used": 1}, "workload_attempts_within_budget"),
        ({"budget_used": 4, "attempt_count": 4, "fencing_token": 4}, "workload_attempts_within_budget"),
        ({"waiting_on": -1}, "workload_counters_not_negative"),
        ({"history_length": 0}, "workload_counters_not_negative"),
        ({"max_attempts": 0}, "workload_counters_not_negative"),
        ({"definition_id": ""}, "workload_is_named"),
    ],
)
def test_a_waiting_row_cannot_be_made_to_lie(make_work, values, constraint):
    work = make_work()
    refused(constraint, lambda: Workload.objects.filter(pk=work.pk).update(**values))


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"worker_id": None}, "workload_claim_exactly_when_claimed"),
        ({"lease_expires_at_ms": None}, "workload_claim_exactly_when_claimed"),
        ({"claimed_by": None}, "workload_claim_exactly_when_claimed"),
        ({"state": "READY"}, "workload_claim_exactly_when_claimed"),
        ({"state": "SUCCEEDED"}, "workload_claim_exactly_when_claimed"),
        ({"started_at_ms": None}, "workload_start_exactly_when_started"),
        ({"state": "CANCELLATION_REQUESTED"}, "workload_cancel_deadline_exactly_when_requested"),
        ({"due_at_ms": None}, "workload_claimed_is_swept"),
        ({"lease_expires_at_ms": 2**60}, "workload_lease_is_bounded"),
        ({"lease_expires_at_ms": 1}, "workload_lease_is_bounded"),
    ],
)
def test_a_running_row_cannot_be_made_to_lie(make_work, run, values, constraint):
    work = make_work()
    run(work)
    refused(constraint, lambda: Workload.objects.filter(pk=work.pk).update(**values))


def test_an_idempotency_scope_makes_one_workload(make_work):
    work, other = make_work("a"), make_work("b")
    assert work.request.namespace == "test"
    refused(
        "request_idempotency_scope_unique",
        lambda: Request.objects.filter(pk=other.pk).update(idempotency_key="a"),
    )
    refused("request_has_an_idempotency_key", lambda: Request.objects.filter(pk=work.pk).update(idempotency_key=""))
    refused("workload_id", lambda: Workload.objects.filter(pk=other.pk).update(workload_id=work.workload_id))


def test_a_workload_has_one_success_one_open_attempt_and_one_attempt_per_number(make_work, run, clock):
    work = make_work()
    run(work)
    values = {
        "workload": work,
        "namespace": "test",
        "claim_id": "c",
        "worker_id": "w",
        "claimed_by": "w",
        "claimed_at_ms": 1,
    }
    refused("attempt_one_open_per_workload", lambda: Attempt.objects.create(**values, number=2, status="RUNNING"))
    ended = {**values, "ended_at_ms": 2, "status": "SUCCEEDED"}
    refused("attempt_number_unique", lambda: Attempt.objects.create(**ended, number=1))
    Attempt.objects.create(**ended, number=2)
    refused("attempt_one_success_per_workload", lambda: Attempt.objects.create(**ended, number=3))
    refused("attempt_counts_from_one", lambda: Attempt.objects.create(**{**ended, "status": "FAILED"}, number=0))
    refused("attempt_status_is_known", lambda: Attempt.objects.create(**{**ended, "status": "LOST"}, number=4))
    refused(
        "attempt_ends_exactly_when_over",
        lambda: Attempt.objects.create(**{**ended, "status": "FAILED", "ended_at_ms": None}, number=5),
    )


def test_history_has_no_two_events_in_one_place_and_only_known_states(make_work):
    work = make_work()
    values = {
        "workload": work,
        "namespace": "test",
        "event_type": "workload.ready",
        "actor": "a",
        "at_ms": 1,
        "evidence": {},
    }
    states = {"from_state": "CREATED", "to_state": "READY"}
    refused("event_sequence_unique", lambda: Event.objects.create(**values, **states, sequence=1))
    refused("event_counts_from_one", lambda: Event.objects.create(**values, **states, sequence=0))
    refused("event_is_in_the_table", lambda: Event.objects.create(**values, from_state="X", to_state="Y", sequence=2))


def test_a_result_id_is_unique_in_its_namespace_and_a_workload_has_one_result(make_work, run):
    first, second = make_work("a"), make_work("b")
    attempts = {}
    for work in (first, second):
        run(work)
        attempts[work.pk] = Attempt.objects.get(workload=work)

    def store(work, result_id, namespace="test"):
        Result.objects.create(
            workload=work,
            attempt=attempts[work.pk],
            namespace=namespace,
            result_id=result_id,
            produced_by="w",
            created_at_ms=1,
            schema_version=1,
            artifacts=[],
            output_hash="",
            output=None,
        )

    store(first, "r")
    refused("result_id_unique_in_namespace", lambda: store(second, "r"))
    refused("workload_id", lambda: store(first, "other"))
    refused("result_is_named", lambda: store(second, ""))
    store(second, "r", namespace="another")


def test_a_dependency_is_once_per_parent_never_on_itself_and_on_a_standing_state(make_work):
    parent, child = make_work("a"), make_work("b")
    values = {"child": child, "parent": parent, "namespace": "test"}
    Dependency.objects.create(**values, required_state="SUCCEEDED")
    refused("dependency_once_per_parent", lambda: Dependency.objects.create(**values, required_state="CANCELLED"))
    refused(
        "dependency_not_on_itself",
        lambda: Dependency.objects.create(**{**values, "parent": child}, required_state="SUCCEEDED"),
    )
    refused(
        "dependency_state_is_requirable",
        lambda: Dependency.objects.create(**{**values, "child": parent, "parent": child}, required_state="RUNNING"),
    )


def test_a_checkpoint_has_its_own_place(make_work, run):
    work = make_work()
    run(work)
    values = {
        "workload": work,
        "attempt": Attempt.objects.get(workload=work),
        "namespace": "test",
        "produced_by": "w",
        "created_at_ms": 1,
        "state_hash": "",
        "state": 1,
    }
    Checkpoint.objects.create(**values, sequence=1)
    refused("checkpoint_sequence_unique", lambda: Checkpoint.objects.create(**values, sequence=1))
    refused("checkpoint_counts_from_one", lambda: Checkpoint.objects.create(**values, sequence=0))


def test_a_lane_is_one_row_however_often_it_is_needed(make_work):
    make_work("a"), make_work("b"), make_work("c", priority=1)
    assert Lane.objects.count() == 2
    lane = Lane.objects.first()
    refused(
        "lane_digest_unique",
        lambda: Lane.objects.create(
            namespace=lane.namespace, digest=lane.digest, definition_id="x", capabilities=[], priority=0
        ),
    )


@pytest.mark.parametrize(
    "value", [None, True, 1, 1.0, 1e-07, 2**63, "", "\u00e9\u4e2d", [], {}, {"b": 1, "a": [1.5, None, "x"]}]
)
def test_a_json_column_gives_back_exactly_what_it_was_given(make_work, value):
    work = make_work(input=value)
    stored = Workload.objects.get(pk=work.pk).request.input
    assert (type(stored), stored) == (type(value), value)
    if isinstance(value, dict):
        assert list(stored) == list(value), "member order too"
