"""Streams of the feed: every transaction in order, as it is committed, for as long as the reader listens.

A stream holds a thread of its process. How many there are is bounded, for the process and for each key in it; each
ends by itself after `STREAM_MAX_LIFE_S`, when the process stops, when its reader is gone and when its key ends.
Not here: how events look on the wire (`api/events.py`).
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import groupby

from django.conf import settings

from apps.http import budget, measures, stopping
from apps.http.errors import ApiError
from apps.state.calls import Call
from apps.state.inputs import ChangesRequest
from apps.state.limits import KEEP_ALIVE_S, STREAM_KEYS_SHARE, STREAM_SLICE_S, WAIT_SLICE_S
from apps.state.services.feed import beginning, seen_by
from apps.state.stores import store
from feltdb_engine import Changes, Cursor, Operation


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """The operations of one transaction that the reader may see; `cursor` goes on after them.

    `rewound_from` is set in an event without operations: the cursor the reader came with lies beyond what this store
    kept of its timeline, which left it at `cursor`.
    """

    cursor: Cursor
    operations: tuple[Operation, ...] = ()
    rewound_from: int | None = None


class Room:
    """How many streams there are in this process: at most `limit`, at most `for_one` of a key."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.for_one = -(-limit // STREAM_KEYS_SHARE)
        self._held: Counter[str] = Counter()
        self._turn = threading.Lock()

    def enter(self, key: str) -> None:
        """Take a place. Raises SERVICE_OVERLOADED where there is none."""
        with self._turn:
            whole = self._held.total() >= self.limit
            if not whole and self._held[key] < self.for_one:
                self._held[key] += 1
                return
        measures.STREAMS.labels("refused").inc()
        whose = "" if whole else " of one key"
        raise ApiError(
            "SERVICE_OVERLOADED",
            f"As many streams{whose} as this process serves are open; poll /v1/changes, or come back.",
            headers={"Retry-After": "1"},
            reason="STREAM_LIMIT",
        )

    def leave(self, key: str) -> None:
        """Give a place back."""
        with self._turn:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]


room = Room(settings.FEED_MAX_STREAMS)


class Stream:
    """An open stream: iterate it for its events, None where there was nothing for `KEEP_ALIVE_S`. Close it in any case.

    Raises what reading the feed raises, and AUTHENTICATION_REQUIRED where the key ended: the stream is over then.
    """

    def __init__(self, call: Call, wanted: ChangesRequest, gone: Callable[[], bool]) -> None:
        self._call = call
        self._wanted = wanted
        self._gone = gone
        self._collections = seen_by(call, wanted.collections)
        self._key = call.actor.key_id or ""
        self._end = "left"
        self._entered = False
        opened = store(call.namespace)
        self._first = opened.changes(beginning(opened, wanted.after), limit=wanted.limit, collections=self._collections)
        self.head = self._first.head
        room.enter(self._key)
        self._entered = True
        self._events = self._follow()

    def __iter__(self) -> Iterator[Event | None]:
        return self._events

    def close(self) -> None:
        """Give the place back, once."""
        if self._entered:
            self._entered = False
            room.leave(self._key)
            self._events.close()
            measures.STREAMS.labels(self._end).inc()

    def _follow(self) -> Generator[Event | None, None, None]:
        try:
            yield from self._read()
        except Exception:
            self._end = "failed"
            raise

    def _read(self) -> Iterator[Event | None]:
        ends_at = time.monotonic() + settings.STREAM_MAX_LIFE_S
        quiet_from = asked_at = time.monotonic()
        found = self._first
        with budget.standing():
            if found.rewound_from is not None:
                yield Event(cursor=found.cursor, rewound_from=found.rewound_from)
            while True:
                if found.operations:
                    self._call.require_still_held()
                    for event in by_transaction(found):
                        yield event
                        if self._over(ends_at):
                            return
                    quiet_from = asked_at = time.monotonic()
                if self._over(ends_at) or self._gone():
                    return
                opened = store(self._call.namespace)
                opened.wait_for_change(found.cursor, STREAM_SLICE_S)
                found = opened.changes(found.cursor, limit=self._wanted.limit, collections=self._collections)
                now = time.monotonic()
                if now - asked_at >= WAIT_SLICE_S:
                    self._call.require_still_held()
                    asked_at = now
                if not found.operations and now - quiet_from >= KEEP_ALIVE_S:
                    yield None
                    quiet_from = now

    def _over(self, ends_at: float) -> bool:
        if stopping.begun():
            self._end = "stopped"
        elif time.monotonic() >= ends_at:
            self._end = "life"
        else:
            return False
        return True


def by_transaction(found: Changes) -> Iterator[Event]:
    """Yield the operations of a page, those of one transaction together. One without an id is one operation."""
    for _, members in groupby(found.operations, lambda each: each.transaction_id or each.sequence):
        operations = tuple(members)
        cursor = Cursor(instance_id=found.cursor.instance_id, sequence=operations[-1].sequence)
        yield Event(cursor=cursor, operations=operations)
