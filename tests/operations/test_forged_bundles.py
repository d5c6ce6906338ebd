"""Bundles made by somebody who knows how to make every digest: refused in plain words, with nothing changed.

Each value of each manifest is replaced by each of a set of values that have no business there, and all digests that
lie above it are made anew. Damage without that knowledge is in `test_backups.py`.
"""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import orjson
import pytest

from apps.operations.services import backups
from apps.operations.services.backups import bundle as bundles
from apps.operations.services.backups import places, restoring
from feltdb_engine import Mutation, Store
from feltdb_engine.errors import BackupInvalid, DestinationExists, EngineError
from tests.disk import fill, small_disk
from tests.needs import missing
from tests.operations.test_backups import BY, FILL, RESTORE, ROOT, apart, run

STORE = "namespaces/default"
ODD: tuple[Any, ...] = (None, True, -1, 1.5, 2**63, 10**18, "../../x", [], {})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forged")
    apart(FILL, folder / "data", folder / "bundle")
    return folder / "bundle"


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "bundle"))


def sealed(members: dict[str, Any]) -> bytes:
    """The bytes of a manifest with a digest that fits."""
    members = {name: value for name, value in members.items() if name != "sha256"}
    members["sha256"] = hashlib.sha256(orjson.dumps(members)).hexdigest()
    return orjson.dumps(members, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def entry_of(path: Path, members: dict[str, Any], name: str) -> None:
    """Make the entry of a file in a manifest fit what the file is now."""
    data = (path / name).read_bytes()
    for each in members["files"]:
        if each["name"] == name:
            each.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())


def reseal(path: Path) -> None:
    """Make every digest above a store's manifest fit."""
    inner = json.loads((path / STORE / "MANIFEST.json").read_bytes())
    entry_of(path / STORE, inner, "manifest.json")
    (path / STORE / "MANIFEST.json").write_bytes(sealed(inner))
    outer = json.loads((path / bundles.MANIFEST).read_bytes())
    for name in ("manifest.json", "MANIFEST.json"):
        entry_of(path, outer, f"{STORE}/{name}")
    (path / bundles.MANIFEST).write_bytes(sealed(outer))


def outer(path: Path) -> tuple[dict[str, Any], Callable[[dict[str, Any]], None]]:
    place = path / bundles.MANIFEST
    return json.loads(place.read_bytes()), lambda members: [place.write_bytes(sealed(members))][0] and None


def inner(path: Path) -> tuple[dict[str, Any], Callable[[dict[str, Any]], None]]:
    place = path / STORE / "MANIFEST.json"

    def write(members: dict[str, Any]) -> None:
        place.write_bytes(sealed(members))
        top = json.loads((path / bundles.MANIFEST).read_bytes())
        entry_of(path, top, f"{STORE}/MANIFEST.json")
        (path / bundles.MANIFEST).write_bytes(sealed(top))

    return json.loads(place.read_bytes()), write


def innermost(path: Path) -> tuple[dict[str, Any], Callable[[dict[str, Any]], None]]:
    place = path / STORE / "manifest.json"

    def write(members: dict[str, Any]) -> None:
        line = orjson.dumps(members)
        place.write_bytes(b"%s\n%08x\n" % (line, google_crc32c.value(line)))
        reseal(path)

    return json.loads(place.read_bytes().partition(b"\n")[0]), write


