"""The one clock of durable work: the server's. Every service takes `now_ms`, so that tests can choose the moment."""

import time


def now_ms() -> int:
    """Return the present as milliseconds since 1970."""
    return time.time_ns() // 1_000_000
