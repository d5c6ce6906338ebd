"""Backups made while other processes write, killed half-way, damaged; and what restoring makes of them."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from feltdb_engine import Store, bundle, errors
from feltdb_engine import __main__ as command
from feltdb_engine.backup import restore, verify_backup
from feltdb_engine.bundle import MANIFEST_NAME
from feltdb_engine.segment import segment_name
from tests.engine.hooks import BACKUP_STEPS, RESTORE_STEPS
from tests.engine.kit import operations, put
from tests.engine.test_crashes import ROOT, account, start
from tests.engine.test_verify import SEGMENT, fill, flip


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path]:
    """A store of several segments and a backup of it."""
    with Store.open(tmp_path / "s", segment_bytes=SEGMENT) as store:
        fill(store)
        store.backup(tmp_path / "b")
    return tmp_path / "s", tmp_path / "b"


def test_nothing_acknowledged_before_a_backup_is_missing_while_processes_write(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    journals = [tmp_path / "j0", tmp_path / "j1"]
    for journal in journals:
        journal.touch()
    with Store.open(directory, segment_bytes=SEGMENT) as store:
        writers = [start(directory, journal, f"w{n}", n, commits=100_000) for n, journal in enumerate(journals)]
        try:
            heads = []
            acknowledged = 0
            for number in range(3):
                until = time.monotonic() + 20
                while store.head().sequence < 60 * (number + 1) and time.monotonic() < until:
                    time.sleep(0.01)
                before = [journal.read_text() for journal in journals]
                info = store.backup(tmp_path / f"b{number}")
                heads.append(info.sequence)
                assert store.verify().findings == (), "writers at work are no damage"
                after = [journal.read_text() for journal in journals]
                for n, text in enumerate(before):
                    # What was acknowledged before it began, and all that was tried until it ended.
                    tries = [line + "\n" for line in after[n].splitlines() if line.startswith("try ")]
                    acks = [line for line in text.splitlines(keepends=True) if line.startswith("ack ")]
                    whole = [line for line in acks if line.endswith("\n")]
                    acknowledged += len(whole)
                    (tmp_path / f"b{number}-j{n}").write_text("".join(tries + whole))
            assert acknowledged > 20
            assert all(writer.poll() is None for writer in writers), "writes went on"
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
    assert heads == sorted(set(heads))
    for number, head in enumerate(heads):
        restored = tmp_path / f"r{number}"
        restore(tmp_path / f"b{number}", restored)
        account(restored, [tmp_path / f"b{number}-j{n}" for n in range(2)])
        with Store.open(restored) as store:
            assert store.head().sequence == head
            assert store.verify().good


def test_a_restored_store_is_on_a_timeline_of_its_own_that_names_its_parent(made: tuple[Path, Path]) -> None:
    source, saved = made
    with Store.open(source) as store:
        parent, head = store.instance_id, store.head()
    restore(saved, source.with_name("r"))
    with Store.open(source.with_name("r")) as store:
        assert store.instance_id != parent
        members = orjson.loads((source.with_name("r") / "manifest.json").read_bytes().splitlines()[0])
        assert members["parent"] == {"instance_id": parent, "sequence": head.sequence}
        assert store.changes(head).cursor.sequence == head.sequence, "a feed's reader goes on"
        store.commit([put("a:new", {})])
        assert store.head().sequence == head.sequence + 1
        assert store.verify().good


def test_restoring_to_a_revision_keeps_whole_transactions_up_to_it(made: tuple[Path, Path]) -> None:
    source, saved = made
    with Store.open(source) as store:
        told = list(operations(store))
    for revision in (0, 2, 40, 80, 118, len(told)):
        dest = source.with_name(f"r{revision}")
        restore(saved, dest, to_revision=revision)
        with Store.open(dest) as store:
            assert list(operations(store)) == told[:revision]
            assert (store.transaction("t0") is None) == (revision == 0)
            assert (store.transaction("t59") is None) == (revision < 120)
            store.commit([put("a:new", {})])
            assert store.verify().good
    for revision in (-1, 3, len(told) + 1):
        with pytest.raises(errors.BackupInvalid):
            restore(saved, source.with_name("no"), to_revision=revision)
    assert not source.with_name("no").exists()


def test_neither_writes_over_what_is_there_or_into_its_own_source(made: tuple[Path, Path]) -> None:
    source, saved = made
    with Store.open(source) as store:
        for dest in (saved, source, source / "inside"):
            with pytest.raises(errors.DestinationExists):
                store.backup(dest)
    link = source.with_name("link")
    link.symlink_to(source.with_name("nowhere"))
    for dest in (source, saved, saved / "inside", link):
        with pytest.raises(errors.DestinationExists):
            restore(saved, dest)


def test_every_flipped_bit_of_a_backup_is_refused(made: tuple[Path, Path]) -> None:
    source, saved = made
    for path in (saved / MANIFEST_NAME, saved / "manifest.json", *sorted((saved / "log").iterdir())):
        size = path.stat().st_size
        for offset in range(0, size, max(1, size // 25)):
            flip(path, offset, offset % 8)
            with pytest.raises(errors.BackupInvalid):
                verify_backup(saved)
            flip(path, offset, offset % 8)
    flip(saved / "log" / segment_name(0), 100, 1)
    with pytest.raises(errors.BackupInvalid):
        restore(saved, source.with_name("r"))
    flip(saved / "log" / segment_name(0), 100, 1)
    assert verify_backup(saved).sequence > 100


def _missing(saved: Path) -> None:
    (saved / "log" / segment_name(SEGMENT)).unlink()


def _no_manifest(saved: Path) -> None:
    (saved / MANIFEST_NAME).unlink()


def _more(saved: Path) -> None:
    (saved / "log" / "more").touch()


def _link(saved: Path) -> None:
    path = saved / "log" / segment_name(0)
    path.rename(saved.with_name("elsewhere"))
    path.symlink_to(saved.with_name("elsewhere"))


def _linked_log(saved: Path) -> None:
    (saved / "log").rename(saved.with_name("elsewhere"))
    (saved / "log").symlink_to(saved.with_name("elsewhere"))


def _dots(saved: Path) -> None:
    info = bundle.read_info(saved)
    entry = bundle.FileEntry(name="../s/manifest.json", size=1, sha256="0" * 64)
    members = {name: getattr(info, name) for name in info.__dataclass_fields__}
    (saved / MANIFEST_NAME).write_bytes(bundle.encode(bundle.BackupInfo(**{**members, "files": (*info.files, entry)})))


@pytest.mark.parametrize("damage", [_missing, _no_manifest, _more, _link, _linked_log, _dots])
def test_a_missing_file_a_stray_one_a_link_and_dots_are_refused(made: tuple[Path, Path], damage: object) -> None:
    source, saved = made
    assert callable(damage)
    damage(saved)
    for attempt in (lambda: verify_backup(saved), lambda: restore(saved, source.with_name("r"))):
        with pytest.raises(errors.BackupInvalid):
            attempt()
    assert not source.with_name("r").exists()


def run(what: str, source: Path, dest: Path, step: str) -> int:
    arguments = [sys.executable, "-m", "tests.engine.backup_runner", what, str(source), str(dest), step]
    return subprocess.run(arguments, cwd=ROOT, timeout=60).returncode


@pytest.mark.parametrize("step", BACKUP_STEPS)
def test_a_backup_killed_at_a_step_is_whole_or_has_no_name(made: tuple[Path, Path], step: str) -> None:
    source, saved = made
    shutil.rmtree(saved)
    assert run("backup", source, saved, step) == -9
    assert saved.exists() == (step == "backup renamed")
    for left in source.parent.glob(".*.partial"):
        if step != "backup manifest written":
            with pytest.raises(errors.BackupInvalid):
                verify_backup(left)
    with Store.open(source) as store:
        assert store.verify().good
        if not saved.exists():
            store.backup(saved)
    assert verify_backup(saved).sequence > 100


@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_a_restore_killed_at_a_step_is_whole_or_has_no_name(made: tuple[Path, Path], step: str) -> None:
    source, saved = made
    dest = source.with_name("r")
    assert run("restore", saved, dest, step) == -9
    assert dest.exists() == (step == "restore renamed")
    if not dest.exists():
        restore(saved, dest)
    with Store.open(dest, create=False) as store:
        assert store.verify().good and store.transaction("t59") is not None


def test_a_backup_that_fails_leaves_nothing_behind(made: tuple[Path, Path]) -> None:
    source, _ = made
    with Store.open(source) as store:

        def fail(done: int, total: int) -> None:
            raise OSError("no room")

        with pytest.raises(errors.StorageError):
            store.backup(source.with_name("b2"), fail)
    assert sorted(path.name for path in source.parent.iterdir()) == ["b", "s"]


def test_the_commands_back_up_restore_dump_and_rebuild(
    made: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    source, saved = made
    dest, again = str(source.with_name("r")), str(source.with_name("b2"))
    assert command.main(["backup", str(source), again, "--json"]) == 0
    assert orjson.loads(capfdbinary.readouterr().out)["sequence"] == verify_backup(saved).sequence
    assert command.main(["backup", str(source), again]) == command.REFUSED
    assert command.main(["verify", again]) == 0
    assert command.main(["restore", again, dest, "--to-revision", "40"]) == 0
    assert command.main(["rebuild-view", dest]) == 0
    capfdbinary.readouterr()
    assert command.main(["dump", dest, "--collection", "b"]) == 0
    lines = [orjson.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert sorted(line["id"] for line in lines) == sorted(str(number) for number in range(20))
    with pytest.raises(SystemExit) as usage:
        command.main(["restore", again])
    assert usage.value.code == 2
    shutil.rmtree(saved / "log")
    assert command.main(["verify", str(saved)]) == command.REFUSED
    clock = iter([0.0, 1.0, 2.5, 3.0, 4.6])
    line = command.ProgressLine(sys.stderr, lambda: next(clock))
    for done in (1, 2, 3, 4):
        line(done << 20, 4 << 20)
    assert capfdbinary.readouterr().err.endswith(b"50 % (2 of 4 MiB)\n100 % (4 of 4 MiB)\n")
