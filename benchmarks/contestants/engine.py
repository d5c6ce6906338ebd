"""This project's engine, durability `commit`."""

import time
from pathlib import Path
from typing import Any

from benchmarks.contestants.base import Contestant, Item
from benchmarks.data import COLLECTION
from feltdb_engine import Cursor, Mutation, Store
from feltdb_engine.policy import Retention


class FeltDB(Contestant):
    def __init__(self, folder: Path, indexed: bool) -> None:
        super().__init__(folder, indexed)
        self.store = Store.open(folder)
        if indexed:
            self.store.declare_index(COLLECTION, ["status", "owner"])

    def commit(self, items: list[Item]) -> None:
        self.store.commit([Mutation(kind="put", collection=COLLECTION, id=key, value=value) for key, value in items])

    def compare_and_set(self, items: list[Item]) -> bool:
        found = self.store.get_many([f"{COLLECTION}:{key}" for key, _ in items])
        self.store.commit(
            [
                Mutation(kind="put", collection=COLLECTION, id=key, value=value, if_version=record.version)
                for (key, value), record in zip(items, found, strict=True)
                if record is not None
            ]
        )
        return True

    def get(self, record_id: str) -> Any:
        record = self.store.get(f"{COLLECTION}:{record_id}")
        return record.value if record else None

    def page(self, after: str, limit: int) -> list[str]:
        return [record.id for record in self.store.page(COLLECTION, after=after or None, limit=limit).records]

    def changes(self, after: int, limit: int) -> int:
        cursor = Cursor(instance_id=self.store.instance_id, sequence=after) if after else None
        return self.store.changes(cursor, limit=limit).cursor.sequence

    def query(self, status: str, owner: str, limit: int) -> int:
        where = {
            "all": [
                {"field": "status", "op": "eq", "value": status},
                {"field": "owner", "op": "eq", "value": owner},
            ]
        }
        return len(self.store.query(COLLECTION, where=where, limit=limit).records)

    def compact(self) -> float:
        begun = time.perf_counter()
        self.store.compact(Retention(age_ms=0))
        return time.perf_counter() - begun

    def close(self) -> None:
        self.store.close()
