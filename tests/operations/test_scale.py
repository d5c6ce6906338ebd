"""Every page of the console with 1,000,000 workloads, 100,000 keys, 1,000 triggers and 1,000,000 records.

Cost: one to four minutes, most of it to fill; therefore by `make torture` only, and with the database of
DATABASE_URL. The times are printed and, because this machine may be busy, held to a bound only where
FELTDB_SCALE_BOUND_MS is set (300 on a quiet one).
"""

import os
import statistics
import time
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.keys.models import ApiKey
from apps.state import stores
from apps.triggers.models import Trigger
from apps.workloads.models import Request, Workload
from feltdb_engine.model import Mutation
from tests.operations.every_page import Samples
from tests.operations.test_every_page import MAX_QUERIES, samples, text_of

__all__ = ["samples"]

SHARE = float(os.environ.get("FELTDB_SCALE_SHARE", "1"))
"""Of the full sizes: a small part shows that the test itself works."""

WORK, KEYS, TRIGGERS, RECORDS = (int(size * SHARE) for size in (1_000_000, 100_000, 1_000, 1_000_000))
BOUND_MS = float(os.environ.get("FELTDB_SCALE_BOUND_MS", "inf"))
ROUNDS = 3
SERIES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"


def copy(model: Any, row: Any, count: int, **expressions: str) -> None:
    """Insert `count` rows like `row`; `expressions` are SQL over `n.i`, from 1 on, for the columns that differ."""
    columns = [field.column for field in model._meta.concrete_fields]
    table = f'"{model._meta.db_table}"'
    chosen = [f"({expressions[name]})" if name in expressions else f't."{name}"' for name in columns]
    names = ", ".join(f'"{name}"' for name in columns)
    sql = f"INSERT INTO {table} ({names}) {SERIES.format(count)} SELECT {', '.join(chosen)} FROM n, {table} t"  # noqa: S608
    if connection.vendor == "postgresql":
        series = f"generate_series(1, {count}) AS n(i)"
        sql = f"INSERT INTO {table} ({names}) SELECT {', '.join(chosen)} FROM {series}, {table} t"  # noqa: S608
    key = model._meta.pk.column
    with connection.cursor() as cursor:
        cursor.execute(f'{sql} WHERE t."{key}" = %s', [row.pk])


def padded(digits: int) -> str:
    """Return SQL that writes `n.i` with leading zeros."""
    if connection.vendor == "postgresql":
        return f"lpad(n.i::text, {digits}, '0')"
    return f"printf('%0{digits}d', n.i)"


def fill(found: Samples, namespace: str) -> None:
    """Fill every table that the pages read."""
    dead = found.rows[Workload]
    base = 1_000_000_000
    name = f"'workload_' || {padded(24)}"
    # 20,000 dead letters (their share), the rest waits, is done or was cancelled, by ten capabilities.
    state = "CASE WHEN n.i %% 50 = 0 THEN 'DEAD_LETTER' WHEN n.i %% 50 < 40 THEN 'SUCCEEDED' WHEN n.i %% 50 < 45 THEN 'READY' ELSE 'CANCELLED' END"  # noqa: E501
    copy(
        Workload,
        dead,
        WORK,
        id=f"{base} + n.i",
        workload_id=name,
        state=state,
        definition_id="'capability-' || (n.i %% 10)",
        trigger="'state_change:t' || (n.i %% 1000)",
        updated_at_ms="t.updated_at_ms + n.i",
        created_at_ms="t.created_at_ms + n.i",
    )
    copy(
        Request,
        Request.objects.get(pk=dead.pk),
        WORK,
        workload_id=f"{base} + n.i",
        idempotency_key=f"'key-' || {padded(9)}",
        input="'{}'",
    )
    key = found.rows[ApiKey]
    at = "(t.created_at - n.i * interval '1 second')"
    if connection.vendor == "sqlite":
        at = "datetime(t.created_at, '-' || n.i || ' seconds')"
    copy(ApiKey, key, KEYS, id=padded(12), name="'key ' || n.i", created_at=at)
    trigger = found.rows[Trigger]
    copy(Trigger, trigger, TRIGGERS, id=f"{base} + n.i", trigger_id="'t' || n.i")
    cursor = trigger.cursor
    copy(type(cursor), cursor, TRIGGERS, trigger_id=f"{base} + n.i")
    opened = stores.store(namespace)
    for start in range(0, RECORDS, 5_000):
        some = range(start, min(start + 5_000, RECORDS))
        opened.commit(
            [Mutation(kind="put", collection="c", id=f"{number:07d}", value={"n": number}) for number in some],
            transaction_id=f"fill {start}",
        )
    with connection.cursor() as sql:
        if connection.vendor == "postgresql":  # now, and not at the end under some request's time limit
            sql.execute("SET LOCAL statement_timeout = 0")
            sql.execute("SET CONSTRAINTS ALL IMMEDIATE")
        sql.execute("ANALYZE")


@pytest.mark.torture
@pytest.mark.timeout(1200)
def test_every_page_is_quick_and_asks_little_at_full_size(
    console: Client, samples: Samples, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    fill(samples, namespace)
    filled_s = time.monotonic() - began
    head = stores.store(namespace).head().sequence
    own = samples.own
    own["records"] = (
        [],
        [
            *own["records"][1][:1],
            {"collection": "c", "after": "0500000"},
            {"collection": "c", "as_of": head},
            {"collection": "c", "as_of": 1},
        ],
    )
    own["records"][1].append({"collection": "c", "where": '{"field": "n", "op": "eq", "value": 999999}'})
    own["records"][1].append({"collection": "c", "as_of": 1, "text": "x"})
    own["changes"] = ([], [{}, {"collection": "none"}, {"upto": max(2, head // 2)}])
    own["workloads_workload_changelist"] = (
        [],
        [{}, {"state": "DEAD_LETTER"}, {"q": "workload_0000"}, {"definition_id": "capability-3"}],
    )
    own["keys_apikey_changelist"] = ([], [{}, {"q": "key 77777"}, {"state": "expired"}, {"p": "5"}])
    told, slow, many = [], [], []
    for addresses in samples.addresses().values():
        for address in addresses:
            taken_ms = []
            for _ in range(ROUNDS):
                with CaptureQueriesContext(connection) as asked:
                    started = time.perf_counter()
                    text_of(console.get(address))
                    taken_ms.append((time.perf_counter() - started) * 1000)
            middle = statistics.median(taken_ms)
            told.append((middle, len(asked), address))
            if middle > BOUND_MS:
                slow.append((round(middle), address))
            if len(asked) > MAX_QUERIES:
                many.append((address, len(asked)))
    with capsys.disabled():
        print(f"\n{connection.vendor}: {WORK} workloads, {KEYS} keys, {TRIGGERS} triggers, {RECORDS} records")
        print(f"filled in {filled_s:.0f} s; the middle of {ROUNDS} rounds")
        for middle, queries, address in sorted(told, reverse=True):
            print(f"{middle:7.1f} ms {queries:3d} queries  {address[:110]}")
    assert not many and not slow, (many, slow)
