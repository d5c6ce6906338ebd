"""What a view is made from: the newest snapshot that can be read, or nothing where the log holds everything.

Not here: replaying the log from there (`recovery.py`).
"""

from pathlib import Path

from feltdb_engine import indexes, limits, snapshot, view
from feltdb_engine.entries import Entries
from feltdb_engine.errors import LogCorrupt
from feltdb_engine.files import Files
from feltdb_engine.manifest import Manifest, SnapshotRef
from feltdb_engine.snapshot import SnapshotDamaged
from feltdb_engine.view import Transaction, View


def base(
    files: Files, path: Path, found: Manifest, directory: Path, *, oldest: bool = False
) -> tuple[View, list[SnapshotRef]]:
    """A view, in an empty directory, that the log goes on from; and the snapshots that turned out damaged.

    From the newest snapshot, or with `oldest` from the oldest; where it is damaged, from the next one. Raises
    LogCorrupt where none can be read and the log does not hold everything from the beginning.
    """
    trouble: list[str] = []
    damaged: list[SnapshotRef] = []
    unread: OSError | None = None
    refs = list(found.snapshots if oldest else reversed(found.snapshots))
    if oldest and not found.start.position:
        refs = []
    for ref in refs:
        made = View.create(directory, found.view_map_bytes, found.start)
        try:
            _load(files, snapshot.path_of(path, ref), found, ref, made)
        except (SnapshotDamaged, OSError) as error:
            trouble.append(f"{snapshot.name_of(ref.position)}: {error}")
            if isinstance(error, OSError):
                unread = error
            else:
                damaged.append(ref)
            made.close()
            _empty(directory)
        except BaseException:
            made.close()
            raise
        else:
            return made, damaged
    if found.start.position:
        if unread is not None:
            raise unread  # it may be whole, and read the next time
        raise LogCorrupt(
            f"No snapshot can be read, and the log begins after sequence {found.start.sequence}. {' '.join(trouble)}",
            segment=snapshot.DIRECTORY,
            offset=None,
            sequence=found.start.sequence,
        )
    return View.create(directory, found.view_map_bytes, found.start), damaged


def _load(files: Files, path: Path, found: Manifest, ref: SnapshotRef, made: View) -> None:
    databases = {kind: getattr(made, name) for name, kind in snapshot.KINDS.items()}
    pending = 0
    txn = made.write()
    try:
        for kind, entries in snapshot.read(files, path, found.store_id, ref):
            if kind == snapshot.OWN:
                _own(txn, entries)
            else:
                with txn.cursor(db=databases[kind]) as cursor:
                    cursor.putmulti(entries, append=True)
            pending += limits.SNAPSHOT_BLOCK_BYTES
            if pending >= limits.REBUILD_BATCH_BYTES:
                txn.commit()
                pending, txn = 0, made.write()
        _after_own(txn, found)
        txn.commit()
    finally:
        txn.abort()


def _own(txn: Transaction, entries: Entries) -> None:
    for key, value in entries:
        txn.put(key, value)


def _after_own(txn: Transaction, found: Manifest) -> None:
    """Indexes are built anew; the log may begin later than it did when the snapshot was made."""
    catalogue = indexes.catalogue(txn)
    for one in catalogue.definitions:
        live = view.collection(txn, one.collection.encode())[0]
        catalogue = catalogue.replace(one._replace(progress="" if live else None))
    if catalogue.definitions:
        indexes.store(txn, catalogue)
    floor = view.floor(txn)
    txn.put(view.FLOOR_KEY, floor._replace(start=max(floor.start, found.start)).pack())
    view.count_keys(txn)


def _empty(directory: Path) -> None:
    for one in directory.iterdir():
        one.unlink()
