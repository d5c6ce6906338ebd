"""A damaged log, opened for reading only: the exact state before the first bad place, and no trace of having looked."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from feltdb_engine import Retention, Store, errors, positions, reading, trust
from feltdb_engine import __main__ as command
from feltdb_engine.files import OSFiles
from feltdb_engine.positions import Positions
from feltdb_engine.segment import segment_name
from tests.engine.kit import boot, delete, operations, put, vanish
from tests.engine.test_past import answers

SEGMENT = 1 << 16


def tree(directory: Path) -> dict[str, Any]:
    """What no opening of a damaged log may change: log, snapshots, manifest, and what is known to be durable."""
    kept = [*directory.glob("log/*"), *directory.glob("snapshots/*"), directory / "manifest.json"]
    known = trust.read(OSFiles(), directory)
    assert known is not None
    durable = Positions(directory / positions.NAME).words[positions.DURABLE]
    return {str(one): one.read_bytes() for one in kept} | {"durable": (known.position, known.clean, durable)}


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, list[tuple[int, Any, list[Any]]]]:
    """A store of several segments; where each transaction ends, what could be read then, and what the feed had."""
    directory = tmp_path / "s"
    kept: list[tuple[int, Any, list[Any]]] = []
    with Store.open(directory, segment_bytes=SEGMENT, host=boot(1)) as store:
        store.declare_index("a", ["n"])
        store.activate_contract({"collections": {"a": {"unique": ["u"]}}})
        for number in range(24):
            fill = "x" * (9_000 if number % 3 else 1)
            store.commit(
                [put(f"a:{number % 6}", {"n": number % 4, "u": number, "s": fill}), put(f"b:{number}", {"n": 1})]
            )
            if number % 5 == 4:
                store.commit([delete(f"b:{number - 1}")])
            seen = answers(store) if number in (1, 3, 11, 22) else None
            kept.append((store.stats().written, seen, list(operations(store))))
    return directory, kept


def damage(directory: Path, position: int) -> None:
    path = directory / "log" / segment_name(position - position % SEGMENT)
    data = bytearray(path.read_bytes())
    data[position % SEGMENT] ^= 0x10
    path.write_bytes(data)
    for one in (directory / "view").iterdir():
        one.unlink()


@pytest.mark.parametrize("number", [3, 11, 22])
def test_what_lies_before_the_damage_is_served_exactly(
    history: tuple[Path, list[tuple[int, Any, list[Any]]]], number: int
) -> None:
    directory, kept = history
    end, expected, told = kept[number]
    damage(directory, end + 100)
    with pytest.raises(errors.LogCorrupt):
        Store.open(directory, create=False, host=boot(1))
    before = tree(directory)
    with Store.open(directory, create=False, read_only=True, host=boot(1)) as store:
        health = store.health()
        assert (health.storage, health.reasons) == ("damaged", ("damaged", "read-only"))
        assert health.byte_offset == end and health.head == told[-1].sequence
        assert answers(store) == expected and list(operations(store)) == told
        assert store.query("a", where={"field": "n", "op": "eq", "value": 1}).plan["access"] == "index"
        assert answers(store.as_of(kept[1][2][-1].sequence)) == kept[1][1]
        assert store.contract().revision == 1 and store.history("a", "1").operations
        for write in (
            lambda: store.commit([put("a:x", {})]),
            store.acknowledge_recovery,
            store.rebuild_view,
            store.compact,
            store.withdraw_contract,
        ):
            with pytest.raises(errors.ReadOnlyStore):
                write()
        with pytest.raises(errors.LogCorrupt):
            store.backup(directory.parent / "backup")
        findings = store.verify().findings
        assert findings and findings[0].sequence == told[-1].sequence + 1
        with pytest.raises(errors.LogCorrupt):
            other_opening(directory)
    assert tree(directory) == before
    with pytest.raises(errors.LogCorrupt):
        Store.open(directory, create=False, host=boot(1))
    assert tree(directory) == before, "nothing was cut as a tail"


def other_opening(directory: Path) -> None:
    """Open a copy of the directory, as somebody else would, for writing."""
    copy = directory.parent / "copy"
    shutil.copytree(directory, copy)
    Store.open(copy, create=False).close()


def test_nothing_is_left_of_it_and_others_are_not_held_up(
    history: tuple[Path, list[tuple[int, Any, list[Any]]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, kept = history
    damage(directory, kept[11][0] + 100)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    store = Store.open(directory, create=False, read_only=True, host=boot(1))
    assert list(scratch.iterdir()) == [], "the files it uses have no names"
    assert store.page("a").records
    # Whoever mends the log, here by undoing the damage, opens it as ever while it is still being read.
    path = directory / "log" / segment_name((kept[11][0] + 100) // SEGMENT * SEGMENT)
    data = bytearray(path.read_bytes())
    data[(kept[11][0] + 100) % SEGMENT] ^= 0x10
    path.write_bytes(data)
    program = (
        "from feltdb_engine import Store; from tests.engine.kit import boot\n"
        f"with Store.open({str(directory)!r}, create=False, host=boot(1), wait_s=20) as s: print(s.head().sequence)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, timeout=60
    )
    assert done.stdout.decode().strip() == str(kept[-1][2][-1].sequence), done.stderr.decode()
    store.close()
    assert list(scratch.iterdir()) == []


def test_a_damaged_log_after_compaction_is_served_from_the_snapshot(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = Store.open(directory, segment_bytes=SEGMENT, host=boot(1))
    for number in range(20):
        store.commit([put(f"a:{number}", {"n": number, "s": "x" * 9_000})])
    store.compact(Retention(age_ms=0), now_ms=1 << 50)
    store.commit([put("a:0", {"n": -1})])
    end, expected = store.stats().written, answers(store)
    store.commit([put("a:1", {"n": -1})])
    store.commit([put("a:2", {"n": -1})])
    vanish(store)
    damage(directory, end + 70)
    with Store.open(directory, create=False, read_only=True, host=boot(1)) as served:
        assert answers(served) == expected and served.health().floor == 20


def test_where_there_is_nothing_to_begin_with_it_is_refused(
    history: tuple[Path, list[tuple[int, Any, list[Any]]]],
) -> None:
    directory, _ = history
    (directory / "manifest.json").unlink()
    with pytest.raises((errors.LogCorrupt, errors.StoreNotFound)):
        Store.open(directory, create=False, read_only=True, host=boot(1))


def test_the_commands_say_that_it_is_not_all(
    history: tuple[Path, list[tuple[int, Any, list[Any]]]], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    directory, kept = history
    end, _, told = kept[11]
    damage(directory, end + 100)
    for name in ("export", "stats"):
        assert command.main([name, str(directory)]) == command.FINDINGS
        shown = capfdbinary.readouterr()
        assert f"up to sequence {told[-1].sequence}".encode() in shown.err and shown.out
    assert command.main(["verify", str(directory), "--json"]) == command.FINDINGS
    assert orjson.loads(capfdbinary.readouterr().out)["findings"]
    assert command.main(["backup", str(directory), str(directory.parent / "b")]) == command.STORAGE


def test_health_gives_reasons_wherever_not_all_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path / "s", host=boot(1)) as store:
        store.commit([put("a:1", {})])
        assert store.health().reasons == ()
        monkeypatch.setattr(reading, "has_no_room", lambda path, size: True)
        assert (store.health().storage, store.health().reasons) == ("clean", ("full",))
        monkeypatch.undo()
        words = store._core.words
        for state, reason in ((positions.FAILED, "failed"), (positions.RENEW, "rebuilding")):
            words[positions.STATE] = state
            assert store.health().reasons == (reason,)
        words[positions.STATE] = positions.LIVE
        written = store.stats().written
    with (tmp_path / "s" / "log" / segment_name(0)).open("r+b") as log:
        log.seek(written)
        log.write(b"torn tail")
    with Store.open(tmp_path / "s", host=boot(2)) as store:
        assert store.health().reasons == ("recovered-incomplete-write",)
        store.acknowledge_recovery()
        assert store.health().reasons == ()
    with Store.open(tmp_path / "s", read_only=True, host=boot(2)) as store:
        assert (store.health().storage, store.health().reasons) == ("clean", ("read-only",))
