"""An instance out of a bundle, in the data directory and database that the settings name.

Verified first, staged beside what is there, proved by opening, and only then put in its place. What is there already is
touched on an explicit word only, and then set aside, never deleted. A restore that was cut off leaves a mark; until it
is run again, `setup` and the doctor say so. Secrets are brought back apart: `manage.py secrets import`.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader

from apps.http import measures
from apps.http.errors import ApiError
from apps.keys.audit.services import record
from apps.keys.clock import utc_now
from apps.keys.lost import Lost, lost_secrets
from apps.keys.principal import Principal
from apps.keys.secret_files import force_names
from apps.operations.models import WorkerProcess
from apps.operations.services import turns, upkeep
from apps.operations.services.backups import bundle as bundles
from apps.operations.services.backups import databases, places
from apps.operations.services.backups.bundle import ARCHIVE, STORES, Bundle
from apps.state import stores
from apps.triggers import services as triggers
from apps.workloads.clock import now_ms
from feltdb_engine.backup import restore as restore_engine_backup
from feltdb_engine.errors import BackupInvalid, DestinationExists, PinNotFound
from feltdb_engine.files import OSFiles, write_whole
from feltdb_engine.opening import OPEN_LOCK
from feltdb_engine.walk import Progress

MARK = "restore-unfinished"
"""A file of the data directory: a restore was begun and not ended."""

STAGING = ".restore-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What was restored. `set_aside` is where what was there lies now; `lost` are secrets the database needs."""

    bundle: Bundle
    set_aside: Path | None
    lost: Sequence[Lost]
    apart: Sequence[str]
    """Namespaces whose store and database do not belong together; never, where the bundle is whole."""


def restore(source: Path, *, by: Principal, replace: bool = False, show: Progress | None = None) -> Restored:
    """Put an instance in place. Nothing of it may be running.

    Raises BackupInvalid, DestinationExists (an instance is here, and no word to set it aside), ApiError (another kind
    of database, a bundle of a later version, the instance runs, another restore is at work), EngineError, OSError;
    until it puts the first thing in its place, nothing has changed.
    """
    data, source = Path(settings.DATA_DIR), source.absolute()
    progress = show or (lambda done, total: None)
    bundle = bundles.verify(source, progress)
    held = turns.take(turns.RESTORE)
    try:
        return _restored(source, bundle, data, by=by, replace=replace, progress=progress)
    finally:
        held.close()


def _restored(
    source: Path, bundle: Bundle, data: Path, *, by: Principal, replace: bool, progress: Progress
) -> Restored:
    _refuse_other_kind(bundle)
    _refuse_running(data)
    there = _there(data)
    if there and not replace:
        raise DestinationExists(
            f"An instance is here already ({', '.join(there)}); name an empty FELTDB_DATA_DIR, or set it aside with "
            "--replace."
        )
    if connection.vendor == "postgresql" and not databases.empty():
        of = ", those of the restore that was cut off" if unfinished(data) else ""
        raise DestinationExists(
            f"The database that DATABASE_URL names has tables{of}; name an empty one, or drop it and make it anew "
            "(dropdb, createdb)."
        )
    for left in data.glob(f"{STAGING}*"):
        shutil.rmtree(left, ignore_errors=True)
    staging = data / f"{STAGING}{secrets.token_hex(4)}"
    staging.mkdir(mode=0o700)
    try:
        _stage(source, bundle, staging, progress)
        _refuse_running(data)  # nobody started it meanwhile
        write_whole(OSFiles(), data / MARK, str(source).encode())
        aside = _set_aside(data) if there else None
        _put_in_place(bundle, staging, data, progress)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    apart = _bring_up(bundle, source, by=by)
    (data / MARK).unlink()
    force_names(data)
    return Restored(bundle=bundle, set_aside=aside, lost=lost_secrets(now=utc_now()), apart=apart)


def restore_store(
    source: Path, namespace: str, into: Path, *, revision: int | None = None, show: Progress | None = None
) -> int:
    """Make a store of its own, beside any instance, of one namespace of a bundle; returns the sequence it ends at.

    Raises BackupInvalid, DestinationExists.
    """
    bundle = bundles.read(source.absolute())
    if namespace not in {each.name for each in bundle.stores}:
        raise BackupInvalid(f"There is no namespace {namespace!r} in this backup.")
    info = restore_engine_backup(source / STORES / namespace, into, to_revision=revision, progress=show)
    return info.sequence if revision is None else revision


def unfinished(data: Path) -> str:
    """Return which bundle a restore was cut off from, or nothing."""
    mark = data / MARK
    return (mark.read_text(encoding="utf-8") or "a bundle") if mark.exists() else ""


