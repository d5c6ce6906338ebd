"""The connection of a request whose answer is a stream, as far as the server lets the application see it.

Under another server than ours (a test client) nothing is known of it: it is never gone, and buffers as it likes.
"""

from typing import Protocol

from django.http import HttpRequest


class Connection(Protocol):
    """What the server's connection can be asked (`feltsite/serving/wire.py`)."""

    def stream(self) -> None:
        """Say that the answer is a stream."""

    def gone(self) -> bool:
        """Tell whether the client has closed it."""


class _Unknown:
    def stream(self) -> None:
        return

    def gone(self) -> bool:
        return False


def connection(request: HttpRequest) -> Connection:
    """Return the request's connection."""
    found: Connection | None = request.META.get("gunicorn.socket")
    return found if found is not None and hasattr(found, "stream") else _Unknown()
