"""Upkeep that a person asks for on a page: it goes on in a thread of this process after the page has answered.

The run is noted (`upkeep.py`) and so seen from every process; where this process ends meanwhile, what was reached
stands and the next compaction goes on.
"""

import logging
import threading

from django.db import connections

from apps.http.errors import ApiError
from apps.keys.audit.services import record
from apps.keys.principal import Principal
from apps.operations.services import compacting
from feltdb_engine import EngineError

logger = logging.getLogger("feltdb.operations")

_running: dict[str, threading.Thread] = {}
_turn = threading.Lock()


def compact(namespace: str, *, by: Principal, reason: str = "") -> threading.Thread:
    """Begin to compact a store. Raises CompactionRefused where this process does so already, ApiError, EngineError."""
    compacting.preview(namespace)  # what would be refused is refused now, while somebody looks
    with _turn:
        known = _running.get(namespace)
        if known is not None and known.is_alive():
            raise compacting.CompactionRefused("A compaction of this store is at work; wait for its end.")
        record(by, "storage.compaction_asked", target=namespace, namespace=namespace, reason=reason)
        thread = threading.Thread(target=_compact, args=(namespace, by), name=f"compact-{namespace}", daemon=True)
        _running[namespace] = thread
        thread.start()
    return thread


def _compact(namespace: str, by: Principal) -> None:
    try:
        compacting.compact(namespace, by=by)
    except (compacting.CompactionRefused, ApiError, EngineError) as error:
        logger.warning("compaction of %s not done: %s", namespace, error)  # the run says so too
    finally:
        connections.close_all()  # this thread's own
