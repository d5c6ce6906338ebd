"""sqlite3 of the standard library: WAL, synchronous=FULL."""

import sqlite3
from pathlib import Path
from typing import Any

import orjson

from benchmarks.contestants.base import Contestant, Item

_TABLES = """
CREATE TABLE IF NOT EXISTS records (id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT, owner TEXT,
    value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS operations (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, value BLOB NOT NULL);
"""


class SQLite(Contestant):
    def __init__(self, folder: Path, indexed: bool) -> None:
        super().__init__(folder, indexed)
        folder.mkdir(parents=True, exist_ok=True)
        self.db = sqlite3.connect(folder / "store.sqlite3", isolation_level=None, timeout=30)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.executescript(_TABLES)
        if indexed:
            self.db.execute("CREATE INDEX IF NOT EXISTS by_status_owner ON records (status, owner)")

    def _write(self, items: list[Item]) -> None:
        rows = [(key, value["status"], value["owner"], orjson.dumps(value)) for key, value in items]
        self.db.executemany(
            "INSERT INTO records VALUES (?, 1, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET version = version + 1,"
            " status = excluded.status, owner = excluded.owner, value = excluded.value",
            rows,
        )
        self.db.executemany("INSERT INTO operations (id, value) VALUES (?, ?)", [(row[0], row[3]) for row in rows])

    def commit(self, items: list[Item]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self._write(items)
        self.db.execute("COMMIT")

    def _version(self, record_id: str) -> int | None:
        row = self.db.execute("SELECT version FROM records WHERE id = ?", (record_id,)).fetchone()
        return None if row is None else int(row[0])

    def compare_and_set(self, items: list[Item]) -> bool:
        versions = [self._version(key) for key, _ in items]
        self.db.execute("BEGIN IMMEDIATE")
        if [self._version(key) for key, _ in items] != versions:
            self.db.execute("ROLLBACK")
            return False
        self._write(items)
        self.db.execute("COMMIT")
        return True

    def get(self, record_id: str) -> Any:
        row = self.db.execute("SELECT value FROM records WHERE id = ?", (record_id,)).fetchone()
        return orjson.loads(row[0]) if row else None

    def page(self, after: str, limit: int) -> list[str]:
        found = []
        query = "SELECT id, version, value FROM records WHERE id > ? ORDER BY id LIMIT ?"
        for key, _version, data in self.db.execute(query, (after, limit)):
            orjson.loads(data)
            found.append(key)
        return found

    def changes(self, after: int, limit: int) -> int:
        query = "SELECT sequence, id, value FROM operations WHERE sequence > ? ORDER BY sequence LIMIT ?"
        for row in self.db.execute(query, (after, limit)):
            after = row[0]
            orjson.loads(row[2])
        return after

    def query(self, status: str, owner: str, limit: int) -> int:
        query = "SELECT id, version, value FROM records WHERE status = ? AND owner = ? LIMIT ?"
        return len([orjson.loads(row[2]) for row in self.db.execute(query, (status, owner, limit))])

    def close(self) -> None:
        self.db.close()
