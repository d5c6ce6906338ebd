"""Positions shared by the processes of one boot: aligned 64-bit words in a small mapped file.

Each word is stored in one store by whoever may write it. After a reboot, in a copy, or in another store, the file is
worth nothing and is begun anew by whoever opens the directory alone.

    word  0        magic
          1, 2     boot id
          3, 4     store id
          5, 6     device and inode of the directory
          7        state: 0 closed, 1 live, 2 failed, 3 to be renewed (everyone lets go and opens again),
                   4 was failed, being recovered
          8        written: end of the last frame whose view commit is done    (the turn's holder)
          9        its last sequence; stored after 8
         10        durable: forced up to here                                   (the sync lock's holder)
         11        its last sequence; stored after 10
         12        1 while a frame may lie past `written`                       (the turn's holder)
         13        prepared: zero-filled and forced up to here                  (the prepare lock's holder)
         14        monotonic nanoseconds since when the oldest starving writer waits, 0 = nobody
         15        position a rebuild has reached                               (the exclusive opener)
         16        the sequence at which the newest snapshot begins, plus 1; 0 = none        (the turn's holder)

Whoever reads `written` and its sequence reads the sequence first: the position is then never behind it.
"""

import mmap
import os
from pathlib import Path
from typing import Final

NAME: Final = "positions"
BYTES: Final = 4096
MAGIC: Final = int.from_bytes(b"FELTPOS0", "little")

STATE: Final = 7
WRITTEN: Final = 8
WRITTEN_SEQUENCE: Final = 9
DURABLE: Final = 10
DURABLE_SEQUENCE: Final = 11
APPENDING: Final = 12
PREPARED: Final = 13
STARVING: Final = 14
REBUILT: Final = 15
SNAPSHOT: Final = 16

CLOSED: Final = 0
LIVE: Final = 1
FAILED: Final = 2
RENEW: Final = 3
RECOVERING: Final = 4


def ask_to_renew(words: memoryview) -> None:
    """Tell everyone to let go of the view and open again; a store that failed, or is not open, stays what it is."""
    if words[STATE] == LIVE:
        words[STATE] = RENEW


class Positions:
    """The mapped words. `words` is a view of unsigned 64-bit integers, for the paths that must be fast.

    They are unmapped when nobody refers to them any more: a thread may still be waiting on one.
    """

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            if os.fstat(fd).st_size < BYTES:
                os.pwrite(fd, bytes(BYTES), 0)  # allocated: touching a hole on a full disk would be SIGBUS
            self._map = mmap.mmap(fd, BYTES)
        finally:
            os.close(fd)
        self._view = memoryview(self._map)
        self.words = self._view.cast("Q")

    def belongs(self, boot_id: bytes, store_id: bytes, directory: tuple[int, int]) -> bool:
        """Whether the words are of this boot, store and directory."""
        return self._identity() == (MAGIC, boot_id, store_id, *directory)

    def _identity(self) -> tuple[int, bytes, bytes, int, int]:
        words = self.words
        raw = bytes(self._view[8:40])
        return words[0], raw[:16], raw[16:], words[5], words[6]

    def begin(self, boot_id: bytes, store_id: bytes, directory: tuple[int, int]) -> None:
        """Start anew for this boot, store and directory; the state is closed until the opener says otherwise."""
        self._view[:BYTES] = bytes(BYTES)
        self._view[8:40] = boot_id + store_id
        self.words[5], self.words[6] = directory
        self.words[0] = MAGIC
