"""Programs in processes of their own: what they do to themselves costs one attempt, and the worker goes on. 25 s."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from io import StringIO
from pathlib import Path

import pytest

from apps.keys.services import ensure_namespace
from apps.state import stores
from apps.workloads import capabilities, printed, services
from apps.workloads.clock import now_ms
from apps.workloads.commands import RetryPolicy
from apps.workloads.models import Attempt, Result, Workload
from apps.workloads.worker import Worker
from feltdb_engine import Mutation
from tests.workloads.conftest import NAMESPACE, state_of
from tests.workloads.isolated_programs import capabilities as programs
from tests.workloads.test_worker import eventually, options, working

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.acceptance]

ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    """The programs are installed in the children; here as much of them as a worker knows."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "feltsite.settings")
    monkeypatch.setenv("FELTDB_APPS", "tests.workloads.isolated_programs")
    registered = dict(capabilities._registry)
    monkeypatch.setattr(capabilities, "_registry", registered)
    for name in [name for name in vars(programs) if name.startswith("iso_")]:
        body = getattr(programs, name)
        limit = 2 if name in ("iso_hang", "iso_half_word") else None
        capabilities.capability(name.replace("_", "-"), isolated=True, time_limit_s=limit)(body)


@pytest.fixture
def work(command):
    def make(name, input=None, **members):
        request = command(name, definition_id=name, input=input, **{"retry_policy": ONCE, **members})
        return services.admit(request, now_ms=now_ms()).workload

    return make


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_poison_of_every_kind_is_contained_and_the_others_go_on(work, tmp_path, caplog):
    """A program that exits or kills its process, raises, hangs, returns too much, prints secrets; and good ones."""
    caplog.set_level(logging.INFO, "feltdb.worker")
    began = tmp_path / "began"
    expected = {
        "iso-exit": "worker_failure: the program ended its process with code 7",
        "iso-kill": "worker_failure: the program's process was ended by SIGKILL",
        "iso-raise": "execution_error: ValueError: broke",
        "iso-fail": "no_such_order: order 7",
        "iso-hang": "timeout: ran longer than 2 s",
        "iso-large": "execution_error: the output was refused",
        "iso-huge": "execution_error: ",
        "iso-odd": "execution_error: ",
        "iso-no-number": "execution_error: ValueError: a number that is not finite",
    }
    made = {name: work(name, {"began": str(began)}) for name in expected}
    printing, good = work("iso-print"), work("identity")
    assert Worker(options(concurrency=4, lease_ms=30_000)).run_once() == len(expected) + 2
    for name, failure in expected.items():
        row = Workload.objects.get(pk=made[name].pk)
        assert row.state == "DEAD_LETTER" and row.last_failure.startswith(failure), row.last_failure
    assert state_of(printing) == state_of(good) == "SUCCEEDED"
    assert not any(alive(pid) for pid in began.read_text().split()), "the program and what it started are gone"
    effects = dict(Attempt.objects.values_list("workload__definition_id", "effect"))
    assert effects["iso-exit"] == effects["iso-hang"] == "unknown" and effects["iso-fail"] == "none"
    assert "hello from the child" in caplog.text
    assert "abcdefghijklmnop123" not in caplog.text and "BEGIN PRIVATE" not in caplog.text


def test_ending_the_process_costs_one_attempt_which_the_default_policy_tries_again(work):
    lost = work("iso-exit", retry_policy=RetryPolicy(max_attempts=2, initial_delay_ms=0))
    assert Worker(options(lease_ms=30_000)).run_once() == 2
    row = Workload.objects.get(pk=lost.pk)
    assert (row.state, row.attempt_count, row.budget_used) == ("DEAD_LETTER", 2, 2)


def test_an_input_and_an_answer_larger_than_a_sockets_buffer_arrive_however_late_they_are_read(work):
    ensure_namespace(NAMESPACE)
    puts = [Mutation(kind="put", collection="large", id=str(n), value={"text": "x" * 500_000}) for n in range(4)]
    stores.store(NAMESPACE).commit(puts)
    measured, read = work("iso-measure", {"text": "x" * 1_000_000}), work("iso-read-much")
    Worker(options(lease_ms=30_000)).run_once()
    assert Result.objects.get(workload=measured).output == 1_000_000
    assert Result.objects.get(workload=read).output == 4
    stores.close_all()


