"""Argon2, bounded: few at a time in a process, one at a time for each key or account, within a deadline, else refused.

A memory-hard hash is dear on purpose: 200 at once would take gigabytes and every core. So hashes are computed by a few
threads of their own, at a lower priority than the rest of the process: a flood of wrong passwords costs whoever sends
it, not whoever holds a key. Whoever does not get a turn is refused with 503 at once or at the deadline. The
bound is of requests in this process; how often anybody may try at all is for the doors to say. Never on the path of a
service key. Commands compute theirs at once: nobody floods them.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from functools import cache
from typing import TypeVar

from django.conf import settings

from apps.http import budget
from apps.http.errors import ApiError
from apps.keys.limits import HASH_DEADLINE_S, MAX_WAITING_HASHES

T = TypeVar("T")

_NICE = 10
"""How far its threads step back: under load each gets about a tenth of what others get, which is still a turn."""


def _step_back() -> None:
    # On Linux this is the thread's own priority, not its process's. One that is lower already may not be raised.
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, max(_NICE, os.getpriority(os.PRIO_PROCESS, thread)))


class Gate:
    """`running` hashes at once, `waiting` more in line, one for each subject."""

    def __init__(self, *, running: int, waiting: int, deadline_s: float) -> None:
        self._most = running + waiting
        self._deadline_s = deadline_s
        self._pool = ThreadPoolExecutor(running, thread_name_prefix="argon2", initializer=_step_back)
        self._changed = threading.Condition()
        self._inside = 0
        self._subjects: set[str] = set()

    def run(self, subject: str, work: Callable[[], T]) -> T:
        """Return what `work` returns, computed in turn. `subject` names whose secret it is; empty for nobody's.

        Raises ApiError SERVICE_OVERLOADED where there is no turn in time. A hash once begun is never
        given up half way: it keeps its place until it ends, so that the bound holds.
        """
        until = time.monotonic() + min(self._deadline_s, max(0.0, budget.left_s(self._deadline_s)))
        self._enter(subject, until)
        try:
            future = self._pool.submit(work)
        except BaseException:
            self._leave(subject)
            raise
        future.add_done_callback(lambda _: self._leave(subject))
        return self._result(future, until)

    def _enter(self, subject: str, until: float) -> None:
        with self._changed:
            if self._inside >= self._most:
                raise _busy()
            self._inside += 1  # in line already while it waits for its subject: the line is bounded too
            while subject and subject in self._subjects:
                if not self._changed.wait(until - time.monotonic()):
                    self._inside -= 1
                    raise _busy()
            if subject:
                self._subjects.add(subject)

    def _leave(self, subject: str) -> None:
        with self._changed:
            self._inside -= 1
            self._subjects.discard(subject)
            self._changed.notify_all()

    @staticmethod
    def _result(future: "Future[T]", until: float) -> T:
        try:
            return future.result(max(0.0, until - time.monotonic()))
        except NotInTime:
            future.cancel()
            raise _busy() from None


def _busy() -> ApiError:
    return ApiError(
        "SERVICE_OVERLOADED", "Too many passwords are being checked; try again.", headers={"Retry-After": "1"}
    )


def computed(subject: str, work: Callable[[], T]) -> T:
    """Return what `work` returns: in this process's turn within a request, at once outside of one. See `Gate.run`."""
    return work() if budget.current() is None else _gate().run(subject, work)


@cache
def _gate() -> Gate:
    return Gate(running=settings.PASSWORD_HASHES_AT_ONCE, waiting=MAX_WAITING_HASHES, deadline_s=HASH_DEADLINE_S)
