"""How much the server takes on at once, computed from the environment and the machine, in one place.

A request holds one of its process's permits while it is worked on. Waiting for changes or for work, and streaming
changes, hold a thread and no permit. Threads are more than all together, so that refusals always find one.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured

from feltsite import environment as env

MAX_WAITING_CLAIMS = 4
"""Claims that wait for work in one process, each on a thread; as in `apps/workloads/limits.py` (a test compares)."""

MAX_WAITING_HASHES = 4
"""Requests that wait in one process for a memory-hard hash; as in `apps/keys/limits.py` (a test compares)."""

CONSOLE_PERMITS = 4
"""Requests of the console that one process works on, whatever the API does."""

SPARE_THREADS = 4
"""For refusals, health and metrics, which hold no permit."""

STREAMS_PART = 4
"""One in so many threads may be taken by a stream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """`permits` is the share of one process in `max_in_flight`, the bound of the whole instance.

    `streams` are those of one process: a quarter of its threads. `sign_ins`, with threads of their own, are as many as
    may compute a hash or wait for their turn: more would only be refused later.
    """

    processes: int
    threads: int
    permits: int
    max_in_flight: int
    feed_waiting: int
    streams: int
    sign_ins: int


def of(environment: Mapping[str, str], *, cores: int | None = None) -> Capacity:
    """Return the capacity. Raises ImproperlyConfigured naming the variable that cannot be used."""
    cores = cores or len(os.sched_getaffinity(0))
    asked = env.whole("WEB_WORKERS", environment=environment)
    sensible = min(64, max(4 * cores, 4 * asked))
    max_in_flight = env.whole("FELTDB_MAX_IN_FLIGHT", sensible, environment=environment)
    processes = min(asked, max_in_flight)
    permits = max_in_flight // processes
    feed_waiting = env.whole("FELTDB_FEED_MAX_WAITING", environment=environment)
    least = permits + SPARE_THREADS
    hashes = env.whole("FELTDB_PASSWORD_HASHES_AT_ONCE", environment=environment) + MAX_WAITING_HASHES
    enough = least + feed_waiting + MAX_WAITING_CLAIMS + hashes + CONSOLE_PERMITS
    threads = env.whole("WEB_THREADS", min(-(-enough * 4 // 3), 1024), environment=environment)
    if threads < least:
        raise ImproperlyConfigured(
            f"WEB_THREADS is {threads}; with {permits} requests in flight in each process (FELTDB_MAX_IN_FLIGHT over "
            f"WEB_WORKERS) it must be at least {least}"
        )
    return Capacity(
        processes=processes,
        threads=threads,
        permits=permits,
        max_in_flight=max_in_flight,
        feed_waiting=feed_waiting,
        streams=max(1, threads // STREAMS_PART),
        sign_ins=hashes,
    )
