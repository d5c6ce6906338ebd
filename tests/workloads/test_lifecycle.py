"""The life of a workload through the services: claim, report, lose, retry, bury, cancel."""

import random
from types import SimpleNamespace

import pytest

from apps.workloads import backoff, errors, identity
from apps.workloads.commands import Completion, Failure, RetryPolicy
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Attempt, Event, Result, Workload
from apps.workloads.services import (
    admit,
    admit_many,
    cancel,
    complete,
    confirm_cancel,
    fail,
    hand_back,
    heartbeat,
    retry,
    start,
    sweep,
)
from apps.workloads.states import State
from tests.workloads.conftest import NAMESPACE, history_of, state_of

pytestmark = pytest.mark.django_db


def refusal(code: str) -> object:
    return pytest.raises(WorkloadError, check=lambda error: error.code == code)


def test_idempotent_create_and_legal_lifecycle(make_work, command, take, clock):
    """W7."""
    work = make_work(input={"id": 1})
    assert not admit(command(input={"id": 1}), now_ms=clock.ms).created
    claim = take(work)
    start(claim.fence, now_ms=clock.ms)
    result, stored = complete(claim.fence, Completion(result_id="r1", output={"k": 1}), now_ms=clock.ms)
    assert stored and result.output_hash == "a0da1fce57d0e4f9f0ae4e4cbe040d34dcc046255c6c8d18e97f55aaed0655f0"
    with refusal("WORKLOAD_CLAIM_INVALID"):
        start(claim.fence, now_ms=clock.ms)
    assert history_of(work) == [
        ("CREATED", "READY"),
        ("READY", "CLAIMED"),
        ("CLAIMED", "RUNNING"),
        ("RUNNING", "SUCCEEDED"),
    ]
    row = Workload.objects.get(pk=work.pk)
    assert (row.worker_id, row.lease_expires_at_ms, row.due_at_ms) == (None, None, None)


def test_a_claim_gives_everything_its_holder_needs_and_the_ids_of_the_reference(make_work, take, clock):
    work = make_work()
    claim = take(work, "a", lease_ms=5_000)
    assert claim.fencing_token == 1 and claim.lease_id == "lease_1"
    assert claim.attempt_id == f"attempt_{work.workload_id}_1"
    assert claim.claim_id == identity.claim_id(work.workload_id, 1, "a")
    assert claim.input == {"n": 1} and claim.expires_at_ms == clock.ms + 5_000


def test_a_second_start_is_refused(make_work, run, clock):
    claim = run(make_work())
    with refusal("WORKLOAD_TRANSITION_DENIED"):
        start(claim.fence, now_ms=clock.ms)


