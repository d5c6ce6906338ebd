"""Faults from outside: system calls of real processes fail, on the log and on LMDB's file, once and from then on.

A failed force stops the store until all have let go of it. Everything else is refused whole, and goes on without a
restart once the disk does.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from feltdb_engine import Store
from feltdb_engine.segment import segment_name
from tests.engine.injection import DATA_SYNC, WRITES, Injection
from tests.engine.kit import boot, operations
from tests.engine.remote import Remote

pytestmark = pytest.mark.acceptance
SEGMENT = 1 << 16


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with one record."""
    with Store.open(tmp_path / "s", segment_bytes=SEGMENT):
        pass
    return tmp_path / "s"


@pytest.fixture
def other(directory: Path) -> Iterator[Remote]:
    """A process that has it open and has committed `a:1`."""
    with Remote(directory) as process:
        assert process.opened == "open" and process.commit("a:1") == "committed"
        yield process


def log_of(directory: Path, start: int = 0) -> Path:
    return directory / "log" / segment_name(start)


def account(directory: Path, told: dict[str, str]) -> None:
    """What was acknowledged is there, what was refused is not; also in a view made again on another boot."""
    for reboot in (False, True):
        with Store.open(directory, create=False, **({"host": boot(7)} if reboot else {})) as store:
            seen = [one.key for one in operations(store)]
            assert len(seen) == len(set(seen))
            for key, answer in told.items():
                assert answer != "committed" or key in seen, f"{key} was acknowledged"
                assert not answer.endswith("False") or key not in seen, f"{key} was refused"
                assert (store.get(key) is not None) == (key in seen) == (store.transaction(key) is not None)
            assert store.verify().good


@pytest.mark.parametrize("when", ["1", "1+"])
def test_a_failed_force_of_the_log_stops_the_store_in_all_processes(directory: Path, other: Remote, when: str) -> None:
    told = {"a:1": "committed"}
    with Remote(directory) as witness:
        assert witness.get("a:1") is True
        with Injection(other.pid, log_of(directory), DATA_SYNC, f"error=EIO:when={when}") as disk:
            told["a:2"] = other.commit("a:2")
            assert told["a:2"] == "STORAGE_FAILED unknown"
            told["a:3"] = other.commit("a:3")
        assert disk.hit == 1, "a second force would prove nothing: it is not tried"
        told["a:4"] = other.commit("a:4")
        told["a:5"] = witness.commit("a:5")
        assert told["a:3"] == told["a:4"] == told["a:5"] == "STORAGE_FAILED False", "not even when the disk is well"
        for process in (other, witness):
            assert process.ask("storage") == "failed"
            assert process.get("a:1") is True, "what was durable is still read"
            assert process.get("a:2") == "STORAGE_FAILED unknown", "what may be lost is not"
        assert witness.ask("close") == "closed"
        assert other.ask("close") == "closed"
        assert witness.ask("open") == "open" and witness.ask("storage") == "clean"
        told["a:6"] = witness.commit("a:6")
        assert told["a:6"] == "committed", "all have let go: it was recovered"
    account(directory, told)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_write_to_the_log_that_fails_once_is_refused_and_the_next_one_works(
    directory: Path, other: Remote, error: str
) -> None:
    with Injection(other.pid, log_of(directory), WRITES, f"error={error}:when=1") as disk:
        told = {"a:1": "committed", "a:2": other.commit("a:2"), "a:3": other.commit("a:3")}
    assert disk.hit == 1
    assert told["a:2"] == ("STORAGE_FULL False" if error == "ENOSPC" else "STORAGE_WRITE_FAILED False")
    assert told["a:3"] == "committed"
    assert other.ask("storage") == "clean"
    other.kill()
    account(directory, told)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_log_that_cannot_be_written_at_all_cannot_be_put_right_and_stops(
    directory: Path, other: Remote, error: str
) -> None:
    with Injection(other.pid, log_of(directory), WRITES, f"error={error}:when=1+"):
        told = {"a:1": "committed", "a:2": other.commit("a:2"), "a:3": other.commit("a:3")}
        assert other.get("a:1") is True
    assert (told["a:2"], told["a:3"]) == ("STORAGE_FAILED unknown", "STORAGE_FAILED False")
    assert other.ask("close") == "closed" and other.ask("open") == "open"
    told["a:4"] = other.commit("a:4")
    assert told["a:4"] == "committed"
    other.kill()
    account(directory, told)


