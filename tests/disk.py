"""A small real file system, in memory, that a test can fill. Needs the right to mount."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.needs import missing


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """Mount one. Fails without the right where CI says that it must run."""
    path = Path(tempfile.mkdtemp(prefix="feltdb-disk-"))
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"]
    if subprocess.run(["mount", *options, str(path)], check=False).returncode:
        path.rmdir()
        missing("mounting a small file system needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
        path.rmdir()


def fill(path: Path, *, leave_bytes: int = 0) -> Path:
    """Take all room but `leave_bytes`; return the file that takes it."""
    ballast = path / "ballast"
    state = os.statvfs(path)
    with ballast.open("ab") as file:
        left = max(0, state.f_bavail * state.f_frsize - leave_bytes)
        while left:
            left -= file.write(bytes(min(left, 1 << 20)))
    return ballast
