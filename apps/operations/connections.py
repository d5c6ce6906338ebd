"""A thread's database connections at the end of a request: what broke is closed. For the processes that serve, alone.

Django looks twice a request, at every database there is, through storage that asynchronous code needs. Here a thread
knows which connections it opened, and one look at the end does: it closes what cannot be used again, and has the next
statement ask first whether the rest still can.
"""

import threading
from typing import Any

from django.conf import settings
from django.core.cache import close_caches
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_IN_MEMORY = "django.core.cache.backends.locmem.LocMemCache"
_here = threading.local()


def look_after_them() -> None:
    """From now on look after connections in this process, in place of Django."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    if not settings.DEBUG:
        request_started.disconnect(reset_queries)  # the statements it forgets are kept for debugging alone
    if all(cache["BACKEND"] == _IN_MEMORY for cache in settings.CACHES.values()):
        request_finished.disconnect(close_caches)  # there is nothing to close
    connection_created.connect(_note)
    request_finished.connect(_look)


def _note(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Remember a connection that this thread opened, for its alias the one object that the thread ever has."""
    opened: dict[str, BaseDatabaseWrapper] = _here.__dict__.setdefault("opened", {})
    opened[connection.alias] = connection


def _look(**_: Any) -> None:
    for connection in _here.__dict__.get("opened", {}).values():
        connection.close_if_unusable_or_obsolete()
