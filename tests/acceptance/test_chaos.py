"""Processes killed, stopped and continued, clocks set: an account from the journals, on SQLite and on PostgreSQL.

Cost: about 80 seconds each. What is proven is read from what the clients, the workers and the programs wrote down
themselves: each change that was acknowledged and matches has exactly one workload, each workload one success, and no
word of a worker that had lost its claim was accepted. The database is asked only whether it agrees.

On SQLite the clock that all processes share is set an hour on and back. On PostgreSQL each process is on a host of its
own whose clock is up to an hour off, and these are set as well. CHAOS_SEED repeats a plan (not the scheduling).
"""

import os
import random
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.acceptance.chaos.account import Account
from tests.acceptance.chaos.crew import Crew
from tests.postgres import database
from tests.torture import seconds, timeout

pytestmark = pytest.mark.acceptance

SECONDS = 60.0
SHARE = 1 / 3
DRAIN_S = 90.0
TRIES = 3


def wait_until_done(crew: Crew) -> None:
    """Wait for the writers to end and for everything they caused to have succeeded."""
    for role, number in list(crew.running):
        if role == "writer":
            assert crew.running[role, number].wait(60) == 0, crew.logs()
    expected = len(Account.of(crew.journals).expected)
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline:
        states = crew.states()
        if set(states.values()) == {"SUCCEEDED"} and len(states) >= expected:
            return
        time.sleep(0.5)
    counts = Counter(crew.states().values())
    raise AssertionError(f"not done: {expected} expected, {counts}\nCHAOS_SEED={crew.seed}\n{crew.logs()}")


def judge(crew: Crew, done: dict[str, int]) -> bool:
    """Compare what was promised with what the journals say. True where the harm proved something.

    It did where there was much to lose, a run was cut short, and stale words were tried, also after a success.
    """
    account = Account.of(crew.journals)
    hint = f"CHAOS_SEED={crew.seed}\n{done}\n{crew.logs()}"
    print(f"{account}\n{done}")

    assert account.failures == [] and account.unanswered == 0, hint
    assert set(account.workloads) == account.expected, hint
    assert [change for change, workloads in account.workloads.items() if len(workloads) != 1] == [], hint
    made = {next(iter(workloads)) for workloads in account.workloads.values()}
    assert len(made) == len(account.expected), hint

    assert set(account.successes) <= made, hint
    assert [tokens for tokens in account.successes.values() if len(tokens) != 1] == [], hint

    assert account.stale_accepted() == [], hint
    assert [probe for probe in account.probes if probe["what"] == "accepted"] == [], hint
    agree_with_database(crew, account, made, hint)
    calls = {probe["call"] for probe in account.probes}
    much = len(account.expected) > 20
    return much and len(account.runs) > len(made) and {"complete", "complete after success"} <= calls


def agree_with_database(crew: Crew, account: Account, made: set[str], hint: str) -> None:
    """A completion killed between its commit and its journal line is known to the database alone."""
    states = crew.states()
    results = crew.ask_database(
        "SELECT workload.workload_id, attempt.number FROM workloads_result AS result"
        " JOIN workloads_workload AS workload ON workload.id = result.workload_id"
        " JOIN workloads_attempt AS attempt ON attempt.id = result.attempt_id"
    )
    assert set(states) == made, hint
    assert set(states.values()) == {"SUCCEEDED"}, hint
    assert set(results) == made, hint
    for workload, tokens in account.successes.items():
        assert tokens == {results[workload]}, hint


def chaos(tmp_path: Path, kind: str, length_s: float) -> None:
    """Run, harm, drain, judge; again, with another plan, where chance kept the harm from proving anything."""
    for number in range(TRIES):
        if attempt(tmp_path / f"{number}", kind, length_s):
            return
    raise AssertionError(
        "too little was written, no run was cut short, or no stale word was tried: the harm proved nothing"
    )


def attempt(directory: Path, kind: str, length_s: float) -> bool:
    """One instance from its first start to its account. Every account must be exact."""
    seed = int(os.environ.get("CHAOS_SEED", 0)) or random.SystemRandom().randrange(1, 2**32)
    print(f"CHAOS_SEED={seed}")
    with nullcontext("") if kind == "sqlite" else database("chaos") as url:
        crew = Crew(data_dir=directory / "data", seed=seed, database_url=url)
        try:
            crew.set_up()
            done = crew.run(length_s)
            wait_until_done(crew)
        finally:
            crew.end_all()
        return judge(crew, done)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_harm_leaves_one_workload_per_change_and_one_success_per_workload(tmp_path: Path, kind: str) -> None:
    chaos(tmp_path, kind, SECONDS)


@pytest.mark.torture
@timeout(SHARE)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_long_harm_leaves_one_workload_per_change_and_one_success_per_workload(tmp_path: Path, kind: str) -> None:
    chaos(tmp_path, kind, seconds(SHARE))
