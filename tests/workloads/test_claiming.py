"""Who gets which work, when, and in what order; and the deadlines that take it away again."""

import pytest

from apps.workloads.commands import ClaimNext, Completion, RetryPolicy, Timeouts
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Attempt, Event, Workload
from apps.workloads.services import claim_next, complete, heartbeat, retry, sweep
from apps.workloads.states import State
from tests.workloads.conftest import NAMESPACE, history_of, state_of

pytestmark = pytest.mark.django_db


def refusal(code: str) -> object:
    return pytest.raises(WorkloadError, check=lambda error: error.code == code)


def test_scheduled_work_is_not_claimable_before_not_before(make_work, take, clock):
    """W24, W25: at the very instant it is."""
    work = make_work(not_before_at_ms=clock.ms + 5)
    clock.pass_ms(4)
    with pytest.raises(WorkloadError) as refused:
        take(work)
    assert refused.value.code == "WORKLOAD_NOT_YET_ELIGIBLE"
    assert refused.value.details == {"next_attempt_at_ms": clock.ms + 1}
    assert history_of(work) == [("CREATED", "READY")]
    clock.pass_ms(1)
    assert take(work).fencing_token == 1


def test_immediate_work_behavior_is_unchanged(make_work, take):
    """W28."""
    assert take(make_work()).fencing_token == 1


def test_claiming_exhausted_ready_work_dead_letters_it_instead(make_work, take, clock):
    """W13."""
    work = make_work(retry_policy=RetryPolicy(max_attempts=1))
    Workload.objects.filter(pk=work.pk).update(attempt_count=1, fencing_token=1, budget_used=1)
    with refusal("WORKLOAD_ATTEMPTS_EXHAUSTED"):
        take(work)
    assert state_of(work) == State.DEAD_LETTER
    with refusal("WORKLOAD_NOT_READY"):
        take(work)


def test_capabilities_are_checked_last_and_named(make_work, take, clock):
    work = make_work(capability_snapshot=frozenset({"a", "b"}), not_before_at_ms=clock.ms + 10)
    with refusal("WORKLOAD_NOT_YET_ELIGIBLE"):
        take(work, capabilities=frozenset())
    clock.pass_ms(10)
    with pytest.raises(WorkloadError) as refused:
        take(work, capabilities=frozenset({"a", "c"}))
    assert refused.value.code == "WORKLOAD_CAPABILITY_DENIED" and refused.value.details == {"missing": ["b"]}
    assert take(work, capabilities=frozenset({"a", "b", "c"})).capability_snapshot == ("a", "b")


@pytest.mark.parametrize(("lease_ms", "fits"), [(999, False), (1_000, True), (3_600_000, True), (3_600_001, False)])
def test_a_lease_is_one_second_to_one_hour(make_work, take, lease_ms, fits):
    work = make_work()
    if fits:
        assert take(work, lease_ms=lease_ms).fencing_token == 1
    else:
        with refusal("WORKLOAD_INVALID"):
            take(work, lease_ms=lease_ms)


def test_a_heartbeat_may_extend_and_shorten_the_lease_and_writes_no_event(make_work, run, clock):
    work = make_work()
    claim = run(work)
    assert heartbeat(claim.fence, extend_ms=60_000, now_ms=clock.ms).expires_at_ms == clock.ms + 60_000
    assert heartbeat(claim.fence, extend_ms=1_000, now_ms=clock.ms).expires_at_ms == clock.ms + 1_000
    assert len(history_of(work)) == 3


def claims(clock, worker="w1", capabilities=("identity",), **members):
    return claim_next(
        ClaimNext(
            namespace=members.pop("namespace", NAMESPACE),
            worker_id=worker,
            principal=f"worker:{worker}",
            capabilities=frozenset(capabilities),
            **members,
        ),
        now_ms=clock.ms,
    )


