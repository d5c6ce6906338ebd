"""Rewriting a view of which over half is free, by the process that has the directory to itself.

LMDB never gives pages back to the disk. A copy without the free ones takes the view's place by a rename; until the
trust file speaks of it, it is not believed, so that a crash in here costs a rebuild and nothing else.
"""

import contextlib
import os
import shutil

import lmdb

from feltdb_engine import limits
from feltdb_engine.core import Core
from feltdb_engine.view import View

DIRECTORY = "view.new"


def is_due(found: View) -> bool:
    """Whether it is worth it."""
    with found.read() as txn:
        size = (found.env.info()["last_pgno"] + 1) * found.env.stat()["psize"]
        return size >= limits.REWRITE_MIN_BYTES and found.free_share(txn) > limits.REWRITE_FREE_SHARE


def where_due(core: Core, found: View) -> View:
    """The view, or a smaller one that says the same. Where there is no room for that, it stays as it is."""
    if not is_due(found):
        return found
    fresh, place = core.path / DIRECTORY, core.path / "view"
    core.files.step("rewrite begun")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        found.env.copy(str(fresh), compact=True)
    except (OSError, lmdb.Error):
        shutil.rmtree(fresh, ignore_errors=True)
        return found
    core.files.step("rewrite copied")
    found.close()
    os.replace(fresh / "data.mdb", place / "data.mdb")
    core.files.step("rewrite in place")
    with contextlib.suppress(OSError):
        fresh.rmdir()
    smaller = View(place, core.manifest.view_map_bytes)
    smaller.attach()
    return smaller
