"""How the outcomes of a worker's programs get recorded: successes together, everything else on its own.

A slot hands a success over and takes the next program. One thread records what has gathered in one transaction, so
that many slots cost one force of the disk. What cannot be recorded while the database is away is tried again as long
as the lease can hold.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from apps.workloads import limits, services
from apps.workloads.clock import now_ms
from apps.workloads.commands import Completion, Failure, Report
from apps.workloads.errors import WorkloadError
from apps.workloads.running import Running

logger = logging.getLogger("feltdb.worker")

_REFUSED_OUTPUTS = ("WORKLOAD_SECRET_REJECTED", "WORKLOAD_INVALID")


class Reporter:
    """Records outcomes for one worker. `put_away` is called when the work of a success is over."""

    def __init__(self, put_away: Callable[[Running], None], over: threading.Event) -> None:
        self._put_away = put_away
        self._over = over
        self._successes: queue.SimpleQueue[tuple[Running, Completion] | None] = queue.SimpleQueue()

    def succeeded(self, running: Running, completion: Completion) -> None:
        """Take a success over. The claim stays the worker's, and its lease is renewed, until it is recorded."""
        self._successes.put((running, completion))

    def close(self) -> None:
        """Have `run` return once everything handed over is recorded."""
        self._successes.put(None)

    def run(self) -> None:
        """Record successes as they come, all that have gathered at once, until `close`."""
        closing = False
        while not closing:
            waiting = [self._successes.get()]
            while len(waiting) < limits.MAX_BATCH and not self._successes.empty():
                waiting.append(self._successes.get())
            closing = None in waiting
            ready = [each for each in waiting if each is not None]
            try:
                self._record(ready)
            except Exception:
                logger.exception("recording failed; the leases of %d will run out", len(ready))
                connections.close_all()
            finally:
                for running, _ in ready:
                    self._put_away(running)
        connections.close_all()

    def _record(self, ready: list[tuple[Running, Completion]]) -> None:
        if not ready:
            return
        close_old_connections()
        reports = [Report(fence=running.claim.fence, completion=completion) for running, completion in ready]
        longest = max((running for running, _ in ready), key=lambda running: running.expires_at_ms)
        answers = self.insist(longest, lambda: services.complete_many(reports, now_ms=now_ms()))
        for (running, _), answer in zip(ready, answers, strict=True):
            if isinstance(answer, WorkloadError):
                self._not_recorded(running, answer)

    def _not_recorded(self, running: Running, error: WorkloadError) -> None:
        fence = running.claim.fence
        if error.code in _REFUSED_OUTPUTS:
            failure = Failure(kind="execution_error", error=f"the output was refused: {error.message}")
            self.report(running, lambda: services.fail(fence, failure, now_ms=now_ms()))
        elif error.code == "WORKLOAD_TRANSITION_DENIED":
            # The cancellation came after the last look: the work is over, so give it up as asked.
            self.report(running, lambda: services.confirm_cancel(fence, now_ms=now_ms()))
        else:
            logger.warning("%s: its report came too late (%s)", running.workload_id, error.code)

    def failed(self, running: Running, failure: Failure) -> None:
        """Record a failure."""
        fence = running.claim.fence
        try:
            self.insist(running, lambda: services.fail(fence, failure, now_ms=now_ms()))
        except WorkloadError as error:
            if error.code != "WORKLOAD_SECRET_REJECTED":
                self._not_recorded(running, error)
                return
            # What the program said of its failure looks like a secret: keep that it failed, not what it said.
            hidden = replace(failure, error="(hidden: it looked like a secret)")
            self.report(running, lambda: services.fail(fence, hidden, now_ms=now_ms()))

    def report(self, running: Running, say: Callable[[], Any]) -> None:
        """Say something of the claim; a refusal means that it came too late."""
        try:
            self.insist(running, say)
        except WorkloadError as error:
            logger.warning("%s: its report came too late (%s)", running.workload_id, error.code)

    def insist(self, running: Running, say: Callable[[], Any]) -> Any:
        """Say it again and again while the database is away, as long as the lease can hold."""
        pause_s = 0.05
        while True:
            try:
                return say()
            except (DatabaseError, InterfaceError):
                connections.close_all()
                if now_ms() >= running.expires_at_ms or self._over.is_set():
                    raise
                logger.warning("%s: the database did not take its report; trying again", running.workload_id)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, 1.0)
