"""What has no end or is large: events as they happen, exports, imports.

Part of `FeltDB`. Not here: pages of the feed (`client.py`).
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from feltdb_client import model
from feltdb_client.errors import ExportIncomplete, FeedCompacted, GaveUp, ImportStopped, Unreachable, refusal
from feltdb_client.model import Event, Exported, Imported
from feltdb_client.transport import Transport

PIECE_ROWS = 5000
PIECE_BYTES = 8 * 1024 * 1024
SILENCE_S = 45.0
"""A stream that says nothing for so long is broken: the server fills silence three times as often."""


class Streaming:
    """Part of `FeltDB`."""

    _transport: Transport

    def events(
        self,
        after: str = "start",
        *,
        collections: Sequence[str] | None = None,
        on_gap: Callable[[FeedCompacted], str] | None = None,
    ) -> Iterator[Event]:
        """Yield each transaction as it is committed, for ever; keep `cursor` when one is dealt with.

        A stream that ends or breaks is opened again where it was. Where the feed no longer reaches back to there,
        `on_gap` may bring things up to date and return the cursor to go on from, else FeedCompacted is raised.
        """
        last: str | None = None
        while True:
            parameters = {"after": after, **({"collections": ",".join(collections)} if collections else {})}
            headers = {"Last-Event-ID": last} if last is not None else {}
            try:
                for name, data in _frames(self._transport.lines("/v1/events", parameters, headers, SILENCE_S)):
                    if name == "error":
                        raise refusal(int(data.get("status", 500)), dict(data))
                    last = str(data["cursor"])
                    if name == "state.rewound":
                        continue
                    yield Event(cursor=last, operations=tuple(map(model.operation, data["operations"])))
            except FeedCompacted as gap:
                if on_gap is None:
                    raise
                after, last = on_gap(gap), None
            except GaveUp:
                raise
            except Unreachable:
                continue  # it broke; opening it again waits, and gives up, as every request does

    def export(self, collections: Sequence[str] | None = None, *, as_of: int | None = None) -> Iterator[Exported]:
        """Yield every record of one moment. Raises ExportIncomplete where the stream ends before its end."""
        parameters: dict[str, Any] = {}
        if collections is not None:
            parameters["collections"] = ",".join(collections)
        if as_of is not None:
            parameters["asOf"] = as_of
        try:
            for line in self._transport.lines("/v1/export", parameters, {}, SILENCE_S):
                row = json.loads(line)
                if "id" in row:
                    yield Exported(**{name: row[name] for name in Exported.__slots__})
                elif row.get("complete"):
                    return
                elif "error" in row:
                    raise refusal(int(row["error"].get("status", 500)), row["error"])
        except Unreachable as broken:
            raise ExportIncomplete(str(broken)) from broken
        raise ExportIncomplete("the export ended before its last line")

    def import_records(
        self,
        rows: Iterable[tuple[str, str, Mapping[str, Any]]],
        *,
        import_id: str | None = None,
        mode: Literal["put", "insert"] = "put",
        on_progress: Callable[[Imported], None] | None = None,
    ) -> Imported:
        """Store rows (collection, id, value), piece by piece, each repeated safely when its answer is lost.

        Raises ImportStopped at a row that cannot be stored: what it says is in is in, nothing after. The same rows,
        mended, under the same `import_id` go on from there.
        """
        named = import_id or uuid.uuid4().hex
        done = Imported(import_id=named, rows=0, revision=0)
        for number, (piece, count) in enumerate(_pieces(rows)):
            done = self._import(piece, count, f"{named}-{number}", mode, done)
            if on_progress is not None:
                on_progress(done)
        return done

    def _import(self, piece: bytes, count: int, piece_id: str, mode: str, done: Imported) -> Imported:
        answer = self._transport.write(
            "POST",
            "/v1/import",
            content=piece,
            content_type="application/x-ndjson",
            parameters={"mode": mode},
            headers={"Idempotency-Key": piece_id},
            transaction_id=piece_id,
            extra_timeout_s=SILENCE_S,
            on_refusal=lambda error: _stopped(error.body, done, error.body),
        )
        last = json.loads(answer.splitlines()[-1])
        if "error" in last:
            stopped = _stopped(last, done, last["error"])
            raise stopped or refusal(int(last["error"].get("status", 500)), last["error"])
        if not last.get("complete"):
            raise Unreachable("the answer to an import ended before its last line; send the same rows again")
        return Imported(import_id=done.import_id, rows=done.rows + count, revision=max(done.revision, last["revision"]))


def _stopped(said: Mapping[str, Any], done: Imported, error: Mapping[str, Any]) -> ImportStopped | None:
    """Return why an import stopped, its rows counted over all pieces; None for a refusal that is about no row."""
    if "row" not in said:
        return None
    stored = done.rows + int(said.get("rows", 0))
    return ImportStopped(done.import_id, row=done.rows + int(said["row"]), stored=stored, body=dict(error))


def _pieces(rows: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Iterator[tuple[bytes, int]]:
    """Cut rows into bodies, the same rows always into the same, each with how many it holds."""
    piece, count = bytearray(), 0
    for collection, record_id, value in rows:
        row = {"collection": collection, "id": record_id, "value": value}
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if count == PIECE_ROWS or (count and len(piece) + len(line) > PIECE_BYTES):
            yield bytes(piece), count
            piece, count = bytearray(), 0
        piece += line
        count += 1
    if count:
        yield bytes(piece), count


def _frames(lines: Iterator[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Put the lines of server-sent events together: name and data of each."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield fields.get("event", "message"), json.loads(fields["data"])
            fields = {}
        else:
            fields = {}
