"""Disks that fail, one call or from one call on; that lose what was not forced; that kill whoever calls them."""

import errno
import os
import random
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feltdb_engine.files import File, Files, ForceFailed, OSFiles

PAGE = 4096


class FailingFiles(OSFiles):
    """Fails call number `fail_at` (from 0) with `code`: that one only, or all from then on, or `also` another."""

    def __init__(
        self, fail_at: int = -1, code: int = errno.EIO, *, sticky: bool = False, also: tuple[int, int] = (-1, 0)
    ) -> None:
        self.fail_at = fail_at
        self.code = code
        self.sticky = sticky
        self.also = also
        self.calls = 0
        self.failed: list[str] = []

    def call(self, what: str) -> None:
        """Count a call; fail it if it is its turn."""
        number = self.calls
        self.calls += 1
        code = 0
        if number == self.fail_at or (self.sticky and 0 <= self.fail_at < number):
            code = self.code
        elif number == self.also[0]:
            code = self.also[1]
        if code:
            self.failed.append(what)
            kind = ForceFailed if what == "force" else OSError
            raise kind(code, os.strerror(code))

    def open(self, path: Path, *, create: bool = False) -> File:
        self.call("create" if create else "open")
        inner = super().open(path, create=create)
        return _FailingFile(inner, self)

    def names(self, directory: Path) -> Sequence[str]:
        self.call("names")
        return super().names(directory)

    def make_directory(self, directory: Path) -> None:
        self.call("make directory")
        super().make_directory(directory)

    def rename(self, source: Path, target: Path) -> None:
        self.call("rename")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self.call("remove")
        super().remove(path)

    def force_names(self, directory: Path) -> None:
        self.call("force names")
        super().force_names(directory)


