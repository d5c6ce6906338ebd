"""When a schedule is due: five-field cron expressions in a time zone, as Debian's cron reads them. Pure.

Where the clocks change, cron's own rule holds, which library cronsim carries out:

- work at fixed times (neither minute nor hour begins with `*`) happens once: a time that the spring leaves out is made
  up for right after the gap, and a time that the autumn has twice counts the first time only;
- work at intervals (`*/10 * * * *`, `0 * * * *`) follows the time that passes: nothing is made up, nothing is dropped.

Days of the month and of the week that are both restricted match when either does, as in cron. No grain is finer than
a minute.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_WINDOWS_S = (2 * 3_600, 86_400, 8 * 86_400, 40 * 86_400, 400 * 86_400)
"""How far back the last due time is looked for, nearer first: a long pause costs no walk through its minutes."""


_OF_ONE_HOST = re.compile(r"(localtime|posixrules|Factory)\Z|(posix|right)/")
"""Files beside the zones that mean what a host is set to, or count seconds in another way: no zone of a place."""


class Unreadable(ValueError):
    """The expression or the time zone cannot be read."""


def check(expression: str, zone: str) -> None:
    """Raise Unreadable unless both can be read and a due time ever comes."""
    next_at_ms(expression, zone, 0)


def next_at_ms(expression: str, zone: str, after_ms: int) -> int:
    """Return the first due time after an instant. Raises Unreadable, also where none comes in fifty years."""
    found = next(due_times(expression, zone, after_ms), None)
    if found is None:
        raise Unreadable("the expression never comes due")
    return found


def upcoming(expression: str, zone: str, after_ms: int, count: int) -> list[int]:
    """Return the next `count` due times after an instant."""
    return list(islice(due_times(expression, zone, after_ms), count))


def due_between(expression: str, zone: str, first_ms: int, last_ms: int, count: int) -> list[int]:
    """Return the first `count` due times from `first_ms` to `last_ms`, both included."""
    found = []
    for due in islice(due_times(expression, zone, first_ms - 1), count):
        if due > last_ms:
            break
        found.append(due)
    return found


def last_between(expression: str, zone: str, first_ms: int, last_ms: int) -> int | None:
    """Return the last due time from `first_ms` to `last_ms`, both included, or None."""
    for window_s in (*_WINDOWS_S, None):
        start = first_ms if window_s is None else max(first_ms, last_ms - window_s * 1000)
        found = None
        for due in due_times(expression, zone, start - 1):
            if due > last_ms:
                break
            found = due
        if found is not None or start == first_ms:
            return found
    return None


def due_times(expression: str, zone: str, after_ms: int) -> Iterator[int]:
    """Yield due times after an instant, in order. Raises Unreadable."""
    if len(expression.split()) != 5:
        raise Unreadable("an expression has five fields: minute, hour, day of month, month, day of week")
    try:
        if _OF_ONE_HOST.match(zone):
            raise ZoneInfoNotFoundError(zone)
        place = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Unreadable(f"{zone!r} is no time zone") from error
    # Whole seconds: an instant within a second counts as its beginning, so a due time just passed is not missed.
    begin = datetime.fromtimestamp(after_ms // 1000, tz=UTC).astimezone(place)
    try:
        moments = CronSim(expression, begin)
    except CronSimError as error:
        raise Unreadable(f"{error} in {expression!r}") from error
    return (at for at in (int(moment.timestamp()) * 1000 for moment in moments) if at > after_ms)
