"""Successes recorded together: each judged on its own, exactly as if it had been reported alone."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.workloads import services
from apps.workloads.commands import Claim, ClaimNext, Completion, DependsOn, Failure
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Attempt, Event, Result, Workload
from apps.workloads.services import Report
from apps.workloads.services.moving import Move, commit_together, load
from tests.workloads.conftest import NAMESPACE, Clock

pytestmark = pytest.mark.django_db(transaction=True)


def report(claim: Claim, *, result_id: str | None = None, output: Any = 1) -> Report:
    """The success of a claim."""
    completion = Completion(result_id=result_id or f"r-{claim.workload_id}", output=output)
    return Report(fence=claim.fence, completion=completion)


def claim_and_start(clock: Clock, count: int) -> list[Claim]:
    """Claim and start the next work in one step."""
    request = ClaimNext(
        namespace=NAMESPACE,
        worker_id="w1",
        principal="p",
        capabilities=frozenset({"identity"}),
        max=count,
        start=True,
    )
    return services.claim_next(request, now_ms=clock.ms)


def test_claiming_with_start_begins_the_attempt_and_writes_both_events(make_work, clock) -> None:
    made = make_work("a")
    (claim,) = claim_and_start(clock, 1)
    row = Workload.objects.get(pk=made.pk)
    attempt = Attempt.objects.get(workload=made)
    assert (row.state, row.started_at_ms, attempt.status, attempt.started_at_ms) == (
        "RUNNING",
        clock.ms,
        "RUNNING",
        clock.ms,
    )
    kinds = list(Event.objects.filter(workload=made).order_by("sequence").values_list("event_type", flat=True))
    assert kinds == ["workload.ready", "workload.claimed", "workload.started"]
    with pytest.raises(WorkloadError) as refused:
        services.start(claim.fence, now_ms=clock.ms)
    assert refused.value.code == "WORKLOAD_TRANSITION_DENIED"


def test_many_successes_are_recorded_with_one_event_and_one_result_each(make_work, clock) -> None:
    for number in range(20):
        make_work(f"k{number}")
    claims = claim_and_start(clock, 20)
    answers = services.complete_many([report(claim, output=claim.workload_id) for claim in claims], now_ms=clock.ms)
    assert [answer.output for answer in answers] == [claim.workload_id for claim in claims]
    assert set(Workload.objects.values_list("state", flat=True)) == {"SUCCEEDED"}
    assert Result.objects.count() == 20 == Attempt.objects.filter(status="SUCCEEDED").count()
    assert Event.objects.filter(event_type="workload.completed").count() == 20


def test_an_output_that_json_cannot_say_is_refused_alone_and_one_that_python_says_otherwise_is_kept(make_work, clock):
    for number in range(6):
        make_work(f"k{number}")
    outputs = [1, {1: 2}, {3, 2}, [float("inf")], (1, None), {1, "a"}]
    reports = [report(claim, output=output) for claim, output in zip(claim_and_start(clock, 6), outputs, strict=True)]
    answers = services.complete_many(reports, now_ms=clock.ms)
    assert [getattr(answer, "code", "stored") for answer in answers] == [
        "stored",
        "WORKLOAD_INVALID",
        "stored",
        "WORKLOAD_INVALID",
        "stored",
        "WORKLOAD_INVALID",
    ]
    assert [result.output for result in Result.objects.order_by("workload_id")] == [1, [2, 3], [1, None]]
    assert services.complete(reports[2].fence, reports[2].completion, now_ms=clock.ms)[1] is False


def test_each_report_is_judged_on_its_own(make_work, clock, take) -> None:
    for key in ("good", "twice", "stale", "other", "secret", "late", "cancelled"):
        make_work(key, **({"timeouts": services.Timeouts(execution_ms=500)} if key == "late" else {}))
    claims = {claim.workload_id: claim for claim in claim_and_start(clock, 7)}
    by_key = {
        row.request.idempotency_key: claims[row.workload_id] for row in Workload.objects.select_related("request")
    }
    stale = by_key["stale"].fence
    stale = type(stale)(
        namespace=stale.namespace,
        workload_id=stale.workload_id,
        worker_id=stale.worker_id,
        claim_id=stale.claim_id,
        fencing_token=stale.fencing_token - 1,
        principal=stale.principal,
    )
    services.cancel(NAMESPACE, by_key["cancelled"].workload_id, actor="somebody", now_ms=clock.ms)
    clock.pass_ms(600)
    answers = services.complete_many(
        [
            report(by_key["good"]),
            report(by_key["twice"]),
            report(by_key["twice"]),
            Report(fence=stale, completion=Completion(result_id="s", output=1)),
            report(by_key["other"], result_id=f"r-{by_key['good'].workload_id}"),
            report(by_key["secret"], output={"password": "x"}),
            report(by_key["late"]),
            report(by_key["cancelled"]),
        ],
        now_ms=clock.ms,
    )
    told = [answer.code if isinstance(answer, WorkloadError) else "stored" for answer in answers]
    assert told == [
        "stored",
        "stored",
        "stored",
        "WORKLOAD_STALE_FENCE",
        "WORKLOAD_RESULT_DUPLICATE",
        "WORKLOAD_SECRET_REJECTED",
        "WORKLOAD_TIMED_OUT",
        "WORKLOAD_TRANSITION_DENIED",
    ]
    assert Result.objects.count() == 2


def test_a_report_of_another_namespace_finds_nothing(make_work, clock) -> None:
    make_work("a")
    (claim,) = claim_and_start(clock, 1)
    foreign = report(claim)
    fence = type(claim.fence)(
        namespace="elsewhere",
        workload_id=claim.workload_id,
        worker_id=claim.worker_id,
        claim_id=claim.claim_id,
        fencing_token=claim.fencing_token,
        principal=claim.principal,
    )
    (answer,) = services.complete_many([Report(fence=fence, completion=foreign.completion)], now_ms=clock.ms)
    assert isinstance(answer, WorkloadError) and answer.code == "WORKLOAD_NOT_FOUND"
    assert not Result.objects.exists()


def test_work_that_waits_for_two_of_them_is_told_of_both(make_work, clock) -> None:
    first, second = make_work("a"), make_work("b")
    child = make_work(
        "c", dependencies=(DependsOn(workload_id=first.workload_id), DependsOn(workload_id=second.workload_id))
    )
    claims = claim_and_start(clock, 10)
    assert {claim.workload_id for claim in claims} == {first.workload_id, second.workload_id}
    services.complete_many([report(claim) for claim in claims], now_ms=clock.ms)
    assert Workload.objects.get(pk=child.pk).waiting_on == 0
    assert [claim.workload_id for claim in claim_and_start(clock, 10)] == [child.workload_id]


def test_a_crash_before_the_commit_leaves_every_claim_as_it_was(make_work, clock) -> None:
    make_work("a")
    make_work("b")
    claims = claim_and_start(clock, 2)

    class Crash(Exception):
        pass

    with pytest.raises(Crash), transaction.atomic():
        services.complete_many([report(claim) for claim in claims], now_ms=clock.ms)
        raise Crash
    assert set(Workload.objects.values_list("state", flat=True)) == {"RUNNING"}
    assert not Result.objects.exists()
    answers = services.complete_many([report(claim) for claim in claims], now_ms=clock.ms)
    assert all(isinstance(answer, Result) for answer in answers)


def test_recording_many_costs_a_few_statements_each(make_work, clock) -> None:
    for number in range(20):
        make_work(f"k{number}")
    claims = claim_and_start(clock, 20)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        services.complete_many([report(claim) for claim in claims], now_ms=clock.ms)
    assert len(queries) <= 2 * len(claims) + 10


def test_rows_that_move_alike_share_one_update(make_work, clock) -> None:
    for number in range(20):
        make_work(f"k{number}")
    claims = claim_and_start(clock, 20)
    with CaptureQueriesContext(connection) as queries:
        services.complete_many([report(claim) for claim in claims], now_ms=clock.ms)
    updates = [query for query in queries.captured_queries if query["sql"].startswith('UPDATE "workloads_workload"')]
    assert len(updates) == 1
    assert set(Workload.objects.values_list("state", flat=True)) == {"SUCCEEDED"}


def test_a_row_that_another_moved_is_left_out_of_the_shared_update(make_work, clock) -> None:
    for number in range(3):
        make_work(f"k{number}")
    claims = claim_and_start(clock, 3)
    moves = [Move(load(NAMESPACE, claim.workload_id), clock.ms).step("complete", "w1") for claim in claims]
    services.fail(claims[1].fence, Failure(kind="broken"), now_ms=clock.ms)
    with transaction.atomic():
        written = commit_together([*moves, moves[0]])
        assert [move.row.workload_id for move in written] == [claims[0].workload_id, claims[2].workload_id]
        assert Event.objects.filter(event_type="workload.completed").count() == 2
        transaction.set_rollback(True)