def spots(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in it; of a list of many alike the first alone."""
    if at:
        yield at
    children = (
        value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from spots(child, (*at, key))


def put(members: dict[str, Any], at: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(members))
    holder = copy
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    return dict(copy)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("manifest", [outer, inner, innermost])
def test_no_value_of_any_manifest_breaks_verifying_listing_or_restoring(
    bundle: Path, tmp_path: Path, settings: Any, manifest: Any
) -> None:
    settings.BACKUP_DIR = bundle.parent
    members, write = manifest(bundle)
    kept = {place: place.read_bytes() for place in bundle.rglob("*.json")}
    tried = refused = 0
    for at in spots(members):
        for value in ODD:
            if type(value) is type(members.get(at[0])) and value == members.get(at[0]):
                continue
            try:
                write(put(members, at, value))
            except TypeError:
                continue  # orjson cannot say it, so no file can
            where = f"{'.'.join(map(str, at))} = {value!r}"
            tried += 1
            for step in (
                lambda: backups.verify(bundle),
                lambda: backups.restore_store(bundle, "default", tmp_path / "into"),
            ):
                try:
                    step()
                except EngineError as error:
                    refused += 1
                    assert error.message and not (tmp_path / "into").exists(), where
                except Exception as error:
                    raise AssertionError(f"{where}: {error!r}") from error
                shutil.rmtree(tmp_path / "into", ignore_errors=True)
            (seen,) = (each for each in places.available() if each.name == "bundle")
            assert (seen.bundle is None) == bool(seen.trouble), where
            if seen.bundle is not None:
                from apps.operations.management.commands.backup import line

                assert line(seen.bundle), where
            for place, data in kept.items():
                place.write_bytes(data)
    print(f"{manifest.__name__}: {tried} values, {refused} refusals")
    assert refused > tried > 20
    backups.verify(bundle)


def test_a_key_said_twice_is_damage(bundle: Path) -> None:
    place = bundle / bundles.MANIFEST
    data = place.read_bytes()
    place.write_bytes(data.replace(b'{\n  "format"', b'{\n  "version": "9",\n  "format"', 1))
    with pytest.raises(BackupInvalid, match="not what was written"):
        backups.verify(bundle)


def test_a_store_named_twice_is_refused_before_anything_is_staged(bundle: Path) -> None:
    members, write = outer(bundle)
    members["stores"] = members["stores"] * 2
    write(members)
    with pytest.raises(BackupInvalid, match="twice"):
        backups.verify(bundle)


def test_another_format_is_refused(bundle: Path) -> None:
    members, write = outer(bundle)
    write({**members, "format": "feltdb-bundle-2"})
    with pytest.raises(BackupInvalid, match="this version"):
        backups.verify(bundle)


def test_a_store_of_another_instance_in_its_place_is_refused(bundle: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "other") as other:
        for number in range(5):
            other.commit([Mutation(kind="put", collection="a", id=str(number), value={"n": number})])
        shutil.rmtree(bundle / STORE)
        other.backup(bundle / STORE)
    members, write = outer(bundle)
    for each in members["files"]:
        if each["name"].startswith(STORE):
            entry_of(bundle, members, each["name"])
    write(members)
    with pytest.raises(BackupInvalid, match="another store"):
        backups.verify(bundle)


def test_a_device_is_refused(bundle: Path) -> None:
    name = "archive/workloads/default/2026-01.jsonl"
    (bundle / name).unlink()
    try:
        os.mknod(bundle / name, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: reading it would never end
    except PermissionError:
        missing("making a device needs root")
    with pytest.raises(BackupInvalid, match="something else a backup does not hold"):
        backups.verify(bundle)


def test_what_is_restored_shares_no_file_with_the_bundle_or_whatever_the_bundle_shares(
    bundle: Path, tmp_path: Path
) -> None:
    """A tree of hard links, as tools of backups make them, is a bundle like any other: its bytes are what counts."""
    linked = tmp_path / "linked"
    shutil.copytree(bundle, linked, copy_function=os.link)
    apart(RESTORE, tmp_path / "restored", linked)
    inodes = {each.stat().st_ino for each in linked.rglob("*") if each.is_file()}
    there = {each.stat().st_ino for each in (tmp_path / "restored").rglob("*") if each.is_file()}
    assert inodes and not inodes & there


def test_a_backup_in_the_making_is_no_bundle(bundle: Path) -> None:
    (bundle / bundles.MANIFEST).unlink()
    with pytest.raises(BackupInvalid, match=r"BUNDLE\.json is missing"):
        backups.verify(bundle)


def test_two_restores_at_once_are_refused(bundle: Path, settings: Any, tmp_path: Path) -> None:
    from apps.http.errors import ApiError
    from apps.operations.services import turns

    settings.DATA_DIR = tmp_path
    (tmp_path / ".restore-of-the-other").mkdir()
    held = turns.take(turns.RESTORE)
    try:
        with pytest.raises(ApiError, match="Another restore is at work"):
            restoring.restore(bundle, by=BY)
    finally:
        held.close()
    assert (tmp_path / ".restore-of-the-other").is_dir(), "what the other has staged is its own"


def test_a_store_is_restored_beside_nothing_that_is_there(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "mine").write_text("mine")
    with pytest.raises(DestinationExists):
        backups.restore_store(bundle, "default", tmp_path / "into")
    assert [each.name for each in (tmp_path / "into").iterdir()] == ["mine"]


def test_a_restore_onto_a_full_disk_changes_nothing_and_is_repeated_once_there_is_room(bundle: Path) -> None:
    with small_disk(megabytes=64) as disk:
        data = disk / "data"
        data.mkdir()
        ballast = fill(disk, leave_bytes=1_200_000)  # less than the bundle takes
        done = restored(bundle, data)
        assert done.returncode == 3 and "Traceback" not in done.stderr, done.stderr
        assert "no room on the disk" in done.stderr, done.stderr
        left = [each.name for each in data.iterdir()]
        assert not [name for name in left if name.startswith((".restore-", "restore-", "namespaces"))], left
        ballast.unlink()
        done = restored(bundle, data)
        assert done.returncode == 0, done.stderr


def restored(bundle: Path, data: Path) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.run(
        [sys.executable, "manage.py", "backup", "restore", str(bundle)],
        cwd=ROOT,
        env={**environment, "DJANGO_SETTINGS_MODULE": "feltsite.settings", "FELTDB_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_file_that_this_user_may_not_read_is_named(
    bundle: Path, data_dir: Path, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = os.open

    def refusing(path: Any, *arguments: Any, **named: Any) -> int:
        if str(path).endswith("database.sqlite3") and "bundle" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return true(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refusing)
    before = sorted(data_dir.rglob("*"))
    for command in ("verify", "restore"):
        code, _, said = run(command, str(bundle))
        assert code == 3 and "permission denied" in said and "database.sqlite3" in said
    assert [each for each in sorted(data_dir.rglob("*")) if each.suffix != ".lock"] == before
