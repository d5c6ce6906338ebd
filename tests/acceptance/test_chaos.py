"""Forty kills within a minute: two evaluators and three workers, clients over HTTP, and an account from the journals.

Cost: about 80 seconds. What is proven is read from what the clients, the workers and the programs wrote down
themselves: each change that was acknowledged and matches has exactly one workload, each workload one success, and no
word of a worker that had lost its claim was accepted. The database is asked only whether it agrees.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.instance import free_port
from tests.acceptance.chaos.journal import DIRECTORY_VARIABLE, entries

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parent.parent.parent
EVALUATORS, WORKERS, WRITERS = 2, 3, 2
KILLS, SERVER_KILLS, STOPS = 40, 3, 3
FIRST_KILL_S, LAST_KILL_S = 2.0, 54.0
STOP_S = 3.0  # longer than a lease
DRAIN_S = 60.0
TRIGGERS = {
    "paid-new": {"change_kind": "insert", "predicate": {"field": "status", "equals": "paid"}},
    "paid-gone": {"change_kind": "delete", "predicate": {"field": "status", "equals": "paid"}},
}


@dataclass
class Processes:
    """Everything the proof has started, by role and number."""

    data_dir: Path
    seed: int
    port: int = field(default_factory=free_port)
    key: str = ""
    running: dict[tuple[str, int], "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def journals(self) -> Path:
        return self.data_dir / "journals"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "feltsite.settings",  # not the tests' own
            "FELTDB_DATA_DIR": str(self.data_dir),
            "FELTDB_APPS": "tests.acceptance.chaos",
            DIRECTORY_VARIABLE: str(self.journals),
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "CHAOS_URL": self.url,
            "CHAOS_KEY": self.key,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def manage(self, *arguments: str, stdin: str = "") -> str:
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, role: str, number: int) -> None:
        command = [sys.executable, "-m", "tests.acceptance.chaos.process", role, str(number), str(self.seed)]
        if role == "server":
            command = [sys.executable, "-m", "gunicorn", "--config", "feltsite/gunicorn.conf.py", "feltsite.wsgi"]
        with (self.data_dir / f"{role}.log").open("ab") as log:
            self.running[role, number] = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, role: str, number: int) -> None:
        """SIGKILL the process with everything it has started."""
        process = self.running[role, number]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def wait_for_server(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/health/ready", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(f"the server did not become ready\n{self.logs()}")

    def end_all(self, number: signal.Signals) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(number)
        for process in self.running.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.data_dir.glob("*.log"))
        )


@dataclass(frozen=True)
class Account:
    """What the journals say."""

    expected: set[tuple[str, str]]  # (trigger, change) that was acknowledged and matches
    runs: list[dict[str, Any]]  # of the program
    claims: list[dict[str, Any]]
    accepted: list[dict[str, Any]]  # reports of workers
    refused: list[dict[str, Any]]
    probes: list[dict[str, Any]]

    @classmethod
    def of(cls, journals: Path) -> "Account":
        reports = list(entries(journals, "worker"))
        return cls(
            expected={(e["trigger"], e["change"]) for e in entries(journals, "writer") if e["trigger"]},
            runs=list(entries(journals, "program")),
            claims=[e for e in reports if e["what"] == "claimed"],
            accepted=[e for e in reports if e["what"] == "accepted"],
            refused=[e for e in reports if e["what"] == "refused"],
            probes=list(entries(journals, "prober")),
        )

    @property
    def workloads(self) -> dict[tuple[str, str], set[str]]:
        """The workloads that ran for each (trigger, change)."""
        found = defaultdict(set)
        for run in self.runs:
            found[run["trigger"], run["change"]].add(run["workload"])
        return found

    @property
    def successes(self) -> dict[str, set[int]]:
        """The tokens whose completion was accepted, for each workload."""
        found = defaultdict(set)
        for report in self.accepted:
            if report["call"] == "complete":
                found[report["workload"]].add(report["token"])
        return found

    def stale_accepted(self) -> list[dict[str, Any]]:
        """Reports asked after a later claim of the same work had been given, and accepted all the same."""
        given = defaultdict(list)
        for claim in self.claims:
            given[claim["workload"]].append((claim["token"], claim["at_ns"]))
        return [
            report
            for report in self.accepted
            if any(token > report["token"] and at_ns < report["asked_ns"] for token, at_ns in given[report["workload"]])
        ]


def run_chaos(processes: Processes, rng: random.Random) -> None:
    """Start everything, then kill and stop evaluators, workers and the server at the moments the seed gives."""
    targets = [("evaluator", n) for n in range(EVALUATORS)] + [("worker", n) for n in range(WORKERS)]
    processes.start("server", 0)
    processes.wait_for_server()
    for role, number in [*targets, *[("writer", n) for n in range(WRITERS)], ("prober", 0)]:
        processes.start(role, number)
    begin = time.monotonic()
    plan = [(rng.uniform(FIRST_KILL_S, LAST_KILL_S), "kill", rng.choice(targets)) for _ in range(KILLS)]
    plan += [(rng.uniform(FIRST_KILL_S, LAST_KILL_S), "kill", ("server", 0)) for _ in range(SERVER_KILLS)]
    plan += [
        (rng.uniform(FIRST_KILL_S, LAST_KILL_S - STOP_S), "stop", ("worker", rng.randrange(WORKERS)))
        for _ in range(STOPS)
    ]
    pending = sorted(plan)
    while pending:
        moment, what, target = pending.pop(0)
        time.sleep(max(0.0, begin + moment - time.monotonic()))
        if what == "stop":
            processes.running[target].send_signal(signal.SIGSTOP)
            pending = sorted([*pending, (moment + STOP_S, "continue", target)])
        elif what == "continue":
            processes.running[target].send_signal(signal.SIGCONT)
        else:
            processes.kill(*target)
            processes.start(*target)
    assert time.monotonic() - begin < 60, "forty kills took longer than a minute"


def wait_until_done(processes: Processes) -> None:
    """Wait for the writers to end and for everything they caused to have succeeded."""
    for number in range(WRITERS):
        assert processes.running["writer", number].wait(60) == 0, processes.logs()
    expected = len(Account.of(processes.journals).expected)
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline:
        if set(states_of(processes).values()) == {"SUCCEEDED"} and len(states_of(processes)) >= expected:
            return
        time.sleep(0.5)


@pytest.mark.timeout(240)
def test_forty_kills_leave_one_workload_per_change_and_one_success_per_workload(tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED", 0)) or random.SystemRandom().randrange(1, 2**32)
    print(f"CHAOS_SEED={seed}")
    processes = Processes(data_dir=tmp_path / "data", seed=seed)
    processes.journals.mkdir(parents=True)
    try:
        processes.manage("setup")
        arguments = ("--name", "chaos", "--scope", "state:read,state:write", "--json")
        processes.key = json.loads(processes.manage("keys", "create", *arguments))["secret"]
        for trigger_id, members in TRIGGERS.items():
            define(processes, trigger_id, members)
        run_chaos(processes, random.Random(seed))
        wait_until_done(processes)
    finally:
        processes.end_all(signal.SIGTERM)
    account = Account.of(processes.journals)
    hint = f"CHAOS_SEED={seed}\n{processes.logs()}"
    print(
        f"{len(account.expected)} matching changes, {len(account.runs)} runs, {len(account.claims)} claims, "
        f"{len(account.refused)} reports refused, {len(account.probes)} stale words tried"
    )

    assert len(account.expected) > 200, hint
    assert set(account.workloads) == account.expected, hint
    assert [change for change, workloads in account.workloads.items() if len(workloads) != 1] == [], hint
    made = {next(iter(workloads)) for workloads in account.workloads.values()}
    assert len(made) == len(account.expected), hint

    assert set(account.successes) <= made, hint
    assert [tokens for tokens in account.successes.values() if len(tokens) != 1] == [], hint

    assert account.stale_accepted() == [], hint
    assert [probe for probe in account.probes if probe["what"] == "accepted"] == [], hint
    assert len(account.runs) > len(made), "no run was ever cut short: the kills proved nothing"
    assert any(probe["code"] == "WORKLOAD_STALE_FENCE" for probe in account.probes), "no stale word was ever tried"

    agree_with_database(processes, account, made, hint)


def states_of(processes: Processes) -> dict[str, str]:
    return ask_database(processes, "SELECT workload_id, state FROM workloads_workload")


def ask_database(processes: Processes, statement: str) -> dict[str, Any]:
    path = processes.data_dir / "control.sqlite3"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return dict(database.execute(statement))


def define(processes: Processes, trigger_id: str, members: dict[str, Any]) -> None:
    document = {
        "trigger_id": trigger_id,
        "source_collection": "orders",
        "target_capability": "chaos.record",
        "retry_policy": {"max_attempts": 50, "initial_delay_ms": 50, "max_delay_ms": 200},
        **members,
    }
    processes.manage("trigger", "define", "--input", "-", "--json", stdin=json.dumps(document))


def agree_with_database(processes: Processes, account: Account, made: set[str], hint: str) -> None:
    """A completion killed between its commit and its journal line is known to the database alone."""
    states = states_of(processes)
    results = ask_database(
        processes,
        "SELECT workload.workload_id, attempt.number FROM workloads_result AS result"
        " JOIN workloads_workload AS workload ON workload.id = result.workload_id"
        " JOIN workloads_attempt AS attempt ON attempt.id = result.attempt_id",
    )
    assert set(states) == made, hint
    assert set(states.values()) == {"SUCCEEDED"}, hint
    assert set(results) == made, hint
    for workload, tokens in account.successes.items():
        assert tokens == {results[workload]}, hint
