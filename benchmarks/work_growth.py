"""What is done at every moment of a worker's life, with few and with many rows: the second half of `benchmarks.work`.

    python -m benchmarks.work_growth SIZE POSTGRES_URL      one side: an instance of its own with so many rows

Both sides are filled before either is measured, and then take turns, ten calls of a kind at a time: what the disk and
other processes do in the meantime happens to both. The child says a JSON line once it is filled, and one for each
name of a kind that comes in: the milliseconds of each call; for `plans`, how the database finds the rows.
"""

import contextlib
import io
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.database import instance, plans, settle

FEW = 1_000
ROUNDS = 15
CALLS = 10
KINDS = ("a claim", "an idle poll", "an idle look of a worker", "a heartbeat", "an idle sweep")


def growth(rows: int, postgres_url: str) -> None:
    """Print what each kind costs with few and with many rows, and by which plans."""
    sides = {size: _Side(size, postgres_url) for size in (FEW, rows)}
    try:
        for size, side in sides.items():
            print(f"{size:,} ready and as many finished rows, made in {side.receive():.0f} s")
        spent: dict[str, dict[int, list[float]]] = {kind: {FEW: [], rows: []} for kind in KINDS}
        for number in range(ROUNDS):
            for kind in KINDS:
                for size in (FEW, rows) if number % 2 else (rows, FEW):
                    spent[kind][size].append(statistics.median(sides[size].ask(kind)))
        for kind, each in spent.items():
            few, many = (statistics.median(each[size]) for size in (FEW, rows))
            ratio = statistics.median(most / least for least, most in zip(each[FEW], each[rows], strict=True))
            print(f"{kind}: {few:.2f} ms with {FEW:,}, {many:.2f} ms with {rows:,}; median of ratios {ratio:.2f}")
        print(sides[rows].ask("plans"), end="")
    finally:
        for side in sides.values():
            side.end()


class _Side:
    def __init__(self, size: int, postgres_url: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.work_growth", str(size), postgres_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def receive(self) -> Any:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            sys.exit(f"a side ended with {self._child.wait()}")
        return json.loads(line)

    def ask(self, what: str) -> Any:
        assert self._child.stdin is not None
        self._child.stdin.write(what + "\n")
        self._child.stdin.flush()
        return self.receive()

    def end(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()


def main() -> None:
    """Be one side, until the input ends."""
    size, postgres_url = sys.argv[1:]
    with contextlib.redirect_stdout(sys.stderr), instance(postgres_url):
        began = time.perf_counter()
        fill(int(size))
        settle()
        calls = _calls()
        _say(time.perf_counter() - began)
        for line in sys.stdin:
            asked = line.strip()
            _say(_plans(calls) if asked == "plans" else [1000 * _timed(calls[asked]) for _ in range(CALLS)])


def _say(answer: Any) -> None:
    assert sys.__stdout__ is not None
    print(json.dumps(answer), file=sys.__stdout__, flush=True)


def _timed(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _calls() -> dict[str, Callable[[], Any]]:
    from apps.workloads import services
    from apps.workloads.clock import now_ms
    from benchmarks.work import asking

    (held,) = services.claim_next(asking("growth", 1, start=True), now_ms=now_ms())
    calls: tuple[Callable[[], Any], ...] = (
        lambda: services.claim_next(asking("growth", 1, start=False), now_ms=now_ms()),
        lambda: services.claim_next(asking("over", 1, start=False), now_ms=now_ms()),
        lambda: services.ready_definitions(
            now_ms=now_ms(), capabilities=frozenset({"over"}), declared=lambda namespace, name: False
        ),
        lambda: services.heartbeat(held.fence, extend_ms=600_000, now_ms=now_ms()),
        lambda: services.sweep(now_ms=now_ms()),
    )
    return dict(zip(KINDS, calls, strict=True))


def _plans(calls: dict[str, Callable[[], Any]]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as told:
        for kind, call in calls.items():
            print(f"{kind}:")
            plans(call)
    return told.getvalue()


def fill(size: int) -> None:
    """Make one ready and one finished workload, and copies of each with all that belongs to it: the database does it.

    A finished one has its attempt, its result and the history of four transitions.
    """
    from apps.workloads.models import Attempt, Event, Request, Result, Workload
    from benchmarks.work import create, in_batches

    in_batches("over", 1)
    create("growth", 0, 1)
    attempt = f'(SELECT a.id FROM "{Attempt._meta.db_table}" a WHERE a.workload_id = w.id)'
    for mark in ("growth", "over"):
        row = Workload.objects.get(definition_id=mark)
        _copy(Workload, row.pk, _series(size), {"workload_id": f"'{mark}-' || n.n"}, key="id")
        copies = f"\"{Workload._meta.db_table}\" w WHERE w.workload_id LIKE '{mark}-%'"
        _copy(Request, row.pk, copies, {"workload_id": "w.id", "idempotency_key": "w.workload_id"})
        _copy(Event, row.pk, copies, {"workload_id": "w.id"})
        _copy(Attempt, row.pk, copies, {"workload_id": "w.id"})
        _copy(Result, row.pk, copies, {"workload_id": "w.id", "attempt_id": attempt, "result_id": "w.workload_id"})


def _series(size: int) -> str:
    counted = f"WITH RECURSIVE n(n) AS (VALUES(2) UNION ALL SELECT n + 1 FROM n WHERE n < {size})"
    return f"({counted} SELECT n FROM n) AS n WHERE TRUE"


def _copy(model: Any, pk: int, others: str, changed: dict[str, str], *, key: str = "workload_id") -> None:
    """Copy the rows of the model that belong to one workload once for each of the others."""
    from django.db import connection

    columns = [field.column for field in model._meta.concrete_fields if field is not model._meta.auto_field]
    picked = ", ".join(changed.get(column, f't."{column}"') for column in columns)
    named = ", ".join(f'"{column}"' for column in columns)
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f'INSERT INTO "{table}" ({named}) SELECT {picked} FROM "{table}" t, {others} AND t.{key} = {pk}')


if __name__ == "__main__":
    main()
