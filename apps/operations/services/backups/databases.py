"""The control plane of one moment as a file, its check, and its way back. SQLite's backup interface and pg_dump do it.

Nobody waits for a snapshot: SQLite's is a read transaction under WAL, PostgreSQL's one of its own.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from apps.http.errors import ApiError
from apps.operations.services.backups.bundle import Bundle
from feltdb_engine.errors import BackupInvalid
from feltdb_engine.walk import Progress

PAGES_A_STEP = 1024
LOOK_S = 0.2
TOOL_S = 6 * 3600
"""Longest that pg_dump or pg_restore may take."""

LOCK_WAIT_MS = 60_000
"""Longest that pg_dump waits for a table that somebody holds."""

SAID_CHARS = 500

LAUNCH = """
import os, signal, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes the tool that ends with whoever started it: one left behind would go on writing into the database."""


def snapshot(dest: Path, progress: Progress) -> Sequence[str]:
    """Write the control plane to a new file, forced; returns the migrations its tables have."""
    if connection.vendor == "sqlite":
        return _sqlite_snapshot(dest, progress)
    names = _names(MigrationRecorder(connection).applied_migrations())
    _tool(
        "pg_dump",
        ["--format=custom", "--no-owner", "--no-privileges", f"--lock-wait-timeout={LOCK_WAIT_MS}", f"--file={dest}"],
        progress,
        dest,
    )
    _force(dest)
    return names


def size() -> int:
    """Return about how many bytes a snapshot will need."""
    if connection.vendor == "sqlite":
        return Path(connection.settings_dict["NAME"]).stat().st_size
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def check(path: Path, bundle: Bundle) -> None:
    """Read the file as its database would, and hold its cursors against the stores. Raises BackupInvalid."""
    if bundle.database == "postgresql":
        _check_dump(path)
        return
    try:
        with _opened(path, immutable=True) as source:
            damage = [row[0] for row in source.execute("PRAGMA quick_check(1)") if row[0] != "ok"]
            beyond = _beyond(source, bundle)
    except sqlite3.Error as error:
        raise BackupInvalid(f"{path.name} cannot be read: {error}", file=path.name) from error
    if damage:
        raise BackupInvalid(f"{path.name} is damaged: {damage[0]}", file=path.name)
    if beyond:
        raise BackupInvalid(f"{path.name} stands beyond the stores: {beyond}", file=path.name)


def empty() -> bool:
    """Tell whether the configured database has no table."""
    if connection.vendor == "sqlite":
        path = Path(connection.settings_dict["NAME"])
        if not path.exists() or not path.stat().st_size:
            return True
        with _opened(path) as source:
            return not source.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return not connection.introspection.table_names()


def load_dump(path: Path, progress: Progress) -> None:
    """Fill the configured, empty PostgreSQL database, whole or not at all."""
    connection.close()
    options = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
    _tool("pg_restore", [*options, f"--dbname={connection.settings_dict['NAME']}", str(path)], progress, path)


def _sqlite_snapshot(dest: Path, progress: Progress) -> Sequence[str]:
    with _opened(Path(connection.settings_dict["NAME"])) as source, closing(sqlite3.connect(dest)) as target:
        page = source.execute("PRAGMA page_size").fetchone()[0]
        source.execute("BEGIN")
        # From this read on the source is seen as of one moment, however long the copy takes.
        applied = source.execute("SELECT app, name FROM django_migrations").fetchall()
        target.execute("PRAGMA synchronous=OFF")
        source.backup(
            target,
            pages=PAGES_A_STEP,
            progress=lambda _, left, total: progress((total - left) * page, total * page),
        )
        source.execute("COMMIT")
        target.execute("PRAGMA journal_mode=DELETE")  # one file, complete by itself
    _force(dest)
    return _names(applied)


def _names(applied: Any) -> Sequence[str]:
    return sorted(f"{app}.{name}" for app, name in applied)


def _beyond(source: sqlite3.Connection, bundle: Bundle) -> str:
    """Return the first cursor or position that lies beyond its store, or nothing."""
    ends = {each.name: each.sequence for each in bundle.stores}
    for table in ("triggers_triggercursor", "triggers_namespaceposition"):
        for namespace, sequence in source.execute(f"SELECT namespace, max(sequence) FROM {table} GROUP BY namespace"):  # noqa: S608 - names above
            if sequence > ends.get(namespace, 0):
                return f"{namespace} was evaluated up to {sequence}, its store ends at {ends.get(namespace, 0)}"
    return ""


@contextmanager
def _opened(path: Path, *, immutable: bool = False) -> Iterator[sqlite3.Connection]:
    how = "mode=ro&immutable=1" if immutable else "mode=rw"
    with closing(sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None, timeout=10)) as it:
        yield it


def _check_dump(path: Path) -> None:
    try:
        # As text, to nowhere: so every byte of it is read, not its table of contents alone.
        _tool("pg_restore", ["--file=/dev/null", str(path)], lambda done, total: None, path)
    except ApiError as error:
        if shutil.which("pg_restore") is None:
            raise
        raise BackupInvalid(f"{path.name} cannot be read: {error.message}", file=path.name) from error


def _tool(name: str, arguments: Sequence[str], progress: Progress, file: Path) -> None:
    """Run one of PostgreSQL's tools on the configured database. Raises ApiError with what it said."""
    program = shutil.which(name)
    if program is None:
        raise ApiError(
            "DATABASE_UNAVAILABLE",
            f"{name} is not installed here; install PostgreSQL's client programs, of the server's version or a newer.",
        )
    started = time.monotonic()
    process = subprocess.Popen(  # noqa: S603 - fixed programs, no shell
        [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), program, *arguments],
        env={**os.environ, **_environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        while True:
            try:
                _, said = process.communicate(timeout=LOOK_S)
                break
            except subprocess.TimeoutExpired:
                progress(file.stat().st_size if file.exists() else 0, 0)
                if time.monotonic() - started > TOOL_S:
                    raise
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode:
        words = " ".join(said.decode(errors="replace").split())[:SAID_CHARS]
        raise ApiError("DATABASE_UNAVAILABLE", words or f"{name} ended with {process.returncode}.")


def _environment() -> dict[str, str]:
    """Where the database is, and its password, without either on a command line."""
    known = connection.settings_dict
    members = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD", "PGDATABASE": "NAME"}
    found = {name: str(known[key]) for name, key in members.items() if known.get(key)}
    options = known.get("OPTIONS", {})
    ways = {
        "PGCONNECT_TIMEOUT": "connect_timeout",
        "PGSSLMODE": "sslmode",
        "PGSSLROOTCERT": "sslrootcert",
        "PGSSLCERT": "sslcert",
        "PGSSLKEY": "sslkey",
    }
    return found | {name: str(options[key]) for name, key in ways.items() if options.get(key)}


def _force(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
