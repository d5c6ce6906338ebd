"""The operating system with a hook at the protocol's named steps: to die there, to wait there, to count."""

import os
import signal
from collections.abc import Callable

from feltdb_engine.files import OSFiles


class HookedFiles(OSFiles):
    """Calls `hook(name)` at every step."""

    def __init__(self, hook: Callable[[str], None]) -> None:
        self._hook = hook

    def step(self, name: str) -> None:
        self._hook(name)


def die_at(name: str, after: int) -> Callable[[str], None]:
    """A hook that kills this process, as `kill -9` does, when the step is reached for the time after `after` others."""
    left = after

    def hook(step: str) -> None:
        nonlocal left
        if step != name:
            return
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    return hook


COMMIT_STEPS = (
    "append",
    "appended",
    "view commit",
    "view committed",
    "publish",
    "written",
    "published",
    "force",
    "forced",
    "durable",
    "durable published",
)

BACKUP_STEPS = (
    "backup begun",
    "backup segment copied",
    "backup files whole",
    "backup manifest written",
    "backup renamed",
)
RESTORE_STEPS = (
    "restore begun",
    "restore file copied",
    "restore files whole",
    "restore opened",
    "restore renamed",
)

COMPACTION_STEPS = (
    "compaction begun",
    "segment sealed",
    "snapshot begun",
    "snapshot block",
    "snapshot written",
    "snapshot forced",
    "snapshot named",
    "snapshot counts",
    "floor raised",
    "manifest switched",
    "passed file removed",
    "sweep batch",
    "sweep batch committed",
    "compaction done",
)
REWRITE_STEPS = ("rewrite begun", "rewrite copied", "rewrite in place")
