"""Whose clock counts, and what becomes of leases, waits and schedules when a clock is set."""

import threading
import time
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connections

from apps.workloads import clock as clocks
from apps.workloads.commands import Completion
from apps.workloads.services import complete, heartbeat, scheduling, sweep
from tests.workloads.conftest import state_of
from tests.workloads.test_lifecycle import refusal
from tests.workloads.test_scheduling import HOUR_MS, define, keys  # noqa: F401

pytestmark = pytest.mark.django_db

SUCCESS = Completion(result_id="r", output=1)


@pytest.fixture(autouse=True)
def _not_looked_yet(monkeypatch):
    monkeypatch.setattr(clocks, "_last", None)
    monkeypatch.setattr(clocks, "_given_ms", 0)
    monkeypatch.setattr(clocks, "_told", False)


@pytest.fixture
def host_clock(monkeypatch):
    """A function that sets this host's clock so many milliseconds off."""
    real = time.time_ns

    def set_off(ms):
        monkeypatch.setattr(time, "time_ns", lambda: real() + ms * 1_000_000)

    return set_off


@pytest.mark.skipif("connections['default'].vendor != 'sqlite'")
def test_on_sqlite_the_hosts_clock_is_the_databases(host_clock):
    before = clocks.now_ms()
    host_clock(HOUR_MS)
    assert HOUR_MS <= clocks.now_ms() - before < HOUR_MS + 5_000


@pytest.mark.skipif("connections['default'].vendor != 'postgresql'")
@pytest.mark.parametrize("off_ms", [HOUR_MS, -HOUR_MS])
def test_on_postgresql_the_databases_clock_counts_and_a_host_that_differs_is_told_once(host_clock, caplog, off_ms):
    before = clocks.now_ms()
    host_clock(off_ms)
    for _ in range(2):
        clocks._last = clocks._last._replace(again_s=0)
        assert 0 <= clocks.now_ms() - before < 5_000
    assert [record.message for record in caplog.records if "from the database's" in record.message] == [
        f"this host's clock is {off_ms / 1000:+.1f} s from the database's; work goes by the database's"
    ]


@pytest.fixture
def looks(monkeypatch):
    """A function that lets each look at the clock show the next of these instants; no time passes besides."""

    def show(*instants_ms):
        left = iter(instants_ms)
        monkeypatch.setattr(clocks, "time", SimpleNamespace(monotonic=lambda: 7.0))
        monkeypatch.setattr(clocks, "_look", lambda last: clocks._Look(next(left), 7.0, 7.0))

    return show


def test_looks_that_disagree_by_a_little_never_set_the_clock_of_a_process_back(looks):
    looks(50_000.0, 49_999.0, 49_001.0, 49_999.9, 50_001.5, 50_000.0)
    assert [clocks.now_ms() for _ in range(6)] == [50_000, 50_000, 50_000, 50_000, 50_001, 50_001]


def test_a_clock_that_was_really_set_back_is_followed_and_goes_on_from_there(looks):
    looks(50_000.0, 49_000.0, 49_001.0, 9_000.0, 8_999.0, 9_001.0)
    assert [clocks.now_ms() for _ in range(6)] == [50_000, 49_000, 49_001, 9_000, 9_000, 9_001]


def test_a_thread_whose_look_came_back_late_gives_no_earlier_instant_than_another_gave_meanwhile(looks, monkeypatch):
    looks(49_999.0, 50_000.0)
    look, asked, held, given = clocks._look, threading.Event(), threading.Event(), []

    def late(last):
        found = look(last)
        if threading.current_thread() is thread:
            asked.set()
            held.wait(60)
        return found

    monkeypatch.setattr(clocks, "_look", late)
    thread = threading.Thread(target=lambda: given.append(clocks.now_ms()))
    thread.start()
    assert asked.wait(60)
    given.append(clocks.now_ms())
    held.set()
    thread.join(60)
    assert given == [50_000, 50_000]


def gone():
    raise OperationalError("the server is away")


@pytest.mark.skipif("connections['default'].vendor != 'postgresql'")
def test_while_the_database_is_away_its_clock_goes_on_and_before_the_first_look_it_must_answer(monkeypatch):
    before = clocks.now_ms()
    clocks._last = clocks._last._replace(again_s=0)
    with monkeypatch.context() as away:
        away.setattr(connections["default"], "ensure_connection", gone)
        assert 0 <= clocks.now_ms() - before < 5_000
        clocks._last = None
        with pytest.raises(OperationalError):
            clocks.now_ms()


def test_a_clock_set_forward_ends_leases_early_and_the_late_worker_is_refused(make_work, run, clock):
    work = make_work()
    held = run(work, lease_ms=30_000)
    clock.pass_ms(HOUR_MS)
    assert sweep(now_ms=clock.ms).recovered == [work.workload_id]
    clock.pass_ms(-HOUR_MS)
    with refusal("WORKLOAD_CLAIM_INVALID"):
        complete(held.fence, SUCCESS, now_ms=clock.ms)


def test_a_clock_set_back_keeps_claims_and_takes_back_no_result(make_work, run, take, clock):
    work = make_work()
    held = run(work, lease_ms=30_000)
    clock.pass_ms(-HOUR_MS)
    assert sweep(now_ms=clock.ms).recovered == []
    assert heartbeat(held.fence, extend_ms=30_000, now_ms=clock.ms).expires_at_ms == clock.ms + 30_000
    complete(held.fence, SUCCESS, now_ms=clock.ms)
    assert state_of(work) == "SUCCEEDED"
    clock.pass_ms(2 * HOUR_MS)
    assert sweep(now_ms=clock.ms).recovered == [] and state_of(work) == "SUCCEEDED"


def test_a_dead_workers_lease_taken_before_the_clock_was_set_back_ends_once_that_instant_comes(make_work, run, clock):
    work = make_work()
    run(work, lease_ms=30_000)
    clock.pass_ms(-HOUR_MS)
    sweep(now_ms=clock.ms)
    assert state_of(work) == "RUNNING"
    clock.pass_ms(HOUR_MS + 30_000)
    sweep(now_ms=clock.ms)
    assert state_of(work) == "READY"


def test_due_times_made_while_the_clock_was_ahead_are_not_made_again(define, clock):  # noqa: F811
    define()
    assert scheduling.run_due(now_ms=clock.ms + HOUR_MS) == 1
    made = keys()
    assert scheduling.run_due(now_ms=clock.ms) == 0 and scheduling.run_due(now_ms=clock.ms + HOUR_MS) == 0
    assert keys() == made
