"""What the loop keeps of a connection and of the requests that are with threads."""

import enum
from typing import Any

from gunicorn.workers.gthread import TConn

from feltsite.serving import framing
from feltsite.serving.wire import Wire


class State(enum.Enum):
    """Where a connection stands; see `worker.py`."""

    RECEIVING = enum.auto()
    IDLE = enum.auto()
    WORKING = enum.auto()
    SENDING = enum.auto()
    LINGERING = enum.auto()


class Connection(TConn):  # type: ignore[misc]
    """A connection with what has come in of its next request."""

    sock: Wire
    parser: Any

    def __init__(self, cfg: Any, wire: Wire, client: Any, server: Any) -> None:
        super().__init__(cfg, wire, client, server)
        self.state = State.RECEIVING
        self.inbox = bytearray()
        self.framing = framing.Framing()
        self.deadline = 0.0
        self.arrived_at = 0.0
        self.keep = False
        self.counted: Room | None = None
        self.lingered = 0


class Room:
    """How many requests of one kind are with threads, and how many may be."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.inside = 0