def _refuse_other_kind(bundle: Bundle) -> None:
    if bundle.database != connection.vendor:
        raise ApiError(
            "CONFLICT",
            f"The backup holds a database of {bundle.database}, and DATABASE_URL names one of {connection.vendor}.",
        )
    known = {f"{app}.{name}" for app, name in MigrationLoader(None).disk_migrations}
    newer = sorted(set(bundle.migrations) - known)
    if newer:
        raise ApiError("CONFLICT", f"A later version ({bundle.version}) made this backup: it has {newer[0]}.")


def _refuse_running(data: Path) -> None:
    """Processes hold a lock on the stores they have open, and on their file of counts."""
    locks = [*(data / STORES).glob(f"*/{OPEN_LOCK}"), *(data / measures.FOLDER.name).glob("slot-*.lock")]
    stores.close_all()
    for path in locks:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ApiError("CONFLICT", f"The instance runs ({path} is in use); stop server and worker first.") from None
        finally:
            os.close(descriptor)


def _there(data: Path) -> list[str]:
    """Return what an instance has here, in plain words."""
    found = []
    if (data / STORES).is_dir() and any((data / STORES).iterdir()):
        found.append("stores")
    if (data / ARCHIVE).is_dir() and any((data / ARCHIVE).iterdir()):
        found.append("archived work")
    if connection.vendor == "sqlite" and not databases.empty():
        found.append("a database")
    return found


def _stage(source: Path, bundle: Bundle, staging: Path, progress: Progress) -> None:
    """Bring everything onto this disk: stores opened and proved, the rest held against its digest once more."""
    (staging / STORES).mkdir()
    for each in bundle.stores:
        restore_engine_backup(source / STORES / each.name, staging / STORES / each.name, progress=progress)
    copied = [each for each in bundle.files if each.name.startswith(f"{ARCHIVE}/")]
    copied += [each for each in bundle.files if each.name == bundle.database_file]
    for entry in copied:
        target = staging / entry.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / entry.name, target, follow_symlinks=False)
        with target.open("rb") as file:
            os.fsync(file.fileno())
        if bundles.digest(target) != entry.sha256:
            raise BackupInvalid(f"{entry.name} changed while it was restored.", file=entry.name)
    for folder, _, _ in os.walk(staging):
        force_names(Path(folder))


def _set_aside(data: Path) -> Path:
    aside = data / f"replaced-{now_ms()}"
    aside.mkdir(mode=0o700)
    for path in [data / STORES, data / "archive", *_database_files()]:
        if path.exists():
            os.replace(path, aside / path.name)
    force_names(aside)
    return aside


def _database_files() -> list[Path]:
    connections.close_all()
    if connection.vendor != "sqlite":
        return []
    name = str(connection.settings_dict["NAME"])
    return [Path(name + suffix) for suffix in ("", "-wal", "-shm")]


def _put_in_place(bundle: Bundle, staging: Path, data: Path, progress: Progress) -> None:
    if bundle.database == "postgresql":
        databases.load_dump(staging / bundle.database_file, progress)
    if (data / STORES).is_dir():
        (data / STORES).rmdir()  # it is empty: what was in it is set aside
    os.replace(staging / STORES, data / STORES)
    if (staging / "archive").is_dir():
        shutil.rmtree(data / "archive", ignore_errors=True)  # empty folders
        os.replace(staging / "archive", data / "archive")
    if bundle.database == "sqlite":
        for path in _database_files():
            path.unlink(missing_ok=True)  # without a table, or set aside
        target = _database_files()[0]
        os.replace(staging / bundle.database_file, target)
        force_names(target.parent)
    force_names(data)


def _bring_up(bundle: Bundle, source: Path, *, by: Principal) -> list[str]:
    """Open everything as the instance will; forget what was alive then. Returns the namespaces that are apart."""
    connections.close_all()
    call_command("migrate", verbosity=0, interactive=False)
    WorkerProcess.objects.all().delete()
    upkeep.cut_off("the instance was restored from a backup that was made meanwhile")
    apart = []
    for each in bundle.stores:
        opened = stores.store_of_known(each.name)
        for pin in opened.pins():
            if pin.name.startswith("backup:"):
                with suppress(PinNotFound):
                    opened.unpin(pin.name)
        if triggers.look(each.name, now_ms=now_ms()).kind != "nothing":
            apart.append(each.name)
    record(by, "backup.restored", target=places.name_of(source), after={"made_at_ms": bundle.made_at_ms})
    stores.close_all()
    return apart
