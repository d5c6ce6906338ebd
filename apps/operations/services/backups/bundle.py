"""What a bundle says of itself, and whether that is so.

    BUNDLE.json                        what it holds: size and SHA-256 of each file, and of itself
    database.sqlite3 | database.pgdump the control plane, of the moment the backup began
    namespaces/<name>/...              each store, as the engine backs it up, of a later moment
    archive/workloads/<name>/*.jsonl   archived work

The control plane comes first: so no cursor and no work in it lies beyond its store. Secrets are in no bundle.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from feltdb_engine import plain
from feltdb_engine.backup import verify_backup
from feltdb_engine.bundle import FileEntry
from feltdb_engine.errors import BackupInvalid, EngineError
from feltdb_engine.walk import Progress

MANIFEST: Final = "BUNDLE.json"
FORMAT: Final = "feltdb-bundle-1"
STORES: Final = "namespaces"
ARCHIVE: Final = "archive/workloads"
DATABASES: Final = {"sqlite": "database.sqlite3", "postgresql": "database.pgdump"}

_NAMESPACE = r"[a-z0-9][a-z0-9-]{0,62}"
_FILE = re.compile(
    r"database\.(sqlite3|pgdump)"
    rf"|namespaces/{_NAMESPACE}/(MANIFEST\.json|manifest\.json|log/[0-9]{{20}}\.seg|snapshots/[0-9]{{20}}\.snap)"
    rf"|archive/workloads/{_NAMESPACE}/[0-9]{{4}}-[0-9]{{2}}\.jsonl"
)
_CHUNK = 1 << 20
_MANIFEST_MAX_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreEntry:
    """One namespace's store: up to `sequence` on the timeline `instance_id`."""

    name: str
    store_id: str
    instance_id: str
    sequence: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """What a bundle holds. `database` is `sqlite` or `postgresql`; `migrations` are those its tables have."""

    made_at_ms: int
    version: str
    database: str
    migrations: tuple[str, ...]
    stores: tuple[StoreEntry, ...]
    files: tuple[FileEntry, ...]

    @property
    def bytes(self) -> int:
        """Return the bytes of all its files, but for its manifest."""
        return sum(each.size for each in self.files)

    @property
    def database_file(self) -> str:
        """Return the name of the control plane's file."""
        return DATABASES[self.database]

    def document(self) -> dict[str, Any]:
        """Return it as JSON values; of files and migrations only how many files."""
        members = asdict(self)
        members["files"] = len(self.files)
        del members["migrations"]
        return {**members, "bytes": self.bytes}


