"""The open stores of this process: one per namespace, opened at first use, never shared with a forked child.

Callers ask anew for every piece of work and keep no store longer than a request: a store that nobody asked for
in `STORE_IDLE_S` may be closed to make room for another.
"""

import atexit
import os
import re
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from apps.http.errors import ApiError
from apps.keys.permissions import namespace_exists
from apps.state.limits import MAX_OPEN_STORES, STORE_IDLE_S
from apps.state.measured import MeasuredFiles
from feltdb_engine import Store

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class Stores:
    """A bounded set of open stores. Thread-safe; two threads asking for one name open it once."""

    def __init__(self, *, limit: int = MAX_OPEN_STORES, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._opening: dict[Path, threading.Lock] = {}
        self._open: dict[Path, Store] = {}
        self._asked_at: dict[Path, float] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._open

    def get(self, path: Path) -> Store:
        """Return the open store at `path`, opening (and creating) it if need be."""
        found = self._open.get(path)
        if found is not None:
            self._asked_at[path] = self._clock()
            return found
        with self._lock:
            turn = self._opening.setdefault(path, threading.Lock())
        with turn:  # a slow recovery holds up its own namespace only
            found = self._open.get(path)
            if found is None:
                self._make_room()
                found = Store.open(path, files=MeasuredFiles())
                with self._lock:
                    self._asked_at[path] = self._clock()
                    self._open[path] = found
            return found

    def _make_room(self) -> None:
        with self._lock:
            if len(self._open) < self._limit:
                return
            path = min(self._open, key=lambda each: self._asked_at[each])
            if self._clock() - self._asked_at[path] < STORE_IDLE_S:
                raise ApiError(
                    "SERVICE_OVERLOADED",
                    "This process has as many namespaces in use as it may open; try again in a moment.",
                    headers={"Retry-After": "1"},
                )
            idle = self._open.pop(path)
            del self._asked_at[path]
        idle.close()

    def close_all(self) -> None:
        """Close every store. Asking again afterwards opens anew."""
        with self._lock:
            stores, self._open, self._asked_at, self._opening = list(self._open.values()), {}, {}, {}
        for each in stores:
            each.close()


_stores = Stores()


def _start_anew_in_child() -> None:
    global _stores
    _stores = Stores()  # the parent's stores are marked by the engine; they are not ours to close


os.register_at_fork(after_in_child=_start_anew_in_child)


def directory(namespace: str) -> Path:
    """Return where the store of `namespace` lies. Raises FORBIDDEN for a name no namespace can have."""
    return _directory(settings.DATA_DIR, namespace)


@lru_cache(maxsize=MAX_OPEN_STORES)
def _directory(data_dir: Path, namespace: str) -> Path:
    if not _NAME.fullmatch(namespace):
        raise unknown_namespace()
    return Path(data_dir) / "namespaces" / namespace


def store(namespace: str) -> Store:
    """Return the store of `namespace`, which must exist in the control plane. Raises FORBIDDEN otherwise."""
    if directory(namespace) not in _stores and not namespace_exists(namespace):
        raise unknown_namespace()
    return store_of_known(namespace)


def store_of_known(namespace: str) -> Store:
    """Return the store of a namespace that the caller has just read from the control plane; asks no database."""
    return _stores.get(directory(namespace))


def unknown_namespace() -> ApiError:
    """The one answer for a namespace that is not there or may not be seen."""
    return ApiError("FORBIDDEN", "There is no such namespace for this key.", reason="NAMESPACE_DENIED")


def close_all() -> None:
    """Close every open store of this process (at exit, and between tests)."""
    _stores.close_all()


atexit.register(close_all)
