"""What a worker is told: how to work, and what else to do in the background. Values only; `worker.py` obeys them."""

import os
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from apps.workloads import limits


def worker_name() -> str:
    """Return a name no other worker process has or will have: a restart is not the same worker."""
    return f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerOptions:
    """How a worker works. `namespaces` None: all of them."""

    concurrency: int = 8
    namespaces: tuple[str, ...] | None = None
    lease_ms: int = limits.DEFAULT_LEASE_MS
    poll_s: float = 1.0
    sweep_s: float = 1.0
    grace_s: float = 20.0
    worker_id: str = field(default_factory=worker_name)


@dataclass(frozen=True, slots=True)
class Step:
    """Work in the background: `run` is given the event that says *stop* and returns whether it got anything done.

    After True it is called again at once. After False it waits: `pause` where given (it returns when there may be
    something to do again, or at *stop*), else `pause_s`. An exception is logged and waits `pause_s`. `close` is called
    when the worker stops, in the step's own thread.
    """

    name: str
    run: Callable[[threading.Event], bool]
    pause_s: float = 1.0
    pause: Callable[[threading.Event], object] | None = None
    close: Callable[[], object] | None = None
