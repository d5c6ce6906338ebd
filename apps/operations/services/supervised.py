"""A supervised process ends with its supervisor, so that a supervisor that is killed leaves nothing running."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_supervisor() -> None:
    """Under supervisord on Linux: have the kernel send this process SIGTERM when supervisord ends. Else nothing.

    Without it the server keeps its address and a second worker joins the first at the next `make run`.
    """
    if os.environ.get("SUPERVISOR_ENABLED") and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
