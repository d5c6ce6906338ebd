"""Bare lmdb, synced at each commit, with an index written by hand."""

import struct
from pathlib import Path
from typing import Any

import lmdb
import orjson

from benchmarks.contestants.base import Contestant, Item, Value

U64 = struct.Struct(">Q")


def entry(value: Value, key: bytes) -> bytes:
    """The key of an index entry."""
    return f"{value['status']}\0{value['owner']}\0".encode() + key


class LMDB(Contestant):
    def __init__(self, folder: Path, indexed: bool) -> None:
        super().__init__(folder, indexed)
        folder.mkdir(parents=True, exist_ok=True)
        self.env = lmdb.open(str(folder), map_size=16 << 30, max_dbs=3)
        self.records = self.env.open_db(b"records")
        self.operations = self.env.open_db(b"operations")
        self.index = self.env.open_db(b"index")

    def _write(self, txn: Any, items: list[Item]) -> None:
        with txn.cursor(self.operations) as cursor:
            sequence = U64.unpack(cursor.key())[0] if cursor.last() else 0
        for record_id, value in items:
            key, data = record_id.encode(), orjson.dumps(value)
            old = txn.get(key, db=self.records)
            version = 1 if old is None else U64.unpack_from(old)[0] + 1
            if self.indexed:
                new_entry = entry(value, key)
                old_entry = None if old is None else entry(orjson.loads(old[8:]), key)
                if new_entry != old_entry:
                    if old_entry is not None:
                        txn.delete(old_entry, db=self.index)
                    txn.put(new_entry, b"", db=self.index)
            txn.put(key, U64.pack(version) + data, db=self.records)
            sequence += 1
            txn.put(U64.pack(sequence), U64.pack(version) + key + b"\0" + data, db=self.operations, append=True)

    def commit(self, items: list[Item]) -> None:
        with self.env.begin(write=True) as txn:
            self._write(txn, items)

    def compare_and_set(self, items: list[Item]) -> bool:
        keys = [key.encode() for key, _ in items]
        with self.env.begin(db=self.records) as txn:
            versions = [txn.get(key)[:8] for key in keys]
        with self.env.begin(write=True) as txn:
            if [txn.get(key, db=self.records)[:8] for key in keys] != versions:
                txn.abort()
                return False
            self._write(txn, items)
        return True

    def get(self, record_id: str) -> Any:
        with self.env.begin(db=self.records, buffers=True) as txn:
            data = txn.get(record_id.encode())
            return orjson.loads(data[8:]) if data is not None else None

    def page(self, after: str, limit: int) -> list[str]:
        found: list[str] = []
        with self.env.begin() as txn, txn.cursor(self.records) as cursor:
            key = after.encode()
            if cursor.set_range(key) and (cursor.key() != key or cursor.next()):
                for item, data in cursor:
                    U64.unpack_from(data)
                    orjson.loads(data[8:])
                    found.append(item.decode())
                    if len(found) == limit:
                        break
        return found

    def changes(self, after: int, limit: int) -> int:
        with self.env.begin() as txn, txn.cursor(self.operations) as cursor:
            if cursor.set_range(U64.pack(after + 1)):
                for count, (sequence, data) in enumerate(cursor, 1):
                    U64.unpack_from(data)
                    key, value = data[8:].split(b"\0", 1)
                    key.decode()
                    orjson.loads(value)
                    after = U64.unpack(sequence)[0]
                    if count == limit:
                        break
        return after

    def query(self, status: str, owner: str, limit: int) -> int:
        prefix = f"{status}\0{owner}\0".encode()
        found = 0
        with self.env.begin() as txn, txn.cursor(self.index) as cursor:
            if cursor.set_range(prefix):
                for key in cursor.iternext(values=False):
                    if found == limit or not key.startswith(prefix):
                        break
                    orjson.loads(txn.get(key[len(prefix) :], db=self.records)[8:])
                    found += 1
        return found

    def close(self) -> None:
        self.env.close()
