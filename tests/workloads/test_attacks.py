"""What somebody would try who is to trust payments to this: the same word twice at once, a worker that is two, a lease
that ends in the middle of a write, a thousand failures in one moment, twenty thousand dead letters.
"""

import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from apps.keys.services import ensure_namespace
from apps.state import stores
from apps.state.services import committing
from apps.workloads import backoff, overview, services
from apps.workloads.clock import now_ms
from apps.workloads.commands import ClaimById, ClaimNext, Completion, Failure, RetryPolicy
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Attempt, Event, Result, Workload
from apps.workloads.running import Running
from apps.workloads.services import reading
from feltdb_engine import Mutation
from tests.workloads.conftest import NAMESPACE, START_MS, state_of
from tests.workloads.test_weaknesses import plan

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 8
POLICY = RetryPolicy(max_attempts=3, initial_delay_ms=1_000, max_delay_ms=1_000)


def at_once(*calls: Any) -> list[Any]:
    """Make the calls in threads of their own, all at one moment; return answers and refusals in order."""
    barrier, answers = threading.Barrier(len(calls)), [None] * len(calls)

    def make(place: int, call: Any) -> None:
        barrier.wait()
        try:
            answers[place] = call()
        except WorkloadError as error:
            answers[place] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=make, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def test_one_success_told_many_times_at_once_is_recorded_once_and_all_get_it(make_work, run, clock) -> None:
    held = run(make_work())
    success = Completion(result_id="r", output={"paid": 3})
    answers = at_once(*[lambda: services.complete(held.fence, success, now_ms=clock.ms)] * THREADS)
    assert sum(stored for _, stored in answers) == 1
    assert {result.output_hash for result, _ in answers} == {Result.objects.get().output_hash}
    assert Event.objects.filter(event_type="workload.completed").count() == 1


def test_different_successes_of_one_claim_at_once_leave_one_and_the_others_are_refused(make_work, run, clock) -> None:
    held = run(make_work())
    answers = at_once(
        *[
            lambda n=n: services.complete(held.fence, Completion(result_id=f"r{n % 2}", output=n), now_ms=clock.ms)
            for n in range(THREADS)
        ]
    )
    refused = [answer.code for answer in answers if isinstance(answer, WorkloadError)]
    assert len(refused) == THREADS - 1
    assert set(refused) <= {"WORKLOAD_RESULT_CONFLICT", "WORKLOAD_CLAIM_INVALID", "WORKLOAD_CONFLICT"}
    assert Result.objects.count() == 1 and Attempt.objects.get().status == "SUCCEEDED"


def test_two_processes_that_both_say_they_are_one_worker_are_never_given_one_work_twice(make_work, clock) -> None:
    made = {make_work(f"k{n}").workload_id for n in range(2 * THREADS)}
    ask = ClaimNext(namespace=NAMESPACE, worker_id="w", principal="key", capabilities=frozenset({"identity"}), max=2)

    def take() -> list[Any]:
        return services.claim_next(ask, now_ms=clock.ms)

    claims = [claim for answer in at_once(*[take] * THREADS) for claim in answer]
    while more := take():  # whoever lost a race got less than it asked for
        claims += more
    assert Counter(claim.workload_id for claim in claims) == dict.fromkeys(made, 1)


def test_a_worker_whose_twin_took_over_is_refused_although_name_and_key_are_the_same(make_work, run, clock) -> None:
    work = make_work(retry_policy=POLICY)
    first = run(work, lease_ms=1_000)
    services.sweep(now_ms=clock.pass_ms(1_000))
    clock.pass_ms(1_000)
    second = run(work)
    assert (first.worker_id, first.principal) == (second.worker_id, second.principal)
    for call in (
        lambda: services.heartbeat(first.fence, extend_ms=60_000, now_ms=clock.ms),
        lambda: services.complete(first.fence, Completion(result_id="r", output=1), now_ms=clock.ms),
        lambda: services.fail(first.fence, Failure(kind="timeout", error="x"), now_ms=clock.ms),
        lambda: services.hand_back(first.fence, now_ms=clock.ms),
    ):
        with pytest.raises(WorkloadError) as refused:
            call()
        assert refused.value.code == "WORKLOAD_STALE_FENCE"
    forged = replace(first.fence, fencing_token=second.fencing_token)
    with pytest.raises(WorkloadError) as refused:
        services.complete(forged, Completion(result_id="r", output=1), now_ms=clock.ms)
    assert refused.value.code == "WORKLOAD_STALE_FENCE", "a token alone is no claim"
    services.complete(second.fence, Completion(result_id="r", output=1), now_ms=clock.ms)


