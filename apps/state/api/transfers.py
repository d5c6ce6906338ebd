"""`GET /v1/export` and `POST /v1/import`: NDJSON, streamed both ways."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Literal

import uuid_utils
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from apps.http import budget, envelope, exceptions, streaming, strict_json
from apps.http.errors import ApiError
from apps.http.openapi import Answer, describe, query_parameter, ref
from apps.http.parsers import BodyLines
from apps.keys.views import KeyedRequest
from apps.state import reading, rows
from apps.state.api import described
from apps.state.api.base import StateView
from apps.state.inputs import collections_named, transaction_id
from apps.state.limits import IMPORT_DRAIN_BYTES, IMPORT_ID_BYTES, IMPORT_LINE_BYTES, PROGRESS_S
from apps.state.reading import invalid
from apps.state.services import transfers
from apps.state.services.transfers import Export, Progress, Stopped

NDJSON = "application/x-ndjson"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_PROGRESS = {
    "import_id": "orders-7",
    "rows": 500,
    "records": 500,
    "batches": 1,
    "repeated": 0,
    "revision": 500,
    "complete": True,
}
_REVISION = {"type": "integer", "minimum": 0}


class ExportView(StateView):
    """The namespace's records as NDJSON."""

    scopes = {"GET": "state:read"}

    @describe(
        "export_records",
        "Export records",
        tag=described.TAG,
        description=(
            "Every record of one moment, a line each, in key order, between a first line that names the moment and a "
            "last one with `complete: true`: without it the export is not whole. A line `{error}` says why. System "
            "collections are left out unless they are named."
        ),
        parameters=[
            query_parameter("collections", "Only these, separated by commas."),
            query_parameter("asOf", "An earlier revision, as far back as the feed goes.", _REVISION),
        ],
        answers={200: Answer("The lines.", {"type": "string"}, '{"feltdb_export": 1}\n', described.READ, media=NDJSON)},
        errors=["VALIDATION_ERROR", "INVALID_QUERY", "FEED_COMPACTED", "CURSOR_AHEAD", *described.STORAGE],
    )
    def get(self, request: KeyedRequest) -> HttpResponseBase:
        """Stream the records."""
        parameters = request.query_params
        reading.known_parameters(parameters, "collections", "asOf")
        as_of = reading.query_whole(parameters, "asOf", -1, low=0, high=reading.MAX_INTEGER)
        call = self.call(request)
        if request.method == "HEAD":
            revision = self.position(call) if as_of < 0 else as_of
            return HttpResponse(content_type=NDJSON, headers={**_HEADERS, "FeltDB-Revision": str(revision)})
        transfers.enter(transfers.exports, "exports")
        try:
            export = Export(call, collections_named(parameters), None if as_of < 0 else as_of)
        except BaseException:
            transfers.exports.release()
            raise
        streaming.connection(request._request).stream()
        answer = StreamingHttpResponse(
            _Lines(export, call.namespace, request.request_id), content_type=NDJSON, headers=_HEADERS
        )
        answer.headers["FeltDB-Revision"] = str(export.revision)
        return answer


class _Lines:
    """An export as bytes; closing it lets its moment and its place go, read or not."""

    def __init__(self, export: Export, namespace: str, request_id: str) -> None:
        self._export = export
        self._namespace = namespace
        self._request_id = request_id
        self._open = True

    def close(self) -> None:
        """Close the export, once."""
        if self._open:
            self._open = False
            self._export.close()
            transfers.exports.release()

    def __iter__(self) -> Iterator[bytes]:
        with budget.standing():
            yield _line(
                {
                    "feltdb_export": rows.FORMAT,
                    "namespace": self._namespace,
                    "instance_id": self._export.head.instance_id,
                    "revision": self._export.revision,
                }
            )
            count = 0
            try:
                for piece in self._export.lines():
                    count += piece.count(b"\n")
                    yield piece
            except Exception as error:
                yield _line({"error": envelope.body(exceptions.refusal(error), self._request_id), "records": count})
                return
            yield _line({"records": count, "revision": self._export.revision, "complete": True})


