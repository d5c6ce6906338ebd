"""The worker: a loop that claims what this process can run, runs it in parallel slots, and keeps the leases alive.

    main thread     claims what the free slots can take; waits for the bell, a free slot or the poll
    slots           each runs one program at a time and reports what became of it
    reporter        records the successes that have gathered, together (`reporter.py`)
    keeper          renews the lease of everything that runs, a third of the lease before it ends at the latest
    steps           each background step (the sweep; others are given, such as trigger evaluation) in a thread of its
                    own, so that one that fails or hangs holds up no other

Any number of workers, in any number of processes, work side by side. A worker that is killed loses nothing: its leases
run out and the sweep of any other brings the work back. One that is told to stop claims no more, lets what runs
finish within the grace, and hands the rest back without using up an attempt.

    worker = Worker(WorkerOptions(concurrency=4), steps=[Step("triggers", evaluator.run_once, pause=evaluator.wait)])
    stop_on_signals(worker)
    worker.run()                # until worker.stop(); or worker.run_once(): until nothing is left to do now
"""

import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence

from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from apps.workloads import capabilities, declared, limits, services
from apps.workloads.bell import bell
from apps.workloads.capabilities import Cancelled, Failed
from apps.workloads.clock import now_ms
from apps.workloads.commands import Claim, ClaimNext, Completion, Failure
from apps.workloads.errors import WorkloadError
from apps.workloads.isolation import parent
from apps.workloads.reporter import Reporter
from apps.workloads.running import Running
from apps.workloads.services import scheduling
from apps.workloads.worker_options import Step, WorkerOptions

__all__ = ["Step", "Worker", "WorkerOptions", "stop_on_signals"]

logger = logging.getLogger("feltdb.worker")

_HELD_PER_SLOT = 4
"""Claims a worker holds for each slot: one that runs, others whose success is being recorded."""

_GATHER_S = 0.003
"""Seconds after a slot fell free until the next claim, for other slots to fall free too."""

_THREADS_END_S = 2.0
"""Seconds that a stopped worker waits for its threads to close their connections; a hanging program is left behind."""


