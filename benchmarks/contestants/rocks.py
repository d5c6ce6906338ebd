"""RocksDB through rocksdict (`requirements-bench.txt`): one write batch per transaction, its WAL forced."""

from pathlib import Path
from typing import Any

import orjson

from benchmarks.contestants.bare_lmdb import U64, entry
from benchmarks.contestants.base import Contestant, Item

_FAMILIES = ("records", "operations", "index")


class RocksDB(Contestant):
    many_processes = False

    def __init__(self, folder: Path, indexed: bool) -> None:
        import rocksdict

        super().__init__(folder, indexed)
        folder.parent.mkdir(parents=True, exist_ok=True)
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        self.db = rocksdict.Rdict(str(folder), options=options, column_families=dict.fromkeys(_FAMILIES, options))
        self.batch = rocksdict.WriteBatch
        self.records, self.operations, self.index = (self.db.get_column_family(name) for name in _FAMILIES)
        self.handles = [self.db.get_column_family_handle(name) for name in _FAMILIES]
        self.forced = rocksdict.WriteOptions()
        self.forced.sync = True
        last = self.operations.iter()
        last.seek_to_last()
        self.sequence = U64.unpack(last.key())[0] if last.valid() else 0

    def commit(self, items: list[Item]) -> None:
        batch = self.batch(raw_mode=True)
        records, operations, index = self.handles
        for record_id, value in items:
            key, data = record_id.encode(), orjson.dumps(value)
            old = self.records.get(key)
            version = 1 if old is None else U64.unpack_from(old)[0] + 1
            if self.indexed:
                new_entry = entry(value, key)
                old_entry = None if old is None else entry(orjson.loads(old[8:]), key)
                if new_entry != old_entry:
                    if old_entry is not None:
                        batch.delete(old_entry, index)
                    batch.put(new_entry, b"", index)
            batch.put(key, U64.pack(version) + data, records)
            self.sequence += 1
            batch.put(U64.pack(self.sequence), U64.pack(version) + key + b"\0" + data, operations)
        self.db.write(batch, self.forced)

    def compare_and_set(self, items: list[Item]) -> bool:
        keys = [key.encode() for key, _ in items]
        versions = [self.records.get(key)[:8] for key in keys]
        if [self.records.get(key)[:8] for key in keys] != versions:
            return False
        self.commit(items)
        return True

    def get(self, record_id: str) -> Any:
        data = self.records.get(record_id.encode())
        return orjson.loads(data[8:]) if data is not None else None

    def page(self, after: str, limit: int) -> list[str]:
        found: list[str] = []
        key, rows = after.encode(), self.records.iter()
        rows.seek(key)
        if rows.valid() and rows.key() == key:
            rows.next()
        while rows.valid() and len(found) < limit:
            data = rows.value()
            U64.unpack_from(data)
            orjson.loads(data[8:])
            found.append(rows.key().decode())
            rows.next()
        return found

    def changes(self, after: int, limit: int) -> int:
        rows, count = self.operations.iter(), 0
        rows.seek(U64.pack(after + 1))
        while rows.valid() and count < limit:
            data = rows.value()
            U64.unpack_from(data)
            key, value = data[8:].split(b"\0", 1)
            key.decode()
            orjson.loads(value)
            after, count = U64.unpack(rows.key())[0], count + 1
            rows.next()
        return after

    def query(self, status: str, owner: str, limit: int) -> int:
        prefix = f"{status}\0{owner}\0".encode()
        rows, found = self.index.iter(), 0
        rows.seek(prefix)
        while rows.valid() and found < limit and rows.key().startswith(prefix):
            orjson.loads(self.records.get(rows.key()[len(prefix) :])[8:])
            found += 1
            rows.next()
        return found

    def close(self) -> None:
        del self.records, self.operations, self.index, self.handles
        self.db.close()
