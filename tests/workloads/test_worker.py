"""The worker: real threads on a real database, with programs that behave and programs that do not."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.workloads import capabilities, services
from apps.workloads.capabilities import Cancelled, Failed
from apps.workloads.clock import now_ms
from apps.workloads.commands import RetryPolicy, Timeouts
from apps.workloads.models import Attempt, Event, Result, Workload
from apps.workloads.worker import Step, Worker, WorkerOptions
from tests.workloads.conftest import NAMESPACE, state_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.filterwarnings("error")]


@pytest.fixture
def program(monkeypatch) -> Callable[..., None]:
    """A function that registers a program for this test only."""
    monkeypatch.setattr(capabilities, "_registry", dict(capabilities._registry))

    def register(name: str, body: Callable[..., Any]) -> None:
        capabilities.capability(name)(body)

    return register


@pytest.fixture
def work(command):
    """A function that admits work now, by the real clock."""

    def make(key="k1", **members):
        return services.admit(command(key, **members), now_ms=now_ms()).workload

    return make


def options(**members):
    return WorkerOptions(**{"concurrency": 2, "lease_ms": 3_000, "poll_s": 0.2, "sweep_s": 0.1, **members})


@contextmanager
def working(worker: Worker):
    """Run the worker in a thread of its own until the block ends."""

    def target():
        try:
            worker.run()
        finally:
            connection.close()

    thread = threading.Thread(target=target)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()


def eventually(check: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    until = time.monotonic() + timeout_s
    while not (found := check()):
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)
    return found


def test_once_does_everything_there_is_to_do_and_returns(work):
    made = [work(f"k{number}", input={"n": number}) for number in range(7)]
    assert Worker(options()).run_once() == 7
    for number, each in enumerate(made):
        result = Result.objects.get(workload=each)
        assert result.output == {"n": number} and result.result_id == f"result_{each.workload_id}_1"
    assert Attempt.objects.filter(status="SUCCEEDED").count() == 7


def test_once_leaves_what_is_not_yet_eligible_and_what_nobody_here_can_run(work):
    future, foreign = work("a", not_before_at_ms=now_ms() + 60_000), work("b", definition_id="nobody-has-this")
    assert Worker(options()).run_once() == 0
    assert state_of(future) == state_of(foreign) == "READY"


def test_once_runs_the_steps_until_nothing_comes_of_them(work):
    left = [3]

    def step(stop):
        if not left[0]:
            return False
        left[0] -= 1
        work(f"from-step-{left[0]}")
        return True

    closed = []
    assert Worker(options(), steps=[Step("maker", step, close=lambda: closed.append(1))]).run_once() == 3
    assert closed == [1]


def test_a_worker_wakes_at_once_for_new_work(work):
    with working(Worker(options(poll_s=30.0))):
        time.sleep(0.3)
        began = time.monotonic()
        made = work("late")
        eventually(lambda: state_of(made) == "SUCCEEDED")
        assert time.monotonic() - began < 15


def test_programs_run_beside_each_other_in_as_many_slots_as_there_are(work, program):
    meeting = threading.Barrier(3, timeout=10)
    program("meet", lambda input, context: meeting.wait() >= 0)
    made = [work(f"k{number}", definition_id="meet") for number in range(3)]
    with working(Worker(options(concurrency=3))):
        eventually(lambda: all(state_of(each) == "SUCCEEDED" for each in made))


def test_a_program_may_run_longer_than_its_lease(work, program, django_db_blocker):
    def slow(input, context):
        time.sleep(4.0)
        return "done"

    program("slow", slow)
    made = work(definition_id="slow")
    with working(Worker(options(lease_ms=3_000))):
        eventually(lambda: state_of(made) == "SUCCEEDED")
    assert Attempt.objects.filter(workload=made).count() == 1


@dataclass
class Login:
    """Python, and not a dict: written as one all the same."""

    password: str


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def raising(error: BaseException) -> Callable[..., Any]:
    def body(input, context):
        raise error

    return body


@pytest.mark.parametrize(
    ("body", "state", "failure"),
    [
        (raising(ValueError("broke")), "DEAD_LETTER", "execution_error: ValueError: broke"),
        (raising(SystemExit(3)), "DEAD_LETTER", "execution_error: SystemExit: 3"),
        (raising(KeyboardInterrupt()), "DEAD_LETTER", "execution_error: KeyboardInterrupt: "),
        (raising(Failed("no_such_order", "order 7", effect="none")), "DEAD_LETTER", "no_such_order: order 7"),
        (raising(Cancelled()), "DEAD_LETTER", "execution_error: the program gave up without being asked to"),
        (raising(ValueError("Bearer abcdefghijklmnop123")), "DEAD_LETTER", "execution_error: (hidden"),
        (raising(ValueError("-----BEGIN PRIVATE KEY-----")), "DEAD_LETTER", "execution_error: (hidden"),
        (lambda input, context: {"password": "x"}, "DEAD_LETTER", "execution_error: the output was refused"),
        (lambda input, context: object(), "DEAD_LETTER", "execution_error: the output was refused"),
        (lambda input, context: {1: 2}, "DEAD_LETTER", "execution_error: the output was refused"),
        (lambda input, context: {1, "a"}, "DEAD_LETTER", "execution_error: the output was refused"),
        (lambda input, context: [1.5, float("nan")], "DEAD_LETTER", "execution_error: the output was refused"),
        (lambda input, context: nested(2_000), "DEAD_LETTER", "execution_error: the output was refused"),
        (lambda input, context: Login("x"), "DEAD_LETTER", "execution_error: the output was refused"),
        (lambda input, context: MappingProxyType({"password": "x"}), "DEAD_LETTER", "execution_error: the output was"),
        (lambda input, context: "x" * (2 * 1024 * 1024), "DEAD_LETTER", "execution_error: the output was refused"),
    ],
)
def test_whatever_a_program_does_is_that_works_failure_and_the_worker_goes_on(
    work, program, caplog, body, state, failure
):
    caplog.set_level(logging.CRITICAL, "feltdb.worker")
    program("poison", body)
    poison, good = work("poison", definition_id="poison", priority=9), work("good")
    with working(Worker(options(concurrency=1))):
        eventually(lambda: state_of(good) == "SUCCEEDED")
    row = Workload.objects.get(pk=poison.pk)
    assert row.state == state
    assert row.last_failure.startswith(failure)


def test_a_failure_of_a_kind_to_retry_is_tried_again_until_it_succeeds(work, program):
    tries = []

    def flaky(input, context):
        tries.append(context.attempt)
        if len(tries) < 3:
            raise Failed("transient_connection", "refused")
        return "at last"

    program("flaky", flaky)
    made = work(definition_id="flaky", retry_policy=RetryPolicy(initial_delay_ms=1))
    with working(Worker(options())):
        eventually(lambda: state_of(made) == "SUCCEEDED")
    assert tries == [1, 2, 3]


def test_a_cancellation_reaches_a_running_program_and_is_confirmed(work, program):
    running = threading.Event()

    def patient(input, context):
        running.set()
        while not context.cancelled():
            time.sleep(0.01)
        raise Cancelled

    program("patient", patient)
    made = work(definition_id="patient")
    with working(Worker(options(lease_ms=3_000))):
        assert running.wait(60)
        services.cancel(NAMESPACE, made.workload_id, actor="human:ada", now_ms=now_ms())
        eventually(lambda: state_of(made) == "CANCELLED")
    last = Event.objects.filter(workload=made).latest("sequence")
    assert last.from_state == "CANCELLATION_REQUESTED" and last.actor != "cancellation", "the worker confirmed it"
    assert Attempt.objects.get(workload=made).status == "CANCELLED"


def test_a_program_past_its_execution_deadline_is_told_and_its_report_refused(work, program):
    told = threading.Event()

    def endless(input, context):
        while not context.cancelled():
            time.sleep(0.01)
        told.set()
        return "too late"

    program("endless", endless)
    policy = RetryPolicy(max_attempts=1)
    made = work(definition_id="endless", timeouts=Timeouts(execution_ms=300), retry_policy=policy)
    with working(Worker(options(lease_ms=3_000))):
        assert told.wait(60)
        eventually(lambda: state_of(made) == "DEAD_LETTER")
    assert Attempt.objects.get(workload=made).status == "TIMED_OUT" and not Result.objects.exists()


def test_a_worker_told_to_stop_finishes_what_runs_and_claims_no_more(work, program):
    began, finish = threading.Event(), threading.Event()

    def body(input, context):
        began.set()
        finish.wait(60)
        return "finished"

    program("body", body)
    first, second = work("a", definition_id="body", priority=1), work("b", definition_id="body")
    worker = Worker(options(concurrency=1))
    with working(worker):
        assert began.wait(60)
        worker.stop()
        time.sleep(0.2)
        finish.set()
    assert (state_of(first), state_of(second)) == ("SUCCEEDED", "READY")


def test_what_is_not_over_within_the_grace_is_handed_back_and_uses_no_attempt(work, program):
    began, release = threading.Event(), threading.Event()

    def stuck(input, context):
        began.set()
        release.wait(20)
        return "too late"

    program("stuck", stuck)
    made = work(definition_id="stuck", retry_policy=RetryPolicy(max_attempts=1))
    worker = Worker(options(grace_s=0.3))
    with working(worker):
        assert began.wait(60)
    row = Workload.objects.get(pk=made.pk)
    assert (row.state, row.budget_used, row.handback_count, row.attempt_count) == ("READY", 0, 1, 1)
    release.set()
    time.sleep(0.3)
    assert state_of(made) == "READY", "the late report is refused"
    program_free = Worker(options())
    release.set()
    assert program_free.run_once() == 1 and state_of(made) == "SUCCEEDED"


def test_claimed_work_that_has_not_begun_is_handed_back_at_once(work):
    made = [work(f"k{number}") for number in range(2)]
    worker = Worker(options())
    assert worker._claim_for_free_slots() == 2, "no slot runs yet"
    worker.stop()
    worker._drain()
    rows = Workload.objects.filter(pk__in=[each.pk for each in made])
    assert {(row.state, row.budget_used) for row in rows} == {("READY", 0)}


def test_a_failing_step_ends_neither_the_others_nor_the_work(work, caplog):
    caplog.set_level(logging.CRITICAL, "feltdb.worker")
    ticks = []

    def broken(stop):
        raise RuntimeError("broken step")

    def steady(stop):
        ticks.append(1)
        return False

    steps = [Step("broken", broken, pause_s=0.05), Step("steady", steady, pause_s=0.05)]
    with working(Worker(options(), steps=steps)):
        made = work("a")
        eventually(lambda: state_of(made) == "SUCCEEDED")
        eventually(lambda: len(ticks) > 3)


def test_a_hanging_step_holds_up_no_other_and_no_work(work):
    hanging = threading.Event()

    def hang(stop):
        hanging.set()
        stop.wait()
        return False

    with working(Worker(options(), steps=[Step("hang", hang)])):
        assert hanging.wait(60)
        made = work("a")
        eventually(lambda: state_of(made) == "SUCCEEDED")


def test_the_worker_outlives_a_database_that_is_away_for_a_while(work, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, "feltdb.worker")
    real, failures = services.complete_many, []

    def away(*args, **kwargs):
        if len(failures) < 3:
            failures.append(1)
            raise OperationalError("away")
        return real(*args, **kwargs)

    monkeypatch.setattr(services, "complete_many", away)
    made = work("a")
    with working(Worker(options())):
        eventually(lambda: state_of(made) == "SUCCEEDED")
    assert len(failures) == 3 and Attempt.objects.filter(workload=made).count() == 1


def test_the_sweep_of_any_worker_brings_back_the_work_of_a_dead_one(work, take, clock):
    clock.ms = now_ms() - 5_000
    made = work("a", retry_policy=RetryPolicy(initial_delay_ms=1))
    Workload.objects.filter(pk=made.pk).update(eligible_at_ms=clock.ms)
    take(made, "dead-worker", lease_ms=1_000)
    with working(Worker(options())):
        eventually(lambda: state_of(made) == "SUCCEEDED")
    statuses = Attempt.objects.filter(workload=made).order_by("number").values_list("status", flat=True)
    assert list(statuses) == ["WORKER_LOST", "SUCCEEDED"]


def test_several_workers_share_the_work_and_run_each_once(work, program):
    ran: list[int] = []
    program("note", lambda input, context: ran.append(input))
    for number in range(30):
        work(f"k{number}", definition_id="note", input=number)
    with working(Worker(options())), working(Worker(options())), working(Worker(options())):
        eventually(lambda: Workload.objects.filter(state="SUCCEEDED").count() == 30)
    assert sorted(ran) == list(range(30))


def test_only_the_namespaces_named_are_worked(work):
    mine, other = work("a"), work("b", namespace="other")
    assert Worker(options(namespaces=(NAMESPACE,))).run_once() == 1
    assert (state_of(mine), state_of(other)) == ("SUCCEEDED", "READY")
    assert Worker(options()).run_once() == 1


def test_two_workers_never_have_the_same_name():
    assert len({WorkerOptions().worker_id for _ in range(50)}) == 50


def test_a_heartbeat_deadline_shorter_than_the_lease_is_kept(work, program):
    program("slow", lambda input, context: time.sleep(3.0))
    made = work(definition_id="slow", timeouts=Timeouts(heartbeat_ms=2_000))
    with working(Worker(options(lease_ms=30_000))):
        eventually(lambda: state_of(made) == "SUCCEEDED")
    assert Attempt.objects.filter(workload=made).count() == 1
