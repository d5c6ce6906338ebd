"""`manage.py worker` as a real process: told to stop while programs run, and killed. About 12 s."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.keys.services import ensure_namespace
from apps.workloads import services
from apps.workloads.clock import now_ms
from apps.workloads.commands import RetryPolicy
from apps.workloads.models import Attempt, Result, Workload
from tests.workloads.conftest import NAMESPACE
from tests.workloads.test_races import ROOT, database_url

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.acceptance]

PROGRAMS = """
import os, time
from apps.workloads.capabilities import capability

@capability("nap")
def nap(input, context):
    open(input["began"], "w").close()
    until = time.monotonic() + input["seconds"]
    while time.monotonic() < until:
        time.sleep(0.02)
    return "rested"
"""


@pytest.fixture
def worker(tmp_path: Path, settings: Any) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A function that starts a worker process with the program `nap`."""
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    app = tmp_path / "apps_of_mine" / "napping"
    app.mkdir(parents=True)
    (app / "__init__.py").write_text("")
    (app / "capabilities.py").write_text(PROGRAMS)
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "feltsite.settings",
            "DATABASE_URL": database_url(),
            "FELTDB_DATA_DIR": str(settings.DATA_DIR),
            "FELTDB_APPS": "napping",
            "PYTHONPATH": str(app.parent),
        }
        process = subprocess.Popen(
            [sys.executable, "manage.py", "worker", *arguments], cwd=ROOT, env=environment, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(60)


@pytest.fixture
def naps(tmp_path: Path, command: Callable[..., Any]) -> Callable[..., list[Path]]:
    """A function that admits naps and returns the files that say that each began."""

    def make(count: int, seconds: float) -> list[Path]:
        files = [tmp_path / f"began-{number}" for number in range(count)]
        for number, began in enumerate(files):
            request = command(
                f"nap-{number}",
                definition_id="nap",
                input={"began": str(began), "seconds": seconds},
                retry_policy=RetryPolicy(max_attempts=1),
            )
            services.admit(request, now_ms=now_ms())
        return files

    return make


def eventually(check: Callable[[], Any], timeout_s: float = 60.0) -> None:
    until = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)


def test_sigterm_lets_eight_running_programs_finish_and_loses_nothing(worker, naps):
    files = naps(10, 5.0)
    process = worker("--concurrency", "8")
    eventually(lambda: sum(began.exists() for began in files) == 8)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    states = list(Workload.objects.values_list("state", flat=True))
    assert sorted(states) == ["READY"] * 2 + ["SUCCEEDED"] * 8
    assert Workload.objects.filter(state="READY", budget_used=0).count() == 2


def test_programs_that_outlast_the_grace_are_handed_back_and_use_no_attempt(worker, naps):
    files = naps(8, 60.0)
    process = worker("--concurrency", "8", "--grace", "1")
    eventually(lambda: all(began.exists() for began in files))
    told = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0 and time.monotonic() - told < 25
    rows = list(Workload.objects.all())
    assert {(row.state, row.budget_used, row.handback_count) for row in rows} == {("READY", 0, 1)}


def test_a_killed_worker_costs_an_attempt_and_any_other_takes_over(worker, command, tmp_path):
    began = tmp_path / "began"
    policy = RetryPolicy(max_attempts=2, initial_delay_ms=1)
    nap = {"began": str(began), "seconds": 0.5}
    request = command("nap", definition_id="nap", input=nap, retry_policy=policy)
    services.admit(request, now_ms=now_ms())
    victim = worker()
    eventually(began.exists)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait(60)
    # The lease of half a minute is not waited for: it is moved to its end, as time would.
    Workload.objects.update(heartbeat_at_ms=now_ms() - 2_000, lease_expires_at_ms=now_ms() - 1, due_at_ms=now_ms() - 1)
    connection.close()
    successor = worker("--concurrency", "1")
    eventually(lambda: Result.objects.exists())
    successor.send_signal(signal.SIGTERM)
    assert successor.wait(30) == 0
    statuses = Attempt.objects.order_by("number").values_list("status", flat=True)
    assert list(statuses) == ["WORKER_LOST", "SUCCEEDED"]


def test_once_drains_and_says_how_much(worker, naps, capfd):
    naps(3, 0.05)
    assert worker("--once").wait(60) == 0
    assert set(Workload.objects.values_list("state", flat=True)) == {"SUCCEEDED"}
    assert "3 attempts" in capfd.readouterr().out


def test_a_worker_says_which_of_its_namespaces_are_not_there_and_runs_the_others(worker, naps, capfd):
    ensure_namespace(NAMESPACE)
    naps(1, 0.05)
    assert worker("--once", "--namespaces", f"{NAMESPACE},mistyped").wait(60) == 0
    told = capfd.readouterr()
    assert "1 attempt made" in told.out
    said = told.out + told.err
    assert "there is no namespace mistyped" in said and f"there is no namespace {NAMESPACE}" not in said
