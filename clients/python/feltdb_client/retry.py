"""When a request is sent again, and after how long.

Reads are always safe to repeat; writes are because each carries a transaction id, under which the server does it once.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

RETRIED_CODES = frozenset(
    {
        "COMMIT_UNKNOWN",
        "DATABASE_UNAVAILABLE",
        "RATE_LIMITED",
        "SERVICE_OVERLOADED",
        "STORAGE_REBUILDING",
        "STORAGE_UNAVAILABLE",
    }
)
RETRIED_STATUSES = frozenset({502, 504})


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long to go on trying: waits double from `first_wait_s` to `longest_wait_s`, each shortened at random."""

    total_s: float = 60.0
    first_wait_s: float = 0.05
    longest_wait_s: float = 5.0
    monotonic: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)
    jitter: Callable[[], float] = field(default=random.random)  # from 0 to 1

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Return the seconds before attempt `attempt` + 1 (attempts count from 1); at least what the server asks."""
        longest: float = min(self.longest_wait_s, self.first_wait_s * 2 ** min(attempt - 1, 32))
        return max(longest * (0.5 + self.jitter() / 2), retry_after_s or 0.0)
