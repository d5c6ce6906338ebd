"""Upkeep that a person asks for on a page: it goes on in a thread of this process after the page has answered.

The run is noted (`upkeep.py`) and so seen from every process. Where this process ends meanwhile, a compaction leaves
what it reached and the next goes on; of a backup nothing is left, and the next may begin at once (`turns.py`).
"""

import logging
import sqlite3
import threading
from collections.abc import Callable

from django.db import DatabaseError, connections

from apps.http.errors import ApiError
from apps.keys.audit.services import record
from apps.keys.principal import Principal
from apps.operations.services import backups, compacting, turns
from feltdb_engine import EngineError
from feltdb_engine.errors import BackupInvalid

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
        _running[namespace] = _begin(f"compaction of {namespace}", lambda: compacting.compact(namespace, by=by))
        return _running[namespace]


def back_up(name: str, *, by: Principal, reason: str = "") -> threading.Thread:
    """Begin a backup of the instance under that name. Raises ApiError (a name, another is at work), EngineError."""
    dest = backups.place(name)
    backups.refuse_beforehand(dest)
    turn = turns.take(turns.BACKUP)
    try:
        record(by, "backup.asked", target=name, reason=reason)
        return _begin(f"backup {name}", lambda: backups.create(dest, by=by, reason=reason, turn=turn))
    except BaseException:
        turn.close()
        raise


def verify(name: str, *, by: Principal) -> threading.Thread:
    """Begin to verify the backup of that name. Raises ApiError (a name, another is at work), BackupInvalid."""
    if not backups.place(name).is_dir():
        raise BackupInvalid(f"There is no backup {name} any more.")
    turn = turns.take(turns.VERIFICATION)
    try:
        record(by, "backup.verification_asked", target=name)
        return _begin(f"verification of {name}", lambda: backups.verify_and_note(name, by=by, turn=turn))
    except BaseException:
        turn.close()
        raise


def _begin(what: str, work: Callable[[], object]) -> threading.Thread:
    """Do it in a thread; what it meets is noted with its run, and logged."""

    def run() -> None:
        try:
            work()
        except (compacting.CompactionRefused, ApiError, EngineError, DatabaseError, sqlite3.Error, OSError) as error:
            logger.warning("%s not done: %s", what, error)
        finally:
            connections.close_all()  # this thread's own

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    return thread