def test_a_lease_lost_in_the_middle_of_a_write_lets_that_write_land_once_and_no_success(
    make_work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stated limit of two stores: between the look at the lease and the write, another attempt is made."""
    ensure_namespace(NAMESPACE)
    stores.close_all()
    work = make_work(retry_policy=RetryPolicy(max_attempts=5, initial_delay_ms=1, max_delay_ms=1))

    def claim(worker: str) -> Running:
        by_id = ClaimById(namespace=NAMESPACE, workload_id=work.workload_id, worker_id=worker, principal="key")
        held = services.claim(by_id, now_ms=now_ms())
        services.start(held.fence, now_ms=now_ms())
        return Running(held, 30_000)

    stale = claim("w1")
    book = [Mutation(kind="put", collection="ledger", id="1", value={"paid": 3})]
    outcomes: list[Any] = []
    commit = committing.commit

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(committing, "commit", commit)
        past = {"heartbeat_at_ms": now_ms() - 2, "lease_expires_at_ms": now_ms() - 1, "due_at_ms": now_ms() - 1}
        Workload.objects.update(**past)
        services.sweep(now_ms=now_ms())
        Workload.objects.update(eligible_at_ms=0)
        successor = claim("w2")
        outcomes.append(successor.commit("book", book))
        services.complete(successor.claim.fence, Completion(result_id="r2", output=3), now_ms=now_ms())
        return commit(*args, **kwargs)

    monkeypatch.setattr(committing, "commit", overtaken)
    outcomes.append(stale.commit("book", book))
    assert [outcome.duplicate for outcome in outcomes] == [False, True]
    assert outcomes[0].sequences == outcomes[1].sequences
    record = stores.store(NAMESPACE).get("ledger:1")
    assert record is not None and record.version == 1
    with pytest.raises(WorkloadError) as refused:
        services.complete(stale.claim.fence, Completion(result_id="r1", output=3), now_ms=now_ms())
    assert refused.value.code == "WORKLOAD_CLAIM_INVALID" and Result.objects.get().result_id == "r2"
    stores.close_all()


def test_a_thousand_failures_of_one_moment_come_back_spread_over_the_whole_wait(make_work, clock) -> None:
    waits = [backoff.delay_ms(RetryPolicy(initial_delay_ms=60_000, max_delay_ms=60_000), 1) for _ in range(1_000)]
    tenths = Counter(10 * wait // 60_001 for wait in waits)
    assert len(tenths) == 10 and max(tenths.values()) < 200, "no herd: no tenth of the minute gets a fifth of them"


def many_dead(make_work: Any, count: int) -> None:
    """Make so many dead letters by copying one, as the database does it quickest."""
    make_work()
    Workload.objects.update(state="DEAD_LETTER", last_failure="execution_error: 1", fencing_token=1, attempt_count=1)
    columns = [field.column for field in Workload._meta.concrete_fields if field.column != "id"]
    picked = ", ".join({"workload_id": "'dead-' || n"}.get(name, f't."{name}"') for name in columns)
    named = ", ".join(f'"{name}"' for name in columns)
    counted = f"WITH RECURSIVE n(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM n WHERE n < {count})"  # noqa: S608
    series = f"({counted} SELECT n FROM n) AS n"  # noqa: S608 - a count and names of our own
    table = Workload._meta.db_table
    with connection.cursor() as cursor:
        statement = f'INSERT INTO "{table}" ({named}) SELECT {picked} FROM "{table}" t, {series}'  # noqa: S608
        cursor.execute(statement)


def test_twenty_thousand_dead_letters_are_in_nobodys_way(make_work, take, clock) -> None:
    many_dead(make_work, 20_000)
    fresh = make_work("fresh")
    with CaptureQueriesContext(connection) as captured:
        rows, following = reading.page(NAMESPACE, filters={"state": "DEAD_LETTER"}, limit=100)
        newest = list(overview.dead_letters(NAMESPACE)[:100])
    assert len(rows) == len(newest) == 100 and following is not None
    if connection.vendor == "sqlite":
        found = plan(captured, 'FROM "workloads_workload"')
        assert "workload_by_state" in found and "TEMP B-TREE" not in found, found
    assert overview.count_by_state(NAMESPACE, cap=1_000)["DEAD_LETTER"] == 1_001, "a count is bounded"
    ask = ClaimNext(namespace=NAMESPACE, worker_id="w", principal="key", capabilities=frozenset({"identity"}), max=100)
    assert [claim.workload_id for claim in services.claim_next(ask, now_ms=clock.ms)] == [fresh.workload_id]
    assert services.claim_next(ask, now_ms=clock.ms) == []
    assert services.sweep(now_ms=START_MS + 10).more is False


def test_one_dead_letter_retried_by_many_at_once_is_armed_once(make_work, run, clock) -> None:
    work = make_work(retry_policy=RetryPolicy(max_attempts=1))
    services.fail(run(work).fence, Failure(kind="execution_error", error="x"), now_ms=clock.ms)
    assert state_of(work) == "DEAD_LETTER"
    answers = at_once(
        *[
            lambda n=n: services.retry(NAMESPACE, work.workload_id, actor=f"human-{n}", now_ms=clock.ms)
            for n in range(THREADS)
        ]
    )
    refused = [answer.code for answer in answers if isinstance(answer, WorkloadError)]
    assert refused == ["WORKLOAD_TRANSITION_DENIED"] * (THREADS - 1)
    row = Workload.objects.get()
    assert (row.state, row.operator_retry_count, row.budget_used) == ("READY", 1, 0)
