"""A supervised process ends with its supervisor, so that a supervisor that is killed leaves nothing running."""

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def end_with_supervisor() -> None:
    """Under supervisord on Linux: have the kernel send this process SIGTERM when supervisord ends. Else nothing.

    Without it the server keeps its address and a second worker joins the first at the next `make run`. The kernel
    tells of an end that is still to come only; one that came while this process was starting is seen by the parent,
    which is no longer the process that supervisord's own file names.
    """
    if not os.environ.get("SUPERVISOR_ENABLED") or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    named = Path(os.environ.get("FELTDB_DATA_DIR", "data"), "supervisord.pid")
    try:
        supervisor = int(named.read_text(encoding="ascii"))
    except (OSError, ValueError):  # started by a supervisord of another configuration
        return
    if os.getppid() != supervisor:
        os.kill(os.getpid(), signal.SIGTERM)
