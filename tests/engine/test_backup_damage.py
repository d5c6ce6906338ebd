"""A backup whose own manifest agrees with itself, and is wrong all the same: refused, with the file named."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from feltdb_engine import Retention, Store, bundle, errors
from feltdb_engine.backup import restore, verify_backup
from feltdb_engine.bundle import MANIFEST_NAME, BackupInfo, FileEntry
from tests.engine.kit import boot, put

SEGMENT = 1 << 16


def entry(saved: Path, name: str) -> FileEntry:
    data = (saved / name).read_bytes()
    return FileEntry(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def seal(saved: Path, info: BackupInfo) -> None:
    """Write the manifest of what is there now."""
    files = tuple(entry(saved, one.name) for one in info.files if (saved / one.name).exists())
    (saved / MANIFEST_NAME).write_bytes(bundle.encode(replace(info, files=files)))


def another_stores_manifest(saved: Path, info: BackupInfo) -> None:
    shutil.copyfile(saved.with_name("other") / "manifest.json", saved / "manifest.json")
    seal(saved, info)


def unreadable_manifest(saved: Path, info: BackupInfo) -> None:
    (saved / "manifest.json").write_bytes(b"nonsense\n00000000\n")
    seal(saved, info)


def no_snapshot(saved: Path, info: BackupInfo) -> None:
    shutil.rmtree(saved / "snapshots")
    seal(saved, info)


def damaged_snapshot(saved: Path, info: BackupInfo) -> None:
    path = next((saved / "snapshots").iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    seal(saved, info)


def file_named_twice(saved: Path, info: BackupInfo) -> None:
    (saved / MANIFEST_NAME).write_bytes(bundle.encode(replace(info, files=(*info.files, info.files[0]))))


def another_format(saved: Path, info: BackupInfo) -> None:
    members = orjson.loads((saved / MANIFEST_NAME).read_bytes()) | {"format": 99}
    (saved / MANIFEST_NAME).write_bytes(orjson.dumps(members))


def log_that_ends_elsewhere(saved: Path, info: BackupInfo) -> None:
    seal(saved, replace(info, sequence=info.sequence + 1))


DAMAGES: list[Callable[[Path, BackupInfo], None]] = [
    another_stores_manifest,
    unreadable_manifest,
    no_snapshot,
    damaged_snapshot,
    file_named_twice,
    another_format,
    log_that_ends_elsewhere,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
def test_a_backup_that_agrees_with_itself_alone_is_refused(tmp_path: Path, damage: Callable[..., None]) -> None:
    Store.open(tmp_path / "other", host=boot(1)).close()
    with Store.open(tmp_path / "s", segment_bytes=SEGMENT, host=boot(1)) as store:
        for number in range(20):
            store.commit([put(f"a:{number}", {"body": "x" * 8000})])
        store.compact(Retention(age_ms=None, bytes=0))
        store.commit([put("a:last", {})])
        store.backup(tmp_path / "b")
    info = verify_backup(tmp_path / "b")
    assert info.sequence == 21
    damage(tmp_path / "b", info)
    with pytest.raises(errors.BackupInvalid) as refused:
        verify_backup(tmp_path / "b")
    assert refused.value.details["file"]
    with pytest.raises(errors.BackupInvalid):
        restore(tmp_path / "b", tmp_path / "r")
    assert not (tmp_path / "r").exists()
