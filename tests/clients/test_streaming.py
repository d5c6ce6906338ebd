"""What the client streams: events over breaks and gaps, exports that are whole or say so, imports that go on."""

import json

import httpx
import pytest
from feltdb_client import ExportIncomplete, FeedCompacted, FenceBroken, GaveUp, ImportStopped, NotFound, put
from feltdb_client import streaming as module

from tests.clients.test_against_server import db, one_connection  # noqa: F401 - fixtures
from tests.clients.test_retries import Script

INSTANCE = "0f" * 16


def frame(sequence, name="state.committed", **data):
    operation = {
        "sequence": sequence,
        "instance_id": INSTANCE,
        "transaction_id": None,
        "kind": "insert",
        "collection": "c",
        "id": f"r-{sequence}",
        "key": f"c:r-{sequence}",
        "version": 1,
        "previous_version": 0,
        "value": {"text": "two\nlines"},
        "content_hash": "",
        "at_ms": 1,
        "actor": {},
    }
    cursor = f"{INSTANCE}-{sequence}"
    body = json.dumps(data or {"cursor": cursor, "operations": [operation]})
    return f"id: {cursor}\nevent: {name}\ndata: {body}\n\n"


class Broken(httpx.SyncByteStream):
    """A body that breaks off after its pieces."""

    def __init__(self, *pieces, error=True):
        self.pieces, self.error = pieces, error

    def __iter__(self):
        for piece in self.pieces:
            yield piece.encode()
        if self.error:
            raise httpx.ReadError("connection reset")


def stream(*pieces, error=True):
    return lambda request: httpx.Response(200, stream=Broken(*pieces, error=error))


def refused(status, code):
    body = {"code": code, "status": status, "floor": 9, "message": ""}
    return lambda request: httpx.Response(status, json=body)


class Streams(Script):
    """A script whose steps are functions of the request."""

    def answer(self, request):
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return step(request)


def take(events, count):
    found = [next(events) for _ in range(count)]
    events.close()
    return [each.operations[0].sequence for each in found]


def test_a_stream_that_breaks_anywhere_goes_on_exactly_where_it_was():
    def rest(request):
        last = request.headers.get("Last-Event-ID")
        done = int(last.rpartition("-")[2]) if last else 0
        return stream("".join(frame(n) for n in range(done + 1, 5)), error=False)(request)

    whole = "retry: 1000\n\n" + frame(1) + ": keep-alive\n\n" + frame(2) + frame(3)
    for cut in range(0, len(whole), 7):
        assert take(Streams(stream(whole[:cut]), rest).client().events(), 4) == [1, 2, 3, 4]


def test_a_stream_that_ends_by_itself_is_opened_again_with_its_last_event():
    script = Streams(stream(frame(1), error=False), stream(frame(2), error=False))
    assert take(script.client().events("now", collections=["c", "d"]), 2) == [1, 2]
    first, second = script.requests[:2]
    assert dict(first.url.params) == {"after": "now", "collections": "c,d"}
    assert "Last-Event-ID" not in first.headers
    assert second.headers["Last-Event-ID"] == f"{INSTANCE}-1"


def test_a_gap_is_raised_or_handed_to_who_can_bridge_it():
    gone = refused(410, "FEED_COMPACTED")
    with pytest.raises(FeedCompacted):
        next(Streams(gone).client().events("x-1"))
    script = Streams(
        stream(frame(1), 'event: error\ndata: {"code":"FEED_COMPACTED","status":410}\n\n'), stream(frame(8))
    )
    gaps = []

    def bridge(gap):
        gaps.append(gap.code)
        return "y-7"

    assert take(script.client().events("start", on_gap=bridge), 2) == [1, 8]
    assert gaps == ["FEED_COMPACTED"]
    assert script.requests[1].url.params["after"] == "y-7"
    assert "Last-Event-ID" not in script.requests[1].headers


def test_a_full_server_is_asked_again_and_a_refusal_is_raised():
    script = Streams(refused(503, "SERVICE_OVERLOADED"), stream(frame(1)))
    assert take(script.client().events(), 1) == [1]
    assert len(script.slept) == 1
    with pytest.raises(NotFound):
        next(Streams(refused(404, "NOT_FOUND")).client().events())
    with pytest.raises(GaveUp):
        next(Streams(refused(503, "SERVICE_OVERLOADED")).client(total_s=5.0).events())


