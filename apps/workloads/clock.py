"""The one clock of durable work: the database's. Every service takes `now_ms`, so that tests can choose the moment.

On PostgreSQL several hosts share the work, and their clocks differ; so the server is asked once a second, and the time
in between is what this process's monotonic clock says has passed. A host whose own clock is set wrong, or set right,
loses nobody's lease. On SQLite there is one host, and its clock is the database's.

A look at the server's clock is uncertain by half its round trip, so two looks may disagree by a little. Within one
process time does not go back by so little: the latest instant given holds until the clock has passed it. A clock that
was really set back, by more, is followed.
"""

import logging
import threading
import time
from typing import NamedTuple

from django.db import DatabaseError, connection

logger = logging.getLogger("feltdb.worker")

_LOOK_EVERY_S = 1.0
_TELL_MS = 2_000
"""From this difference on the log says, once, that the host's clock is not the database's."""
_HOLD_MS = 1_000
"""Less than this is no setting back: it is more than a look is uncertain by, and less than anyone sets a clock by."""


class _Look(NamedTuple):
    """What the database's clock showed at an instant of this process's monotonic clock; when to look again."""

    at_ms: float
    at_s: float
    again_s: float


_last: _Look | None = None
_given_ms = 0
_giving = threading.Lock()
_told = False


def now_ms() -> int:
    """Return the present as milliseconds since 1970; in one process never a little less than was returned before."""
    global _last, _given_ms
    if _last is None or time.monotonic() >= _last.again_s:
        _last = _look(_last)
    # The present is read with the lock held: a thread that was kept waiting must not bring an instant long gone.
    with _giving:
        present_ms = int(_last.at_ms + 1000 * (time.monotonic() - _last.at_s))
        if not 0 < _given_ms - present_ms < _HOLD_MS:
            _given_ms = present_ms
        return _given_ms


def _look(last: _Look | None) -> _Look:
    """Ask the server. Where it cannot say, what it said before holds for another while; before that it must."""
    asked_s = time.monotonic()
    if connection.vendor != "postgresql":
        return _Look(time.time_ns() / 1e6, asked_s, asked_s)
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
