"""Which stores this process has open: one per directory, whatever path leads to it.

While one directory is opened or rebuilt, others open: each has a lock of its own.
"""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from feltdb_engine import host
from feltdb_engine.errors import StorageWriteFailed

if TYPE_CHECKING:
    from feltdb_engine.store import Store

_stores: dict[tuple[int, int], "Store"] = {}
_locks: dict[Path, threading.Lock] = {}
_guard = threading.Lock()  # of _locks


def lock_of(path: Path) -> threading.Lock:
    """What opening, renewing and closing the store of a directory take turns on. The path has no links in it."""
    with _guard:
        return _locks.setdefault(path, threading.Lock())


def find(path: Path) -> "Store | None":
    """The open store of that directory. The caller holds `lock_of`."""
    try:
        found = _stores.get(host.identity(path))
        if found is not None:
            found.refuse_elsewhere()
        return found
    except (OSError, StorageWriteFailed):
        return None  # another directory may have been given the number of one that was deleted


def add(path: Path, store: "Store") -> None:
    """The store of that directory from now on."""
    _stores[host.identity(path)] = store


def remove(store: "Store") -> None:
    """Forget a store, wherever its directory lies now."""
    for key in [key for key, one in list(_stores.items()) if one is store]:
        del _stores[key]


def _in_child() -> None:
    """The locks may have been held by threads the child does not have; the stores are the parent's."""
    global _guard
    _guard = threading.Lock()
    _locks.clear()
    _stores.clear()


os.register_at_fork(after_in_child=_in_child)
