"""One process of the chaos proof: `python -m tests.acceptance.chaos.process <role> <number> <seed>`.

evaluator   evaluates triggers until SIGTERM
worker      runs work until SIGTERM; its journal has every claim it was given and every report with its answer
writer      a client: writes for a while, its journal has every change that was acknowledged and should make work
prober      a client: speaks for claims that others have superseded since; its journal has what it was answered
"""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

LEASE_MS = 2_000
WRITE_SECONDS = 48.0
WRITES_PER_SECOND = 16.0


def stopped() -> threading.Event:
    """Return an event that SIGTERM sets."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    return stop


def evaluator(number: int, seed: int) -> None:
    """Evaluate triggers."""
    from apps.triggers.evaluator import Evaluator

    Evaluator().run(stopped())


def worker(number: int, seed: int) -> None:
    """Run work."""
    from apps.workloads import capabilities
    from apps.workloads.worker import Worker, WorkerOptions, stop_on_signals

    capabilities.autodiscover()
    journal_reports()
    one = Worker(WorkerOptions(concurrency=2, lease_ms=LEASE_MS, poll_s=0.2, sweep_s=0.3, grace_s=5))
    stop_on_signals(one)
    one.run()


def journal_reports() -> None:
    """Have the worker's calls written down where it makes them: what it asked, and what it was answered."""
    from apps.workloads import services
    from tests.acceptance.chaos.journal import Journal

    journal = Journal("worker")
    claim_next = services.claim_next

    def claiming(*args: Any, **kwargs: Any) -> Any:
        claims = claim_next(*args, **kwargs)
        for claim in claims:
            fence = {name: getattr(claim.fence, name) for name in claim.fence.__slots__}
            journal.write("claimed", workload=claim.workload_id, token=claim.fencing_token, fence=fence)
        return claims

    services.claim_next = claiming
    for name in ("start", "heartbeat", "complete"):
        setattr(services, name, _reporting(name, getattr(services, name), journal))


def _reporting(name: str, call: Callable[..., Any], journal: Any) -> Callable[..., Any]:
    def report(fence: Any, *args: Any, **kwargs: Any) -> Any:
        members = {"call": name, "workload": fence.workload_id, "token": fence.fencing_token}
        asked_ns = time.monotonic_ns()
        journal.write("asked", **members)
        try:
            answer = call(fence, *args, **kwargs)
        except Exception as error:
            code = getattr(error, "code", type(error).__name__)
            journal.write("refused", code=code, asked_ns=asked_ns, **members)
            raise
        journal.write("accepted", asked_ns=asked_ns, **members)
        return answer

    return report


def writer(number: int, seed: int) -> None:
    """Insert, update and delete orders over HTTP; half of them are paid."""
    from tests.acceptance.chaos.journal import Journal

    journal, rng = Journal("writer"), random.Random(f"{seed}-writer-{number}")
    alive: dict[str, dict[str, Any]] = {}
    until, count = time.monotonic() + WRITE_SECONDS, 0
    with httpx.Client(base_url=os.environ["CHAOS_URL"], headers=authorization(), timeout=30) as client:
        while time.monotonic() < until:
            count += 1
            roll, trigger = rng.random(), None
            key = rng.choice(sorted(alive)) if alive and roll < 0.25 else f"w{number}-{count}"
            operation: dict[str, Any] = {"collection": "orders", "id": key}
            if key not in alive:
                alive[key] = {"status": rng.choice(["paid", "draft"]), "n": count}
                operation |= {"value": alive[key], "requireAbsent": True}
                trigger = "paid-new" if alive[key]["status"] == "paid" else None
            elif roll < 0.1:
                trigger = "paid-gone" if alive.pop(key)["status"] == "paid" else None
                operation["delete"] = True
            else:
                alive[key] = {**alive[key], "touched": count}
                operation["value"] = alive[key]
            change = committed(client, f"chaos-{number}-{count}", operation).removeprefix("operation:")
            journal.write("acknowledged", force=True, trigger=trigger, change=change, key=f"orders:{key}")
            time.sleep(rng.uniform(0, 2 / WRITES_PER_SECOND))


def authorization() -> dict[str, str]:
    """Return the header that carries the clients' key."""
    return {"Authorization": f"Bearer {os.environ['CHAOS_KEY']}"}


def committed(client: httpx.Client, transaction_id: str, operation: dict[str, Any]) -> str:
    """Ask until it is answered, always under the same id, as a client does that lost an answer; return the change."""
    while True:
        try:
            answer = client.post("/v1/transactions", json={"transactionId": transaction_id, "operations": [operation]})
        except httpx.TransportError:
            time.sleep(0.2)
            continue
        if answer.status_code in (200, 201):
            return str(answer.json()["operationIds"][0])
        if answer.status_code != 503:
            raise AssertionError(f"{answer.status_code}: {answer.text}")
        time.sleep(0.2)


def prober(number: int, seed: int) -> None:
    """Try to report for claims that are no longer the current ones."""
    from apps.workloads import services
    from apps.workloads.clock import now_ms
    from apps.workloads.commands import Completion, Fence
    from tests.acceptance.chaos.journal import DIRECTORY_VARIABLE, Journal, entries

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
                if entry["token"] == newest or (workload, entry["token"]) in probed:
                    continue
                probed.add((workload, entry["token"]))
                fence = Fence(**entry["fence"])
                forged = Completion(result_id=f"stale_{workload}_{entry['token']}", output={"stale": True})
                calls: dict[str, Callable[[], Any]] = {
                    "start": lambda fence=fence: services.start(fence, now_ms=now_ms()),
                    "heartbeat": lambda fence=fence: services.heartbeat(fence, extend_ms=1_000, now_ms=now_ms()),
                    "complete": lambda fence=fence, forged=forged: services.complete(fence, forged, now_ms=now_ms()),
                }
                for call, ask in calls.items():
                    try:
                        ask()
                    except Exception as error:
                        code = getattr(error, "code", type(error).__name__)
                        journal.write("refused", call=call, workload=workload, token=entry["token"], code=code)
                    else:
                        journal.write("accepted", call=call, workload=workload, token=entry["token"])


ROLES = {"evaluator": evaluator, "worker": worker, "writer": writer, "prober": prober}


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "feltsite.settings")
    django.setup()
    ROLES[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
