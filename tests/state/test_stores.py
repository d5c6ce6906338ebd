"""The open stores of a process: opened once, bounded, never inherited by a fork."""

import os
import threading

import pytest

from apps.http.errors import ApiError
from apps.state import stores
from apps.state.stores import Stores


class FakeStore:
    opened = 0

    def __init__(self, path):
        FakeStore.opened += 1
        self.path, self.closed = path, False

    def close(self):
        self.closed = True


@pytest.fixture
def opening(monkeypatch):
    """Opens fakes instead of stores; gives the gate that every opening waits at."""
    gate = threading.Event()
    gate.set()

    def fake_open(path, **_):
        gate.wait(10)
        return FakeStore(path)

    FakeStore.opened = 0
    monkeypatch.setattr(stores.Store, "open", fake_open)
    return gate


def test_a_store_is_opened_once_however_many_threads_ask(opening, tmp_path):
    opening.clear()
    many, got = Stores(), []
    threads = [threading.Thread(target=lambda: got.append(many.get(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    opening.set()
    for thread in threads:
        thread.join()
    assert FakeStore.opened == 1
    assert len(set(map(id, got))) == 1


def test_the_longest_idle_store_makes_room_and_a_busy_set_refuses(opening, tmp_path):
    now = [0.0]
    many = Stores(limit=2, clock=lambda: now[0])
    first = many.get(tmp_path / "a")
    now[0] = 100.0
    second = many.get(tmp_path / "b")
    with pytest.raises(ApiError) as refusal:
        many.get(tmp_path / "c")
    assert refusal.value.code == "SERVICE_OVERLOADED"
    now[0] = 130.0
    many.get(tmp_path / "c")
    assert (first.closed, second.closed) == (True, False)
    assert many.get(tmp_path / "b") is second


def test_closing_all_lets_the_next_caller_open_anew(opening, tmp_path):
    many = Stores()
    first = many.get(tmp_path)
    many.close_all()
    assert first.closed
    assert many.get(tmp_path) is not first


def test_a_store_lies_under_the_data_directory_by_its_namespace(namespace, data_dir):
    opened = stores.store(namespace)
    assert stores.store(namespace) is opened
    assert (data_dir / "namespaces" / namespace).is_dir()


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 64, "a\n", "\0"])
def test_a_name_no_namespace_can_have_is_refused_before_any_path_is_made(name, data_dir):
    with pytest.raises(ApiError) as refusal:
        stores.store(name)
    assert refusal.value.members["reason"] == "NAMESPACE_DENIED"
    assert not (data_dir / "namespaces").exists()


@pytest.mark.django_db
def test_a_namespace_that_was_never_made_is_refused_and_leaves_no_directory(data_dir):
    with pytest.raises(ApiError) as refusal:
        stores.store("nowhere")
    assert refusal.value.members["reason"] == "NAMESPACE_DENIED"
    assert not (data_dir / "namespaces").exists()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_inherits_no_store_and_opens_its_own(namespace, data_dir):
    inherited = stores.store(namespace)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        verdict = b"no"
        try:
            forgotten = stores.directory(namespace) not in stores._stores
            own = stores._stores.get(data_dir / "namespaces" / "childs-own")
            verdict = b"yes" if forgotten and own.head().sequence == 0 else b"no"
            own.close()
        finally:
            os.write(write_end, verdict)
            os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    assert os.read(read_end, 10) == b"yes"
    os.close(read_end)
    assert inherited.head().sequence == 0
