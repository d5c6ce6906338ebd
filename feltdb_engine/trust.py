"""Trusting the view, which is written without force. The facts are kept in one small forced file beside it.

Two slots of 4,096 bytes; each holds a line of JSON, a line with its CRC-32C (8 hex digits), and spaces:

    {"serial":7,"directory":[device, inode, machine id],"home":[device, inode, machine id],"store_id":..,
     "view_format":0,"boot_id":..,"view":[device, inode],"position":..,"crc":..,"clean":true}

The whole slot with the higher serial counts. Writing goes to the other slot and is forced: it needs no room on the
disk, so that a store on a full one can still be opened.

`clean` is written by the last process out, after it forced the view. `position` and `crc` are of the log, forced up to
there when the slot was written. Another boot needs `clean` and the very same position; the same boot does not. Any
difference means rebuild. `home` is where the view was made; `directory` is where the timeline was begun: where that
differs, this is a copy, and the first writable open begins another timeline.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import google_crc32c
import orjson

from feltdb_engine.files import File, Files, exists

NAME = "trust"
_SLOT = 4096


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
    """Write the facts to the slot that does not count; they count, for good, once this returns."""
    path = directory / NAME
    fresh = not exists(files, path)
    file = files.open(path, create=fresh)
    try:
        if fresh:
            file.write(0, bytes(2 * _SLOT))
        found = _newest(file)
        serial = found[0] + 1 if found else 0
        line = orjson.dumps({"serial": serial, **asdict(trust)})
        slot = b"%s\n%08x\n" % (line, google_crc32c.value(line))
        file.write(serial % 2 * _SLOT, slot.ljust(_SLOT))
        file.force()
    finally:
        file.close()
    if fresh:
        files.force_names(directory)


def read(files: Files, directory: Path) -> Trust | None:
    """The facts that count, or None where there are none."""
    path = directory / NAME
    if not exists(files, path):
        return None
    file = files.open(path)
    try:
        found = _newest(file)
    finally:
        file.close()
    return found[1] if found else None


def _newest(file: File) -> tuple[int, Trust] | None:
    slots = [slot for slot in (_parse(file.read(at, _SLOT)) for at in (0, _SLOT)) if slot is not None]
    return max(slots, key=lambda slot: slot[0], default=None)


def _parse(data: bytes) -> tuple[int, Trust] | None:
    line, _, rest = data.partition(b"\n")
    if not line or rest.strip() != b"%08x" % google_crc32c.value(line):
        return None
    members = orjson.loads(line)
    serial = members.pop("serial")
    members["directory"] = tuple(members["directory"]) if members["directory"] else None
    members["home"] = tuple(members["home"])
    members["view"] = tuple(members["view"])
    return serial, Trust(**members)
