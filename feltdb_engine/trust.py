"""Trusting the view, which is written without force. Three facts are kept in one small forced file beside it:

    {"directory":[device, inode, machine id],"home":[device, inode, machine id],"store_id":..,"view_format":0,
     "boot_id":..,"view":[device, inode],"position":..,"crc":..,"clean":true}
    <CRC-32C of the first line, 8 hex digits>

`clean` is written by the last process out, after it forced the view. `position` and `crc` are of the log, forced up to
there when the file was written. Another boot needs `clean` and the very same position; the same boot does not. Any
difference means rebuild. `home` is where the view was made; `directory` is where the timeline was begun: where that
differs, this is a copy, and the first writable open begins another timeline.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import google_crc32c
import orjson

from feltdb_engine.files import Files, exists, read_whole, write_whole

NAME = "trust"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """What was true of view and directory when this was written."""

    directory: tuple[int, int, str] | None
    home: tuple[int, int, str]
    store_id: str
    view_format: int
    boot_id: str
    view: tuple[int, int]
    position: int
    crc: int
    clean: bool

    def at(self, position: int, crc: int, *, clean: bool) -> "Trust":
        """The same view at another position of the log."""
        return replace(self, position=position, crc=crc, clean=clean)


def write(files: Files, directory: Path, trust: Trust) -> None:
    """Replace the file; it is there for good once this returns."""
    line = orjson.dumps(asdict(trust))
    write_whole(files, directory / NAME, b"%s\n%08x\n" % (line, google_crc32c.value(line)))


def read(files: Files, directory: Path) -> Trust | None:
    """The facts, or None where there is no whole file of them."""
    path = directory / NAME
    if not exists(files, path):
        return None
    line, _, check = read_whole(files, path).partition(b"\n")
    if check.strip() != b"%08x" % google_crc32c.value(line):
        return None
    members = orjson.loads(line)
    members["directory"] = tuple(members["directory"]) if members["directory"] else None
    members["home"] = tuple(members["home"])
    members["view"] = tuple(members["view"])
    return Trust(**members)
