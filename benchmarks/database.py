"""A FeltDB of its own for a measurement: a data directory and a database that are thrown away, and how it plans."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def instance(database_url: str) -> Iterator[Path]:
    """Set Django up over SQLite (""), or over a database made anew on the PostgreSQL server of the URL."""
    with tempfile.TemporaryDirectory(prefix="feltdb-bench-") as folder, _made(database_url) as url:
        os.environ["FELTDB_DATA_DIR"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "feltsite.settings"
        if url:
            os.environ["DATABASE_URL"] = url
        import django
        from django.core.management import call_command
        from django.db import connections

        django.setup()
        call_command("migrate", verbosity=0)
        print(f"database: {connections['default'].vendor}")
        try:
            yield Path(folder)
        finally:
            connections.close_all()


@contextmanager
def _made(server_url: str) -> Iterator[str]:
    if not server_url:
        yield ""
        return
    import psycopg

    name = f"bench_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{server_url.rpartition('/')[0]}/{name}"
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def settle() -> None:
    """Do what loading left to do: it is not the cost of what is measured next."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.execute("ANALYZE")
        else:
            cursor.execute("VACUUM ANALYZE")


def plans(work: Any) -> None:
    """Run `work` and print how the database finds the rows of each statement of it that looks for some."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        work()
    explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN (COSTS OFF) "
    shown = set()
    with connection.cursor() as cursor:
        for sql in [query["sql"] for query in captured]:
            if sql.split()[0] not in ("SELECT", "UPDATE", "DELETE"):
                continue
            cursor.execute(explain + sql.replace("%", "%%").replace(" FOR UPDATE SKIP LOCKED", ""))
            steps = [str(row[-1]).strip() for row in cursor.fetchall()]
            if connection.vendor == "postgresql":
                steps = [step for step in steps if "Scan" in step or "Sort" in step]
            line = f"{sql.split()[0]}: {'; '.join(steps)}"
            if line not in shown:
                shown.add(line)
                print(f"  {line}")


class Reference:
    """The Rust reference in a process of its own, if it is built (see `reference/`)."""

    def __init__(self, folder: Path) -> None:
        from benchmarks.contestants import REFERENCE
        from benchmarks.sessions import Process

        self._process = Process(REFERENCE, folder / "reference", indexed=False, records=0)

    @staticmethod
    def there() -> bool:
        """Tell whether it can run here."""
        from benchmarks.contestants import REFERENCE_PROGRAM

        return REFERENCE_PROGRAM.exists()

    def rate(self, do: str, **members: int) -> float:
        """Have it do something; return its rate."""
        return float(self._process.ask(do, **members)["rate"])

    def end(self) -> None:
        """End the process."""
        self._process.end()
