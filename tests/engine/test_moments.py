"""A read of several records is of one moment, also where commits fall between its steps."""

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from feltdb_engine import Store, limits
from feltdb_engine.moment import Moment
from feltdb_engine.view import View
from tests.engine.kit import delete, put

READS: dict[str, Callable[[Store], list[Any]]] = {
    "get_many": lambda store: [one and one.value["n"] for one in store.get_many(["a:1", "a:2", "a:3"])],
    "page": lambda store: [one.value["n"] for one in store.page("a").records],
    "page backwards": lambda store: [one.value["n"] for one in store.page("a", reverse=True).records],
    "query": lambda store: [
        one.value["n"] for one in store.query("a", where={"field": "z", "op": "exists", "value": False}).records
    ],
}


@pytest.mark.parametrize("how", READS)
def test_a_read_sees_all_of_a_commit_or_nothing_of_it(store: Store, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    for number in (1, 2, 3):
        store.commit([put(f"a:{number}", {"n": 0})])
    written = 0

    def commit() -> None:
        store.commit([delete("a:3"), put("a:1", {"n": 1}), put("a:2", {"n": 1}), put("a:4", {"n": 1})])

    def write_once() -> None:
        nonlocal written
        written += 1
        if written == 2:
            thread = Thread(target=commit)
            thread.start()
            thread.join(20)

    record, chunks = View.record, Moment._chunks

    def slow_record(*args: Any) -> Any:
        write_once()
        return record(*args)

    def slow_chunks(*args: Any, **named: Any) -> Any:
        for chunk in chunks(*args, **named):
            write_once()
            yield chunk

    monkeypatch.setattr(View, "record", slow_record)
    monkeypatch.setattr(Moment, "_chunks", slow_chunks)
    monkeypatch.setattr(limits, "READ_CHUNK_RECORDS", 1)  # one step for each record
    assert READS[how](store) == [0, 0, 0]
    assert written >= 3, "a commit fell into the read"
    monkeypatch.undo()
    assert [one.id for one in store.page("a").records] == ["1", "2", "4"]
