"""Django's SQLite backend, where writers take turns instead of running into SQLite's lock.

SQLite has one writer. Whoever finds it busy sleeps, longer each time, up to a tenth of a second: threads and processes
that write side by side spend most of their time asleep, and one of them can starve. Here a write transaction takes a
turn first: a lock among the threads of the process, then a file lock among processes, tried in short pauses. SQLite's
own lock stays underneath and decides. Where a stopped process sits on the turn, the others are refused at their
time-out, as SQLite would refuse them; a killed one gives it back by dying.

Statements outside a transaction (Django's autocommit) go to SQLite's lock as ever.

And a statement's placeholders are put into SQLite's form once for each text, not each time that it runs.
"""

import fcntl
import functools
import os
import re
import threading
import time
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base

from apps.http import budget

_FORMAT = re.compile(r"(?<!%)%s")
_KEPT_CHARS = 8_192  # longer texts are lists of values as a rule, seldom asked for twice
_PAUSE_MIN_S = 0.0001
_PAUSE_MAX_S = 0.002


class Turn:
    """The turn of one database file in this process. A forked child makes its own (`turn_for`)."""

    def __init__(self, path: str) -> None:
        self._threads = threading.Lock()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, timeout_s: float) -> bool:
        """Wait for the turn; False when it did not come in time."""
        deadline = time.monotonic() + timeout_s
        if not self._threads.acquire(timeout=timeout_s):
            return False
        pause = _PAUSE_MIN_S
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self._threads.release()
                    return False
            except BaseException:
                self._threads.release()
                raise
            time.sleep(pause)
            pause = min(pause * 1.5, _PAUSE_MAX_S)

    def give_back(self) -> None:
        """The next may write."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._threads.release()


@functools.lru_cache(maxsize=512)
def _in_sqlites_form(query: str) -> str:
    return _FORMAT.sub("?", query).replace("%%", "%")


class Cursor(base.SQLiteCursorWrapper):
    """Django's cursor, which keeps the forms of the latest texts."""

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        """Put the placeholders into SQLite's form."""
        if param_names is None and len(query) <= _KEPT_CHARS:
            return _in_sqlites_form(query)
        return super().convert_query(query, param_names=param_names)


_turns: dict[str, Turn] = {}
_turns_lock = threading.Lock()


def _forget_turns() -> None:
    """In a forked child: the parent's turns are the parent's; closing the copies does not unlock them."""
    global _turns_lock
    for turn in _turns.values():
        os.close(turn._descriptor)
    _turns.clear()
    _turns_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_turns)


def turn_for(database: str) -> Turn:
    """Return this process's turn for the database file."""
    with _turns_lock:
        turn = _turns.get(database)
        if turn is None:
            turn = _turns[database] = Turn(f"{database}-turn")
        return turn


class DatabaseWrapper(base.DatabaseWrapper):
    """One connection. It holds the turn from BEGIN IMMEDIATE to COMMIT or ROLLBACK."""

    _turn: Turn | None = None

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor of ours."""
        return self.connection.cursor(factory=Cursor)

    def _start_transaction_under_autocommit(self) -> None:
        if self.transaction_mode == "IMMEDIATE" and not self.is_in_memory_db():
            turn = turn_for(str(self.settings_dict["NAME"]))
            timeout_s = float(self.settings_dict["OPTIONS"].get("timeout", 5.0))
            timeout_s = max(0.0, min(timeout_s, budget.left_s(timeout_s)))
            if not turn.take(timeout_s):
                raise OperationalError("database is locked: other writers had the turn for too long")
            self._turn = turn
        try:
            super()._start_transaction_under_autocommit()
        except BaseException:
            self._give_back()
            raise

    def _give_back(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.give_back()

    def _commit(self) -> Any:
        try:
            return super()._commit()
        finally:
            if self.connection is None or not self.connection.in_transaction:
                self._give_back()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()
        finally:
            self._give_back()

    def _close(self) -> Any:
        try:
            return super()._close()
        finally:
            self._give_back()
