"""Whole namespaces, or some collections, out and in: exports of one moment, imports batch by batch.

An import's batch is a transaction whose id names the import and its first row: the same lines sent again under the
same import id answer what was done before and go on from there. Not here: lines (`rows.py`), HTTP (`api/transfers.py`).
"""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from django.conf import settings

from apps.http.errors import ApiError
from apps.http.exceptions import refusal
from apps.state.calls import Call
from apps.state.limits import EXPORT_PIN_RENEWED_S, EXPORT_PIN_S, MAX_EXPORTS, MAX_IMPORTS
from apps.state.rows import BadRow, Batch
from apps.state.services.committing import commit, validation_failed
from apps.state.services.doors import may_read, may_write
from apps.state.stores import store
from feltdb_engine import EngineError, Past
from feltdb_engine.errors import ReadOnlyStore, StorageError, ValidationFailed

exports = threading.BoundedSemaphore(MAX_EXPORTS)
imports = threading.BoundedSemaphore(MAX_IMPORTS)


def enter(places: threading.BoundedSemaphore, what: str) -> None:
    """Take a place among the exports or imports of this process. Raises SERVICE_OVERLOADED where there is none."""
    if not places.acquire(blocking=False):
        raise ApiError(
            "SERVICE_OVERLOADED",
            f"As many {what} as this process runs at once are under way; try again.",
            headers={"Retry-After": "5"},
        )


class Export:
    """The records of some collections as they were at `revision`, in key order. Close it in any case."""

    def __init__(self, call: Call, collections: tuple[str, ...] | None, as_of: int | None) -> None:
        self._call = call
        for name in collections or ():
            may_read(call, name)
        opened = store(call.namespace)
        self.head = opened.head()
        self.revision = self.head.sequence if as_of is None else as_of
        self._past: Past = opened.as_of(self.revision)
        self._pin = f"export-{uuid.uuid4().hex}"
        self._renewed = 0.0
        self._keep()
        self.collections = self._names(collections)

    def _names(self, asked: tuple[str, ...] | None) -> tuple[str, ...]:
        if asked is not None:
            return asked
        found = (each.name for each in self._past.collections())
        allowed = self._call.collections
        return tuple(name for name in found if not name.startswith("_") and (allowed is None or name in allowed))

    def lines(self) -> Iterator[bytes]:
        """Yield the records as lines of JSON, whole lines some at a time.

        Raises FEED_COMPACTED, SCAN_LIMIT_EXCEEDED, AUTHENTICATION_REQUIRED.
        """
        for piece in store(self._call.namespace).export(self.collections, at=self._past):
            self._call.require_still_held()
            self._keep()
            yield piece

    def close(self) -> None:
        """Let the moment go."""
        with suppress(EngineError):
            store(self._call.namespace).unpin(self._pin)

    def _keep(self) -> None:
        """Pin the moment, or renew the pin. Where nothing can be written, nothing is compacted either."""
        now = time.monotonic()
        if not self._renewed or now - self._renewed > EXPORT_PIN_RENEWED_S:
            until = time.time_ns() // 1_000_000 + EXPORT_PIN_S * 1000
            with suppress(StorageError, ReadOnlyStore):
                store(self._call.namespace).pin(self._pin, self.revision, until)
            self._renewed = now


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far an import has come: rows read and in, batches, how many of those had been in before, the position."""

    rows: int = 0
    records: int = 0
    batches: int = 0
    repeated: int = 0
    revision: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """Why an import went no further: all of `progress` is in, nothing of row `row`'s batch or after it."""

    row: int
    refusal: ApiError


def run(call: Call, batches: Iterator[Batch], import_id: str) -> Iterator[Progress | Stopped]:
    """Commit batch by batch and yield how far it has come after each; a Stopped is the last."""
    done = Progress()
    while True:
        try:
            batch = next(batches, None)
        except BadRow as bad:
            yield Stopped(row=bad.row, refusal=bad.refusal)
            return
        if batch is None:
            return
        try:
            done = _commit(call, batch, import_id, done)
        except BadRow as bad:
            yield Stopped(row=bad.row, refusal=bad.refusal)
            return
        except (ApiError, EngineError) as error:
            yield Stopped(row=_row_of(batch, error), refusal=_in_row(refusal(error)))
            return
        yield done


def _commit(call: Call, batch: Batch, import_id: str, done: Progress) -> Progress:
    call.require_still_held()
    for collection in {each.collection for each in batch.mutations}:
        may_write(call, collection)
    named = replace(
        call,
        transaction_id=f"import:{import_id}:{batch.rows[0]}",
        now_ms=time.time_ns() // 1_000_000,
        deadline=time.monotonic() + settings.REQUEST_DEADLINE_MS / 1000,
    )
    try:
        result = commit(store(call.namespace), named, batch.mutations)
    except ValidationFailed as error:
        at = error.details["errors"][0]["mutation"]
        refused = validation_failed(error, lambda _: "/value")
        refused.details = {"errors": [each for each in refused.details["errors"] if each.pop("mutation") == at]}
        raise BadRow(batch.rows[at], refused) from error
    return Progress(
        rows=batch.rows[-1],
        records=done.records + len(batch.rows),
        batches=done.batches + 1,
        repeated=done.repeated + result.duplicate,
        revision=max(done.revision, result.revision),
    )


def _row_of(batch: Batch, error: ApiError | EngineError) -> int:
    """Return the row a refusal is about, as far as it says so: else the first of the batch."""
    details = error.details if isinstance(error.details, dict) else {}
    for row, mutation in zip(batch.rows, batch.mutations, strict=True):
        if (mutation.collection, mutation.id) == (details.get("collection"), details.get("id")):
            return row
    parts = str(details.get("pointer", "")).split("/")
    if parts[1:2] == ["mutations"] and parts[2].isdigit():
        return batch.rows[min(int(parts[2]), len(batch.rows) - 1)]
    return batch.rows[0]


def _in_row(refused: ApiError) -> ApiError:
    """Return the refusal with its pointer into the row, as it was sent, where it has one into the batch."""
    pointer = refused.details.get("pointer") if isinstance(refused.details, dict) else None
    if pointer is not None:
        parts = pointer.split("/")
        refused.details = {**refused.details, "pointer": "/".join(["", *parts[3:]])}
    return refused
