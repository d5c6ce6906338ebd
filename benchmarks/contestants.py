"""The contestants, all at one job: versioned JSON records and a log of operations, committed together and forced."""

import sqlite3
import struct
from pathlib import Path
from typing import Any

import lmdb
import orjson

from benchmarks.data import COLLECTION

Item = tuple[str, dict[str, object]]
U64 = struct.Struct(">Q")


class Contestant:
    """One open store. Every `commit` is atomic and forced before it returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def commit(self, items: list[Item]) -> None:
        """Put all items (distinct ids) in one transaction."""
        raise AssertionError

    def get(self, record_id: str) -> Any:
        """Return the decoded value."""
        raise AssertionError

    def compare_and_set(self, record_id: str, value: dict[str, object]) -> bool:
        """Read the version, then write only if it has not moved."""
        raise AssertionError

    def page(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` ids after `after`, their values decoded on the way."""
        raise AssertionError

    def changes(self, after: int, limit: int) -> int:
        """Read up to `limit` operations after sequence `after`, decoded; return the last sequence read."""
        raise AssertionError

    def declare(self) -> None:
        """After the load: what the queries need and the store has not had from the beginning."""

    def query(self, status: str, owner: str, limit: int) -> int:
        """Return how many of up to `limit` records have that status and owner."""
        raise AssertionError

    def close(self) -> None:
        """Let go of the files."""
        raise AssertionError


class FeltDB(Contestant):
    """This project's engine, durability `commit`."""

    def __init__(self, folder: Path) -> None:
        from feltdb_engine import Cursor, Mutation, Precondition, Store

        super().__init__(folder)
        self.mutation, self.precondition, self.cursor = Mutation, Precondition, Cursor
        self.store = Store.open(folder)

    def commit(self, items: list[Item]) -> None:
        self.store.commit(
            [self.mutation(kind="put", collection=COLLECTION, id=key, value=value) for key, value in items]
        )

    def get(self, record_id: str) -> Any:
        record = self.store.get(f"{COLLECTION}:{record_id}")
        return record.value if record else None

    def compare_and_set(self, record_id: str, value: dict[str, object]) -> bool:
        record = self.store.get(f"{COLLECTION}:{record_id}")
        assert record is not None
        self.store.commit(
            [self.mutation(kind="put", collection=COLLECTION, id=record_id, value=value, if_version=record.version)]
        )
        return True

    def page(self, after: str, limit: int) -> list[str]:
        return [record.id for record in self.store.page(COLLECTION, after=after or None, limit=limit).records]

    def changes(self, after: int, limit: int) -> int:
        cursor = self.cursor(instance_id=self.store.instance_id, sequence=after) if after else None
        return self.store.changes(cursor, limit=limit).cursor.sequence

    def declare(self) -> None:
        self.store.declare_index(COLLECTION, ["status", "owner"])

    def query(self, status: str, owner: str, limit: int) -> int:
        where = {
            "all": [
                {"field": "status", "op": "eq", "value": status},
                {"field": "owner", "op": "eq", "value": owner},
            ]
        }
        return len(self.store.query(COLLECTION, where=where, limit=limit).records)

    def close(self) -> None:
        self.store.close()


