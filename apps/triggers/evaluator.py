"""The loop that keeps every namespace's triggers evaluated. Any number of them may run, in threads and processes.

One evaluator works a namespace at a time, by a lease that it takes when there is something to do; the lease saves
double work and guards nothing: what may be written is decided by the cursors (`evaluation/batches.py`).
A namespace that fails is left alone for a growing while and does not hinder the others.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import DatabaseError, connection

from apps.http.errors import ApiError
from apps.state import stores
from apps.triggers import leases, services
from apps.triggers.errors import ControlPlaneMismatch
from apps.triggers.evaluation.walker import NamespaceWalker
from apps.triggers.limits import (
    BACKOFF_FIRST_S,
    BACKOFF_LAST_S,
    IDLE_WAIT_S,
    LEASE_MS,
    STEPS_PER_TURN,
    WAIT_SLICE_S,
)
from apps.triggers.models import NamespacePosition
from apps.workloads.clock import now_ms
from feltdb_engine import Store
from feltdb_engine.errors import EngineError

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class _Namespace:
    """What the loop remembers of one namespace."""

    walker: NamespaceWalker
    definitions: int = -1
    lease_until_ms: int = 0
    failures: int = 0
    not_before_s: float = 0.0
    trouble: str = ""


class Evaluator:
    """Evaluates the triggers of every namespace, or of those named.

    `run_once` is one round for callers with a loop of their own; `run` is the loop. `wait` sleeps until a store
    has news. Not thread-safe: one evaluator per thread.
    """

    def __init__(
        self,
        *,
        namespaces: frozenset[str] | None = None,
        holder: str | None = None,
        clock: Callable[[], int] = now_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._only = namespaces
        self._holder = holder or leases.holder_here(secrets.token_hex(4))
        self._clock = clock
        self._monotonic = monotonic
        self._namespaces: dict[str, _Namespace] = {}

    def run(self, stop: threading.Event) -> None:
        """Evaluate until `stop` is set, then give the leases back. Nothing ends the loop but `stop`."""
        failures, trouble = 0, ""
        try:
            while not stop.is_set():
                try:
                    worked = self.run_once(stop)
                    failures, trouble = 0, ""
                except Exception as error:
                    what, known = _in_words(error), isinstance(error, ApiError | DatabaseError)
                    if what != trouble:
                        logger.error("a round of evaluation failed: %s; trying again", what, exc_info=not known)
                    connection.close()
                    failures, trouble = failures + 1, what
                    stop.wait(_backoff_s(failures))
                    continue
                if not worked:
                    self.wait(stop)
        finally:
            self.close()

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """Give every namespace one turn. Tell whether any of them did, or may have more to do."""
        services.resume_due(now_ms=self._clock())
        worked = False
        for namespace, definitions in self._due().items():
            if stop is not None and stop.is_set():
                break
            worked |= self._turn(namespace, definitions, stop)
        return worked

    def wait(self, stop: threading.Event) -> None:
        """Sleep until a change is there, at most `IDLE_WAIT_S`: then definitions are looked at again."""
        deadline = self._monotonic() + IDLE_WAIT_S
        while not stop.is_set() and self._monotonic() < deadline:
            if self._news(stop):
                return

    def _news(self, stop: threading.Event) -> bool:
        """Sleep for a moment; tell whether a namespace that is ours to evaluate has something new."""
        slept = False
        for namespace, kept in self._namespaces.items():
            if not kept.lease_until_ms or self._monotonic() < kept.not_before_s:
                continue  # somebody else's, or left alone for now
            try:
                store = stores.store(namespace)
                head = store.head()
                if not kept.walker.idle(head) or (not slept and store.wait_for_change(head, WAIT_SLICE_S)):
                    return True
            except (ApiError, EngineError):
                return True  # the next turn says what is wrong, and backs off
            slept = True
        if not slept:
            stop.wait(WAIT_SLICE_S)
        return False

    def close(self) -> None:
        """Store how far was looked, and give the leases back; best effort, for others wait for them to end."""
        for namespace, kept in self._namespaces.items():
            if not kept.lease_until_ms:
                continue
            try:
                kept.walker.flush(stores.store(namespace))
                leases.give_back(namespace, self._holder)
            except (ApiError, EngineError, DatabaseError) as error:
                logger.warning("the lease of %s was not given back; it ends by itself: %s", namespace, _in_words(error))
        self._namespaces.clear()
        connection.close()

    def _due(self) -> dict[str, int]:
        """Return the namespaces that have triggers, with the count of their definitions' changes."""
        rows = NamespacePosition.objects.filter(mismatch_code="")
        if self._only is not None:
            rows = rows.filter(pk__in=self._only)
        return dict(rows.values_list("namespace", "definitions"))

    def _turn(self, namespace: str, definitions: int, stop: threading.Event | None) -> bool:
        kept = self._namespaces.get(namespace)
        if kept is None:
            walker = NamespaceWalker(namespace, clock=self._clock, monotonic=self._monotonic)
            kept = self._namespaces[namespace] = _Namespace(walker=walker)
        if self._monotonic() < kept.not_before_s:
            return False
        try:
            store = stores.store(namespace)
            if kept.definitions == definitions and kept.walker.idle(store.head()) and not kept.walker.flush_due():
                if not kept.walker.authority_due():
                    if kept.lease_until_ms:
                        kept.walker.renew_pins(store)
                    return False
            if not self._lease(namespace, kept):
                return False
            worked = self._steps(kept, store, stop)
            kept.walker.renew_pins(store)
        except Exception as error:
            self._failed(namespace, kept, error)
            return False
        kept.definitions = definitions
        self._recovered(namespace, kept)
        return worked

    def _steps(self, kept: _Namespace, store: Store, stop: threading.Event | None) -> bool:
        for taken in range(STEPS_PER_TURN):
            if not kept.walker.step(store).more:
                return taken > 0
            if stop is not None and stop.is_set():
                break
        return True

    def _lease(self, namespace: str, kept: _Namespace) -> bool:
        """Hold the lease for at least half its time from now; False while another evaluator has it."""
        now = self._clock()
        if LEASE_MS // 2 < kept.lease_until_ms - now <= LEASE_MS:
            return True
        kept.lease_until_ms = now + LEASE_MS if leases.take(namespace, self._holder, now_ms=now) else 0
        return kept.lease_until_ms > 0

    def _failed(self, namespace: str, kept: _Namespace, error: Exception) -> None:
        """Leave the namespace alone for a growing while. One line says so, and another once it goes on or differs."""
        kept.failures += 1
        pause = _backoff_s(kept.failures)
        kept.not_before_s = self._monotonic() + pause
        what = _in_words(error)
        if what != kept.trouble:
            kept.trouble = what
            if isinstance(error, ControlPlaneMismatch):
                logger.error("triggers of %s stand still until store and database are reconciled: %s", namespace, what)
            elif isinstance(error, ApiError | EngineError | DatabaseError):
                logger.error("triggers of %s: %s; trying again in %.1f s, then ever less often", namespace, what, pause)
            else:
                logger.error("triggers of %s failed; trying again in %.1f s", namespace, pause, exc_info=error)
        if isinstance(error, DatabaseError) or isinstance(error.__cause__, DatabaseError):
            connection.close()

    def _recovered(self, namespace: str, kept: _Namespace) -> None:
        if kept.failures:
            logger.warning("triggers of %s go on, after %d failures", namespace, kept.failures)
        kept.failures, kept.not_before_s, kept.trouble = 0, 0.0, ""


def _in_words(error: Exception) -> str:
    if isinstance(error, ApiError | EngineError):
        return f"{error.code}: {error.message}"
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _backoff_s(failures: int) -> float:
    return min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 16))