def encode(bundle: Bundle) -> bytes:
    """Return the bytes of `BUNDLE.json`; there is exactly one form, so that any other byte is damage."""
    members: dict[str, Any] = {"format": FORMAT, **asdict(bundle)}
    members["sha256"] = hashlib.sha256(orjson.dumps(members)).hexdigest()
    return orjson.dumps(members, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read(path: Path) -> Bundle:
    """Read a bundle's manifest and hold it against its own digest. Raises BackupInvalid."""
    _refuse_other(path, directory=True, name=str(path))
    _refuse_other(path / MANIFEST, directory=False, name=MANIFEST)
    with open(os.open(path / MANIFEST, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
        data = file.read(_MANIFEST_MAX_BYTES + 1)
    try:
        members = orjson.loads(data)
        members.pop("sha256")
        if members.pop("format") != FORMAT:
            raise ValueError("format")
        files = tuple(FileEntry(**each) for each in members.pop("files"))
        stores = tuple(StoreEntry(**each) for each in members.pop("stores"))
        migrations = tuple(members.pop("migrations"))
        bundle = Bundle(**members, files=files, stores=stores, migrations=migrations)
        for made in (bundle, *files, *stores):
            plain.check(made)
        same = encode(bundle) == data
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupInvalid(f"{MANIFEST} is not one of a backup this version made.", file=MANIFEST) from error
    if not same:
        raise BackupInvalid(f"{MANIFEST} is not what was written.", file=MANIFEST)
    _check_names(bundle)
    return bundle


def verify(path: Path, progress: Progress | None = None) -> Bundle:
    """Hold every byte against the manifest, every store's log against itself, and the database's own check.

    Raises BackupInvalid, whose `details["file"]` is what it met first.
    """
    from apps.operations.services.backups import databases

    path = path.absolute()
    bundle = read(path)
    check_tree(path, bundle)
    tell = progress or (lambda done, total: None)
    done = 0

    def read_on(more: int) -> None:
        tell(done + more, bundle.bytes)

    for entry in bundle.files:
        if digest(path / entry.name, read_on) != entry.sha256:
            raise BackupInvalid(f"{entry.name} is not what was written.", file=entry.name)
        done += entry.size
    for each in bundle.stores:
        _check_store(path, each, tell)
    databases.check(path / bundle.database_file, bundle)
    return bundle


def check_tree(path: Path, bundle: Bundle) -> None:
    """Every file named is there, plain and of its size; nothing else is. Raises BackupInvalid."""
    named = {entry.name: entry for entry in bundle.files}
    there = dict(_walk(path, ""))
    for name, entry in named.items():
        if name not in there:
            raise BackupInvalid(f"{name} is missing.", file=name)
        if there[name] != entry.size:
            raise BackupInvalid(f"{name} has {there[name]} bytes, and was written with {entry.size}.", file=name)
    for name in sorted(there.keys() - named.keys() - {MANIFEST}):
        raise BackupInvalid(f"{name} is not in the manifest.", file=name)


def digest(path: Path, tell: Callable[[int], None] = lambda done: None) -> str:
    """Return the hex SHA-256 of a plain file; `tell` is called with the bytes read so far."""
    found, done = hashlib.sha256(), 0
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
        while data := file.read(_CHUNK):
            found.update(data)
            done += len(data)
            tell(done)
    return found.hexdigest()


def _walk(path: Path, below: str) -> Iterator[tuple[str, int]]:
    """Yield name and size of every plain file; an empty directory comes as itself. Raises BackupInvalid for others."""
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda each: each.name)
    if not entries and below:
        yield below.rstrip("/"), 0
    for each in entries:
        name = below + each.name
        facts = each.stat(follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            yield from _walk(Path(each.path), name + "/")
        elif stat.S_ISREG(facts.st_mode):
            yield name, facts.st_size
        else:
            raise BackupInvalid(f"{name} is a link or something else a backup does not hold.", file=name)


def _refuse_other(path: Path, *, directory: bool, name: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise BackupInvalid(f"{name} is missing.", file=name) from error
    if not (stat.S_ISDIR(mode) if directory else stat.S_ISREG(mode)):
        raise BackupInvalid(f"{name} is a link or something else a backup does not hold.", file=name)


def _check_names(bundle: Bundle) -> None:
    names = [entry.name for entry in bundle.files]
    for name in names:
        if not _FILE.fullmatch(name):
            raise BackupInvalid(f"The name {name!r} has no place in a backup.", file=name)
    needed = {f"{STORES}/{each.name}/MANIFEST.json" for each in bundle.stores}
    if bundle.database not in DATABASES or bundle.database_file not in names or len(set(names)) != len(names):
        raise BackupInvalid(f"{MANIFEST} names a file twice, or not the database.", file=MANIFEST)
    of_stores = {name.split("/")[1] for name in names if name.startswith(f"{STORES}/")}
    if len({each.name for each in bundle.stores}) != len(bundle.stores):
        raise BackupInvalid(f"{MANIFEST} names a store twice.", file=MANIFEST)
    if not needed <= set(names) or of_stores != {each.name for each in bundle.stores}:
        raise BackupInvalid(f"{MANIFEST} does not name what its stores need.", file=MANIFEST)


def _check_store(path: Path, entry: StoreEntry, tell: Progress) -> None:
    where = f"{STORES}/{entry.name}"
    try:
        info = verify_backup(path / where, tell)
    except EngineError as error:
        raise BackupInvalid(f"{where}: {error.message}", file=where) from error
    if (info.store_id, info.instance_id, info.sequence) != (entry.store_id, entry.instance_id, entry.sequence):
        raise BackupInvalid(f"{where} is another store, or of another moment, than {MANIFEST} says.", file=where)