def test_a_rewound_stream_goes_on_from_where_the_server_says():
    rewound = frame(5, "state.rewound", cursor=f"{INSTANCE}-5", rewound_from=9)
    script = Streams(stream(rewound), stream(frame(6)))
    assert take(script.client().events("x-9"), 1) == [6]
    assert script.requests[1].headers["Last-Event-ID"] == f"{INSTANCE}-5"


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"feltdb_export":1}\n'],
        ['{"feltdb_export":1}\n', '{"collection":"c","id":"a","version":1,"updated_at_ms":1,"value":{}}\n'],
    ],
)
@pytest.mark.parametrize("error", [True, False])
def test_an_export_that_ends_before_its_last_line_is_never_taken_for_whole(pieces, error):
    client = Streams(stream(*pieces, error=error)).client()
    with pytest.raises(ExportIncomplete):
        list(client.export())


def rows(count, collection="orders"):
    return [(collection, f"o-{n:03}", {"n": n}) for n in range(count)]


def test_what_is_exported_comes_back_by_import_in_pieces_with_progress(db, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "PIECE_ROWS", 4)
    told = []
    done = db.import_records(rows(10), on_progress=told.append)
    assert [each.rows for each in told] == [4, 8, 10]
    assert done == told[-1] and done.revision == 10
    assert [(each.collection, each.id, each.value) for each in db.export()] == rows(10)
    earlier = db.export(["orders"], as_of=4)
    assert [each.id for each in earlier] == [f"o-{n:03}" for n in range(4)]


def test_an_import_stops_at_its_bad_row_counted_over_all_pieces_and_goes_on_mended(db, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "PIECE_ROWS", 4)
    bad = [*rows(6), ("orders", "o-006", 7), *rows(10)[7:]]
    with pytest.raises(ImportStopped) as stopped:
        db.import_records(bad, import_id="i-1")
    assert (stopped.value.row, stopped.value.stored, stopped.value.code) == (7, 4, "VALIDATION_ERROR")
    assert [each.id for each in db.records("orders")] == [f"o-{n:03}" for n in range(4)]
    assert db.import_records(rows(10), import_id=stopped.value.import_id).rows == 10
    assert [each.version for each in db.records("orders")] == [1] * 10


def test_an_import_whose_answer_is_lost_is_sent_again_under_the_same_id():
    def done(request):
        lines = b'{"rows":1,"revision":1}\n{"rows":2,"revision":2,"complete":true}\n'
        return httpx.Response(200, headers={"Content-Type": "application/x-ndjson"}, content=lines)

    def lost(request):
        raise httpx.ReadError("gone")

    script = Streams(lost, done)
    assert script.client().import_records(rows(2), import_id="i").revision == 2
    assert [each.headers["Idempotency-Key"] for each in script.requests] == ["i-0", "i-0"]
    assert script.requests[0].content == script.requests[1].content


def test_search_count_history_provenance_and_the_past(db):  # noqa: F811
    db.put("orders", "a", {"note": "Tea"})
    db.put("orders", "a", {"note": "tea", "n": 1})
    db.put("orders", "b", {"note": "coffee"})
    assert [each.id for each in db.search("orders", "TEA", batch=1)] == ["a"]
    assert db.count("orders") == 2
    assert db.count("orders", {"field": "n", "op": "eq", "value": 1}, as_of=1) == 0
    assert [each.version for each in db.history("orders", "a", batch=1)] == [2, 1]
    assert db.provenance("orders", "a")["version"] == 2
    assert db.provenance("orders", "nobody") is None
    assert [each.value for each in db.query("orders", as_of=1)] == [{"note": "Tea"}]


def test_fences_hold_a_commit_to_what_was_read(db):  # noqa: F811
    db.put("orders", "a", {"status": "new"})
    where = [{"field": "status", "op": "eq", "value": "new"}]
    basis = db.read_basis([("orders", "a"), ("orders", "b")], [("orders", where)])
    assert [each and each.id for each in basis.records] == ["a", None]
    db.commit([put("decided", "d", {})], fences=[basis.token])
    db.put("orders", "c", {"status": "new"})
    with pytest.raises(FenceBroken) as broken:
        db.commit([put("decided", "d", {})], fences=[basis.token])
    assert broken.value.failure["kind"] == "predicate"


def test_indexes_and_the_contract(db):  # noqa: F811
    db.declare_index("orders", "by-status", ["status"])
    assert db.drop_index("orders", "by-status") is True
    assert db.drop_index("orders", "by-status") is False
    shop = {"collections": {"orders": {"unique": ["number"]}}}
    assert db.contract().revision == 0
    assert db.check_contract(shop).valid is True
    assert db.check_contract({}).issues
    assert db.activate_contract(shop, revision=0).revision == 1
    assert db.contract().contract["collections"]["orders"]["unique"] == [["number"]]


def test_events_follow_the_server(db, settings):  # noqa: F811
    settings.STREAM_MAX_LIFE_S = 0.2
    db.commit([put("orders", "a", {}), put("orders", "b", {})])
    db.put("orders", "c", {})
    events = db.events()
    assert [[each.id for each in next(events).operations] for _ in range(2)] == [["a", "b"], ["c"]]
    events.close()
