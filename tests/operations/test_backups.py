"""Bundles: made while others write, verified to the byte, and refused with the reason where a byte is not as written.

The journey to an empty machine is in `tests/acceptance/test_backup_restore.py`.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.keys.audit.models import AuditEvent
from apps.keys.principal import operator
from apps.operations.models import UpkeepRun
from apps.operations.services import backups, in_background, upkeep
from apps.operations.services.backups import bundle as bundles
from apps.operations.services.backups import restoring
from apps.state import stores
from feltdb_engine import Mutation
from feltdb_engine.bundle import FileEntry
from feltdb_engine.errors import BackupInvalid, StorageFull

BY = operator("tests")
ROOT = Path(__file__).resolve().parents[2]
FILL = """
import os, sys
import django
django.setup()
from django.core.management import call_command
call_command("setup", verbosity=0, stdout=sys.stderr)
from apps.state import stores
from feltdb_engine import Mutation
for number in range(5):
    stores.store("default").commit([Mutation(kind="put", collection="a", id=str(number), value={"n": number})])
archive = os.path.join(os.environ["FELTDB_DATA_DIR"], "archive/workloads/default")
os.makedirs(archive)
open(archive + "/2026-01.jsonl", "w").write('{"whole": 1}\\n{"half')
call_command("backup", "create", sys.argv[1])
"""
RESTORE = """
import json, sys
import django
django.setup()
from django.core.management import call_command
call_command("backup", "restore", sys.argv[1], stdout=sys.stderr)
from apps.keys.audit.models import AuditEvent
print(json.dumps(list(AuditEvent.objects.filter(action="backup.restored").values_list("target", flat=True))))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of an instance on SQLite, made by a process of its own."""
    folder = tmp_path_factory.mktemp("backups")
    apart(FILL, folder / "data", folder / "bundle")
    return folder / "bundle"


def apart(program: str, data: Path, bundle: Path) -> str:
    """Run the program in a process of its own, for an instance on SQLite at `data`; return what it printed."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "DATABASE_URL"},
        "DJANGO_SETTINGS_MODULE": "feltsite.settings",
        "FELTDB_DATA_DIR": str(data),
    }
    done = subprocess.run(
        [sys.executable, "-c", program, str(bundle)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "bundle"))


def refusal(path: Path) -> tuple[str, str]:
    with pytest.raises(BackupInvalid) as refused:
        backups.verify(path)
    return refused.value.details["file"], refused.value.message


