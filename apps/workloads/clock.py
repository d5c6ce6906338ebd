"""The one clock of durable work: the database's. Every service takes `now_ms`, so that tests can choose the moment.

On PostgreSQL several hosts share the work, and their clocks differ; so the server is asked once a second, and the time
in between is what this process's monotonic clock says has passed. A host whose own clock is set wrong, or set right,
loses nobody's lease. On SQLite there is one host, and its clock is the database's.
"""

import logging
import time
from typing import NamedTuple

from django.db import DatabaseError, connection

logger = logging.getLogger("feltdb.worker")

_LOOK_EVERY_S = 1.0
_TELL_MS = 2_000
"""From this difference on the log says, once, that the host's clock is not the database's."""


class _Look(NamedTuple):
    """What the database's clock showed at an instant of this process's monotonic clock; when to look again."""

    at_ms: float
    at_s: float
    again_s: float


_last: _Look | None = None
_told = False


def now_ms() -> int:
    """Return the present as milliseconds since 1970."""
    global _last
    if connection.vendor != "postgresql":
        return time.time_ns() // 1_000_000
    if _last is None or time.monotonic() >= _last.again_s:
        _last = _look(_last)
    return int(_last.at_ms + 1000 * (time.monotonic() - _last.at_s))


def _look(last: _Look | None) -> _Look:
    """Ask the server. Where it cannot say, what it said before holds for another while; before that it must."""
    asked_s = time.monotonic()
    try:
        connection.ensure_connection()
        # Below Django, so that it takes part in no transaction's count of statements and in no log of them.
        with connection.wrap_database_errors:
            row = connection.connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
    except DatabaseError:
        if last is None:
            raise
        return last._replace(again_s=asked_s + _LOOK_EVERY_S)
    told_s = time.monotonic()
    at_ms = 1000 * float(row[0])
    _tell(at_ms)
    return _Look(at_ms, (asked_s + told_s) / 2, told_s + _LOOK_EVERY_S)


def _tell(at_ms: float) -> None:
    global _told
    apart_ms = time.time_ns() / 1e6 - at_ms
    if abs(apart_ms) < _TELL_MS:
        _told = False
    elif not _told:
        _told = True
        logger.warning("this host's clock is %+.1f s from the database's; work goes by the database's", apart_ms / 1000)
