"""Progress of a long command for whoever watches it: from the second second on, once a second, on standard error."""

import time
from types import TracebackType
from typing import Any

AFTER_S = 2.0
EVERY_S = 1.0
MIB = 1024**2


class Shown:
    """Call it with what is done and what there is to do, in bytes. Says nothing of what ends within two seconds."""

    def __init__(self, stream: Any, what: str) -> None:
        self._stream = stream
        self._what = what
        self._next_at = time.monotonic() + AFTER_S
        self._said = False

    def __call__(self, done: int, total: int) -> None:
        """Write a line where one is due."""
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + EVERY_S
        self._said = True
        part = f"{100 * done / total:.0f} %, " if total else ""
        self._stream.write(f"{self._what}: {part}{done / MIB:,.0f} of {total / MIB:,.0f} MiB")

    def __enter__(self) -> "Shown":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say that it ended, where anything was said."""
        if self._said and error is None:
            self._stream.write(f"{self._what}: done")