def test_stale_fence_and_lease_recovery(make_work, run, take, clock):
    """W8, W15, W16: the token grows, and who lost the lease is refused while and after the successor works."""
    work = make_work(retry_policy=RetryPolicy(initial_delay_ms=0))
    dead = run(work, "dead", lease_ms=1_000)
    clock.pass_ms(1_000)
    with refusal("WORKLOAD_LEASE_EXPIRED"):
        heartbeat(dead.fence, extend_ms=1_000, now_ms=clock.ms)
    with refusal("WORKLOAD_NOT_READY"):
        take(work, "other")
    assert sweep(now_ms=clock.ms).recovered == [work.workload_id]
    with refusal("WORKLOAD_CLAIM_INVALID"):
        complete(dead.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    alive = run(work, "alive")
    assert alive.fencing_token == 2
    for late in (
        lambda: start(dead.fence, now_ms=clock.ms),
        lambda: heartbeat(dead.fence, extend_ms=1_000, now_ms=clock.ms),
        lambda: complete(dead.fence, Completion(result_id="r", output=1), now_ms=clock.ms),
        lambda: fail(dead.fence, Failure(kind="timeout"), now_ms=clock.ms),
    ):
        with refusal("WORKLOAD_STALE_FENCE"):
            late()
    complete(alive.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    with refusal("WORKLOAD_CLAIM_INVALID"):
        fail(dead.fence, Failure(kind="timeout"), now_ms=clock.ms)
    statuses = Attempt.objects.filter(workload=work).order_by("number").values_list("status", flat=True)
    assert list(statuses) == ["WORKER_LOST", "SUCCEEDED"]


def test_a_claim_is_bound_to_the_principal_that_made_it(make_work, take, clock):
    claim = take(make_work(), "w1", principal="worker:w1")
    with refusal("WORKLOAD_UNAUTHORIZED"):
        start(claim.fence.__class__(**{**_members(claim.fence), "principal": "service:other"}), now_ms=clock.ms)
    start(claim.fence, now_ms=clock.ms)


def _members(value):
    return {name: getattr(value, name) for name in value.__slots__}


def test_lease_recovery_records_the_lost_worker_and_is_bounded_by_the_attempt_budget(make_work, run, take, clock):
    """W9."""
    work = make_work(retry_policy=RetryPolicy(initial_delay_ms=0))
    for number in (1, 2, 3):
        claim = run(work, f"w{number}", lease_ms=1_000)
        clock.pass_ms(1_000)
        sweep(now_ms=clock.ms)
        evidence = Event.objects.get(workload=work, to_state="RECOVERING", sequence__gt=(number - 1) * 4).evidence
        assert evidence["worker_id"] == f"w{number}" and evidence["claim_id"] == claim.claim_id
        assert evidence["attempts_used"] == number and evidence["attempt_budget"] == 3
    assert state_of(work) == State.DEAD_LETTER
    with refusal("WORKLOAD_NOT_READY"):
        take(work)


def test_a_policy_that_does_not_retry_worker_failure_dead_letters_a_lost_attempt(make_work, run, clock):
    """W12."""
    work = make_work(retry_policy=RetryPolicy(retry_on=frozenset({"timeout"})))
    run(work, lease_ms=1_000)
    clock.pass_ms(1_000)
    sweep(now_ms=clock.ms)
    last = Event.objects.filter(workload=work).latest("sequence")
    assert last.to_state == "DEAD_LETTER" and last.evidence["decision"] == "worker_failure_not_retryable"


def test_a_lost_lease_waits_its_back_off_too(make_work, run, take, clock, monkeypatch):
    """Weakness 20 of the reference: a lost lease came back at once."""
    monkeypatch.setattr(backoff, "_system_random", SimpleNamespace(randint=lambda least, most: most))
    work = make_work(retry_policy=RetryPolicy(initial_delay_ms=60_000, backoff="fixed"))
    run(work, lease_ms=1_000)
    clock.pass_ms(1_000)
    sweep(now_ms=clock.ms)
    assert Workload.objects.get(pk=work.pk).eligible_at_ms == clock.ms + 60_000
    clock.pass_ms(59_999)
    with refusal("WORKLOAD_NOT_YET_ELIGIBLE"):
        take(work)
    clock.pass_ms(1)
    take(work)


def test_the_back_off_is_exponential_capped_fully_jittered_and_repeatable():
    policy = RetryPolicy(initial_delay_ms=1_000, max_delay_ms=300_000)
    caps = [backoff.cap_ms(policy, used) for used in range(1, 12)]
    assert caps == [1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 300000, 300000]
    assert backoff.cap_ms(policy, 10_000) == 300_000
    assert backoff.cap_ms(RetryPolicy(initial_delay_ms=2_500, backoff="fixed"), 9) == 2_500
    drawn = [backoff.delay_ms(policy, 9, rng=random.Random(7)) for _ in range(3)]
    assert len(set(drawn)) == 1
    spread = [backoff.delay_ms(policy, 9, rng=random.Random(seed)) for seed in range(200)]
    assert min(spread) < 25_600 and max(spread) > 230_400 and all(0 <= delay <= 256_000 for delay in spread)


def test_retry_sets_next_eligibility_without_duplicate_execution(make_work, run, take, clock):
    """W30."""
    work = make_work(retry_policy=RetryPolicy(initial_delay_ms=8_000, backoff="fixed"))
    claim = run(work)
    row = fail(claim.fence, Failure(kind="transient_connection", error="refused"), now_ms=clock.ms)
    assert row.state == State.READY and row.last_failure == "transient_connection: refused"
    Workload.objects.filter(pk=work.pk).update(eligible_at_ms=clock.ms + 1)
    with refusal("WORKLOAD_NOT_YET_ELIGIBLE"):
        take(work)
    clock.pass_ms(1)
    run(work, "w2")
    with refusal("WORKLOAD_STALE_FENCE"):
        complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms)


def test_a_worker_reports_failure_from_claimed_fenced_and_by_policy(make_work, take, clock):
    """W39."""
    work = make_work()
    claim = take(work)
    fail(claim.fence, Failure(kind="timeout", error="slow"), now_ms=clock.ms)
    length = Event.objects.filter(workload=work).count()
    assert Event.objects.get(workload=work, to_state="FAILED").evidence["effect"] == "none"
    again = fail(claim.fence, Failure(kind="timeout", error="slow"), now_ms=clock.ms)
    assert again.state == State.READY and Event.objects.filter(workload=work).count() == length
    with refusal("WORKLOAD_CLAIM_INVALID"):
        fail(claim.fence, Failure(kind="timeout", error="other"), now_ms=clock.ms)


@pytest.mark.parametrize(
    ("kind", "effect", "retry_on", "state", "decision"),
    [
        ("timeout", "none", {"timeout"}, "READY", "retry"),
        ("execution_error", None, {"timeout"}, "DEAD_LETTER", "failure_kind_not_retryable"),
        ("timeout", "unknown", {"timeout"}, "DEAD_LETTER", "effect_unknown_not_retryable"),
        ("execution_error", "unknown", {"worker_failure"}, "READY", "retry"),
    ],
)
def test_failure_policy_decides_retry_and_an_unknown_effect_is_decided_like_a_lost_worker(
    make_work, run, clock, kind, effect, retry_on, state, decision
):
    """W40."""
    work = make_work(retry_policy=RetryPolicy(retry_on=frozenset(retry_on)))
    row = fail(run(work).fence, Failure(kind=kind, effect=effect), now_ms=clock.ms)
    assert row.state == state
    assert Event.objects.filter(workload=work).latest("sequence").evidence["decision"] == decision


def test_an_unknown_word_for_effect_is_refused(make_work, run, clock):
    """W40."""
    with refusal("WORKLOAD_INVALID"):
        fail(run(make_work()).fence, Failure(kind="timeout", effect="maybe"), now_ms=clock.ms)


def test_retry_dead_letter_and_secret_safety(make_work, run, clock):
    """W38."""
    work = make_work(retry_policy=RetryPolicy(max_attempts=1))
    claim = run(work)
    with refusal("WORKLOAD_SECRET_REJECTED"):
        complete(claim.fence, Completion(result_id="r", output={"password": "hunter2"}), now_ms=clock.ms)
    with refusal("WORKLOAD_SECRET_REJECTED"):
        fail(claim.fence, Failure(kind="timeout", error="Bearer abcdefghijklmnop1234"), now_ms=clock.ms)
    row = fail(claim.fence, Failure(kind="timeout"), now_ms=clock.ms)
    assert row.state == State.DEAD_LETTER
    assert Event.objects.filter(workload=work).latest("sequence").evidence["decision"] == "attempt_budget_exhausted"


def test_a_repeated_completion_replays_only_for_the_claim_and_output_that_produced_it(make_work, run, clock):
    """W36."""
    first, second = make_work("a"), make_work("b")
    claim, other = run(first, "w1"), run(second, "w2")
    report = Completion(result_id="r1", output={"k": 1})
    stored, _ = complete(claim.fence, report, now_ms=clock.ms)
    replayed, fresh = complete(claim.fence, report, now_ms=clock.pass_ms(90_000))
    assert not fresh and replayed.created_at_ms == stored.created_at_ms
    with refusal("WORKLOAD_RESULT_CONFLICT"):
        complete(claim.fence, Completion(result_id="r1", output={"k": 2}), now_ms=clock.ms)
    with refusal("WORKLOAD_RESULT_CONFLICT"):
        complete(claim.fence, Completion(result_id="r1", output={"k": 1}, schema_version=2), now_ms=clock.ms)
    with refusal("WORKLOAD_RESULT_DUPLICATE"):
        complete(other.fence, report, now_ms=clock.ms)
    with refusal("WORKLOAD_CLAIM_INVALID"):
        complete(claim.fence, Completion(result_id="r2", output={"k": 1}), now_ms=clock.ms)
    assert Result.objects.count() == 1


def test_cancellation_race_and_duplicate_completion_are_deterministic(make_work, run, clock):
    """W37."""
    work = make_work()
    claim = run(work)
    assert cancel(NAMESPACE, work.workload_id, actor="service:ops", now_ms=clock.ms).state == "CANCELLATION_REQUESTED"
    for late in (
        lambda: complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms),
        lambda: fail(claim.fence, Failure(kind="timeout"), now_ms=clock.ms),
        lambda: start(claim.fence, now_ms=clock.ms),
    ):
        with refusal("WORKLOAD_TRANSITION_DENIED"):
            late()
    assert confirm_cancel(claim.fence, now_ms=clock.ms).state == State.CANCELLED
    with refusal("WORKLOAD_TRANSITION_DENIED"):
        cancel(NAMESPACE, work.workload_id, actor="service:ops", now_ms=clock.ms)


