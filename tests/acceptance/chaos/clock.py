"""A host's clock that can be set, for the processes of the proof only: FeltDB itself has no such switch.

`time.time` and `time.time_ns` are replaced before anything is imported. The offset lies in a file that all processes
map; a process may have an offset of its own besides, as another host has. The monotonic clock is left alone, as by
whoever sets a clock.
"""

import mmap
import os
import struct
import time
from pathlib import Path

FILE_VARIABLE = "CHAOS_CLOCK"
OWN_VARIABLE = "CHAOS_CLOCK_OWN_MS"
_FORM = struct.Struct("<q")


def create(path: Path) -> None:
    """Make the file, the clock being right."""
    path.write_bytes(_FORM.pack(0))


def set_off(path: Path, ms: int) -> None:
    """Set the clock of all processes so many milliseconds off."""
    with path.open("r+b") as file:
        file.write(_FORM.pack(ms))


def install() -> None:
    """Make this process, and the children it forks, go by the clock that the environment names."""
    with Path(os.environ[FILE_VARIABLE]).open("rb") as file:
        shared = mmap.mmap(file.fileno(), _FORM.size, access=mmap.ACCESS_READ)
    own_ms = int(os.environ.get(OWN_VARIABLE, 0))
    real_time, real_time_ns = time.time, time.time_ns

    def off_ms() -> int:
        return own_ms + int(_FORM.unpack_from(shared)[0])

    time.time = lambda: real_time() + off_ms() / 1000
    time.time_ns = lambda: real_time_ns() + off_ms() * 1_000_000
