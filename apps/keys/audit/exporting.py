"""The audit trail as a file: NDJSON, exact, or CSV for a spreadsheet, in which no cell is ever taken for a formula.

Each export holds a thread, so only so many run at once in a process; that it was made is in the trail itself.
"""

import csv
import io
import threading
from collections.abc import Iterator

from apps.http.errors import ApiError
from apps.http.pages.display import iso_instant
from apps.keys.audit import limits, reading
from apps.keys.audit.models import AuditEvent
from apps.keys.audit.services import record
from apps.keys.principal import Principal

NDJSON = "application/x-ndjson"
CSV = "text/csv; charset=utf-8"
TYPES = {"ndjson": NDJSON, "csv": CSV}

_COLUMNS = (
    *("id", "at", "at_ms", "namespace", "principal_kind", "subject", "key_id", "address", "action", "target"),
    *("outcome", "code", "reason", "request_id", "before_digest", "after_digest", "count"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")

places = threading.BoundedSemaphore(limits.MAX_EXPORTS)


class Export:
    """The parts of one export; its place is given back when the server closes it, read or not."""

    def __init__(self, parts: Iterator[bytes], held: threading.BoundedSemaphore) -> None:
        self._parts = parts
        self._held = held
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def close(self) -> None:
        """Give the place back, once."""
        if self._open:
            self._open = False
            self._held.release()


def begin(reader: Principal, filters: reading.Filters, *, form: str, target: str) -> Export:
    """Begin an export (`ndjson` or `csv`) of what `reader` may see, oldest first, and record that it was made.

    Raises SERVICE_OVERLOADED while as many are under way as may be.
    """
    held = places
    if not held.acquire(blocking=False):
        raise ApiError("SERVICE_OVERLOADED", "Other exports are under way; try again.", headers={"Retry-After": "5"})
    lines = reading.export(reader, filters) if form == "ndjson" else _csv(reader, filters)
    made = Export(lines, held)
    try:
        record(reader, "audit.exported", target=target, namespace=filters.namespace or "")
    except BaseException:
        made.close()
        raise
    return made


def _csv(reader: Principal, filters: reading.Filters) -> Iterator[bytes]:
    yield _row(_COLUMNS)
    for events in reading.batches(reader, filters):
        yield b"".join(_row(_cells(event)) for event in events)


def _cells(event: AuditEvent) -> list[str]:
    members = {**reading.shape(event), "at": iso_instant(event.at_ms)}
    return [cell(members[name]) for name in _COLUMNS]


def cell(value: object) -> str:
    """Return a value as a spreadsheet shows it: a text that it would take for a formula begins with an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _row(cells: tuple[str, ...] | list[str]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue().encode("utf-8", "backslashreplace")
