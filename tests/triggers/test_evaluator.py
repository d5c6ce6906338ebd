"""The loop: leases, waking, back-off, several at once, and what happens to one namespace when another fails."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.triggers import leases, services
from apps.triggers.evaluator import Evaluator
from apps.triggers.limits import BACKOFF_FIRST_S, LEASE_MS
from apps.triggers.models import EvaluatorLease, TriggerCursor
from apps.workloads.clock import now_ms
from feltdb_engine import Store
from feltdb_engine.errors import StorageFailed
from tests.triggers.conftest import BY

GONE_PID = 2**22 + 1  # beyond what Linux gives out


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(clock: Clock) -> Callable[..., Evaluator]:
    return lambda **options: Evaluator(clock=clock.ms, monotonic=clock.monotonic, **options)


def drain(evaluator: Evaluator) -> None:
    for _ in range(100):
        if not evaluator.run_once():
            return
    raise AssertionError("the evaluator never came to rest")


def test_a_round_makes_the_work_of_every_namespace(
    world: Any, other_world: Callable[[str], Any], make: Callable[..., Evaluator]
) -> None:
    second = other_world("second")
    for each in (world, second):
        each.define()
        each.put("orders", "1", {})
    drain(make())
    assert (len(world.workloads()), len(second.workloads())) == (1, 1)


def test_an_evaluator_for_some_namespaces_leaves_the_others_alone(
    world: Any, other_world: Callable[[str], Any], make: Callable[..., Evaluator]
) -> None:
    second = other_world("second")
    for each in (world, second):
        each.define()
        each.put("orders", "1", {})
    drain(make(namespaces=frozenset({"second"})))
    assert (len(world.workloads()), len(second.workloads())) == (0, 1)


def test_nothing_to_do_writes_nothing(
    world: Any, make: Callable[..., Evaluator], django_assert_num_queries: Callable[..., Any]
) -> None:
    world.define()
    evaluator = make()
    drain(evaluator)
    with django_assert_num_queries(2):  # pauses that are over, namespaces
        assert not evaluator.run_once()


def test_a_lease_keeps_a_second_evaluator_out_until_it_ends(
    world: Any, make: Callable[..., Evaluator], clock: Clock
) -> None:
    world.define()
    drain(make(holder="other-host:1:a"))
    world.put("orders", "1", {})
    second = make(holder="other-host:1:b")
    assert not second.run_once()
    assert world.workloads() == []
    clock.seconds += LEASE_MS / 1000
    drain(second)
    assert len(world.workloads()) == 1


def test_a_lease_taken_before_the_clock_was_set_back_keeps_nobody_out(
    world: Any, make: Callable[..., Evaluator], clock: Clock
) -> None:
    clock.seconds += 7200
    world.define()
    drain(make(holder="other-host:1:a"))
    clock.seconds -= 3600
    world.put("orders", "1", {})
    drain(make(holder="other-host:1:b"))
    assert len(world.workloads()) == 1
    assert EvaluatorLease.objects.get().holder == "other-host:1:b"


def test_the_lease_of_a_process_that_is_gone_is_free_at_once(world: Any) -> None:
    dead = leases.holder_here("x").replace(f":{os.getpid()}:", f":{GONE_PID}:")
    assert leases.take("test", dead, now_ms=0)
    assert leases.take("test", "elsewhere:1:x", now_ms=1) is True
    assert leases.take("test", leases.holder_here("y"), now_ms=2) is False
    assert leases.take("test", "elsewhere:1:x", now_ms=3) is True


def test_a_lease_given_back_is_free_and_only_its_holder_can_give_it_back(world: Any) -> None:
    mine, other = leases.holder_here("a"), leases.holder_here("b")
    assert leases.take("test", mine, now_ms=0)
    leases.give_back("test", other)
    assert not leases.take("test", other, now_ms=1)
    leases.give_back("test", mine)
    assert leases.take("test", other, now_ms=1)


def test_closing_stores_how_far_was_looked_and_gives_the_lease_back(
    world: Any, make: Callable[..., Evaluator], clock: Clock
) -> None:
    world.define()
    world.put("other", "1", {})
    evaluator = make()
    drain(evaluator)
    assert world.cursor() == 0, "changes that match nothing are not stored one by one"
    evaluator.close()
    assert world.cursor() == 1
    assert EvaluatorLease.objects.get().expires_at_ms == 0


def test_cursors_that_only_passed_changes_by_are_stored_after_a_while(
    world: Any, make: Callable[..., Evaluator], clock: Clock
) -> None:
    world.define()
    world.put("other", "1", {})
    evaluator = make()
    drain(evaluator)
    clock.seconds += 1
    drain(evaluator)
    assert TriggerCursor.objects.get().sequence == 1


def test_a_namespace_that_fails_is_left_alone_for_a_while_and_hinders_no_other(
    world: Any,
    other_world: Callable[[str], Any],
    make: Callable[..., Evaluator],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second = other_world("second")
    for each in (world, second):
        each.define()
        each.put("orders", "1", {})
    failing, asked = world.store, 0
    changes = Store.changes

    def fail(self: Store, *args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        if self is failing:
            asked += 1
            raise StorageFailed("a force failed")
        return changes(self, *args, **kwargs)

    evaluator = make()
    with monkeypatch.context() as patch:
        patch.setattr(Store, "changes", fail)
        drain(evaluator)
        assert (asked, len(second.workloads())) == (1, 1)
        drain(evaluator)
        assert asked == 1, "not before the pause is over"
        clock.seconds += BACKOFF_FIRST_S
        drain(evaluator)
        assert asked == 2
        clock.seconds += BACKOFF_FIRST_S
        drain(evaluator)
        assert asked == 2, "the pause grows"
    clock.seconds += BACKOFF_FIRST_S
    drain(evaluator)
    assert len(world.workloads()) == 1


def test_a_pause_that_is_over_ends_by_itself(world: Any, make: Callable[..., Evaluator], clock: Clock) -> None:
    world.define()
    until = clock.ms() + 5_000
    services.pause(world.namespace, "on-order", by=BY, now_ms=clock.ms(), reason="m", resumes_at_ms=until)
    world.put("orders", "1", {})
    evaluator = make()
    drain(evaluator)
    assert world.workloads() == []
    clock.seconds += 5
    drain(evaluator)
    assert len(world.workloads()) == 1


@pytest.mark.parametrize("namespaces", [1, 2])
def test_the_running_loop_wakes_for_a_change_and_stops_when_told(
    world: Any, other_world: Callable[[str], Any], namespaces: int
) -> None:
    worlds = [world, *(other_world(f"more{number}") for number in range(1, namespaces))]
    for each in worlds:
        each.now_ms = now_ms()
        each.define()
    evaluator, stop = Evaluator(), threading.Event()
    loop = threading.Thread(target=evaluator.run, args=(stop,))
    loop.start()
    try:
        for each in worlds:
            each.put("orders", "1", {})
        deadline = time.monotonic() + 10
        while any(not each.workloads() for each in worlds) and time.monotonic() < deadline:
            time.sleep(0.01)
        later = worlds[-1].put("orders", "2", {})
        while len(worlds[-1].workloads()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert later.revision == 2
        assert [len(each.workloads()) for each in worlds] == [1] * (namespaces - 1) + [2]
    finally:
        stop.set()
        loop.join(60)
    assert not loop.is_alive()


def test_many_threads_evaluating_at_once_make_each_work_once(world: Any) -> None:
    """No lease between them: only the cursors decide."""
    world.define("one")
    world.define("two")
    world.write(*[_put(number) for number in range(150)])
    results: list[Any] = []
    problems: list[BaseException] = []

    def evaluate() -> None:
        from django.db import connection

        try:
            results.extend(services.evaluate_namespace(world.namespace, now_ms=10))
        except BaseException as error:
            problems.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=evaluate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    made = [row.workload_id for row in results if not row.duplicate]
    assert len(made) == len(set(made)) == 300
    assert len(world.workloads()) == 300


def _put(number: int) -> Any:
    from feltdb_engine import Mutation

    return Mutation(kind="put", collection="orders", id=str(number), value={"n": number})


# what is said of failures
def failures(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in caplog.records if record.name == "apps.triggers.evaluator"]


def test_a_store_that_stays_broken_is_told_of_in_one_line_and_once_more_when_it_goes_on(
    world: Any,
    make: Callable[..., Evaluator],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from apps.state import stores
    from feltdb_engine.errors import LogCorrupt

    def corrupt(_: str) -> Any:
        raise LogCorrupt("A frame below the durable position is bad.", segment="0", offset=7, sequence=3)

    world.define()
    world.put("orders", "1", {})
    evaluator = make()
    with monkeypatch.context() as patch:
        patch.setattr(stores, "store", corrupt)
        for _ in range(5):
            evaluator.run_once()
            clock.seconds += 60
    [line] = failures(caplog)
    assert "LOG_CORRUPT" in line.getMessage()
    assert "\n" not in line.getMessage()
    assert line.exc_info is None
    drain(evaluator)
    assert "go on, after 5 failures" in failures(caplog)[-1].getMessage()
    assert len(world.workloads()) == 1


def test_another_failure_is_another_line_and_a_defect_has_its_stack_once(
    world: Any,
    make: Callable[..., Evaluator],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from django.db import OperationalError

    from apps.triggers.evaluation.walker import NamespaceWalker

    world.define()
    world.put("orders", "1", {})
    evaluator = make()
    for error in (OperationalError("disk I/O error"), KeyError("defect")):
        with monkeypatch.context() as patch:
            patch.setattr(NamespaceWalker, "step", lambda *_, error=error: (_ for _ in ()).throw(error))
            for _ in range(3):
                evaluator.run_once()
                clock.seconds += 60
    lines = failures(caplog)
    assert [bool(line.exc_info) for line in lines] == [False, True]


def test_a_database_that_is_away_is_told_of_in_one_line_and_the_loop_goes_on(
    world: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from django.db import OperationalError

    from apps.triggers import evaluator as module

    stop, rounds = threading.Event(), 0

    def away(*_: Any, **__: Any) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            stop.set()
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr(module, "_backoff_s", lambda _: 0.001)
    monkeypatch.setattr(Evaluator, "run_once", away)
    Evaluator().run(stop)
    [line] = failures(caplog)
    assert (rounds, bool(line.exc_info)) == (3, False)
    assert "connection refused" in line.getMessage()
