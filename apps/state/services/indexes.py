"""Declared indexes of a collection: declared and built while others read and write, looked at, dropped."""

import time

from apps.http.errors import ApiError
from apps.state.calls import Call
from apps.state.limits import INDEX_BUILD_S
from apps.state.services.doors import may_read, may_write
from apps.state.stores import store
from feltdb_engine import IndexInfo


def declare(call: Call, collection: str, name: str, fields: tuple[str, ...]) -> IndexInfo:
    """Declare the index, and build it for `INDEX_BUILD_S` at most: asking again goes on. Raises INVALID_QUERY."""
    may_write(call, collection)
    return store(call.namespace).declare_index(collection, fields, name=name, until=_until(call))


def find(call: Call, collection: str, name: str) -> IndexInfo:
    """Return the index. Raises NOT_FOUND."""
    may_read(call, collection)
    for each in store(call.namespace).indexes(collection):
        if each.name == name:
            return each
    raise _not_found()


def drop(call: Call, collection: str, name: str) -> None:
    """Drop the index. Raises NOT_FOUND."""
    may_write(call, collection)
    if not store(call.namespace).drop_index(collection, name, until=_until(call)):
        raise _not_found()


def _until(call: Call) -> float:
    return min(call.deadline - 1.0, time.monotonic() + INDEX_BUILD_S)


def _not_found() -> ApiError:
    return ApiError("NOT_FOUND", "There is no such index.")
