"""Views that are not what they were: without one of their keys, with one cut short, or put in place of the one in use.

They are made again, or not joined; never is anything wrong said from them.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

from feltdb_engine import Store, errors, positions, view
from tests.engine.kit import NOTHING, boot, delete, operations, put, vanish
from tests.engine.remote import Remote

SEGMENT = 1 << 16
CONTRACT = {"collections": {"b": {"unique": ["u"], "schema": {"required": ["u"]}}}}


def fill(directory: Path, of: str = "s") -> None:
    """A store with something under every kind of key, compacted and closed."""
    with Store.open(directory, segment_bytes=SEGMENT, host=boot(1)) as store:
        for row in range(20):
            store.commit([put(f"a:{row}", {"n": row, "of": of, "body": "x" * 6000})], transaction_id=f"t{row}")
        store.commit([delete("a:3"), put("b:1", {"u": 1}), put("c.d:1", {"of": of})])
        store.declare_index("a", ["n"])
        store.activate_contract(CONTRACT)
        store.pin("reader", 15, None)
        store.compact(NOTHING)
        store.commit([put("b:2", {"u": 2})])
    segment, written = max((directory / "log").iterdir()), 0
    with Store.open(directory, host=boot(1)) as store:
        written = store.health().written
    segment = directory / "log" / f"{written // SEGMENT * SEGMENT:020d}.seg"
    with segment.open("r+b") as log:
        log.seek(written % SEGMENT)
        log.write(b"torn")
    Store.open(directory, host=boot(1)).close()


def told(store: Store) -> Any:
    """What it says of everything that is kept under keys of its own, and of its records."""
    with pytest.raises(errors.ValidationFailed):
        store.commit([put("b:9", {"u": 1})])
    with pytest.raises(errors.ValidationFailed):
        store.commit([put("b:9", {})])
    found = store.query("a", where={"field": "n", "op": "gte", "value": 17}, limit=100)
    return (
        list(operations(store)),
        [(one.name, one.records, store.count(one.name)) for one in store.collections()],
        [(one.collection, one.name, one.complete) for one in store.indexes()],
        (found.plan["access"], [record.key for record in found.records]),
        store.contract(),
        store.pins(),
        store.start().sequence,
        store.health().storage,
        store.verify().findings,
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The directory, and what its store says."""
    path = tmp_path_factory.mktemp("views") / "s"
    fill(path)
    with Store.open(path, host=boot(1)) as store:
        return path, told(store)


def change(path: Path, act: Callable[[Any], Any]) -> Any:
    """Change a view that nobody has open, in place: it stays the same file."""
    with lmdb.open(str(path / "view"), max_dbs=8) as env, env.begin(write=True) as txn:
        return act(txn)


def own_keys(txn: Any) -> list[bytes]:
    with txn.cursor() as cursor:
        return [key for key, _ in cursor if key < view.OWN_KEYS_END]


def moved(filled: Path, path: Path) -> None:
    """The directory elsewhere, as if it had always been there: on a timeline of its own, closed."""
    shutil.copytree(filled, path)
    Store.open(path, host=boot(1)).close()


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("how", ["deleted", "cut short"])
def test_a_view_without_one_of_its_keys_is_made_again(
    quick: Path, filled: tuple[Path, Any], how: str, number: int
) -> None:
    """Collections, timelines, pins, state, floor, recovery, indexes, contract, and how many keys there are."""
    source, expected = filled
    moved(source, quick / "s")
    keys = change(quick / "s", own_keys)
    kinds = {key if key[:1] == b"\0" else key[:1] for key in keys}
    assert kinds == {
        view.STATE_KEY, view.RECOVERY_KEY, view.INDEXES_KEY, view.CONTRACT_KEY, view.FLOOR_KEY, view.KEYS_KEY,
        view.COLLECTION_PREFIX, view.TIMELINE_PREFIX, view.PIN_PREFIX,
    }, "a view that was loaded from a snapshot was not swept"  # fmt: skip
    for key in keys:
        if how == "cut short" and key[:1] == view.COLLECTION_PREFIX:
            continue  # not looked at when it is opened, see below
        shutil.rmtree(quick / "s")
        moved(source, quick / "s")

        def harm(txn: Any, key: bytes = key) -> None:
            data = txn.get(key)
            txn.delete(key)
            if how == "cut short":
                txn.put(key, data[:-1])

        change(quick / "s", harm)
        with Store.open(quick / "s", create=False, host=boot(number)) as store:
            assert told(store) == expected, key


def test_what_cannot_be_read_of_a_view_in_use_makes_it_again(quick: Path, filled: tuple[Path, Any]) -> None:
    source, expected = filled
    key = view.COLLECTION_PREFIX + b"a"
    for ask in (lambda store: store.count("a"), lambda store: store.collections(), lambda store: write(store)):
        shutil.rmtree(quick / "s", ignore_errors=True)
        moved(source, quick / "s")
        change(quick / "s", lambda txn: txn.put(key, txn.get(key)[:-1]))
        with Store.open(quick / "s", create=False, host=boot(1)) as store:
            ask(store)
            assert told(store)[1:] == expected[1:]


