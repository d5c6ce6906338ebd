"""SQL under a request's deadline: no statement, and no wait for SQLite's writer, outlives it.

PostgreSQL ends a statement by `statement_timeout`, which is sent only when what it stands at would be wrong by much.
SQLite waits for its one writer by `busy_timeout`, and a running statement is interrupted from its progress handler.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from psycopg import Error
from psycopg.errors import ConnectionTimeout
from psycopg.pq import TransactionStatus

from apps.http import budget
from apps.http.budget import Budget
from apps.http.errors import ApiError

PROGRESS_INSTRUCTIONS = 100_000
"""Of SQLite's virtual machine between two looks at the clock: about a millisecond."""

SLACK = 0.8
SLACK_MS = 100
"""A time-out is left as it is from this part of what is left up to so much beyond it: most requests set none."""

LEAST_MS = 1

SURPRISING_MS = 5_000
"""A time-out below this is taken back after the request: whoever uses the connection outside of one would stumble."""

_UNDOING = ("ROLLBACK", "RELEASE")
_UNKNOWN = 0


class bounded_statements:
    """Hold every statement of this thread's connection to the current budget, for a `with`."""

    __slots__ = ("_opened",)

    def __init__(self) -> None:
        self._opened: Any = connections[DEFAULT_DB_ALIAS]  # looked up once

    def __enter__(self) -> None:
        self._opened.execute_wrappers.append(_Bounded())

    def __exit__(self, *_: object) -> None:
        self._opened.execute_wrappers.pop()
        if self._opened.vendor == "postgresql" and _UNKNOWN < _stands_at(self._opened) < SURPRISING_MS:
            _unbind_postgres(self._opened)


@contextmanager
def at_most(seconds: float) -> Iterator[Budget]:
    """Hold every statement of this thread to so many seconds in all, and to the request's deadline where there is one.

    For a part of a request that must not use it up, and for what is asked outside of one.
    """
    with budget.spending(Budget(min(budget.deadline(seconds), time.monotonic() + seconds))) as spent:
        opened = connections[DEFAULT_DB_ALIAS]
        if any(isinstance(each, _Bounded) for each in opened.execute_wrappers):
            yield spent
            return
        try:
            with bounded_statements():
                yield spent
        finally:
            if opened.vendor == "sqlite":
                _unbind_sqlite(opened)


def is_late(error: Exception) -> bool:
    """Tell whether an error of a statement means that the database had no answer in time."""
    if isinstance(error, ApiError):
        return error.members.get("reason") == budget.DEADLINE
    return isinstance(error.__cause__, ConnectionTimeout) or "database is locked" in str(error)


class _Bounded:
    """Before each statement: refuse it where it is late, else leave it what time there is."""

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith(_UNDOING):
            return execute(sql, params, many, context)  # putting things back is never too late
        spent = budget.current()
        if spent is None:
            return execute(sql, params, many, context)
        budget.check()
        opened = context["connection"]
        left_ms = max(LEAST_MS, int(spent.left_s() * 1000))
        if not left_ms * SLACK <= _stands_at(opened) <= left_ms + SLACK_MS:
            _BOUNDS[opened.vendor](opened, left_ms)
        try:
            return execute(sql, params, many, context)
        except OperationalError as error:
            if spent.left_s() <= SLACK_MS / 1000:
                raise budget.late() from error
            raise


def _stands_at(opened: Any) -> int:
    """Return the time-out this very connection was last given, or _UNKNOWN."""
    given_to, left_ms, in_transaction = getattr(opened, "feltdb_timeout", (None, _UNKNOWN, False))
    if given_to is None or given_to is not opened.connection:
        return _UNKNOWN
    if in_transaction and given_to.info.transaction_status == TransactionStatus.IDLE:
        return _UNKNOWN  # PostgreSQL takes a setting back with the transaction that made it
    return int(left_ms)


def _bound_sqlite(opened: Any, left_ms: int) -> None:
    if _stands_at(opened) == _UNKNOWN:
        opened.ensure_connection()
        opened.connection.set_progress_handler(_late, PROGRESS_INSTRUCTIONS)
    opened.connection.execute(f"PRAGMA busy_timeout = {left_ms}")
    opened.feltdb_timeout = (opened.connection, left_ms, False)


def _late() -> int:
    """Return what SQLite asks: 1 to interrupt the statement."""
    spent = budget.current()
    return 1 if spent is not None and spent.left_s() <= 0 else 0


def _unbind_sqlite(opened: Any) -> None:
    if opened.connection is not None and _stands_at(opened) != _UNKNOWN:
        usual_ms = int(float(opened.settings_dict["OPTIONS"].get("timeout", 5.0)) * 1000)
        opened.connection.execute(f"PRAGMA busy_timeout = {usual_ms}")
        opened.feltdb_timeout = (opened.connection, usual_ms, False)


def _bound_postgres(opened: Any, left_ms: int) -> None:
    opened.ensure_connection()
    with opened.wrap_database_errors, opened.connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {left_ms}")
    opened.feltdb_timeout = (opened.connection, left_ms, opened.in_atomic_block)


def _unbind_postgres(opened: Any) -> None:
    if opened.in_atomic_block:
        return  # it ends with its transaction
    try:
        with opened.connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
        opened.feltdb_timeout = (None, _UNKNOWN, False)
    except Error:
        opened.close()


_BOUNDS = {"sqlite": _bound_sqlite, "postgresql": _bound_postgres}
