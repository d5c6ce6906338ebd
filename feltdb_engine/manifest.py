"""The manifest: what a directory is. Two lines of text, replaced as a whole and forced.

    {"format":0,"store_id":"<32 hex>","instance_id":"<32 hex>","parent":null | {"instance_id":..,"sequence":..},
     "segment_bytes":67108864,"view_map_bytes":1099511627776,"start":{"position":0,"crc":0,"epoch":0,"sequence":0,"at_ms":0}}
    <CRC-32C of the first line, 8 hex digits>

`start` is where reading the log begins: the chain before the oldest frame kept. A directory without a manifest is no
store yet: its creation did not finish. `instance_id` and `parent` repeat what the log's last timeline frame says, for
tools.

A store that was compacted has format 1, and two members more: "start_instance", the timeline at the start, and
"snapshots":[[position,sequence,until,bytes],..], oldest first, each a file of `snapshots/` named by its position
(`snapshot.py`). What the manifest does not name does not count, and is removed.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import google_crc32c
import orjson

from feltdb_engine import limits
from feltdb_engine.errors import FormatUnsupported, LogCorrupt
from feltdb_engine.files import Files, exists, read_whole, write_whole
from feltdb_engine.frame import FORMAT, Chain

NAME = "manifest.json"
COMPACTED_FORMAT: Final = 1


class SnapshotRef(NamedTuple):
    """A snapshot that counts: the log goes on from `position`, and must be read up to `until` before it is whole."""

    position: int
    sequence: int
    until: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What a directory is."""

    store_id: str
    instance_id: str
    parent_instance_id: str | None
    parent_sequence: int | None
    segment_bytes: int
    view_map_bytes: int
    start: Chain
    start_instance: str | None = None
    snapshots: tuple[SnapshotRef, ...] = ()

    def on_timeline(self, instance_id: str, parent: str | None, sequence: int | None) -> "Manifest":
        """The same store on another timeline."""
        return replace(self, instance_id=instance_id, parent_instance_id=parent, parent_sequence=sequence)

    @property
    def format(self) -> int:
        """The lowest format that can say this."""
        return COMPACTED_FORMAT if self.snapshots or self.start.position else FORMAT

    @property
    def instance_at_start(self) -> bytes:
        """The timeline at the start; zeroes before the first."""
        return bytes.fromhex(self.start_instance) if self.start_instance else bytes(16)


def write(files: Files, directory: Path, manifest: Manifest) -> None:
    """Replace the manifest; it is there for good once this returns."""
    members = asdict(manifest)
    start = members.pop("start")
    parent = members.pop("parent_instance_id")
    sequence = members.pop("parent_sequence")
    members["parent"] = None if parent is None else {"instance_id": parent, "sequence": sequence}
    members["start"] = dict(zip(Chain._fields, start, strict=True))
    members["snapshots"] = [list(one) for one in manifest.snapshots]
    if manifest.format == FORMAT:
        del members["start_instance"], members["snapshots"]
    line = orjson.dumps({"format": manifest.format, **members})
    write_whole(files, directory / NAME, b"%s\n%08x\n" % (line, google_crc32c.value(line)))


def read(files: Files, directory: Path) -> Manifest | None:
    """The manifest, or None where there is none. Raises LogCorrupt, FormatUnsupported."""
    path = directory / NAME
    if not exists(files, path):
        return None
    line, _, check = read_whole(files, path).partition(b"\n")
    if check.strip() != b"%08x" % google_crc32c.value(line):
        raise LogCorrupt(f"The manifest {path} is damaged.", segment=NAME, offset=0, sequence=None)
    members: dict[str, Any] = orjson.loads(line)
    found = members.pop("format")
    if found not in (FORMAT, COMPACTED_FORMAT):
        raise FormatUnsupported(f"{path} is of format {found!r}, which this version cannot read: a newer one can.")
    parent = members.pop("parent") or {}
    start = members.pop("start")
    snapshots = tuple(SnapshotRef(*one) for one in members.pop("snapshots", ()))
    manifest = Manifest(
        **members,
        snapshots=snapshots,
        parent_instance_id=parent.get("instance_id"),
        parent_sequence=parent.get("sequence"),
        start=Chain(**start),
    )
    if not limits.SEGMENT_MIN_BYTES <= manifest.segment_bytes <= limits.SEGMENT_MAX_BYTES:
        raise FormatUnsupported(f"{path} names a segment size this version cannot serve.")
    return manifest
