"""A store closed by one thread while others of the process are at work on it: nobody is told anything untrue."""

import itertools
import threading
import time
from pathlib import Path

import pytest

from feltdb_engine import Store
from tests.engine.hooks import COMMIT_STEPS
from tests.engine.kit import moving, put


@pytest.mark.parametrize("step", ["append", "view committed", *COMMIT_STEPS[6:]])
def test_a_commit_that_the_store_is_closed_under_is_told_the_truth(tmp_path: Path, step: str) -> None:
    """Written means acknowledged, or at the least unknown."""
    reached = threading.Event()
    told: list[object] = []

    def hook(_store: Store, now: str) -> None:
        if now == step and threading.current_thread() is writer and not reached.is_set():
            reached.set()
            closer.start()
            closer.join(0.2)  # as far as it comes without us

    def write() -> None:
        try:
            store.commit([put("a:1", {"n": 1})])
            told.append("committed")
        except BaseException as error:
            told.append(error)

    store = moving(tmp_path / "store", hook)
    writer, closer = threading.Thread(target=write), threading.Thread(target=store.close)
    writer.start()
    assert reached.wait(10)
    writer.join(30)
    closer.join(30)
    assert told == ["committed"]
    with Store.open(tmp_path / "store") as again:
        assert again.get("a:1") is not None


class _Threads:
    """Writers and readers at work on a store until it refuses, and what they were told."""

    def __init__(self, store: Store, name: str) -> None:
        self.acknowledged: list[str] = []
        self.refused: list[tuple[str, BaseException]] = []
        self._store = store
        self._began = threading.Barrier(6)
        self._threads = [threading.Thread(target=self._write, args=(f"{name}-{each}",)) for each in range(2)]
        self._threads += [threading.Thread(target=self._read) for _ in range(3)]
        for thread in self._threads:
            thread.start()
        self._began.wait()

    def _write(self, name: str) -> None:
        self._began.wait()
        for count in itertools.count():
            key = f"a:{name}-{count}"
            try:
                self._store.commit([put(key, {"n": count})])
            except BaseException as error:
                self.refused.append((key, error))
                return
            self.acknowledged.append(key)

    def _read(self) -> None:
        self._began.wait()
        try:
            while True:
                self._store.get("a:0-0-0")
                self._store.page("a", limit=50)
                self._store.changes(None, limit=20)
                self._store.query("a", where={"field": "n", "op": "gt", "value": 3}, limit=10)
        except BaseException as error:
            self.refused.append(("", error))

    def end(self) -> None:
        """Wait for all of them."""
        for thread in self._threads:
            thread.join(30)


def test_threads_at_work_on_a_store_that_is_closed_hear_that_and_nothing_else(tmp_path: Path) -> None:
    """Twenty closings under two writers and three readers: a refused write is not there, each refusal has its code."""
    for number in range(20):
        store = Store.open(tmp_path / "store")
        threads = _Threads(store, str(number))
        time.sleep(0.01 + number % 5 * 0.01)
        store.close()
        threads.end()
        assert {getattr(error, "code", repr(error)) for _, error in threads.refused} == {"STORE_CLOSED"}
        with Store.open(tmp_path / "store") as again:
            assert [key for key in threads.acknowledged if again.get(key) is None] == []
            denied = [key for key, error in threads.refused if key and getattr(error, "committed", "") is False]
            assert [key for key in denied if again.get(key) is not None] == []
