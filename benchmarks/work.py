"""`python -m benchmarks.work`: durable work through the services, one by one and in batches, and as its table grows.

Everything in one run on one database (SQLite, forced at each commit), so that the ratios mean something whatever the
machine: create, claim, start, complete one by one against batches of 50; a claim at 1,000 ready rows against one at
100,000 (`--rows 1000000` for more). Rounds alternate; medians (for a claim the lower quartile) are printed, and the
query plan that explains the growth.
"""

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

_BATCH = 50


def main() -> None:
    """Read the options, measure in a temporary data directory, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.work", description=__doc__)
    parser.add_argument("--lives", type=int, default=200, help="workloads of one round (default 200)")
    parser.add_argument("--rounds", type=int, default=3, help="alternated rounds (default 3)")
    parser.add_argument(
        "--rows", type=int, default=100_000, help="ready rows that the table grows to (default 100,000)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="feltdb-bench-") as folder:
        os.environ["FELTDB_DATA_DIR"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        compare(options.lives, options.rounds)
        growth(options.rows)


def compare(lives: int, rounds: int) -> None:
    """Print lifecycles a second, one by one and in batches, and their ratio."""
    single, batched = [], []
    for number in range(rounds):
        single.append(lives / timed(lambda number=number: one_by_one(f"one-{number}", lives)))
        batched.append(lives / timed(lambda number=number: in_batches(f"many-{number}", lives)))
    one, many = statistics.median(single), statistics.median(batched)
    print(f"one by one: {one:,.0f} lifecycles/s; in batches of {_BATCH}: {many:,.0f}; ratio {many / one:.1f}")


def one_by_one(mark: str, lives: int) -> None:
    """Create, claim, start and complete, each alone."""
    from apps.workloads import services
    from apps.workloads.clock import now_ms

    for number in range(lives):
        services.admit(command(mark, f"{mark}-{number}"), now_ms=now_ms())
        (claim,) = services.claim_next(asking(mark, 1, start=False), now_ms=now_ms())
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


def growth(rows: int) -> None:
    """Print what a claim costs with few and with many ready rows, and by which plan its rows are found."""
    from django.db import connection

    from apps.workloads import services
    from apps.workloads.clock import now_ms

    costs = []
    made = 0
    for size in (1_000, rows):
        create("growth", made, size)
        made = size
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # what loading left to do is not the claim's cost
        spent = []
        for _ in range(100):
            begun = time.perf_counter()
            services.claim_next(asking("growth", 1, start=False), now_ms=now_ms())
            spent.append(1000 * (time.perf_counter() - begun))
        # The lower quartile: a busy disk's pauses would hide what the table's size costs.
        costs.append(statistics.quantiles(spent, n=4)[0])
        print(f"a claim at {size:,} rows: {costs[-1]:.2f} ms")
    print(f"ratio {costs[1] / costs[0]:.2f}")
    with connection.cursor() as cursor:
        cursor.execute(
            'EXPLAIN QUERY PLAN SELECT * FROM "workloads_workload" WHERE "lane_id" = 1 AND "state" = \'READY\' '
            'AND "waiting_on" = 0 AND "eligible_at_ms" <= 9 ORDER BY "eligible_at_ms", "id" LIMIT 1'
        )
        print("plan:", "; ".join(str(step[3]) for step in cursor.fetchall()))


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
        namespace="default", worker_id="w", principal="w", capabilities=frozenset({mark}), max=most, start=start
    )


def completion(claim: Any) -> Any:
    """Return a small success."""
    from apps.workloads.commands import Completion

    return Completion(result_id=f"result-{claim.workload_id}", output={"done": True})


def timed(work: Any) -> float:
    """Return the seconds that something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
