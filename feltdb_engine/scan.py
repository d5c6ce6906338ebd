"""What one reading call may still do: records it may look at, and until when. Not here: what happens with the cursor.

The clock bounds twice: by the caller's deadline, and by how long one read transaction may live, since its pages cannot
be used again meanwhile.
"""

import time
from typing import Any

from feltdb_engine import limits
from feltdb_engine.errors import DeadlineExceeded, EngineError, ScanLimitExceeded

_LOOK_EVERY = 16  # records between two looks at the clock


class Scan:
    """The budget of one call. `scanned` counts the records it looked at."""

    __slots__ = ("_budget", "_deadline", "_next", "_until", "late", "scanned")

    def __init__(self, deadline: float | None) -> None:
        self.scanned = 0
        self.late = False
        self._next = 0
        self._budget = limits.SCAN_BUDGET_RECORDS
        self._deadline = deadline
        held = time.monotonic() + limits.READ_MAX_S
        self._until = held if deadline is None else min(held, deadline)

    def more(self) -> bool:
        """Whether one more record may be looked at; counts it."""
        if self.scanned >= self._next:
            if self.scanned >= self._budget:
                return False
            now = time.monotonic()
            if now >= self._until:
                self.late = self._deadline is not None and now >= self._deadline
                return False
            self._next = min(self.scanned + _LOOK_EVERY, self._budget)
        self.scanned += 1
        return True

    def error(self, cursor: str | None, **details: Any) -> EngineError:
        """Why `more` said no; `cursor` goes on from what was looked at, None where nothing can."""
        kind = DeadlineExceeded if self.late else ScanLimitExceeded
        why = "The deadline passed" if self.late else "That is the most one call may look at"
        how = "go on from the cursor, or narrow it" if cursor else "narrow it, or declare an index"
        return kind(f"{why} after {self.scanned} records: {how}.", cursor=cursor, scanned=self.scanned, **details)