class ImportView(StateView):
    """Records in, as NDJSON."""

    scopes = {"POST": "state:write"}
    reads_json = False

    @describe(
        "import_records",
        "Import records",
        tag=described.TAG,
        description=(
            "A record a line, `{collection, id, value}`, or an export as it is. Every 500 rows (or 4 MiB) are one "
            "transaction; the answer has a line about every second with how far it is, and a last one with "
            "`complete: true`. At a row that cannot be stored the import stops: the last line has `error` and `row`; "
            "all batches before are in, nothing of that row's batch or after it. Sent again under the same "
            "Idempotency-Key, mended, it goes on where it stopped. Where nothing was in yet the answer is a plain "
            "refusal with `row`."
        ),
        parameters=[
            query_parameter("collection", "For rows that name none."),
            query_parameter(
                "mode", "`put` replaces; `insert` refuses a record that is there.", {"enum": ["put", "insert"]}
            ),
            described.KEY,
        ],
        body={"type": "string", "description": "Lines, of any number."},
        body_media=NDJSON,
        body_examples={"one row": '{"collection": "orders", "id": "o-1", "value": {"status": "new"}}\n'},
        answers={
            200: Answer(
                "Progress, a line about every second.", ref("ImportLine"), _PROGRESS, described.READ, media=NDJSON
            )
        },
        errors=["JSON_TOO_DEEP", "FORBIDDEN", "CONFLICT", "PRECONDITION_FAILED", *described.COMMIT],
    )
    def post(self, request: KeyedRequest) -> HttpResponseBase:
        """Import the lines."""
        parameters = request.query_params
        reading.known_parameters(parameters, "collection", "mode")
        kind = _mode(parameters.get("mode", "put"))
        named = transaction_id(request.headers) or str(uuid_utils.uuid7())
        if len(named) > IMPORT_ID_BYTES:
            raise invalid(
                f"An import's Idempotency-Key has at most {IMPORT_ID_BYTES} characters.", field="Idempotency-Key"
            )
        collection = parameters.get("collection")
        if collection is not None:
            reading.collection_name(collection, field="collection")
        lines = BodyLines(request._request, media_type=NDJSON, max_line_bytes=IMPORT_LINE_BYTES)
        batches = rows.batches(lines, kind=kind, collection=collection)
        transfers.enter(transfers.imports, "imports")
        try:
            call = self.call(request)
            steps = transfers.run(call, batches, named)
            first = next(steps, Progress())
            at = self.position(call)
            if isinstance(first, Stopped):
                lines.drain(IMPORT_DRAIN_BYTES)
                raise _refused(first, named)
        except BaseException:
            transfers.imports.release()
            raise
        streaming.connection(request._request).stream()
        told = _Progress(first, steps, lines, import_id=named, request_id=request.request_id)
        headers = {**_HEADERS, "FeltDB-Revision": str(at)}
        return StreamingHttpResponse(told, content_type=NDJSON, headers=headers)


class _Progress:
    """The answer to an import, made while it runs. Closing it ends the import where it is, and lets its place go."""

    def __init__(
        self,
        first: Progress,
        steps: Iterator[Progress | Stopped],
        lines: BodyLines,
        *,
        import_id: str,
        request_id: str,
    ) -> None:
        self._first = first
        self._steps = steps
        self._lines = lines
        self._import_id = import_id
        self._request_id = request_id
        self._open = True

    def close(self) -> None:
        """Let the place go, once."""
        if self._open:
            self._open = False
            transfers.imports.release()

    def __iter__(self) -> Iterator[bytes]:
        with budget.standing():
            done, told_at = self._first, time.monotonic()
            yield self._line(done)
            for step in self._steps:
                if isinstance(step, Stopped):
                    error = envelope.body(step.refusal, self._request_id)
                    yield self._line(done, row=step.row, error=error)
                    self._lines.drain(IMPORT_DRAIN_BYTES)
                    return
                done = step
                if time.monotonic() - told_at >= PROGRESS_S:
                    told_at = time.monotonic()
                    yield self._line(done)
            yield self._line(done, complete=True)

    def _line(self, done: Progress, **more: Any) -> bytes:
        return _line({"import_id": self._import_id, **asdict(done), **more})


def _refused(stopped: Stopped, import_id: str) -> ApiError:
    """Return the refusal of an import of which nothing is in, with the row."""
    refusal = stopped.refusal
    refusal.members = {**refusal.members, "row": stopped.row, "import_id": import_id}
    return refusal


def _mode(given: str) -> Literal["put", "insert"]:
    if given == "put":
        return "put"
    if given == "insert":
        return "insert"
    raise invalid("'mode' is 'put' or 'insert'.", field="mode")


def _line(value: Any) -> bytes:
    return strict_json.dumps(value) + b"\n"