class _FailingFile:
    def __init__(self, inner: File, disk: FailingFiles) -> None:
        self._inner = inner
        self._disk = disk

    def read(self, offset: int, size: int) -> bytes:
        self._disk.call("read")
        return self._inner.read(offset, size)

    def write(self, offset: int, data: bytes) -> None:
        try:
            self._disk.call("write")
        except OSError:
            self._inner.write(offset, data[: len(data) // 2])  # a short write, then the error
            raise
        self._inner.write(offset, data)

    def hurry(self, offset: int, size: int) -> None:
        self._inner.hurry(offset, size)

    def force(self) -> None:
        self._disk.call("force")
        self._inner.force()

    def size(self) -> int:
        self._disk.call("size")
        return self._inner.size()

    def identity(self) -> tuple[int, int]:
        return self._inner.identity()

    def close(self) -> None:
        self._inner.close()


class PowerCut(BaseException):
    """The power went; nothing reaches the disk any more."""


class _Body:
    """A file on the disk: what was forced, what is there now, and every content each page had since it was forced."""

    def __init__(self) -> None:
        self.forced = bytearray()
        self.now = bytearray()
        self.dirty: dict[int, list[bytes]] = {}

    def write(self, offset: int, data: bytes) -> None:
        """Change it, in memory: the system may write any of it to the disk at any time."""
        end = offset + len(data)
        if len(self.now) < end:
            self.now.extend(bytes(end - len(self.now)))
        self.now[offset:end] = data
        for page in range(offset // PAGE, (end - 1) // PAGE + 1):
            self.dirty.setdefault(page, []).append(bytes(self.now[page * PAGE : (page + 1) * PAGE]))

    def force(self) -> None:
        """The dirty pages are on the disk."""
        for page, contents in self.dirty.items():
            _put(self.forced, page, contents[-1])
        self.dirty.clear()

    def after_cut(self, choose: random.Random) -> bytes:
        """What is there after a power cut: forced pages, and of each dirty one any content it had since then."""
        found = bytearray(self.forced)
        for page, contents in self.dirty.items():
            if choose.random() < 0.5:
                _put(found, page, choose.choice(contents))
        return bytes(found)


def _put(into: bytearray, page: int, data: bytes) -> None:
    into.extend(bytes(max(0, page * PAGE + len(data) - len(into))))
    into[page * PAGE : page * PAGE + len(data)] = data


class PowerCutFiles:
    """Real files underneath, and beside them what a power cut would leave. Cuts before force number `cut_at`.

    Force number `fail_at` fails as Linux does it: the dirty pages are dropped and marked clean, and stay readable
    until the power goes.
    """

    def __init__(self, cut_at: int = -1, fail_at: int = -1) -> None:
        self._real: Files = OSFiles()
        self.cut_at = cut_at
        self.fail_at = fail_at
        self.forces = 0
        self.off = False
        self._unforced_directories: set[Path] = set()
        self._forced_names: dict[Path, dict[str, _Body]] = {}
        self._names: dict[Path, dict[str, _Body]] = {}

    def _alive(self) -> None:
        if self.off:
            raise PowerCut

    def _about_to_force(self) -> None:
        self._alive()
        if self.forces == self.cut_at:
            self.off = True
            raise PowerCut
        self.forces += 1

    def open(self, path: Path, *, create: bool = False) -> File:
        self._alive()
        inner = self._real.open(path, create=create)
        names = self._names.setdefault(path.parent, {})
        if create:
            names[path.name] = _Body()
        elif path.name not in names:
            names[path.name] = body = _Body()
            body.now[:] = inner.read(0, inner.size())
            body.forced[:] = body.now
        return _PowerFile(inner, names[path.name], self)

    def names(self, directory: Path) -> Sequence[str]:
        self._alive()
        return self._real.names(directory)

    def make_directory(self, directory: Path) -> None:
        self._alive()
        self._unforced_directories |= {one for one in (directory, *directory.parents) if not one.exists()}
        self._real.make_directory(directory)

    def rename(self, source: Path, target: Path) -> None:
        self._alive()
        self._real.rename(source, target)
        self._names.setdefault(target.parent, {})[target.name] = self._names[source.parent].pop(source.name)

    def remove(self, path: Path) -> None:
        self._alive()
        self._real.remove(path)
        self._names.get(path.parent, {}).pop(path.name, None)

    def force_names(self, directory: Path) -> None:
        self._about_to_force()
        self._real.force_names(directory)
        self._forced_names[directory] = dict(self._names.get(directory, {}))
        self._unforced_directories = {one for one in self._unforced_directories if one.parent != directory}

    def step(self, name: str) -> None:
        pass

    def leave(self, choose: random.Random) -> None:
        """Make the real files what a power cut leaves: unforced names and pages are there or not, by chance."""
        for directory, names in self._names.items():
            forced = self._forced_names.get(directory, {})
            for name in forced.keys() | names.keys():
                options = [found for found in (forced.get(name), names.get(name)) if found is not None]
                lost = (name not in forced) or (name not in names)
                path = directory / name
                if path.exists():
                    path.unlink()
                if lost and choose.random() < 0.5:
                    continue
                path.write_bytes(choose.choice(options).after_cut(choose))
        for directory in self._unforced_directories:
            if choose.random() < 0.5:
                shutil.rmtree(directory, ignore_errors=True)


class _PowerFile:
    def __init__(self, inner: File, body: _Body, disk: PowerCutFiles) -> None:
        self._inner = inner
        self._body = body
        self._disk = disk

    def read(self, offset: int, size: int) -> bytes:
        self._disk._alive()
        return self._inner.read(offset, size)

    def write(self, offset: int, data: bytes) -> None:
        self._disk._alive()
        self._inner.write(offset, data)
        self._body.write(offset, data)

    def hurry(self, offset: int, size: int) -> None:
        self._disk._alive()

    def force(self) -> None:
        self._disk._about_to_force()
        if self._disk.forces - 1 == self._disk.fail_at:
            self._body.dirty.clear()
            raise ForceFailed(errno.EIO, "the disk failed")
        self._body.force()

    def size(self) -> int:
        return self._inner.size()

    def identity(self) -> tuple[int, int]:
        return self._inner.identity()

    def close(self) -> None:
        self._inner.close()


class DyingFiles(OSFiles):
    """Kills its process at call number `die_at` (counted from 0), before it is done; a write is then done by half."""

    def __init__(self, die_at: int) -> None:
        self.left = die_at

    def dies(self) -> bool:
        """Count a call; True where it is the last."""
        self.left -= 1
        return self.left < 0

    def call(self) -> None:
        """Count a call, and die where it is the last."""
        if self.dies():
            os.kill(os.getpid(), signal.SIGKILL)

    def open(self, path: Path, *, create: bool = False) -> File:
        self.call()
        return _DyingFile(super().open(path, create=create), self)

    def make_directory(self, directory: Path) -> None:
        self.call()
        super().make_directory(directory)

    def rename(self, source: Path, target: Path) -> None:
        self.call()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self.call()
        super().remove(path)

    def force_names(self, directory: Path) -> None:
        self.call()
        super().force_names(directory)

    def step(self, name: str) -> None:
        self.call()


class _DyingFile:
    def __init__(self, inner: File, disk: DyingFiles) -> None:
        self._inner = inner
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, offset: int, data: bytes) -> None:
        if self._disk.dies():
            self._inner.write(offset, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        self._inner.write(offset, data)

    def force(self) -> None:
        self._disk.call()
        self._inner.force()
