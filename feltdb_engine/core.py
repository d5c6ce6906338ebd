"""The open parts of one store in one process, as the modules of the engine share them. No behaviour of its own.

Not here: making and letting go of them (`opening.py`).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from feltdb_engine.errors import LogCorrupt
from feltdb_engine.files import Files
from feltdb_engine.host import Host
from feltdb_engine.locks import FileLock, Turn
from feltdb_engine.manifest import Manifest
from feltdb_engine.positions import Positions
from feltdb_engine.segment import Log
from feltdb_engine.view import View


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to open."""

    path: Path
    create: bool
    durability: Literal["commit", "os"]
    segment_bytes: int
    wait_s: float
    files: Files
    host: Host
    read_only: bool


@dataclass(kw_only=True, slots=True, weakref_slot=True)
class Core:
    """What is open. `words` are the shared positions; `damage` is why only a part of the log is served, `prefix.py`."""

    path: Path
    options: Options
    files: Files
    durability: Literal["commit", "os"]
    manifest: Manifest
    positions: Positions
    words: memoryview
    log: Log
    open_lock: FileLock
    sync_lock: FileLock
    prepare_lock: FileLock
    turn: Turn
    damage: LogCorrupt | None = None
    view: View = field(init=False)

    def drop(self) -> None:
        """Close everything, without a word to anyone."""
        if hasattr(self, "view"):
            self.view.close()
        self.log.forget()
        self.turn.close()
        self.sync_lock.close()
        self.prepare_lock.close()
        self.open_lock.close()
