"""The feed of changes, by pages and by waiting for the next one. Not here: streams of it (`events.py`).

A waiting request holds a thread. How many may wait at once in this process is bounded, and a process that is
being stopped ends all waits within `WAIT_SLICE_S`: each answers what it has.
"""

import threading
import time

from django.conf import settings

from apps.http import budget, stopping
from apps.http.errors import ApiError
from apps.state.calls import Call
from apps.state.inputs import ChangesRequest
from apps.state.limits import WAIT_SLICE_S
from apps.state.services.doors import may_read
from apps.state.stores import store
from feltdb_engine import Changes, Cursor, Store


class Waiters:
    """How many requests wait in this process, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._slots = threading.BoundedSemaphore(limit)

    def __enter__(self) -> None:
        if not self._slots.acquire(blocking=False):
            raise ApiError(
                "SERVICE_OVERLOADED",
                "As many requests as may do so already wait for changes here; try again in a moment.",
                headers={"Retry-After": "1"},
            )

    def __exit__(self, *_: object) -> None:
        self._slots.release()


_waiters = Waiters(settings.FEED_MAX_WAITING)


def changes(call: Call, wanted: ChangesRequest) -> Changes:
    """Return the operations after a place in the feed; waits for some where the caller asks for it.

    A transaction is never split over pages. Raises FEED_COMPACTED, CURSOR_UNKNOWN, CURSOR_AHEAD, and
    AUTHENTICATION_REQUIRED where the caller's key ends while it waits.
    """
    opened = store(call.namespace)
    collections = seen_by(call, wanted.collections)
    found = opened.changes(
        beginning(opened, wanted.after), limit=wanted.limit, collections=collections, deadline=call.read_until
    )
    if found.operations or not wanted.wait_s:
        return found
    with _waiters, budget.waiting(wanted.wait_s):
        until = time.monotonic() + wanted.wait_s
        while not found.operations and not stopping.begun():
            left = until - time.monotonic()
            if left <= 0:
                break
            moved = opened.wait_for_change(found.cursor, min(left, WAIT_SLICE_S))
            call.require_still_held()
            if moved:
                found = opened.changes(found.cursor, limit=wanted.limit, collections=collections)
    return found


def beginning(opened: Store, after: Cursor | str) -> Cursor:
    """Return the cursor that `after` (a cursor, `start` or `now`) means."""
    if isinstance(after, Cursor):
        return after
    return opened.head() if after == "now" else opened.start()


def seen_by(call: Call, asked: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the collections to show: those asked for, each of which the key must open, else all that it opens."""
    if asked is None:
        return None if call.collections is None else tuple(sorted(call.collections))
    for collection in asked:
        may_read(call, collection)
    return asked
