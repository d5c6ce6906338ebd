"""What programs print, with what looks like a secret masked before it reaches a log or a terminal."""

import threading
from typing import TextIO

from apps.http.logs import redacted
from apps.workloads.secret_patterns import text_reason

_MAX_PENDING_CHARS = 8_192


def masked(line: str) -> str:
    """Return the line as it may be shown; one that holds a credential is hidden whole."""
    reason = text_reason(line)
    return f"(hidden: it holds {reason})" if reason else redacted(line)


class MaskedStream:
    """Stands for a text stream, such as the process's output, and writes whole lines, masked."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._pending = ""
        self._turn = threading.Lock()

    def write(self, text: str) -> int:
        """Take text; lines that are whole are written."""
        with self._turn:
            *lines, self._pending = (self._pending + text).split("\n")
            if len(self._pending) > _MAX_PENDING_CHARS:
                lines, self._pending = [*lines, self._pending], ""
            for line in lines:
                self._stream.write(f"{masked(line)}\n")
        return len(text)

    def flush(self) -> None:
        """Write what is there of a line."""
        with self._turn:
            if self._pending:
                self._stream.write(masked(self._pending))
                self._pending = ""
            self._stream.flush()

    def isatty(self) -> bool:
        """Tell whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the stream's own descriptor."""
        return self._stream.fileno()
