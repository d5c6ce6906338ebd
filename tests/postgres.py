"""A database of a test's own, for real processes, on the PostgreSQL server that the tests use."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg


@contextmanager
def database(prefix: str) -> Iterator[str]:
    """Make it, give its URL, and drop it whoever is still connected."""
    server = os.environ.get("FELTDB_TEST_POSTGRES_URL", "postgres://root@127.0.0.1:5432/test")
    name = f"{prefix}_{os.getpid()}_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{server.rpartition('/')[0]}/{name}"
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
