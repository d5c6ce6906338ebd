"""What a process may go on trusting of what it read about keys, people and grants, and how rights are taken away.

On SQLite every process of the instance shares one file: the revocation epoch (`epoch.py`) says it all. A database that
several hosts may share has a *mark* besides: one number, made new in the same transaction as every change that takes
rights away. A process that has read the mark holds a *lease*: for LEASE_MS from the moment before it asked, it may take
the mark for unchanged. Whoever takes rights away returns only once every lease that may have been given before the
commit has ended. So nobody has to know which hosts there are, no two clocks are compared, and a host that is stopped,
cut off or gone delays nobody. (ADR 0224)

    read before the commit  |-- lease --|
    commit                        |----- the change waits -----| returns
    read after it                        finds the new mark
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from django.db import connection, transaction

from apps.keys import epoch
from apps.keys.limits import LEASE_MS, OUTLIVE_MS, TRUST_S
from apps.keys.models import RevocationMark

_NEVER_MOVED = 0
_MARK_ID = 1
_TABLE = RevocationMark._meta.db_table
# S608: the table's name is our own model's.
_ASK = f"SELECT mark FROM {_TABLE} WHERE id = {_MARK_ID}"  # noqa: S608
_MOVE = f"""
INSERT INTO {_TABLE} (id, mark) VALUES ({_MARK_ID}, %s) ON CONFLICT (id) DO UPDATE SET mark = excluded.mark
"""  # noqa: S608
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the host sleeps, where the system has such a clock: a lease must not outlast a sleep."""


class Moment(NamedTuple):
    """When something was read: the epoch of this host, the mark of the database, and `time.monotonic` in seconds."""

    epoch: int
    mark: int
    at_s: float

    def holds(self, present: "Moment | None") -> bool:
        """Tell whether what was read at this moment, or after it, may be trusted at the present one."""
        return (
            present is not None
            and self.epoch == present.epoch
            and self.mark == present.mark
            and present.at_s - self.at_s < TRUST_S
        )


class Lease:
    """The mark as this process may take it for true. `ask` reads it from the database, `clock_ns` only ever grows."""

    def __init__(
        self, ask: Callable[[], int], *, clock_ns: Callable[[], int], life_ns: int = LEASE_MS * 1_000_000
    ) -> None:
        self._ask = ask
        self._clock_ns = clock_ns
        self._life_ns = life_ns
        self._held = (_NEVER_MOVED, 0)  # mark and end in one object: no thread sees one without the other
        self._asking = threading.Lock()

    def mark(self) -> int:
        """Return the mark. In the second half of a lease one caller asks anew while the others go on."""
        mark, ends_ns = self._held
        now_ns = self._clock_ns()
        if now_ns < ends_ns - self._life_ns // 2:
            return mark
        mine = self._asking.acquire(blocking=False)
        try:
            if not mine and now_ns < ends_ns:
                return mark
            asked_ns = self._clock_ns()
            mark = self._ask()
            self._held = (mark, asked_ns + self._life_ns)
            return mark
        finally:
            if mine:
                self._asking.release()


def present() -> Moment | None:
    """Return the moment to remember along with what is read after this call; None while nothing may be remembered."""
    here = epoch.shared().read()
    if here is None:
        return None
    at_s = time.monotonic()
    return Moment(here, lease.mark() if _is_shared() else _NEVER_MOVED, at_s)


def still(then: Moment | None) -> bool:
    """Tell whether what was read at that moment may be trusted now."""
    return then is not None and then.holds(present())


@contextmanager
def shrinking() -> Iterator[None]:
    """One transaction that takes rights away: once this ends, no process on any host trusts what it read before.

    Not inside a transaction: the wait for the leases would begin before the commit.
    """
    with epoch.shared().moving(), transaction.atomic(durable=True):
        if _is_shared():
            _move_mark()
        yield
    if _is_shared():
        outlive_leases()


def outlive_leases() -> None:
    """Wait until every lease that was given before this call has ended, on whichever host."""
    time.sleep(OUTLIVE_MS / 1000)


def _is_shared() -> bool:
    """Tell whether several hosts may use this database."""
    return connection.vendor != "sqlite"


def _ask_mark() -> int:
    with connection.cursor() as cursor:
        cursor.execute(_ASK)
        found = cursor.fetchone()
    return _NEVER_MOVED if found is None else int(found[0])


def _move_mark() -> None:
    """Give the mark a value it never had: after a fail-over or a restore a counter might show an old one again."""
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, [1 + secrets.randbelow(2**63 - 1)])


lease = Lease(_ask_mark, clock_ns=lambda: time.clock_gettime_ns(_CLOCK))