def test_the_next_work_is_that_of_highest_priority_then_longest_eligible_then_oldest(make_work, clock):
    low = make_work("low", priority=-1)
    later = make_work("later", not_before_at_ms=clock.ms + 5)
    first, second = make_work("first"), make_work("second")
    other_lane = make_work("other-lane", capability_snapshot=frozenset({"x"}), not_before_at_ms=clock.ms + 3)
    high = make_work("high", priority=7, not_before_at_ms=clock.ms + 9)
    clock.pass_ms(10)
    taken = [claim.workload_id for claim in claims(clock, max=10, capabilities=("identity", "x"))]
    assert taken == [work.workload_id for work in (high, first, second, other_lane, later, low)]


def test_the_scheduler_skips_ineligible_work_rather_than_failing_on_it(make_work, clock):
    """W32: neither work of the future nor work for others blocks what is ready."""
    make_work("future", priority=9, not_before_at_ms=clock.ms + 60_000)
    make_work("foreign", priority=8, definition_id="unknown")
    ready = make_work("ready")
    assert [claim.workload_id for claim in claims(clock, max=5)] == [ready.workload_id]
    assert claims(clock, max=5) == []


def test_the_next_work_is_only_of_its_own_namespace(make_work, clock):
    """W33."""
    make_work("mine")
    assert claims(clock, namespace="other") == []
    assert len(claims(clock)) == 1


def test_a_batch_claim_takes_no_more_than_asked_and_each_once(make_work, clock):
    for number in range(7):
        make_work(f"k{number}")
    taken = [len(claims(clock, worker=f"w{turn}", max=3)) for turn in range(4)]
    assert taken == [3, 3, 1, 0]
    assert Attempt.objects.values("workload").distinct().count() == 7


def test_definitions_narrow_what_a_worker_is_given(make_work, clock):
    make_work("a", definition_id="a", capability_snapshot=frozenset({"x"}))
    assert claims(clock, capabilities=("x",), definitions=frozenset({"b"})) == []
    assert len(claims(clock, capabilities=("x",), definitions=frozenset({"a"}))) == 1


def test_deadlines_are_enforced_from_committed_timestamps(make_work, run, take, clock):
    """W34: by the worker's own call as well as by the sweep."""
    work = make_work(timeouts=Timeouts(execution_ms=5_000), retry_policy=RetryPolicy(initial_delay_ms=0))
    claim = run(work)
    clock.pass_ms(5_000)
    with pytest.raises(WorkloadError) as refused:
        complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    assert refused.value.code == "WORKLOAD_TIMED_OUT"
    assert refused.value.details == {"deadline": "execution", "deadline_at_ms": clock.ms}
    assert state_of(work) == State.READY
    run(work)
    assert sweep(now_ms=clock.pass_ms(4_999)).timed_out == []
    assert sweep(now_ms=clock.pass_ms(1)).timed_out == [work.workload_id]
    assert Attempt.objects.filter(workload=work, status="TIMED_OUT").count() == 2


@pytest.mark.parametrize(
    ("timeouts", "prepare", "decision"),
    [
        (Timeouts(queue_ms=100), None, "deadline_not_retryable"),
        (Timeouts(overall_ms=100), "run", "deadline_not_retryable"),
        (Timeouts(claim_ms=100), "take", "retry"),
        (Timeouts(heartbeat_ms=100), "run", "retry"),
    ],
)
def test_each_deadline_ends_its_state_and_only_those_of_an_attempt_are_tried_again(
    make_work, run, take, clock, timeouts, prepare, decision
):
    """W34."""
    work = make_work(timeouts=timeouts)
    {"run": run, "take": take, None: lambda work: None}[prepare](work)
    assert sweep(now_ms=clock.pass_ms(99)).timed_out == []
    assert sweep(now_ms=clock.pass_ms(1)).timed_out == [work.workload_id]
    assert sweep(now_ms=clock.ms).timed_out == []
    assert Event.objects.filter(workload=work).latest("sequence").evidence["decision"] == decision


def test_an_operator_retry_starts_the_overall_deadline_anew(make_work, take, clock):
    work = make_work(timeouts=Timeouts(overall_ms=1_000))
    sweep(now_ms=clock.pass_ms(1_000))
    assert state_of(work) == State.DEAD_LETTER
    retry(NAMESPACE, work.workload_id, actor="human:ada", now_ms=clock.pass_ms(10_000))
    assert take(work).fencing_token == 1
