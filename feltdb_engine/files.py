"""The one way to the log, the manifest and the small forced files: everything that must survive goes through here.

`Files` is the operating system. Tests put failing and power-losing implementations in its place, and use `step` to
stop at a named point of the protocol. Not here: LMDB's own files, and locks (`locks.py`).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

READ_ONLY = os.O_RDONLY | os.O_CLOEXEC
READ_WRITE = os.O_RDWR | os.O_CLOEXEC
CREATE_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class ForceFailed(OSError):
    """Forcing failed. What was dirty may be lost and marked clean: trying again proves nothing."""


class File(Protocol):
    """An open file. Offsets and sizes are bytes; errors are `OSError`."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def write(self, offset: int, data: bytes) -> None:
        """All of `data`, or an error after any part of it."""

    def hurry(self, offset: int, size: int) -> None:
        """Let the system begin to write that part now, without waiting: the force to come then has less to wait for."""

    def force(self) -> None:
        """Data and size on stable storage (fdatasync). Raises ForceFailed."""

    def size(self) -> int:
        """The file's size now."""

    def identity(self) -> tuple[int, int]:
        """Device and inode."""

    def close(self) -> None:
        """Give the descriptor back."""


class Files(Protocol):
    """The file operations of the engine."""

    def open(self, path: Path, *, create: bool = False) -> File:
        """An existing file, or with `create` one that must not exist yet; for reading and writing."""

    def names(self, directory: Path) -> Sequence[str]:
        """The names in a directory, sorted."""

    def make_directory(self, directory: Path) -> None:
        """Create it and its parents where missing."""

    def rename(self, source: Path, target: Path) -> None:
        """Replace atomically. Durable only after `force_names`."""

    def remove(self, path: Path) -> None:
        """Remove a name that exists."""

    def force_names(self, directory: Path) -> None:
        """Names created, renamed or removed in the directory on stable storage."""

    def step(self, name: str) -> None:
        """A named point of the protocol is reached. Nothing happens here outside tests."""


class OSFile:
    """A file of the operating system."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, offset: int, size: int) -> bytes:
        data = os.pread(self._fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:
            data = os.pread(self._fd, size - got, offset + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def write(self, offset: int, data: bytes) -> None:
        done = os.pwrite(self._fd, data, offset)
        while done < len(data):
            done += os.pwrite(self._fd, memoryview(data)[done:], offset + done)

    def hurry(self, offset: int, size: int) -> None:
        # On Linux this advice starts writing the dirty pages, and drops none of them before they are clean.
        try:
            os.posix_fadvise(self._fd, offset, size, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass  # only advice

    def force(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise ForceFailed(error.errno, error.strerror) from error

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def identity(self) -> tuple[int, int]:
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # Threads may still read a file that the log has let go of: the last one to do so closes it.
        self.close()


class OSFiles:
    """The operating system."""

    def open(self, path: Path, *, create: bool = False) -> File:
        return OSFile(os.open(path, CREATE_NEW if create else READ_WRITE, 0o640))

    def names(self, directory: Path) -> Sequence[str]:
        return sorted(os.listdir(directory))

    def make_directory(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def force_names(self, directory: Path) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def step(self, name: str) -> None:
        pass


def exists(files: Files, path: Path) -> bool:
    """Whether the name is there."""
    return path.name in files.names(path.parent)


def read_whole(files: Files, path: Path) -> bytes:
    """The whole of a small file."""
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_whole(files: Files, path: Path, data: bytes) -> None:
    """Replace a small file: after any crash it holds the old or the new content, the new once this returns."""
    fresh = path.with_name(path.name + ".new")
    if exists(files, fresh):
        files.remove(fresh)
    file = files.open(fresh, create=True)
    try:
        file.write(0, data)
        file.force()
    finally:
        file.close()
    files.rename(fresh, path)
    files.force_names(path.parent)