def test_a_cancellation_is_told_in_the_heartbeat_and_bounded_by_its_grace(make_work, run, clock):
    """A worker that keeps its lease alive cannot keep cancelled work alive."""
    work = make_work()
    claim = run(work)
    cancel(NAMESPACE, work.workload_id, actor="service:ops", now_ms=clock.ms, grace_ms=10_000)
    again = cancel(NAMESPACE, work.workload_id, actor="service:ops", now_ms=clock.pass_ms(1), grace_ms=99_000)
    assert again.cancel_deadline_at_ms == clock.ms - 1 + 10_000, "asking again changes nothing"
    answer = heartbeat(claim.fence, extend_ms=60_000, now_ms=clock.pass_ms(9_000))
    assert answer.cancel_requested and answer.cancel_deadline_at_ms == again.cancel_deadline_at_ms
    assert sweep(now_ms=clock.pass_ms(998)).cancelled == []
    assert sweep(now_ms=clock.pass_ms(1)).cancelled == [work.workload_id]
    assert state_of(work) == State.CANCELLED
    assert Attempt.objects.get(workload=work).status == "WORKER_LOST"


def test_cancellation_before_not_before_prevents_execution(make_work, take, clock):
    """W31."""
    work = make_work(not_before_at_ms=clock.ms + 60_000)
    cancel(NAMESPACE, work.workload_id, actor="service:ops", now_ms=clock.ms)
    clock.pass_ms(60_000)
    sweep(now_ms=clock.ms)
    with refusal("WORKLOAD_NOT_READY"):
        take(work)


