"""The engine's way to the disk, with the forces of its log timed."""

import threading
import time

from apps.http import measures
from feltdb_engine.files import OSFiles


class MeasuredFiles(OSFiles):
    """Measures each force that serves a group of commits, from its beginning to the disk's word that all is there."""

    def __init__(self) -> None:
        self._force = threading.local()

    def step(self, name: str) -> None:
        """Take the time at the two steps around a force, which one thread passes one after the other."""
        if name == "force":
            self._force.began = time.perf_counter()
        elif name == "forced":
            measures.FORCES.labels("commit").observe(time.perf_counter() - self._force.began)
