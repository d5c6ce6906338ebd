"""Evaluation by hand: everything there is to do in one namespace, now. Safe beside any number of evaluators."""

import time
from collections.abc import Callable

from apps.state import stores
from apps.triggers.errors import TriggerStorageFailure
from apps.triggers.evaluation.batches import TriggeredWorkload
from apps.triggers.evaluation.walker import NamespaceWalker, Step
from apps.triggers.limits import STALE_STEPS, YIELD_S


def evaluate_namespace(
    namespace: str, *, now_ms: int, pause: Callable[[float], None] = time.sleep
) -> list[TriggeredWorkload]:
    """Evaluate every live trigger of the namespace up to the durable head; return what this call did.

    What another evaluator did meanwhile is not in the list. Raises CONTROL_PLANE_MISMATCH,
    TRIGGER_STATE_REPLAY_FAILED or TRIGGER_STORAGE_FAILURE; what was done until then stays done.
    """
    store = stores.store(namespace)
    walker = NamespaceWalker(namespace, clock=lambda: now_ms, pause=pause)
    results: list[TriggeredWorkload] = []
    overtaken = 0
    while True:
        step = walker.step(store)
        if not step.more:
            step = walker.flush(store)
            if not step.more:
                walker.renew_pins(store)
                return results
        results += step.results
        overtaken = _count(step, overtaken)
        if step.stale:
            pause(YIELD_S * overtaken)


def _count(step: Step, overtaken: int) -> int:
    if not step.stale:
        return 0
    if overtaken >= STALE_STEPS:
        raise TriggerStorageFailure("other evaluators of this namespace were faster again and again; they do the work")
    return overtaken + 1
