"""A bare log: checksummed frames in zero-filled space, forced, and a dict of the newest in each process's memory.

The limit of what such a design can do from Python, not a store: nothing is recovered, indexed or shared but the log.
Several processes append in turn under a lock, and whoever forces covers what was written before.
"""

import fcntl
import mmap
import os
import struct
from pathlib import Path
from typing import Any

import google_crc32c
import orjson

from benchmarks.contestants.base import Contestant, Item

_HEAD = struct.Struct("<II")
_STEP = 1 << 20
_WRITTEN, _FORCED, _PREPARED = 0, 1, 2


class BareLog(Contestant):
    def __init__(self, folder: Path, indexed: bool) -> None:
        super().__init__(folder, indexed)
        folder.mkdir(parents=True, exist_ok=True)
        self.fd = os.open(folder / "log", os.O_RDWR | os.O_CREAT)
        self.shared = os.open(folder / "positions", os.O_RDWR | os.O_CREAT)
        os.ftruncate(self.shared, 4096)
        self.words = memoryview(mmap.mmap(self.shared, 4096)).cast("Q")
        self.newest: dict[str, tuple[int, int, int]] = {}
        self.sequence = 0

    def _append(self, items: list[Item], versions: list[int] | None) -> bool:
        words, newest = self.words, self.newest
        fcntl.flock(self.shared, fcntl.LOCK_EX)
        try:
            if versions is not None and [newest[key][2] for key, _ in items] != versions:
                return False
            begin = words[_WRITTEN]
            at = begin + _HEAD.size
            lines = []
            for key, value in items:
                known = newest.get(key)
                version = 1 if known is None else known[2] + 1
                self.sequence += 1
                line = orjson.dumps((self.sequence, key, version, value))
                newest[key] = (at, len(line), version)
                at += len(line) + 1
                lines.append(line)
            body = b"\n".join(lines)
            end = begin + _HEAD.size + len(body)
            if end > words[_PREPARED]:
                os.pwrite(self.fd, bytes(max(_STEP, end - words[_PREPARED])), words[_PREPARED])
                os.fdatasync(self.fd)
                words[_PREPARED] += max(_STEP, end - words[_PREPARED])
            os.pwrite(self.fd, _HEAD.pack(len(body), google_crc32c.value(body)) + body, begin)
            words[_WRITTEN] = end
        finally:
            fcntl.flock(self.shared, fcntl.LOCK_UN)
        if words[_FORCED] < end:
            reached = words[_WRITTEN]
            os.fdatasync(self.fd)
            words[_FORCED] = max(words[_FORCED], reached)
        return True

    def commit(self, items: list[Item]) -> None:
        self._append(items, None)

    def compare_and_set(self, items: list[Item]) -> bool:
        return self._append(items, [self.newest[key][2] for key, _ in items])

    def get(self, record_id: str) -> Any:
        if record_id not in self.newest:
            raise NotImplementedError  # another process wrote it
        at, size, _ = self.newest[record_id]
        return orjson.loads(os.pread(self.fd, size, at))[3]

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.shared)
