"""The turn of SQLite's writers: nobody starves, no update is lost, a stopped holder costs others their time-out.

Cost: about 6 seconds.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from django.db import OperationalError, connection, connections
from django.db.utils import ConnectionHandler

from feltsite.sqlite import base
from feltsite.sqlite.base import DatabaseWrapper

pytestmark = pytest.mark.django_db(transaction=True)
THREADS = 8
WRITES = 25

HOLDER = """
import sys, time
from pathlib import Path
from feltsite.sqlite.base import turn_for
assert turn_for(sys.argv[1]).take(5)
print("held", flush=True)
time.sleep(60)
"""


def connect(path: Path, timeout_s: float = 10.0) -> DatabaseWrapper:
    """Return a connection of its own to the file."""
    settings = {
        "ENGINE": "feltsite.sqlite",
        "NAME": str(path),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": timeout_s,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
    }
    made = ConnectionHandler({"default": settings})["default"]
    assert isinstance(made, DatabaseWrapper)
    return made


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "turn.sqlite3"
    first = connect(path)
    with first.cursor() as cursor:
        cursor.execute("CREATE TABLE counted (number INTEGER)")
        cursor.execute("INSERT INTO counted VALUES (0)")
    first.close()
    return path


def add_one(to: DatabaseWrapper) -> None:
    """Read, then write, in one transaction."""
    to.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    try:
        with to.cursor() as cursor:
            cursor.execute("SELECT number FROM counted")
            cursor.execute("UPDATE counted SET number = %s", [cursor.fetchone()[0] + 1])
        to.commit()
    except BaseException:
        to.rollback()
        raise
    finally:
        to.set_autocommit(True)


def number_in(path: Path) -> int:
    """Return the count."""
    reader = connect(path)
    with reader.cursor() as cursor:
        cursor.execute("SELECT number FROM counted")
        number: int = cursor.fetchone()[0]
    reader.close()
    return number


def test_threads_that_write_side_by_side_lose_no_update_and_all_come_to_their_turn(database: Path) -> None:
    slowest: list[float] = []

    def write() -> None:
        own = connect(database)
        for _ in range(WRITES):
            began = time.monotonic()
            add_one(own)
            slowest.append(time.monotonic() - began)
        own.close()

    threads = [threading.Thread(target=write) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert number_in(database) == THREADS * WRITES
    assert max(slowest) < 10, "a writer starved until its time-out"


def test_a_failed_transaction_gives_the_turn_back(database: Path) -> None:
    own = connect(database)
    own.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    with pytest.raises(OperationalError), own.cursor() as cursor:
        cursor.execute("UPDATE nothing_of_that_name SET number = 1")
    own.rollback()
    own.set_autocommit(True)
    add_one(connect(database, timeout_s=0.5))
    assert number_in(database) == 1


def test_a_closed_connection_gives_the_turn_back(database: Path) -> None:
    own = connect(database)
    own.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    own.close()
    add_one(connect(database, timeout_s=0.5))
    assert number_in(database) == 1


def test_a_stopped_holder_refuses_others_in_time_and_a_killed_one_frees_them(database: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(database)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGSTOP)
        own = connect(database, timeout_s=0.3)
        began = time.monotonic()
        with pytest.raises(OperationalError, match="locked"):
            add_one(own)
        assert time.monotonic() - began < 5
        assert number_in(database) == 0, "readers never wait"
    finally:
        holder.kill()
        holder.wait(60)
        assert holder.stdout is not None
        holder.stdout.close()
    add_one(connect(database, timeout_s=5))
    assert number_in(database) == 1


def test_the_default_database_takes_turns() -> None:
    if connection.vendor == "sqlite":
        assert isinstance(connections["default"], DatabaseWrapper)
    else:
        assert connection.vendor == "postgresql"


def test_a_statement_that_runs_again_means_the_same_with_its_placeholders_and_its_literal_per_cents(
    database: Path,
) -> None:
    mine = connect(database)
    with mine.cursor() as cursor:
        for value in ("a%sb", 7, None):
            cursor.execute("SELECT %s, 'x%%sy', '%%', 5 %% 3", [value])
            assert cursor.fetchone() == (value, "x%sy", "%", 2)
        cursor.execute("SELECT %(one)s, %(two)s", {"one": 1, "two": 2})
        assert cursor.fetchone() == (1, 2)
        long = f"SELECT %s, '{'z' * 9_000}%%'"
        cursor.execute(long, [1])
        assert cursor.fetchone() == (1, "z" * 9_000 + "%")
        cursor.execute("SELECT '%s'")  # without parameters a text is sent as it is
        assert cursor.fetchone() == ("%s",)
    mine.close()


def test_the_forms_of_statements_are_kept_in_a_bounded_number(database: Path) -> None:
    mine = connect(database)
    before = base._in_sqlites_form.cache_info()
    with mine.cursor() as cursor:
        for _ in range(3):
            cursor.execute("SELECT %s AS said_three_times", [1])
        cursor.execute(f"SELECT %s, '{'z' * 9_000}'", [1])
    after = base._in_sqlites_form.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (2, 1)
    assert after.maxsize == 512
    mine.close()