def write(store: Store) -> None:
    """A commit that the view cannot take: undone whole, and made once the view is whole again."""
    with pytest.raises(errors.StorageError) as refused:
        store.commit([put("a:1", {"n": 1})])
    assert refused.value.committed is False


Swap = Callable[[Path, Path], Any]


def by_another_store(path: Path, scratch: Path) -> None:
    fill(scratch / "other", of="other")
    shutil.move(scratch / "other" / "view" / "data.mdb", path / "view" / "data.mdb")


def by_a_younger_one(path: Path, scratch: Path) -> None:
    shutil.move(scratch / "young.mdb", path / "view" / "data.mdb")


def by_a_copy_of_itself(path: Path, scratch: Path) -> None:
    shutil.copyfile(path / "view" / "data.mdb", scratch / "copy.mdb")
    shutil.move(scratch / "copy.mdb", path / "view" / "data.mdb")


def by_nonsense(path: Path, scratch: Path) -> None:
    (scratch / "nonsense").write_bytes(b"nonsense" * 4096)
    shutil.move(scratch / "nonsense", path / "view" / "data.mdb")


def by_nothing(path: Path, _scratch: Path) -> None:
    (path / "view" / "data.mdb").unlink()


def by_no_directory(path: Path, _scratch: Path) -> None:
    shutil.rmtree(path / "view")


SWAPS = [by_another_store, by_a_younger_one, by_a_copy_of_itself, by_nonsense, by_nothing, by_no_directory]


@pytest.mark.parametrize("swap", SWAPS)
def test_a_view_put_in_place_of_the_one_in_use_is_not_joined(
    tmp_path: Path, filled: tuple[Path, Any], swap: Swap
) -> None:
    """Who joins is told to wait, those inside let go when they next write, and the view is made anew."""
    path = tmp_path / "s"
    moved(filled[0], path)
    shutil.copyfile(path / "view" / "data.mdb", tmp_path / "young.mdb")
    with Remote(path) as first:
        assert first.commit("a:late") == "committed"
        swap(path, tmp_path)
        assert first.get("a:late") is True, "who had it open goes on with the old file"
        not_joined(path, first)


def not_joined(path: Path, first: Remote) -> None:
    """Until the one who had it open made it again."""
    with pytest.raises(errors.StoreRebuilding):
        Store.open(path, create=False, wait_s=0.2)
    assert first.get("a:late") is True, "what it reads is right meanwhile"
    assert first.commit("b:late") == "VALIDATION_FAILED False", "it let go, and made the view again"
    with Store.open(path, create=False) as second:
        assert second.get("a:late").value["n"] == 10  # type: ignore[union-attr]
        assert second.get("a:4").value["of"] == "s"  # type: ignore[union-attr]
        second.commit([put("a:both", {})])
        assert first.get("a:both") is True
        assert second.verify().findings == ()


def without_contract(txn: Any) -> None:
    txn.delete(view.CONTRACT_KEY)


def of_another_log(txn: Any) -> None:
    state = view.state(txn)
    txn.put(view.STATE_KEY, view.STATE.pack(*state._replace(crc=state.crc ^ 1)))


@pytest.mark.parametrize("act", [without_contract, of_another_log])
def test_a_view_in_use_that_something_else_wrote_to_is_not_joined(
    tmp_path: Path, filled: tuple[Path, Any], act: Callable[[Any], Any]
) -> None:
    path = tmp_path / "s"
    moved(filled[0], path)
    with Remote(path) as first:
        assert first.commit("a:late") == "committed"
        change(path, act)
        not_joined(path, first)


def test_a_store_that_failed_is_not_asked_to_renew(tmp_path: Path, filled: tuple[Path, Any]) -> None:
    """What failed stays failed, whatever lies in place of its view, until all have let go."""
    source, expected = filled
    moved(source, tmp_path / "s")
    store = Store.open(tmp_path / "s", host=boot(1))
    words = store._core.words
    words[positions.STATE] = positions.FAILED
    positions.ask_to_renew(words)
    assert words[positions.STATE] == positions.FAILED
    vanish(store)
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        assert told(store)[1:] == expected[1:]


def test_how_many_keys_there_are_is_right_in_every_step_of_a_life(tmp_path: Path) -> None:
    """What is counted is what is there, from the first frame on, in every step of a life."""
    store = Store.open(tmp_path / "s", segment_bytes=SEGMENT)

    def counted() -> bool:
        with store._core.view.read() as txn:
            return bool(txn.get(view.KEYS_KEY) == view.KEYS.pack(txn.stat()["entries"]))

    assert counted()
    for act in (
        lambda: store.commit([put("a:1", {}), put("b:1", {"u": 1})]),
        lambda: store.commit([put("a:2", {})]),
        lambda: store.declare_index("a", ["n"]),
        lambda: store.pin("p", 0, None),
        lambda: store.activate_contract(CONTRACT),
        lambda: store.compact(NOTHING, now_ms=1 << 50),
        lambda: store.unpin("p"),
        lambda: store.begin_timeline(),
        lambda: store.acknowledge_recovery(),
        lambda: store.rebuild_view(),
        lambda: store.compact(NOTHING, now_ms=1 << 50),
    ):
        act()
        assert counted()
    store.close()