def test_a_program_that_leaves_another_process_behind_has_ended_when_its_own_process_has(work, tmp_path):
    began = tmp_path / "left"
    left = work("iso-leave", {"began": str(began)})
    try:
        Worker(options(lease_ms=30_000)).run_once()
        row = Workload.objects.get(pk=left.pk)
        assert row.last_failure == "worker_failure: the program ended its process with code 3"
        eventually(lambda: not any(thread.name == "printed" for thread in threading.enumerate()))
    finally:
        os.kill(int(began.read_text()), signal.SIGKILL)


def test_a_signal_without_a_name_and_half_a_message_end_the_attempt_like_others(work):
    named, half = work("iso-real-time-signal"), work("iso-half-word")
    Worker(options(lease_ms=30_000)).run_once()
    failure = Workload.objects.get(pk=named.pk).last_failure
    assert failure == f"worker_failure: the program's process was ended by signal {signal.SIGRTMIN + 6}"
    assert Workload.objects.get(pk=half.pk).last_failure.startswith("timeout: ran longer than 2 s")


def test_a_program_asks_the_worker_for_all_it_reads_and_writes(work):
    ensure_namespace(NAMESPACE)
    rows = [("a", {"total": 3}), ("b", {"total": 9}), ("c", {"total": 5})]
    stores.store(NAMESPACE).commit(
        [Mutation(kind="put", collection="orders", id=key, value=value) for key, value in rows]
    )
    made = work("iso-good", {"pid": os.getpid()})
    Worker(options(lease_ms=30_000)).run_once()
    assert state_of(made) == "SUCCEEDED", Workload.objects.get(pk=made.pk).last_failure
    output = Result.objects.get(workload=made).output
    descriptors = output.pop("descriptors")
    assert output == {
        "pid_differs": True,
        "attempt": 1,
        "page": ["a", "b"],
        "query": ["b"],
        "kept": [{"half": True}],
        "duplicate": [False, True, True],
        "refusal": "collection_denied",
        "missing": None,
        "cancelled": False,
    }
    assert descriptors < 20, "it inherits nothing but its end of the socket"
    written = stores.store(NAMESPACE).get("parcels:7")
    assert written is not None and written.value == {"weight": 3}
    stores.close_all()


def test_a_cancellation_reaches_a_program_in_its_own_process(work, tmp_path):
    began = tmp_path / "began"
    made = work("iso-patient", {"began": str(began)})
    with working(Worker(options(lease_ms=3_000))):
        eventually(began.exists, 60)
        services.cancel(NAMESPACE, made.workload_id, actor="human:ada", now_ms=now_ms())
        eventually(lambda: state_of(made) == "CANCELLED", 60)
    assert Attempt.objects.get(workload=made).status == "CANCELLED"


def test_a_child_ends_with_its_worker(tmp_path):
    """A worker that is killed leaves nothing running that could go on with its work."""
    began = tmp_path / "began"
    script = (
        "import django; django.setup()\n"
        "from types import SimpleNamespace\n"
        "from apps.workloads import capabilities\n"
        "from apps.workloads.isolation import parent\n"
        "context = SimpleNamespace(workload_id='w', namespace='n', attempt=1, deadline_at_ms=None,\n"
        "                          traceparent=None, cancelled=lambda: False)\n"
        f"parent.run(capabilities.find('iso-patient'), {{'began': {str(began)!r}}}, context)\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).resolve().parents[2])
    try:
        eventually(lambda: began.exists() and began.read_text(), 60)
    finally:
        worker.kill()
        worker.wait(60)
    child = int(began.read_text())
    eventually(lambda: not alive(child), 20)


def test_a_time_limit_needs_a_process_that_can_be_ended():
    for members in ({"time_limit_s": 1}, {"isolated": True, "time_limit_s": 0}):
        with pytest.raises(ValueError, match="time limit"):
            capabilities.capability("limited", **members)


def test_what_a_program_prints_in_a_worker_is_masked_line_by_line():
    out = StringIO()
    stream = printed.MaskedStream(out)
    print("plain", file=stream)
    print("Bearer ", end="", file=stream)
    print("abcdefghijklmnop123", file=stream)
    print("password=hunter2hunter2", file=stream, end="")
    assert out.getvalue() == "plain\n(hidden: it holds a bearer credential)\n"
    stream.flush()
    assert "hunter2" not in out.getvalue() and "REDACTED" in out.getvalue()
    stream.write("x" * 10_000)
    assert out.getvalue().endswith("x" * 10_000 + "\n"), "a line without end is not kept for ever"


def test_a_child_whose_worker_is_gone_before_it_began_does_nothing():
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "apps.workloads.isolation.child", "iso-exit", "0", "1"],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 0 and time.monotonic() - began < 60
