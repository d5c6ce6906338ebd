"""Append-only journals, one file per process that ever lived. What is written before a SIGKILL is there after it."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DIRECTORY_VARIABLE = "CHAOS_JOURNALS"


class Journal:
    """One process's journal. Each line carries the host's monotonic clock, which all processes share."""

    def __init__(self, role: str) -> None:
        folder = Path(os.environ[DIRECTORY_VARIABLE])
        path = folder / f"{role}-{os.getpid()}-{time.monotonic_ns()}.jsonl"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, what: str, *, force: bool = False, **members: Any) -> None:
        """Append one line; `force` it to the disk where asked."""
        line = json.dumps({"what": what, "at_ns": time.monotonic_ns(), **members}) + "\n"
        os.write(self._descriptor, line.encode())
        if force:
            os.fsync(self._descriptor)


def entries(folder: Path, role: str) -> Iterator[dict[str, Any]]:
    """Give every whole line of every journal of that role; a line cut by a kill is no line."""
    for path in sorted(folder.glob(f"{role}-*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)
