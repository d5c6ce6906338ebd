"""Whether this process is being stopped. Whatever waits on behalf of a request looks here and answers what it has."""

import threading

_asked = threading.Event()


def begin() -> None:
    """Say that the process is to stop; called once, by whoever runs it."""
    _asked.set()


def begun() -> bool:
    """Tell whether the process is to stop."""
    return _asked.is_set()