class Worker:
    """One worker of this process."""

    def __init__(self, options: WorkerOptions, *, steps: Sequence[Step] = ()) -> None:
        self.options = options
        self._steps = [
            Step("sweep", self._sweep, options.sweep_s),
            Step("schedules", self._run_schedules, options.sweep_s),
            *steps,
        ]
        self._stop = threading.Event()
        self._over = threading.Event()
        self._wake = threading.Event()
        self._new_beat = threading.Event()
        self._claimed: queue.SimpleQueue[Running | None] = queue.SimpleQueue()
        self._running: dict[str, Running] = {}
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._turn = 0
        self._most_held = _HELD_PER_SLOT * options.concurrency
        self._reporter = Reporter(self._put_away, self._over)

    def stop(self) -> None:
        """Ask the worker to stop, from any thread. `run` returns within the grace."""
        self._stop.set()
        self._wake.set()

    def run(self) -> None:
        """Work until `stop`, then drain."""
        logger.info("worker %s: %d slots", self.options.worker_id, self.options.concurrency)
        self._start_threads(with_steps=True)
        failures = 0
        while not self._stop.is_set():
            self._wake.clear()
            heard = bell().number()
            try:
                claimed = self._claim_for_free_slots()
                failures = 0
            except Exception:
                logger.exception("claiming failed; the worker goes on")
                connections.close_all()
                failures += 1
                self._stop.wait(min(0.1 * 2**failures, 5.0))
                continue
            if not claimed:
                bell().wait(heard, self.options.poll_s, stop=self._wake)
                if self._busy():
                    self._stop.wait(_GATHER_S)  # programs end together: claim for all free slots, not one by one
        self._drain()

    def run_once(self) -> int:
        """Do what can be done now, including what that brings forth; return how many attempts were made."""
        self._start_threads(with_steps=False)
        attempts = 0
        while not self._stop.is_set():
            progress = [self._step_once(step) for step in self._steps]
            claimed = self._claim_for_free_slots()
            attempts += claimed
            if claimed or self._busy():
                self._wake.wait(self.options.poll_s)
                self._wake.clear()
            elif not any(progress):
                break
        for step in self._steps:
            self._close_step(step)
        self._drain()
        return attempts

    def _start_threads(self, *, with_steps: bool) -> None:
        jobs: list[tuple[str, Callable[[], None]]] = [("keeper", self._keep_leases), ("reporter", self._reporter.run)]
        jobs += [(f"slot-{number}", self._slot) for number in range(self.options.concurrency)]
        if with_steps:
            jobs += [(f"step-{step.name}", _bound(self._repeat, step)) for step in self._steps]
        for name, job in jobs:
            # Daemons: a program that never returns must not keep a stopped worker from exiting.
            thread = threading.Thread(target=job, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    # Claiming

    def _busy(self) -> int:
        with self._lock:
            return len(self._running)

    def _free(self) -> int:
        """Return how many programs could begin: slots that are free, while not too much waits to be recorded."""
        with self._lock:
            executing = sum(not running.program_over for running in self._running.values())
            return min(self.options.concurrency - executing, self._most_held - len(self._running))

    def _claim_for_free_slots(self) -> int:
        free = min(self._free(), limits.MAX_BATCH)
        if free <= 0:
            return 0
        close_old_connections()
        ready = services.ready_definitions(
            now_ms=now_ms(),
            capabilities=capabilities.names(),
            declared=declared.is_declared,
            namespaces=self.options.namespaces,
        )
        namespaces = list(ready)
        self._turn += 1
        start = self._turn % len(namespaces) if namespaces else 0
        claimed = 0
        for namespace in [*namespaces[start:], *namespaces[:start]]:
            if claimed >= free or self._stop.is_set():
                break
            claims = services.claim_next(self._request(namespace, ready[namespace], free - claimed), now_ms=now_ms())
            for claim in claims:
                self._take_up(claim)
            claimed += len(claims)
        return claimed

    def _request(self, namespace: str, definitions: frozenset[str], most: int) -> ClaimNext:
        return ClaimNext(
            namespace=namespace,
            worker_id=self.options.worker_id,
            principal=f"worker:{self.options.worker_id}",
            capabilities=capabilities.names() | definitions,
            definitions=definitions,
            max=most,
            lease_ms=self.options.lease_ms,
            start=True,
        )

    def _take_up(self, claim: Claim) -> None:
        running = Running(claim, self.options.lease_ms)
        with self._lock:
            self._running[claim.claim_id] = running
        if "heartbeat_ms" in claim.timeouts:
            self._new_beat.set()  # it may need signs of life more often than the keeper was about to give them
        self._claimed.put(running)

    # Slots

    def _slot(self) -> None:
        while (running := self._claimed.get()) is not None:
            if not running.begin():
                continue  # the worker is stopping and hands it back unbegun
            try:
                self._execute(running)
            except Exception:
                logger.exception("%s: reporting failed; its lease will run out", running.workload_id)
                connections.close_all()
                self._put_away(running)
        connections.close_all()

    def _put_away(self, running: Running) -> None:
        with self._lock:
            self._running.pop(running.claim.claim_id, None)
        self._wake.set()

    def _execute(self, running: Running) -> None:
        close_old_connections()
        say = self._reporter
        fence = running.claim.fence
        outcome = self._run_program(running)
        if isinstance(outcome, Completion):
            running.program_over = True
            say.succeeded(running, outcome)
            self._wake.set()
            return
        if isinstance(outcome, Failure):
            say.failed(running, outcome)
        elif running.cancel_requested:
            say.report(running, lambda: services.confirm_cancel(fence, now_ms=now_ms()))
        else:
            say.report(running, lambda: services.hand_back(fence, now_ms=now_ms()))
        self._put_away(running)

    @staticmethod
    def _run_program(running: Running) -> Completion | Failure | None:
        """Run the program and return what became of it; None when it gave up because it was asked to."""
        fence = running.claim.fence
        name = running.claim.definition_id
        try:
            found = capabilities.find(name) or declared.find(fence.namespace, name)
            if found is None:
                raise Failed("capability_missing", f"{name} is not installed here")
            if found.isolated:
                output = parent.run(found, running.claim.input, running)
            else:
                output = found.program(running.claim.input, running)
        except Cancelled:
            if running.cancelled():
                return None
            return Failure(kind="execution_error", error="the program gave up without being asked to")
        except Failed as failed:
            return Failure(
                kind=failed.kind,
                error=failed.message,
                effect=failed.effect,
                retry_after_ms=failed.retry_after_ms,
            )
        except BaseException as error:  # a program may raise anything, SystemExit too: it is the program's end only
            logger.warning("%s: %s failed", running.workload_id, name, exc_info=True)
            return Failure(kind="execution_error", error=f"{type(error).__name__}: {error}")
        return Completion(result_id=f"result_{fence.workload_id}_{fence.fencing_token}", output=output)

    # Keeping leases

    def _keep_leases(self) -> None:
        while not self._over.is_set():
            with self._lock:
                current = list(self._running.values())
            pause_s = min([running.renew_every_s for running in current], default=self.options.lease_ms / 3000)
            self._new_beat.wait(pause_s)
            self._new_beat.clear()
            for running in [] if self._over.is_set() else current:
                try:
                    running.renew()
                except Exception:
                    logger.exception("%s: renewing its lease failed", running.workload_id)
                    connections.close_all()
            close_old_connections()
        connections.close_all()

    # Steps

    def _repeat(self, step: Step) -> None:
        while not self._stop.is_set():
            if not self._step_once(step):
                self._pause(step)
        self._close_step(step)

    def _step_once(self, step: Step) -> bool:
        try:
            close_old_connections()
            return step.run(self._stop)
        except Exception:
            logger.exception("step %s failed; the worker goes on", step.name)
            connections.close_all()
            self._stop.wait(step.pause_s)
            return False

    def _pause(self, step: Step) -> None:
        try:
            if step.pause is not None:
                step.pause(self._stop)
                return
        except Exception:
            logger.exception("step %s could not wait; the worker goes on", step.name)
        self._stop.wait(step.pause_s)

    @staticmethod
    def _close_step(step: Step) -> None:
        try:
            if step.close is not None:
                step.close()
        except Exception:
            logger.exception("step %s did not close", step.name)
        finally:
            connections.close_all()

    @staticmethod
    def _sweep(stop: threading.Event) -> bool:
        for silent in services.detect_silence(now_ms=now_ms()):
            logger.warning("registered worker %s of %s is silent", silent.worker_id, silent.namespace)
        report = services.sweep(now_ms=now_ms())
        for workload_id in report.recovered:
            logger.warning("%s: its worker was lost", workload_id)
        return report.more

    @staticmethod
    def _run_schedules(stop: threading.Event) -> bool:
        return bool(scheduling.run_due(now_ms=now_ms()))

    # Stopping

    def _drain(self) -> None:
        """Hand back what has not begun, wait for what has, hand back what is not over within the grace."""
        self._stop.set()
        self._hand_back(lambda running: running.withdraw(), "worker_draining")
        until = time.monotonic() + self.options.grace_s
        while self._busy() and (left := until - time.monotonic()) > 0:
            self._wake.wait(min(left, 0.1))
            self._wake.clear()
        self._hand_back(lambda running: True, "worker_stopped")
        self._over.set()
        self._new_beat.set()
        for _ in range(self.options.concurrency):
            self._claimed.put(None)
        self._reporter.close()
        until = time.monotonic() + _THREADS_END_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        logger.info("worker %s: stopped", self.options.worker_id)

    def _hand_back(self, which: Callable[[Running], bool], reason: str) -> None:
        with self._lock:
            chosen = [running for running in self._running.values() if which(running)]
        for running in chosen:
            running.give_up()
            try:
                services.hand_back(running.claim.fence, now_ms=now_ms(), reason=reason)
                logger.info("%s: handed back (%s)", running.workload_id, reason)
            except WorkloadError as error:
                logger.info("%s: not handed back (%s)", running.workload_id, error.code)
            except (DatabaseError, InterfaceError):
                logger.exception("%s: not handed back; its lease will run out", running.workload_id)
            self._put_away(running)


def stop_on_signals(worker: Worker) -> None:
    """Have SIGTERM and SIGINT stop the worker; a second one ends the process at once, leaving it to the leases.

    The handler only writes to a pipe: it may interrupt the main thread inside a lock that stopping needs too.
    """
    reading, writing = os.pipe()
    received: list[int] = []

    def handle(number: int, frame: object) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        os.write(writing, b"!")

    def listen() -> None:
        os.read(reading, 1)
        worker.stop()

    threading.Thread(target=listen, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def _bound(method: Callable[[Step], None], step: Step) -> Callable[[], None]:
    return lambda: method(step)