@pytest.mark.parametrize("calls", [WRITES, DATA_SYNC])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_segment_that_cannot_be_made_ready(directory: Path, other: Remote, error: str, calls: str) -> None:
    """Without room it is refused until there is room, without a restart; a failed force is final here, too."""
    told = {"a:1": "committed"}
    with Injection(other.pid, log_of(directory, 2 * SEGMENT), calls, f"error={error}:when=1+") as disk:
        for number in range(2, 20):
            told[f"a:{number}"] = other.commit(f"a:{number}", 9000)
        assert other.get("a:1") is True
    assert disk.hit >= 1
    refused = {answer for answer in told.values() if answer != "committed"}
    told["b:1"] = other.commit("b:1", 9000)
    if calls == WRITES:
        assert refused == {"STORAGE_FULL False" if error == "ENOSPC" else "STORAGE_WRITE_FAILED False"}
        assert told["b:1"] == "committed", "there is room again"
        assert other.ask("storage") == "clean"
    else:
        assert refused == {"STORAGE_FAILED False"} and told["b:1"] == "STORAGE_FAILED False"
        assert other.ask("close") == "closed" and other.ask("open") == "open"
        told["b:2"] = other.commit("b:2", 9000)
        assert told["b:2"] == "committed"
    other.kill()
    account(directory, told)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize(("call", "nth"), [("writev", 1), ("pwrite64", 1), ("pwrite64", 2), ("pwrite64", 3)])
def test_any_write_of_a_view_commit_that_fails_once_is_refused_whole_and_the_next_one_works(
    directory: Path, other: Remote, error: str, call: str, nth: int
) -> None:
    """Its pages, one by one and together, and LMDB's root page at last."""
    told = {"a:1": "committed"}
    with Injection(other.pid, directory / "view" / "data.mdb", call, f"error={error}:when={nth}") as disk:
        told["a:2"] = other.commit("a:2", 9000)
        told["a:3"] = other.commit("a:3", 9000)
    assert disk.hit == 1
    refused = [answer for answer in told.values() if answer != "committed"]
    assert refused == ["STORAGE_FULL False" if error == "ENOSPC" else "STORAGE_WRITE_FAILED False"]
    told["a:4"] = other.commit("a:4")
    assert told["a:4"] == "committed" and other.ask("storage") == "clean"
    other.kill()
    account(directory, told)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_view_that_cannot_be_written_refuses_all_until_it_can_be_without_a_restart(
    directory: Path, other: Remote, error: str
) -> None:
    told = {"a:1": "committed"}
    with Injection(other.pid, directory / "view" / "data.mdb", WRITES, f"error={error}:when=1+"):
        for number in range(2, 5):
            told[f"a:{number}"] = other.commit(f"a:{number}", 5000)
            assert other.get("a:1") is True, "reads go on"
    assert {told[f"a:{number}"] for number in range(2, 5)} == {
        "STORAGE_FULL False" if error == "ENOSPC" else "STORAGE_WRITE_FAILED False"
    }
    told["a:5"] = other.commit("a:5")
    assert told["a:5"] == "committed" and other.ask("storage") == "clean"
    other.kill()
    account(directory, told)


def test_a_view_that_cannot_be_forced_at_closing_is_not_believed_on_the_next_boot(
    directory: Path, other: Remote
) -> None:
    with Injection(other.pid, directory / "view" / "data.mdb", DATA_SYNC, "error=EIO:when=1+") as disk:
        assert other.ask("close") == "closed"
    assert disk.hit >= 1
    view = directory / "view" / "data.mdb"
    view.write_bytes(view.read_bytes()[:8192] + bytes(view.stat().st_size - 8192))
    with Store.open(directory, host=boot(7)) as store:
        assert store.get("a:1") is not None


@pytest.mark.parametrize("calls", [DATA_SYNC, WRITES])
def test_interrupted_calls_are_made_again(directory: Path, other: Remote, calls: str) -> None:
    for path in (log_of(directory), directory / "view" / "data.mdb"):
        with Injection(other.pid, path, calls, "error=EINTR:when=1") as disk:
            assert other.commit(f"a:{path.name}") == "committed"
        forces_nothing = calls == DATA_SYNC and path.name == "data.mdb"  # LMDB, in a commit
        assert bool(disk.hit) != forces_nothing
    other.kill()
    account(directory, {"a:1": "committed"})


@pytest.mark.parametrize("name", ["trust", "manifest.json.new"])
@pytest.mark.parametrize("calls", [DATA_SYNC, WRITES])
def test_small_files_that_cannot_be_written_or_forced_stop_no_next_opening(
    directory: Path, other: Remote, name: str, calls: str
) -> None:
    assert other.ask("close") == "closed"
    with Injection(other.pid, directory / name, calls, "error=EIO:when=1+") as disk:
        opened = other.ask("open")
        assert opened in ("open", "STORAGE_FAILED False", "STORAGE_WRITE_FAILED False")
        if opened == "open":
            other.ask("close")
    assert bool(disk.hit) == (name == "trust")
    assert other.ask("open") == "open" and other.commit("a:2") == "committed"
    other.kill()
    account(directory, {"a:1": "committed", "a:2": "committed"})
