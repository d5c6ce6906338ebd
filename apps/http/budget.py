"""What one request may use: until when, and the permit it holds. Whatever waits or scans asks here.

The budget is of the thread that works on the request (`current`); outside a request there is none, and nothing is
bounded by it. Not here: who gets a permit (`apps/operations/admission.py`).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from apps.http.errors import ApiError

LATE = "request exceeded the server deadline"
"""The reference's own words for a request that ran out of time."""

DEADLINE = "DEADLINE"
"""The `reason` beside SERVICE_OVERLOADED where the deadline, not the number of requests, is why."""

arrived_at: ContextVar[float | None] = ContextVar("feltdb_arrived_at", default=None)
"""When the request on this thread had come in whole (`time.monotonic()` seconds), as the server noted it."""

_waits: dict[int, None] = {}
"""Who waits just now, by thread: entries come and go whole, so that no lock is needed."""

_current: ContextVar["Budget | None"] = ContextVar("feltdb_budget", default=None)


class Budget:
    """`deadline` is in `time.monotonic()` seconds. The permit is given back once, however often that is asked."""

    __slots__ = ("_give_back", "deadline")

    def __init__(self, deadline: float, give_back: Callable[[], None] | None = None) -> None:
        self.deadline = deadline
        self._give_back = give_back

    def left_s(self) -> float:
        """Return the seconds left, negative once it is late."""
        return self.deadline - time.monotonic()

    def give_back(self) -> None:
        """Give the permit back, if one is held."""
        release, self._give_back = self._give_back, None
        if release is not None:
            release()


def current() -> Budget | None:
    """Return the budget of the request this thread works on."""
    return _current.get()


class spending:
    """Make `budget` the current one for a `with`; its permit is back at the end, whatever happens."""

    __slots__ = ("_budget", "_token")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def __enter__(self) -> Budget:
        self._token = _current.set(self._budget)
        return self._budget

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
        self._budget.give_back()


@contextmanager
def waiting(seconds: float) -> Iterator[None]:
    """Around a wait the caller asked for: it holds no permit, and its time comes on top of the deadline.

    How many may wait at once is for the caller of this to bound.
    """
    budget = _current.get()
    if budget is None:
        yield
        return
    budget.give_back()
    started = time.monotonic()
    budget.deadline += seconds
    _waits[threading.get_ident()] = None
    try:
        yield
    finally:
        _waits.pop(threading.get_ident(), None)
        budget.deadline -= max(0.0, seconds - (time.monotonic() - started))


@contextmanager
def standing() -> Iterator[None]:
    """Around an answer that goes on for as long as its caller reads it: it counts as one that waits.

    It runs after the request's own budget, permit and deadline; how many there are is for the caller of this to bound.
    """
    _waits[threading.get_ident()] = None
    try:
        yield
    finally:
        _waits.pop(threading.get_ident(), None)


def waiting_now() -> int:
    """Return how many requests of this process wait, or stream, because their callers asked for it."""
    return len(_waits)


def deadline(default_s: float) -> float:
    """Return the current deadline, or `default_s` from now outside a request."""
    budget = _current.get()
    return time.monotonic() + default_s if budget is None else budget.deadline


def left_s(default_s: float) -> float:
    """Return the seconds left to the current request, or `default_s` outside one."""
    budget = _current.get()
    return default_s if budget is None else budget.left_s()


def check() -> None:
    """Raise the deadline's refusal where it has passed."""
    budget = _current.get()
    if budget is not None and budget.left_s() <= 0:
        raise late()


def late(**members: Any) -> ApiError:
    """Return the refusal of a request whose deadline passed before it had changed anything."""
    return ApiError("SERVICE_OVERLOADED", LATE, headers={"Retry-After": "1"}, reason=DEADLINE, **members)
