"""Rows as a file: NDJSON, exact, or CSV for a spreadsheet, in which no cell is ever taken for a formula.

Each export holds a thread while it is read, so only so many run at once in a process. What rows there are, and that
the export is in the audit, is the caller's.
"""

import csv
import io
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase

from apps.http.errors import ApiError
from apps.http.pages.limits import MAX_EXPORTS

NDJSON = "application/x-ndjson"
CSV = "text/csv; charset=utf-8"
TYPES = {"ndjson": NDJSON, "csv": CSV}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")

places = threading.BoundedSemaphore(MAX_EXPORTS)


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


def begin(
    batches: Iterable[Sequence[Mapping[str, Any]]], columns: Sequence[str], *, form: str, noted: Callable[[], object]
) -> Export:
    """Begin an export of rows that come some at a time, in one of TYPES; `noted` records that it was made.

    `columns` are those of the CSV; an NDJSON line has all of a row. Raises SERVICE_OVERLOADED while as many are under
    way as may be.
    """
    held = places
    if not held.acquire(blocking=False):
        raise ApiError("SERVICE_OVERLOADED", "Other exports are under way; try again.", headers={"Retry-After": "5"})
    made = Export(lines(batches) if form == "ndjson" else _table(batches, columns), held)
    try:
        noted()
    except BaseException:
        made.close()
        raise
    return made


def answer(made: Export, *, form: str, name: str) -> StreamingHttpResponse:
    """Return the export as a file to keep; `name` is ours, without its ending."""
    return headed(StreamingHttpResponse(made), form=form, name=name)


A = TypeVar("A", bound=HttpResponseBase)


def headed(answer: A, *, form: str, name: str) -> A:
    """Return the answer with the headers of such a file."""
    answer.headers["Content-Type"] = TYPES[form]
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return answer


def line(row: Mapping[str, Any]) -> bytes:
    """Return a row as one line of ASCII: whatever is not is escaped, control characters with it."""
    return json.dumps(row, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f").encode() + b"\n"


def cell(value: object) -> str:
    """Return a value as a spreadsheet shows it: a text that it would take for a formula begins with an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def lines(batches: Iterable[Sequence[Mapping[str, Any]]]) -> Iterator[bytes]:
    """Return the rows as NDJSON, some at a time."""
    for rows in batches:
        yield b"".join(map(line, rows))


def _table(batches: Iterable[Sequence[Mapping[str, Any]]], columns: Sequence[str]) -> Iterator[bytes]:
    yield _cells(columns)
    for rows in batches:
        yield b"".join(_cells([row[name] for name in columns]) for row in rows)


def _cells(values: Sequence[object]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow(map(cell, values))
    return buffer.getvalue().encode("utf-8", "backslashreplace")
