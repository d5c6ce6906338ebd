"""Making a directory that is whole once it has its name: filled under a hidden name beside it, and renamed last."""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feltdb_engine.errors import DestinationExists
from feltdb_engine.files import Files


@contextmanager
def beside(files: Files, dest: Path) -> Iterator[Path]:
    """A directory beside the target that becomes the target at the end; nothing is left of it after a failure.

    Raises DestinationExists.
    """
    if os.path.lexists(dest):
        raise DestinationExists(f"{dest} is there already; choose a name that is not.")
    files.make_directory(dest.parent)
    _clear_killed(dest)
    partial = dest.with_name(f".{dest.name}.{secrets.token_hex(4)}.partial")
    mark = -1
    try:
        files.make_directory(partial)
        mark = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield partial
        files.force_names(partial)
        if os.path.lexists(dest):
            raise DestinationExists(f"{dest} is there already; choose a name that is not.")
        files.rename(partial, dest)
        files.force_names(dest.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        if mark >= 0:
            os.close(mark)


def _clear_killed(dest: Path) -> None:
    """Remove what killed backups and restores of that name left: whoever is at work has its directory locked."""
    pattern = re.compile(rf"\.{re.escape(dest.name)}\.[0-9a-f]{{8}}\.partial")
    for left in [path for path in dest.parent.iterdir() if pattern.fullmatch(path.name)]:
        with contextlib.suppress(OSError):
            mark = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(mark)
