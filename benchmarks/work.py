"""`python -m benchmarks.work`: durable work through the services, one by one, in batches, and as its table grows.

Everything in one run on one database that forces each commit (SQLite, or the PostgreSQL server of --postgres), so that
the ratios mean something whatever the machine. Slices take turns: create, claim, start, complete one by one, the same
with claim and start in one step as our own worker does, in batches of 50, and the Rust reference one by one if it is
built. Then what a worker does at every moment with 1,000 rows against --rows, and the plans that explain it
(`work_growth.py`). Medians are printed.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.database import Reference, instance
from benchmarks.work_growth import growth

_BATCH = 50


def main() -> None:
    """Read the options, measure over an instance that is thrown away, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.work", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lives", type=int, default=150, help="workloads of one slice (default 150)")
    parser.add_argument("--rounds", type=int, default=5, help="slices of each (default 5)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows that the table grows to (default 1,000,000)")
    parser.add_argument(
        "--postgres", default="", metavar="URL", help="measure on this server, in a database of its own"
    )
    parser.add_argument("--only", choices=["rates", "growth"], help="only this half")
    options = parser.parse_args()
    if options.only != "growth":
        with instance(options.postgres) as folder:
            rates(options.lives, options.rounds, folder)
    if options.only != "rates":
        growth(options.rows, options.postgres)


def rates(lives: int, rounds: int, folder: Path) -> None:
    """Print lifecycles a second of each way, and their ratios to the first."""
    reference = Reference(folder) if Reference.there() else None
    ways: dict[str, Callable[[int], float]] = {
        "one by one": lambda number: lives / timed(lambda: one_by_one(f"one-{number}", lives, start=False)),
        "one by one, claim and start in one": lambda number: (
            lives / timed(lambda: one_by_one(f"two-{number}", lives, start=True))
        ),
        f"in batches of {_BATCH}": lambda number: lives / timed(lambda: in_batches(f"many-{number}", lives)),
    }
    if reference is not None:
        ways["rust reference, one by one"] = lambda number: reference.rate(
            "lifecycles", first=number * lives, count=lives
        )
    one_by_one("warm", 20, start=False)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        names = list(ways)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(ways[name](number))
    for name, each in found.items():
        ratios = [mine / base for mine, base in zip(each, found["one by one"], strict=True)]
        print(f"{name}: {statistics.median(each):,.0f} lifecycles/s, {statistics.median(ratios):.2f} of one by one")
    if reference is not None:
        reference.end()


def one_by_one(mark: str, lives: int, *, start: bool) -> None:
    """Create, claim, start and complete, each alone; `start`: the claim starts."""
    from apps.workloads import services
    from apps.workloads.clock import now_ms

    for number in range(lives):
        services.admit(command(mark, f"{mark}-{number}"), now_ms=now_ms())
        (claim,) = services.claim_next(asking(mark, 1, start=start), now_ms=now_ms())
        if not start:
            services.start(claim.fence, now_ms=now_ms())
        services.complete(claim.fence, completion(claim), now_ms=now_ms())


def in_batches(mark: str, lives: int) -> None:
    """Create, claim (which starts) and complete, many at a time."""
    from apps.workloads import services
    from apps.workloads.clock import now_ms
    from apps.workloads.commands import Report

    create(mark, 0, lives)
    while claims := services.claim_next(asking(mark, _BATCH, start=True), now_ms=now_ms()):
        reports = [Report(fence=claim.fence, completion=completion(claim)) for claim in claims]
        services.complete_many(reports, now_ms=now_ms())


def create(mark: str, begin: int, end: int) -> None:
    """Admit work in batches."""
    from django.db import transaction

    from apps.workloads import services
    from apps.workloads.clock import now_ms

    for at in range(begin, end, _BATCH):
        batch = [services.prepare(command(mark, f"{mark}-{number}")) for number in range(at, min(at + _BATCH, end))]
        with transaction.atomic():
            services.admit_many(batch, now_ms=now_ms())


def command(mark: str, key: str) -> Any:
    """Return a request for work that only `asking(mark, ...)` finds."""
    from apps.workloads.commands import CreateWorkload, Subject

    requester = Subject(kind="service", id="bench")
    return CreateWorkload(
        namespace="default", definition_id=mark, requested_by=requester, idempotency_key=key, input={"key": key}
    )


def asking(mark: str, most: int, *, start: bool) -> Any:
    """Return a worker's request for the work of one mark."""
    from apps.workloads.commands import ClaimNext

    return ClaimNext(
        namespace="default",
        worker_id="w",
        principal="w",
        capabilities=frozenset({mark}),
        max=most,
        start=start,
        lease_ms=3_600_000,
    )


def completion(claim: Any) -> Any:
    """Return a small success."""
    from apps.workloads.commands import Completion

    return Completion(result_id=f"result-{claim.workload_id}", output={"done": True})


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds that something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
