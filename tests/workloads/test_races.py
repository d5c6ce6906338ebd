"""Real processes racing for the same rows, on whichever database the tests run on. About 8 s."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.workloads.commands import ApprovalPolicy
from apps.workloads.models import Attempt, Event, Result, Workload
from tests.workloads.conftest import NAMESPACE, START_MS

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.acceptance]

RACERS = 8
ROOT = Path(__file__).resolve().parents[2]


def database_url() -> str:
    """Return the URL of the database this test uses."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    password = f":{settings['PASSWORD']}" if settings["PASSWORD"] else ""
    return f"postgres://{settings['USER']}{password}@{settings['HOST']}:{settings['PORT']}/{settings['NAME']}"


class Racers:
    """Processes that take orders."""

    def __init__(self, count: int, data_dir: Path) -> None:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "feltsite.settings",
            "DATABASE_URL": database_url(),
            "FELTDB_DATA_DIR": str(data_dir),
        }
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.workloads.racer"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(count)
        ]
        assert all(self._read(process) == {"ready": True} for process in self._processes)

    def race(self, orders: list[tuple[str, dict[str, Any]]], *, now_ms: int = START_MS) -> list[dict[str, Any]]:
        """Have each process carry out one order, all at the same moment; return the answers in order."""
        at = time.monotonic() + 0.05
        chosen = self._processes[: len(orders)]
        for process, (do, command) in zip(chosen, orders, strict=True):
            print(
                json.dumps({"do": do, "command": command, "at": at, "now_ms": now_ms}), file=process.stdin, flush=True
            )
        return [self._read(process) for process in chosen]

    @staticmethod
    def order(process: subprocess.Popen[str], do: str, command: dict[str, Any], *, at: float, now_ms: int) -> None:
        """Give one process one order."""
        print(json.dumps({"do": do, "command": command, "at": at, "now_ms": now_ms}), file=process.stdin, flush=True)

    @staticmethod
    def _read(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "a racer died"
        return json.loads(line)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.wait(60)
            process.stdout.close()


@pytest.fixture(scope="module")
def racers(django_db_setup, django_db_blocker, tmp_path_factory) -> Iterator[Racers]:
    """Eight processes for all races of this module."""
    with django_db_blocker.unblock():
        pool = Racers(RACERS, tmp_path_factory.mktemp("racers"))
    yield pool
    pool.close()


def request(key: str, **members: Any) -> dict[str, Any]:
    return {
        "namespace": NAMESPACE,
        "definition_id": "identity",
        "requested_by": {"kind": "service", "id": "tests"},
        "idempotency_key": key,
        "input": 1,
        **members,
    }


def claim_by_id(workload_id: str, worker: str, lease_ms: int = 1_000) -> dict[str, Any]:
    return {
        "namespace": NAMESPACE,
        "workload_id": workload_id,
        "worker_id": worker,
        "principal": f"worker:{worker}",
        "lease_ms": lease_ms,
    }


def events(workload_id: str) -> list[str]:
    rows = Event.objects.filter(workload__workload_id=workload_id).order_by("sequence")
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    return [row.to_state for row in rows]


def test_concurrent_admissions_by_competing_writers_converge_or_conflict(racers):
    """W4, W5: eight processes, one key: the same request makes one workload and one creator."""
    for turn in range(20):
        answers = racers.race([("admit", request(f"same-{turn}"))] * RACERS)
        assert sum(answer["ok"]["created"] for answer in answers) == 1
        assert len({answer["ok"]["workload_id"] for answer in answers}) == 1
    assert Workload.objects.count() == 20


def test_concurrent_conflicting_admissions_admit_one_and_refuse_the_others(racers):
    """W6."""
    for turn in range(10):
        answers = racers.race([("admit", request(f"k-{turn}", priority=each)) for each in range(RACERS)])
        assert sorted("ok" in answer for answer in answers) == [False] * (RACERS - 1) + [True]
        refused = [answer for answer in answers if "ok" not in answer]
        assert all(answer["code"] == "CONFLICT" and answer["details"]["fields"] == ["priority"] for answer in refused)


def test_multiple_workers_claim_work_once(racers, make_work):
    """W29, W18: one winner; whoever lost holds nothing and cannot complete."""
    for turn in range(10):
        work = make_work(f"k{turn}", not_before_at_ms=START_MS)
        answers = racers.race([("claim", claim_by_id(work.workload_id, f"w{each}")) for each in range(RACERS)])
        won = [answer["ok"] for answer in answers if "ok" in answer]
        codes = Counter(answer.get("code") for answer in answers if "ok" not in answer)
        assert len(won) == 1 and set(codes) <= {"WORKLOAD_NOT_READY"}, (won, codes)
        stolen = {**won[0], "worker_id": "thief", "result_id": f"r{turn}", "output": 1}
        assert racers.race([("complete", stolen)])[0]["code"] == "WORKLOAD_STALE_FENCE"
        assert Attempt.objects.filter(workload=work).count() == 1


def test_concurrent_approval_and_claim_never_claim_unapproved_work(racers, make_work):
    """W48: one approver and two claimers, twenty times: at most one attempt, and the approval before the claim."""
    claimed = 0
    for turn in range(20):
        work = make_work(f"k{turn}", approval=ApprovalPolicy())
        decision = {
            "namespace": NAMESPACE,
            "workload_id": work.workload_id,
            "input_hash": work.request.input_hash,
            "by": "ada",
        }
        orders = [("claim", claim_by_id(work.workload_id, f"w{each}")) for each in range(2)]
        answers = racers.race([orders[0], ("approve", decision), orders[1]])
        assert answers[1] == {"ok": "READY"}
        won = [answer for answer in (answers[0], answers[2]) if "ok" in answer]
        refused = {answer["code"] for answer in (answers[0], answers[2]) if "ok" not in answer}
        assert len(won) <= 1 and refused <= {"WORKLOAD_APPROVAL_PENDING", "WORKLOAD_NOT_READY", "WORKLOAD_CONFLICT"}
        assert Attempt.objects.filter(workload=work).count() == len(won)
        assert events(work.workload_id)[:2] == ["AWAITING_APPROVAL", "READY"]
        claimed += len(won)
    assert Workload.objects.filter(state="CLAIMED").count() == claimed


def test_eight_processes_taking_batches_get_every_workload_exactly_once(racers, make_work):
    made = {make_work(f"k{number}").workload_id for number in range(100)}
    taken: list[str] = []
    for _ in range(12):
        asks = [
            {
                "namespace": NAMESPACE,
                "worker_id": f"w{each}",
                "principal": f"worker:w{each}",
                "capabilities": ["identity"],
                "max": 3,
            }
            for each in range(RACERS)
        ]
        answers = racers.race([("claim_next", ask) for ask in asks])
        taken += [claim["workload_id"] for answer in answers for claim in answer["ok"]]
        if len(taken) >= len(made):
            break
    assert sorted(taken) == sorted(made)
    assert Attempt.objects.count() == 100


def test_concurrent_recovery_commits_one_transition_and_never_exceeds_the_budget(racers, make_work, clock):
    """W10, W11: eight sweeps at once recover each lost attempt once; after three losses the work is dead."""
    for turn in range(4):
        work = make_work(f"k{turn}")
        for number in (1, 2, 3):
            Workload.objects.filter(pk=work.pk).update(eligible_at_ms=START_MS)
            claim = racers.race([("claim", claim_by_id(work.workload_id, f"w{number}"))], now_ms=clock.ms)[0]["ok"]
            clock.pass_ms(1_000)
            answers = racers.race([("sweep", {})] * RACERS, now_ms=clock.ms)
            winners = [answer for answer in answers if work.workload_id in answer["ok"]]
            assert len(winners) == 1
            for late in ("start", "complete"):
                extra = {"result_id": f"late-{turn}-{number}", "output": 1} if late == "complete" else {}
                assert racers.race([(late, {**claim, **extra})], now_ms=clock.ms)[0]["code"] == "WORKLOAD_CLAIM_INVALID"
        assert events(work.workload_id).count("RECOVERING") == 3
        row = Workload.objects.get(pk=work.pk)
        assert (row.state, row.attempt_count) == ("DEAD_LETTER", 3)


def test_recovery_racing_completion_commits_exactly_one_of_them(racers, make_work, clock):
    """The completion carries the moment before the lease ends, the sweep the moment after: either may be first."""
    outcomes = Counter()
    for turn in range(20):
        work = make_work(f"k{turn}")
        claim = racers.race([("claim", claim_by_id(work.workload_id, "w"))], now_ms=clock.ms)[0]["ok"]
        racers.race([("start", claim)], now_ms=clock.ms)
        at = time.monotonic() + 0.03
        complete = {**claim, "result_id": f"r{turn}", "output": turn}
        for process, (do, command, now_ms) in zip(
            racers._processes, [("complete", complete, clock.ms + 999), ("sweep", {}, clock.ms + 1_000)], strict=False
        ):
            racers.order(process, do, command, at=at, now_ms=now_ms)
        completed, swept = (racers._read(process) for process in racers._processes[:2])
        clock.pass_ms(1_000)
        row = Workload.objects.get(pk=work.pk)
        assert ("ok" in completed) != (work.workload_id in swept["ok"]), (completed, swept)
        assert row.state == ("SUCCEEDED" if "ok" in completed else "READY")
        assert Result.objects.filter(workload=work).count() == ("ok" in completed)
        outcomes[row.state] += 1
    assert sum(outcomes.values()) == 20


def test_failure_racing_completion_commits_exactly_one_outcome(racers, make_work, clock):
    """W41."""
    for turn in range(10):
        work = make_work(f"k{turn}")
        claim = racers.race([("claim", claim_by_id(work.workload_id, "w", 30_000))], now_ms=clock.ms)[0]["ok"]
        racers.race([("start", claim)], now_ms=clock.ms)
        complete = ("complete", {**claim, "result_id": f"r{turn}", "output": 1})
        answers = racers.race([complete, ("fail", {**claim, "kind": "broken"})], now_ms=clock.ms)
        assert sorted("ok" in answer for answer in answers) == [False, True]
        loser = next(answer for answer in answers if "ok" not in answer)
        assert loser["code"] == "WORKLOAD_CLAIM_INVALID"
        assert events(work.workload_id)[3] == ("SUCCEEDED" if "ok" in answers[0] else "FAILED")


def test_two_workloads_racing_for_one_result_id_get_it_once(racers, make_work, clock):
    """Uniqueness across writers, which the reference keeps per process only."""
    for turn in range(10):
        claims = []
        for each in ("a", "b"):
            work = make_work(f"{each}{turn}")
            claims.append(racers.race([("claim", claim_by_id(work.workload_id, "w", 30_000))])[0]["ok"])
            racers.race([("start", claims[-1])])
        answers = racers.race([("complete", {**claim, "result_id": f"r{turn}", "output": 1}) for claim in claims])
        assert sorted(answer.get("code", "") for answer in answers) == ["", "WORKLOAD_RESULT_DUPLICATE"]


def test_another_writers_commits_are_visible_and_acted_on_without_restart(racers, make_work, clock):
    """W19, W26, W27: work admitted here is refused, claimed, run and completed by other processes, in turn."""
    work = make_work(not_before_at_ms=START_MS + 5)
    assert racers.race([("claim", claim_by_id(work.workload_id, "w"))])[0]["code"] == "WORKLOAD_NOT_YET_ELIGIBLE"
    claim = racers.race([("claim", claim_by_id(work.workload_id, "w"))], now_ms=START_MS + 5)[0]["ok"]
    others = [("start", claim), ("complete", {**claim, "result_id": "r", "output": 2})]
    for process, (do, command) in zip(racers._processes[3:5], others, strict=True):
        racers.order(process, do, command, at=0, now_ms=START_MS + 6)
        assert "ok" in racers._read(process)
    assert Result.objects.get(workload=work).output == 2
