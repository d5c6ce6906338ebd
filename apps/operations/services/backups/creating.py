"""Making a bundle of an instance that serves and works.

History is pinned first, so that no compaction takes what a cursor in the control plane still needs; then the control
plane is copied, of one moment; then every store, each of a moment after that. So a trigger restored from it sees every
change after its cursor, and work that ended meanwhile runs again. The directory has its name once all is on the disk.
"""

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.db import connection

from apps.keys.audit.services import record
from apps.keys.models import Namespace
from apps.keys.principal import Principal
from apps.operations.models import UpkeepRun
from apps.operations.services import turns, upkeep
from apps.operations.services.backups import bundle as bundles
from apps.operations.services.backups import databases, places
from apps.operations.services.backups.bundle import ARCHIVE, DATABASES, MANIFEST, STORES, Bundle, StoreEntry
from apps.state.stores import store_of_known
from apps.workloads import retention
from apps.workloads.clock import now_ms
from feltdb_engine.beside import beside
from feltdb_engine.bundle import MANIFEST_NAME, FileEntry
from feltdb_engine.errors import DestinationExists, EngineError, FeedCompacted, PinNotFound, StorageFull
from feltdb_engine.files import OSFiles, write_whole
from feltdb_engine.locks import FileLock
from feltdb_engine.walk import Progress

PIN_MS = 24 * 3_600_000
"""A killed backup holds history no longer than this."""

PIN_TRIES = 10

ENDED = "Its process ended before it did; nothing is left of it."

ROOM_LEFT = 64 * 1024**2
"""Bytes that a backup leaves free on its disk."""


def create(
    dest: Path, *, by: Principal, reason: str = "", show: Progress | None = None, turn: FileLock | None = None
) -> Bundle:
    """Make a bundle at `dest`, which must not exist, with its run and audit; one at a time.

    `turn` is the turn of backups, where the caller has it already; it is given back. Raises ApiError (another is at
    work, ...), EngineError (DestinationExists, StorageFull, LogCorrupt, ...), OSError; then nothing is left of it.
    """
    dest = dest.absolute()
    held = turn or turns.take(turns.BACKUP)
    try:
        upkeep.cut_off(ENDED, kind=UpkeepRun.Kind.BACKUP)
        with upkeep.noted(UpkeepRun.Kind.BACKUP, upkeep.INSTANCE, by=by) as running:

            def tell(done: int, total: int) -> None:
                running.tell(done, total)
                if show is not None:
                    show(done, total)

            made = _written(dest, tell)
            running.report = {**made.document(), "path": str(dest)}
            record(by, "backup.created", target=places.name_of(dest), reason=reason, after={"bytes": made.bytes})
    finally:
        held.close()
    return made


def refuse_beforehand(dest: Path) -> None:
    """Raise what a backup there would meet at its beginning: DestinationExists, StorageFull."""
    if os.path.lexists(dest):
        raise DestinationExists(f"{dest} is there already; choose a name that is not.")
    _refuse_without_room(dest, _names())


def _written(dest: Path, progress: Progress) -> Bundle:
    files = OSFiles()
    names = _names()
    total = _refuse_without_room(dest, names)
    with _held(names), beside(files, dest) as partial:
        os.chmod(partial, 0o700)  # it holds what the whole instance holds, but for its secrets
        begun_at_ms = now_ms()
        database = DATABASES[connection.vendor]
        done = 0

        def tell(more: int, _: int) -> None:
            progress(min(done + more, total), total)

        migrations = databases.snapshot(partial / database, tell)
        entries = [_entry(partial, database)]
        stores = []
        for name in _names():  # those of the snapshot, and perhaps one made since
            done = sum(each.size for each in entries)
            stores.append(_store(partial, name, entries, tell))
        done = sum(each.size for each in entries)
        entries += _archived(partial)
        for folder in (STORES, ARCHIVE, "archive"):
            if (partial / folder).is_dir():
                files.force_names(partial / folder)
        made = Bundle(
            made_at_ms=begun_at_ms,
            version=settings.FELTDB_VERSION,
            database=connection.vendor,
            migrations=tuple(migrations),
            stores=tuple(stores),
            files=tuple(entries),
        )
        write_whole(files, partial / MANIFEST, bundles.encode(made))
    return made


def _store(partial: Path, name: str, entries: list[FileEntry], tell: Progress) -> StoreEntry:
    where = f"{STORES}/{name}"
    try:
        info = store_of_known(name).backup(partial / where, tell)
    except EngineError as error:
        error.message = f"namespace {name}: {error.message}"
        raise
    entries += [FileEntry(name=f"{where}/{each.name}", size=each.size, sha256=each.sha256) for each in info.files]
    entries.append(_entry(partial, f"{where}/{MANIFEST_NAME}"))
    return StoreEntry(name=name, store_id=info.store_id, instance_id=info.instance_id, sequence=info.sequence)


def _archived(partial: Path) -> Iterator[FileEntry]:
    """Copy archived work: whole lines only, since the worker may be writing one."""
    source = retention.archive()
    for path in sorted(source.glob("*/*.jsonl")) if source.is_dir() else ():
        name = f"{ARCHIVE}/{path.parent.name}/{path.name}"
        target = partial / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        with target.open("r+b") as file:
            file.truncate(_end_of_last_line(target))
            file.flush()
            os.fsync(file.fileno())
        OSFiles().force_names(target.parent)
        yield _entry(partial, name)


def _end_of_last_line(path: Path) -> int:
    """Return where the last whole line ends, looking from the end."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - (1 << 20))
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _entry(partial: Path, name: str) -> FileEntry:
    return FileEntry(name=name, size=(partial / name).stat().st_size, sha256=bundles.digest(partial / name))


def _names() -> Sequence[str]:
    return list(Namespace.objects.order_by("name").values_list("name", flat=True))


def _refuse_without_room(dest: Path, names: Sequence[str]) -> int:
    """Return about how many bytes it will take. Raises StorageFull where the disk has no room for them."""
    needed = databases.size()
    for name in names:
        seen = store_of_known(name).stats()
        needed += min(seen.log_bytes, seen.log_disk_bytes) + seen.snapshot_disk_bytes
    folder = dest.parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed + ROOM_LEFT > free:
        mib = 1024**2
        raise StorageFull(f"{folder} has {free / mib:,.0f} MiB free; the backup needs about {needed / mib:,.0f} MiB.")
    return needed


@contextmanager
def _held(names: Sequence[str]) -> Iterator[None]:
    """Pin all history of these namespaces meanwhile."""
    pin = f"backup:{secrets.token_hex(6)}"
    held = []
    try:
        for name in names:
            _pin(name, pin)
            held.append(name)
        yield
    finally:
        for name in held:
            with suppress(PinNotFound):
                store_of_known(name).unpin(pin)


def _pin(name: str, pin: str) -> None:
    opened = store_of_known(name)
    for left in reversed(range(PIN_TRIES)):
        try:
            opened.pin(pin, opened.start().sequence, now_ms() + PIN_MS)
            return
        except FeedCompacted:  # a compaction raised the floor in between; one does so once
            if not left:
                raise
