"""What each reader of the past is told once the log was compacted: the floor and the head, never a silent hole."""

import pytest

from apps.state.stores import store
from feltdb_engine import exporting
from feltdb_engine.policy import Retention
from tests.state.test_events import frames, stream
from tests.state.test_feed import changes, transact

NOTHING = Retention(age_ms=0, bytes=0)


@pytest.fixture
def compacted(client, namespace):
    """Three transactions, of which compaction leaves the records alone; gives a cursor from before it."""
    transact(client, "a", "b")
    early = changes(client)["cursor"]
    transact(client, "c")
    transact(client, "d")
    store(namespace).compact(NOTHING)
    assert store(namespace).start().sequence == 4
    return early


def gone(answer):
    assert (answer.status_code, answer.json()["code"]) == (410, "FEED_COMPACTED")
    return answer.json()["details"]


def test_a_cursor_behind_the_floor_is_told_floor_and_head_by_pages_and_by_streams(client, compacted):
    for answer in (
        client.get("/v1/changes", {"after": compacted}),
        client.get("/v1/changes", {"after": compacted, "wait": 5}),
        stream(client, compacted),
        stream(client, after=compacted),
    ):
        assert gone(answer) == {"floor": 4, "head": 4}


def test_start_is_the_floor_and_what_comes_after_it_is_whole(client, compacted):
    assert changes(client)["operations"] == []
    transact(client, "e")
    page = changes(client)
    assert ([each["id"] for each in page["operations"]], page["floor"]) == (["e"], 4)
    answer = stream(client)
    assert next(frames(answer)).data["operations"][0]["id"] == "e"
    answer.close()


def test_a_stream_that_falls_behind_the_floor_ends_with_the_reason(client, namespace, settings):
    settings.STREAM_MAX_LIFE_S = 30
    transact(client, "a")
    answer = stream(client)
    seen = frames(answer)
    assert next(seen).data["operations"][0]["id"] == "a"
    transact(client, "b")
    transact(client, "c")
    store(namespace).compact(NOTHING)
    *_, last = seen
    assert (last.event, last.id, last.data["code"]) == ("error", None, "FEED_COMPACTED")


def test_a_record_outlives_its_history_and_says_so(client, compacted):
    assert client.get("/v1/collections/orders/a").json()["version"] == 1
    assert client.get("/v1/collections/orders/a/history").json() == {"operations": [], "next_cursor": None}
    gone_too = client.get("/v1/collections/orders/a/provenance")
    assert (gone_too.status_code, gone_too.json()["code"]) == (410, "FEED_COMPACTED")


def test_an_earlier_revision_is_gone_with_the_feed(client, compacted):
    assert gone(client.post_json("/v1/query", {"collection": "orders", "asOf": 2})) == {"floor": 4, "head": 4}
    assert gone(client.get("/v1/export", {"asOf": 2})) == {"floor": 4, "head": 4}
    assert client.post_json("/v1/query", {"collection": "orders", "asOf": 4}).status_code == 200


def test_a_transaction_id_is_remembered_through_compaction(client, namespace):
    body = {"transactionId": "t-1", "operations": [{"collection": "orders", "id": "a", "value": {}}]}
    client.post_json("/v1/transactions", body)
    store(namespace).compact(NOTHING)
    again = client.post_json("/v1/transactions", body)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)


def test_an_export_holds_compaction_off_its_moment(client, namespace, monkeypatch):
    monkeypatch.setattr(exporting, "_BATCH_RECORDS", 1)
    transact(client, "a", "b", "c")
    answer = client.get("/v1/export")
    lines = iter(answer.streaming_content)
    next(lines)
    transact(client, "d")
    client.delete("/v1/collections/orders/b")
    store(namespace).compact(NOTHING)
    rest = b"".join(lines)
    assert [name in rest for name in (b'"a"', b'"b"', b'"c"', b'"d"')] == [True, True, True, False]
    assert b'"complete":true' in rest
