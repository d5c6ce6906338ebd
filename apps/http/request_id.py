"""The id of the request that this thread works for, so that records made far below the view can name it.

Set by `RequestIdMiddleware` alone. Not for decisions: only for records of what happened.
"""

from contextvars import ContextVar

_current: ContextVar[str] = ContextVar("feltdb_request_id", default="")


def current() -> str:
    """Return the id of the request being worked for, or an empty text outside of any."""
    return _current.get()


set_current = _current.set
reset = _current.reset
