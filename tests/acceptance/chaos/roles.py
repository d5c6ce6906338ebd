"""The roles inside FeltDB: evaluators, workers, and one that speaks under tokens that are not the current ones."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apps.triggers.evaluator import Evaluator
from apps.workloads import capabilities, services
from apps.workloads.clock import now_ms
from apps.workloads.commands import Completion, Fence
from apps.workloads.worker import Worker, WorkerOptions, stop_on_signals
from tests.acceptance.chaos.journal import DIRECTORY_VARIABLE, Journal, entries

LEASE_MS = 2_000


def stopped() -> threading.Event:
    """Return an event that SIGTERM sets."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    return stop


def evaluator(number: int, seed: int) -> None:
    """Evaluate triggers."""
    Evaluator().run(stopped())


def worker(number: int, seed: int) -> None:
    """Run work."""
    capabilities.autodiscover()
    journal_reports()
    one = Worker(WorkerOptions(concurrency=2, lease_ms=LEASE_MS, poll_s=0.2, sweep_s=0.3, grace_s=5))
    stop_on_signals(one)
    one.run()


def journal_reports() -> None:
    """Have the worker's calls written down where it makes them: what it asked, and what it was answered."""
    journal = Journal("worker")
    claim_next, complete_many = services.claim_next, services.complete_many

    def claiming(*args: Any, **kwargs: Any) -> Any:
        claims = claim_next(*args, **kwargs)
        for claim in claims:
            fence = {name: getattr(claim.fence, name) for name in claim.fence.__slots__}
            journal.write("claimed", workload=claim.workload_id, token=claim.fencing_token, fence=fence)
        return claims

    def completing(reports: Any, **kwargs: Any) -> Any:
        asked_ns = time.monotonic_ns()
        answers = complete_many(reports, **kwargs)
        for report, answer in zip(reports, answers, strict=True):
            told = {"call": "complete", "workload": report.fence.workload_id, "token": report.fence.fencing_token}
            what = "refused" if isinstance(answer, Exception) else "accepted"
            journal.write(what, asked_ns=asked_ns, code=getattr(answer, "code", None), **told)
        return answers

    services.claim_next = claiming
    services.complete_many = completing
    services.heartbeat = _reporting("heartbeat", services.heartbeat, journal)


def _reporting(name: str, call: Callable[..., Any], journal: Journal) -> Callable[..., Any]:
    def report(fence: Any, *args: Any, **kwargs: Any) -> Any:
        members = {"call": name, "workload": fence.workload_id, "token": fence.fencing_token}
        asked_ns = time.monotonic_ns()
        try:
            answer = call(fence, *args, **kwargs)
        except Exception as error:
            code = getattr(error, "code", type(error).__name__)
            journal.write("refused", code=code, asked_ns=asked_ns, **members)
            raise
        journal.write("accepted", asked_ns=asked_ns, **members)
        return answer

    return report


def prober(number: int, seed: int) -> None:
    """Try to report for claims that are no longer the current ones."""
    journal, stop = Journal("prober"), stopped()
    probed: set[tuple[str, int]] = set()
    while not stop.wait(0.5):
        claims: dict[str, list[dict[str, Any]]] = {}
        for entry in entries(Path(os.environ[DIRECTORY_VARIABLE]), "worker"):
            if entry["what"] == "claimed":
                claims.setdefault(entry["workload"], []).append(entry)
        for workload, found in claims.items():
            newest = max(entry["token"] for entry in found)
            for entry in found:
                if entry["token"] < newest and (workload, entry["token"]) not in probed:
                    probed.add((workload, entry["token"]))
                    _probe(journal, Fence(**entry["fence"]))


def _probe(journal: Journal, fence: Fence) -> None:
    forged = Completion(result_id=f"stale_{fence.workload_id}_{fence.fencing_token}", output={"stale": True})
    calls: dict[str, Callable[[], Any]] = {
        "start": lambda: services.start(fence, now_ms=now_ms()),
        "heartbeat": lambda: services.heartbeat(fence, extend_ms=1_000, now_ms=now_ms()),
        "complete": lambda: services.complete(fence, forged, now_ms=now_ms()),
    }
    for call, ask in calls.items():
        told = {"call": call, "workload": fence.workload_id, "token": fence.fencing_token}
        try:
            ask()
        except Exception as error:
            journal.write("refused", code=getattr(error, "code", type(error).__name__), **told)
        else:
            journal.write("accepted", **told)


ROLES = {"evaluator": evaluator, "worker": worker, "prober": prober}