def test_operator_retry_gives_a_fresh_budget_is_recorded_and_is_bounded(make_work, run, clock, monkeypatch):
    """W14, as corrected: not one more attempt but the whole budget again."""
    work = make_work(retry_policy=RetryPolicy(max_attempts=2, initial_delay_ms=0))
    monkeypatch.setattr("apps.workloads.limits.MAX_OPERATOR_RETRIES", 1)

    def exhaust(first):
        for number in range(first, first + 2):
            fail(run(work, f"w{number}").fence, Failure(kind="timeout"), now_ms=clock.ms)
        assert state_of(work) == State.DEAD_LETTER

    exhaust(1)
    row = retry(NAMESPACE, work.workload_id, actor="human:ada", reason=" fixed it ", now_ms=clock.ms)
    event = Event.objects.filter(workload=work).latest("sequence")
    assert event.actor == "human:ada" and event.evidence["reason"] == "fixed it" and row.budget_used == 0
    exhaust(3)
    assert Attempt.objects.filter(workload=work).count() == 4
    with refusal("WORKLOAD_RETRY_EXHAUSTED"):
        retry(NAMESPACE, work.workload_id, actor="human:ada", now_ms=clock.ms)


def test_only_a_dead_letter_can_be_retried_by_an_operator(make_work, run, clock):
    work = make_work()
    with refusal("WORKLOAD_TRANSITION_DENIED"):
        retry(NAMESPACE, work.workload_id, actor="human:ada", now_ms=clock.ms)


def test_a_handed_back_attempt_does_not_count_and_the_work_is_ready_at_once(make_work, run, take, clock, monkeypatch):
    work = make_work(retry_policy=RetryPolicy(max_attempts=1))
    for worker in ("w1", "w2"):
        row = hand_back(run(work, worker).fence, now_ms=clock.ms)
        assert (row.state, row.budget_used, row.eligible_at_ms) == (State.READY, 0, clock.ms)
    monkeypatch.setattr("apps.workloads.limits.MAX_HANDBACKS", 2)
    assert hand_back(run(work, "w3").fence, now_ms=clock.ms).state == State.DEAD_LETTER, "but not for ever"
    assert history_of(work)[-2:] == [("RUNNING", "RECOVERING"), ("RECOVERING", "DEAD_LETTER")]


def test_a_heartbeat_that_moved_the_lease_makes_an_early_look_harmless(make_work, run, clock):
    work = make_work()
    claim = run(work, lease_ms=5_000)
    heartbeat(claim.fence, extend_ms=60_000, now_ms=clock.pass_ms(1_000))
    Workload.objects.filter(pk=work.pk).update(due_at_ms=clock.ms)
    assert sweep(now_ms=clock.ms).recovered == []
    row = Workload.objects.get(pk=work.pk)
    assert (row.state, row.due_at_ms) == (State.RUNNING, clock.ms + 60_000)


def test_the_sweep_stops_at_its_limit_and_says_that_there_is_more(make_work, run, clock):
    for number in range(5):
        run(make_work(f"k{number}"), f"w{number}", lease_ms=1_000)
    clock.pass_ms(1_000)
    first = sweep(now_ms=clock.ms, limit=3)
    assert len(first.recovered) == 3 and first.more
    second = sweep(now_ms=clock.ms, limit=3)
    assert len(second.recovered) == 2 and not second.more


def test_admit_many_makes_a_batch_once_and_refuses_only_the_rows_that_conflict(command, clock):
    first = admit_many([command("a"), command("b"), command("a")], now_ms=clock.ms)
    assert [row.created for row in first] == [True, True, False]
    assert first[0].workload.workload_id == first[2].workload.workload_id and first[2].conflict is None
    again = admit_many([command("b", input=2), command("c")], now_ms=clock.ms)
    assert again[0].conflict is not None and again[0].conflict.details["fields"] == ["input"]
    assert again[1].created
    assert Workload.objects.count() == 3


def test_errors_are_made_in_one_place_with_a_known_status():
    assert errors.stale_fence(3).status == 409 and errors.capability_denied(["x"]).status == 403