def files_of(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


def rewrite(path: Path, **members: Any) -> None:
    """Write the manifest anew, as somebody would who also knows how to make its digest."""
    (path / bundles.MANIFEST).write_bytes(bundles.encode(replace(bundles.read(path), **members)))


def test_a_bundle_says_what_it_holds_and_is_whole(bundle: Path) -> None:
    seen = backups.verify(bundle)
    assert [(each.name, each.sequence) for each in seen.stores] == [("default", 5)]
    assert {entry.name for entry in seen.files} | {"BUNDLE.json"} == set(files_of(bundle))
    assert "operations.0002_upkeep_runs" in seen.migrations
    assert (bundle / "archive/workloads/default/2026-01.jsonl").read_text() == '{"whole": 1}\n', "whole lines only"
    assert not [name for name in files_of(bundle) if "secret" in name or "pepper" in name]
    assert bundle.stat().st_mode & 0o077 == 0, "nobody else reads it"


def test_one_bit_of_any_file_is_found(bundle: Path) -> None:
    for name in files_of(bundle):
        data = bytearray((bundle / name).read_bytes())
        for place in {0, len(data) // 2, len(data) - 1}:
            data[place] ^= 0x04
            (bundle / name).write_bytes(data)
            assert refusal(bundle)[0] == name, f"byte {place} of {name}"
            data[place] ^= 0x04
        (bundle / name).write_bytes(data)
    backups.verify(bundle)


@pytest.mark.parametrize("what", ["missing", "shorter", "longer", "link", "directory", "pipe"])
def test_a_file_that_is_not_what_was_written_is_named(bundle: Path, what: str) -> None:
    for name in files_of(bundle):
        path, data = bundle / name, (bundle / name).read_bytes()
        aside = bundle.parent / "aside"
        path.unlink()
        if what == "shorter":
            path.write_bytes(data[:-1])
        elif what == "longer":
            path.write_bytes(data + b"\0")
        elif what == "link":
            aside.write_bytes(data)
            path.symlink_to(aside)
        elif what == "directory":
            path.mkdir()
        elif what == "pipe":
            os.mkfifo(path)
        named, message = refusal(bundle)
        assert named == name and message, (name, message)
        path.rmdir() if what == "directory" else path.unlink(missing_ok=True)
        path.write_bytes(data)
    backups.verify(bundle)


@pytest.mark.parametrize("name", ["extra", "namespaces/default/log/extra", "namespaces/other/manifest.json", ".hidden"])
def test_a_file_more_is_refused(bundle: Path, name: str) -> None:
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_text("more")
    assert refusal(bundle) == (name, f"{name} is not in the manifest.")


def test_an_empty_directory_more_or_a_directory_that_is_a_link_is_refused(bundle: Path) -> None:
    (bundle / "namespaces/other").mkdir()
    assert refusal(bundle)[0] == "namespaces/other"
    (bundle / "namespaces/other").rmdir()
    shutil.move(bundle / "archive", bundle.parent / "archive")
    (bundle / "archive").symlink_to(bundle.parent / "archive")
    assert refusal(bundle)[0] == "archive"


@pytest.mark.parametrize(
    "name",
    ["../outside", "namespaces/../../outside", "/etc/passwd", "namespaces/a b/manifest.json", "secrets/key_pepper_v1"],
)
def test_a_manifest_that_names_what_has_no_place_in_a_bundle_is_refused(bundle: Path, name: str) -> None:
    seen = bundles.read(bundle)
    rewrite(bundle, files=(*seen.files, FileEntry(name=name, size=0, sha256="0" * 64)))
    assert refusal(bundle)[0] == name


def test_a_bundle_that_agrees_with_itself_alone_is_refused(bundle: Path) -> None:
    seen = bundles.read(bundle)
    rewrite(bundle, files=(*seen.files, seen.files[0]))
    assert "twice" in refusal(bundle)[1]
    (bundle / bundles.MANIFEST).write_bytes(bundles.encode(replace(seen, stores=())))
    assert "what its stores need" in refusal(bundle)[1]
    other = replace(seen.stores[0], sequence=4)
    (bundle / bundles.MANIFEST).write_bytes(bundles.encode(replace(seen, stores=(other,))))
    assert "of another moment" in refusal(bundle)[1]


def test_a_database_that_stands_beyond_its_stores_is_refused(bundle: Path) -> None:
    import sqlite3

    path = bundle / "database.sqlite3"
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO triggers_namespaceposition (namespace, store_id, instance_id, sequence, content_hash,"
            " definitions, mismatch_code, mismatch, reconciled_to, updated_at_ms)"
            " VALUES ('default', 's', 'i', 6, 'h', 0, '', '', 0, 0)"
        )
    database.close()
    entries = tuple(
        FileEntry(name=each.name, size=path.stat().st_size, sha256=bundles.digest(path))
        if each.name == path.name
        else each
        for each in bundles.read(bundle).files
    )
    rewrite(bundle, files=entries)
    assert refusal(bundle)[1].endswith("default was evaluated up to 6, its store ends at 5")


def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    printed, said = StringIO(), StringIO()
    code = 0
    try:
        call_command("backup", *arguments, "--json", stdout=printed, stderr=said)
    except SystemExit as ended:
        code = int(str(ended.code))
    return code, json.loads(printed.getvalue() or "{}"), said.getvalue()


def test_verify_and_restore_refuse_with_the_reason_and_change_nothing(bundle: Path, data_dir: Path, db: None) -> None:
    target = next((bundle / "namespaces/default/log").iterdir())
    data = bytearray(target.read_bytes())
    data[-1] ^= 1
    target.write_bytes(data)
    name = str(target.relative_to(bundle))
    code, document, said = run("verify", str(bundle))
    assert (code, document["ok"], document["file"]) == (1, False, name) and name in said
    before = files_of(data_dir)
    code, _, said = run("restore", str(bundle))
    assert code == 1 and name in said and files_of(data_dir) == before


@pytest.mark.django_db(transaction=True)
def test_a_backup_is_noted_audited_listed_and_lets_its_pins_go(data_dir: Path, namespace: str, settings: Any) -> None:
    settings.BACKUP_DIR = data_dir / "backups"
    opened = stores.store(namespace)
    opened.commit([Mutation(kind="put", collection="a", id="1", value={})])
    code, document, _ = run("create", "nightly", "--reason", "before the upgrade")
    assert code == 0 and document["stores"][0]["sequence"] == 1
    row = UpkeepRun.objects.get(kind="backup")
    assert (row.outcome, row.subject) == ("done", "instance") and json.loads(row.report)["path"].endswith("nightly")
    assert AuditEvent.objects.get(action="backup.created").reason == "before the upgrade"
    assert [each["name"] for each in run("list")[1]["backups"]] == ["nightly"]
    assert not opened.pins(), "history is held no longer"
    assert run("verify", "nightly")[1]["ok"] is True
    code, _, said = run("create", "nightly")
    assert code == 1 and "there already" in said
    assert upkeep.last_ended(UpkeepRun.Kind.BACKUP, upkeep.INSTANCE).outcome == "failed"  # type: ignore[union-attr]
    assert run("verify", "nightly")[0] == 0, "and what is there is untouched"
    (settings.BACKUP_DIR / "broken").mkdir()
    assert [bool(each["trouble"]) for each in run("list")[1]["backups"]] == [False, True]


@pytest.mark.django_db(transaction=True)
def test_the_audit_calls_a_backup_by_its_name_wherever_it_lies(
    data_dir: Path, namespace: str, bundle: Path, tmp_path: Path, settings: Any
) -> None:
    settings.BACKUP_DIR = data_dir / "backups"
    for given in ("named", f"{tmp_path}/elsewhere/", f"{tmp_path}/elsewhere/../beside"):
        run("create", given)
    in_background.back_up("asked", by=BY).join(60)
    in_background.verify("asked", by=BY).join(60)
    told = AuditEvent.objects.filter(action__startswith="backup.").order_by("id").values_list("action", "target")
    assert list(told) == [
        *(("backup.created", name) for name in ("named", "elsewhere", "beside")),
        *((f"backup.{action}", "asked") for action in ("asked", "created", "verification_asked", "verified")),
    ]
    assert json.loads(apart(RESTORE, tmp_path / "restored", bundle)) == ["bundle"]


@pytest.mark.django_db(transaction=True)
def test_history_that_a_copied_cursor_needs_is_not_compacted_meanwhile(
    data_dir: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.operations.services import compacting
    from apps.operations.services.backups import databases

    opened = stores.store(namespace)
    for number in range(5):
        opened.commit([Mutation(kind="put", collection="a", id=str(number), value={})])
    true = databases.snapshot
    seen = []

    def then_compact(dest: Path, progress: Any) -> Any:
        migrations = true(dest, progress)
        done = compacting.compact(namespace, by=BY, keep=compacting.forgetting_all(compacting.policy()))
        seen.append((done.floor, done.held_by))
        return migrations

    monkeypatch.setattr(databases, "snapshot", then_compact)
    backups.create(data_dir / "bundle", by=BY)
    assert seen[0][0] == 0 and seen[0][1].startswith("pin backup:")
    assert compacting.compact(namespace, by=BY, keep=compacting.forgetting_all(compacting.policy())).floor == 5


@pytest.mark.django_db(transaction=True)
def test_a_disk_without_room_is_refused_before_anything_is_written(
    data_dir: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")(1, 0, 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StorageFull, match="MiB free"):
        backups.create(data_dir / "bundle", by=BY)
    assert not (data_dir / "bundle").exists()


@pytest.mark.parametrize("name", ["../x", "a b", "", ".hidden", "x" * 101, "-rf"])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    from apps.http.errors import ApiError

    with pytest.raises(ApiError):
        backups.place(name)


def test_one_namespace_comes_back_as_a_directory_of_its_own_up_to_a_revision(bundle: Path, tmp_path: Path) -> None:
    from feltdb_engine import Store

    one = ["--namespace", "default", "--into", str(tmp_path / "s"), "--revision", "3"]
    code, document, _ = run("restore", str(bundle), *one)
    assert (code, document["sequence"]) == (0, 3)
    with Store.open(tmp_path / "s", create=False) as opened:
        assert opened.head().sequence == 3
    assert run("restore", str(bundle), "--namespace", "nowhere", "--into", str(tmp_path / "t"))[0] == 1
    assert run("restore", str(bundle), "--namespace", "default")[0] == 1


def test_a_running_instance_is_never_restored_over(bundle: Path, data_dir: Path, namespace: str) -> None:
    import fcntl

    folder = data_dir / "namespaces" / namespace
    folder.mkdir(parents=True)
    with (folder / "open.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with pytest.raises(Exception, match="runs"):
            restoring._refuse_running(data_dir)