class SQLite(Contestant):
    """sqlite3 of the standard library, WAL, synchronous=FULL, with an index on (status, owner)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.db = sqlite3.connect(folder / "store.sqlite3", isolation_level=None, timeout=30)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.executescript(
            """
            CREATE TABLE IF NOT EXISTS records (id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT, owner TEXT,
                value BLOB NOT NULL) WITHOUT ROWID;
            CREATE INDEX IF NOT EXISTS by_status_owner ON records (status, owner);
            CREATE TABLE IF NOT EXISTS operations (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, value BLOB NOT NULL);
            """
        )

    def _write(self, items: list[Item]) -> None:
        rows = [(key, value["status"], value["owner"], orjson.dumps(value)) for key, value in items]
        self.db.executemany(
            "INSERT INTO records VALUES (?, 1, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET version = version + 1,"
            " status = excluded.status, owner = excluded.owner, value = excluded.value",
            rows,
        )
        self.db.executemany("INSERT INTO operations (id, value) VALUES (?, ?)", [(r[0], r[3]) for r in rows])

    def commit(self, items: list[Item]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self._write(items)
        self.db.execute("COMMIT")

    def get(self, record_id: str) -> Any:
        row = self.db.execute("SELECT value FROM records WHERE id = ?", (record_id,)).fetchone()
        return orjson.loads(row[0]) if row else None

    def compare_and_set(self, record_id: str, value: dict[str, object]) -> bool:
        (version,) = self.db.execute("SELECT version FROM records WHERE id = ?", (record_id,)).fetchone()
        self.db.execute("BEGIN IMMEDIATE")
        now = self.db.execute("SELECT version FROM records WHERE id = ?", (record_id,)).fetchone()
        if now != (version,):
            self.db.execute("ROLLBACK")
            return False
        self._write([(record_id, value)])
        self.db.execute("COMMIT")
        return True

    def page(self, after: str, limit: int) -> list[str]:
        found = []
        query = "SELECT id, value FROM records WHERE id > ? ORDER BY id LIMIT ?"
        for key, data in self.db.execute(query, (after, limit)):
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
        query = "SELECT value FROM records WHERE status = ? AND owner = ? LIMIT ?"
        return len([orjson.loads(row[0]) for row in self.db.execute(query, (status, owner, limit))])

    def close(self) -> None:
        self.db.close()


class LMDB(Contestant):
    """Bare lmdb, synced at each commit, with an index written by hand."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.env = lmdb.open(str(folder), map_size=16 << 30, max_dbs=3)
        self.records = self.env.open_db(b"records")
        self.operations = self.env.open_db(b"operations")
        self.index = self.env.open_db(b"index")

    @staticmethod
    def _entry(value: dict[str, object], key: bytes) -> bytes:
        return f"{value['status']}\0{value['owner']}\0".encode() + key

    def _write(self, txn: Any, items: list[Item]) -> None:
        with txn.cursor(self.operations) as cursor:
            sequence = U64.unpack(cursor.key())[0] if cursor.last() else 0
        for record_id, value in items:
            key, data = record_id.encode(), orjson.dumps(value)
            old = txn.get(key, db=self.records)
            version = 1
            if old is not None:
                version = U64.unpack_from(old)[0] + 1
                txn.delete(self._entry(orjson.loads(old[8:]), key), db=self.index)
            txn.put(self._entry(value, key), b"", db=self.index)
            txn.put(key, U64.pack(version) + data, db=self.records)
            sequence += 1
            txn.put(U64.pack(sequence), key + b"\0" + data, db=self.operations, append=True)

    def commit(self, items: list[Item]) -> None:
        with self.env.begin(write=True) as txn:
            self._write(txn, items)

    def get(self, record_id: str) -> Any:
        with self.env.begin(db=self.records, buffers=True) as txn:
            data = txn.get(record_id.encode())
            return orjson.loads(data[8:]) if data is not None else None

    def compare_and_set(self, record_id: str, value: dict[str, object]) -> bool:
        key = record_id.encode()
        with self.env.begin(db=self.records) as txn:
            version = txn.get(key)[:8]
        with self.env.begin(write=True) as txn:
            if txn.get(key, db=self.records)[:8] != version:
                txn.abort()
                return False
            self._write(txn, [(record_id, value)])
        return True

    def page(self, after: str, limit: int) -> list[str]:
        found: list[str] = []
        with self.env.begin() as txn, txn.cursor(self.records) as cursor:
            key = after.encode()
            if cursor.set_range(key) and (cursor.key() != key or cursor.next()):
                for item, data in cursor:
                    orjson.loads(data[8:])
                    found.append(item.decode())
                    if len(found) == limit:
                        break
        return found

    def changes(self, after: int, limit: int) -> int:
        with self.env.begin() as txn, txn.cursor(self.operations) as cursor:
            if cursor.set_range(U64.pack(after + 1)):
                for count, (sequence, data) in enumerate(cursor, 1):
                    orjson.loads(data.split(b"\0", 1)[1])
                    after = U64.unpack(sequence)[0]
                    if count == limit:
                        break
        return after

    def query(self, status: str, owner: str, limit: int) -> int:
        prefix = f"{status}\0{owner}\0".encode()
        found = 0
        with self.env.begin() as txn, txn.cursor(self.index) as cursor:
            if cursor.set_range(prefix):
                for entry in cursor.iternext(values=False):
                    if found == limit or not entry.startswith(prefix):
                        break
                    orjson.loads(txn.get(entry[len(prefix) :], db=self.records)[8:])
                    found += 1
        return found

    def close(self) -> None:
        self.env.close()


CONTESTANTS: dict[str, type[Contestant]] = {"feltdb": FeltDB, "sqlite": SQLite, "lmdb": LMDB}
