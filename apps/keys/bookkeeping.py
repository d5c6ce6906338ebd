"""What is written about keys after the answer: when a key and each of its rights were last used, and secrets that move
to the current pepper.

Requests only note, in memory; a thread of the server writes, every few seconds, in small transactions. So no request
waits for the database's writer, a use is written at most once a minute over all processes, and what a killed process
had noted is lost, which costs a minute's exactness. Not here: any decision on whether a key holds.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection, transaction

from apps.keys import peppering, peppers
from apps.keys.clock import utc_now
from apps.keys.limits import FLUSH_ROWS, FLUSH_S, LAST_USED_STEP_S, MAX_NOTED_USES
from apps.keys.models import ApiKey, KeySecret, KeyUse
from apps.keys.rows import SecretRow

logger = logging.getLogger("feltdb.keys")

_STEP = timedelta(seconds=LAST_USED_STEP_S)
_WHOLE_KEY = ""

_LAST_USE = f"""
UPDATE {ApiKey._meta.db_table} SET last_used_at = %s
WHERE id = %s AND (last_used_at IS NULL OR last_used_at <= %s)
"""  # noqa: S608 (the table's name is our own model's)
_SCOPE_USE = f"""
INSERT INTO {KeyUse._meta.db_table} AS known (key_id, scope, first_at, last_at)
SELECT k.id, %s, %s, %s FROM {ApiKey._meta.db_table} k WHERE k.id = %s
ON CONFLICT (key_id, scope) DO UPDATE SET last_at = excluded.last_at WHERE known.last_at <= %s
"""  # noqa: S608 (the table's name is our own model's)


@dataclass(frozen=True, slots=True)
class _Move:
    """A secret that is to be kept as a digest under the current pepper; `from_*` guard against a change meanwhile."""

    from_scheme: str
    from_version: int
    to_version: int
    digest: bytes


_noted: dict[tuple[str, str], datetime] = {}
_due: dict[tuple[str, str], datetime] = {}
_moves: dict[int, _Move] = {}
_turn = threading.Lock()


def note_use(key_id: str, scope: str = _WHOLE_KEY, *, now: datetime) -> None:
    """Note that the key, or the right `scope` of it, was used; nothing is written here. Sessions have no key."""
    if not key_id:
        return
    place = (key_id, scope)
    last = _noted.get(place)
    if last is not None and now - last < _STEP:
        return
    with _turn:
        if len(_noted) >= MAX_NOTED_USES:
            _noted.clear()
        if len(_due) < MAX_NOTED_USES:
            _due[place] = now
        _noted[place] = now


def note_old_form(row: SecretRow, digests: Mapping[int, bytes]) -> None:
    """Note that a secret that was just verified is kept in an older form than it should be."""
    current = peppers.known().current
    if row.pepper_version == current and row.scheme == KeySecret.Scheme.HMAC:
        return
    with _turn:
        if len(_moves) < MAX_NOTED_USES:
            _moves[row.secret_id] = _Move(row.scheme, row.pepper_version, current, digests[current])


def noted_digest(secret_id: int) -> bytes | None:
    """Return the digest that the secret is about to be kept as, where it was verified here and is not yet moved."""
    move = _moves.get(secret_id)
    return None if move is None else move.digest


def flush(*, now: datetime) -> None:
    """Write what is noted. What a busy database does not take is noted again."""
    while True:
        with _turn:
            batch = dict(islice(_due.items(), FLUSH_ROWS))
            for place in batch:
                del _due[place]
        if not batch:
            break
        try:
            _write_uses(batch)
        except (DatabaseError, InterfaceError) as error:
            with _turn:
                for place in batch:
                    _due.setdefault(place, batch[place])
            logger.info("the last use of %d keys and rights is not written yet: %s", len(batch), error)
            return
    for secret_id, move in list(_moves.items()):
        try:
            _carry_out(secret_id, move, now)
        except (DatabaseError, InterfaceError) as error:
            logger.info("secret %d is not moved to the current pepper yet: %s", secret_id, error)
            return
        with _turn:
            _moves.pop(secret_id, None)


def forget_all() -> None:
    """Drop what this process has noted."""
    with _turn:
        _noted.clear()
        _due.clear()
        _moves.clear()


def _write_uses(batch: Mapping[tuple[str, str], datetime]) -> None:
    keys: list[list[Any]] = []
    scopes: list[list[Any]] = []
    prepared = connection.ops.adapt_datetimefield_value
    for (key_id, scope), at in batch.items():
        before = prepared(at - _STEP)
        if scope == _WHOLE_KEY:
            keys.append([prepared(at), key_id, before])
        else:
            scopes.append([scope, prepared(at), prepared(at), key_id, before])
    with transaction.atomic(), connection.cursor() as cursor:
        if keys:
            cursor.executemany(_LAST_USE, keys)
        if scopes:
            cursor.executemany(_SCOPE_USE, scopes)


def _carry_out(secret_id: int, move: _Move, now: datetime) -> None:
    with transaction.atomic():
        try:
            peppering.record_in_use(move.to_version, now=now)
        except peppers.PepperRefused as refused:
            logger.error("secret %d stays as it is kept: %s", secret_id, refused)
            return
        KeySecret.objects.filter(pk=secret_id, scheme=move.from_scheme, pepper_version=move.from_version).update(
            scheme=KeySecret.Scheme.HMAC, digest=move.digest, encoded="", pepper_version=move.to_version
        )


class Writer:
    """The thread that writes. One for each server process; `stop` writes what is left."""

    def __init__(self, every_s: float = FLUSH_S) -> None:
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keys-bookkeeping", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write what is noted and end, within the time."""
        self._stop.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            stopping = self._stop.wait(self._every_s)
            close_old_connections()
            try:
                flush(now=utc_now())
            except Exception:  # the thread outlives what nobody foresaw; the log has it
                logger.exception("what is noted about keys could not be written")
            if stopping:
                connection.close()
                return
