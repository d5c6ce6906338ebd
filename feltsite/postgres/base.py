"""Django's PostgreSQL backend, where nobody with a deadline waits for a server that is there and says nothing.

`statement_timeout` ends what the server works on. A server that is stopped, or a proxy between that hangs, ends
nothing, and its kernel acknowledges every packet, so that TCP's own time limits do not see it either. Here the wait
itself ends, a little after the deadline: a server that does answer has told its own time-out by then. The connection
is given up, as nobody knows what it stands at.

What has no deadline (migrations, a worker's loops) waits as ever: TCP ends what is gone, see OPTIONS in the settings.
"""

import math
import time
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

from apps.http import budget

ANSWER_S = 0.5
"""Beyond the deadline, for the server's own word that it ran out of time."""

USABLE_S = 0.5
"""For the look whether a connection that was kept still answers."""

LEAST_CONNECT_S = 2
"""psycopg takes no less."""


class Connection(psycopg.Connection[Any]):
    """A connection whose waits end with the current budget."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server. Raises psycopg.OperationalError where it says nothing until after the deadline."""
        spent = budget.current()
        if spent is None:
            return super().wait(gen, interval, timeout)
        left_s = max(0.0, spent.left_s()) + ANSWER_S
        until = time.monotonic() + left_s
        try:
            return super().wait(gen, interval, left_s if timeout is None else min(left_s, timeout))
        except psycopg.OperationalError as error:
            if time.monotonic() < until or self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError("the server said nothing in time") from error


class _Driver:
    """psycopg, whose connections are ours."""

    def __getattr__(self, name: str) -> Any:
        return getattr(psycopg, name)

    @staticmethod
    def connect(**params: Any) -> Connection:
        """Connect, within the current budget."""
        spent = budget.current()
        if spent is not None:
            left_s = max(LEAST_CONNECT_S, math.ceil(spent.left_s()))
            params["connect_timeout"] = min(int(params.get("connect_timeout") or left_s), left_s)
        return Connection.connect(**params)


class DatabaseWrapper(base.DatabaseWrapper):
    """One connection of ours."""

    Database: Any = _Driver()

    def is_usable(self) -> bool:
        """Tell whether the server answers on this connection: at once, or it is made anew."""
        with budget.spending(budget.Budget(min(budget.deadline(USABLE_S), time.monotonic() + USABLE_S))):
            return bool(super().is_usable())
