"""The feed as server-sent events: whole transactions, exact resuming, and ends that are clean whatever ends them."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.http import stopping
from apps.http.streaming import connection
from apps.state.services import events
from feltdb_engine import Changes, Cursor, Store
from feltsite import capacity
from tests.state.test_feed import later, transact, wake


@dataclass
class Frame:
    """One event as a client sees it; `id` None where the frame carries none."""

    id: str | None
    event: str
    data: dict


def frames(answer) -> Iterator[Frame]:
    """Parse a stream as the HTML standard says, comments and the retry line left out."""
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "text/event-stream"
    for block in answer.streaming_content:
        assert block.endswith(b"\n\n") and block.count(b"\n\n") == 1
        fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if line[:1] not in ("", ":"))
        if "data" in fields:
            yield Frame(fields.get("id"), fields["event"], json.loads(fields["data"]))
        else:
            assert "id" not in fields, "only frames that carry data carry an id"


def stream(client, last_id=None, **parameters):
    headers = {"Last-Event-ID": last_id} if last_id else {}
    return client.get("/v1/events", parameters, headers=headers)


@pytest.fixture(autouse=True)
def _short_life(settings):
    settings.STREAM_MAX_LIFE_S = 0.3


def test_each_transaction_is_one_event_with_the_operations_of_the_feed(client):
    transact(client, "a", "b")
    client.put_json("/v1/collections/orders/c", {"n": 1})
    client.put_json("/v1/collections/orders/d", {"n": 1})
    seen = list(frames(stream(client)))
    assert [[each["id"] for each in frame.data["operations"]] for frame in seen] == [["a", "b"], ["c"], ["d"]]
    assert {frame.event for frame in seen} == {"state.committed"}
    assert [frame.id for frame in seen] == [frame.data["cursor"] for frame in seen]
    feed = client.get("/v1/changes").json()
    assert [each for frame in seen for each in frame.data["operations"]] == feed["operations"]
    assert seen[-1].id == feed["cursor"]


def test_dropped_at_any_event_a_stream_goes_on_exactly_there(client):
    sizes = [1, 3, 2, 70, 1, 1, 64, 65]  # more than one page, and transactions larger than a page
    for at, size in enumerate(sizes):
        transact(client, *(f"t{at}-{n}" for n in range(size)))
    seen, last = [], None
    for _ in sizes:
        answer = stream(client, last)
        frame = next(frames(answer))
        answer.close()
        seen.append([each["sequence"] for each in frame.data["operations"]])
        last = frame.id
    assert [len(each) for each in seen] == sizes
    assert [each for group in seen for each in group] == list(range(1, sum(sizes) + 1))
    assert list(frames(stream(client, last))) == []
    whole = [len(frame.data["operations"]) for frame in frames(stream(client))]
    assert whole == sizes


def test_where_the_stream_broke_wins_over_where_it_began(client):
    transact(client, "a")
    transact(client, "b")
    first = next(frames(stream(client)))
    for parameters in ({"after": "now"}, {"after": "start"}, {"cursor": "start"}):
        resumed = list(frames(stream(client, first.id, **parameters)))
        assert [each["id"] for frame in resumed for each in frame.data["operations"]] == ["b"]


def test_a_stream_gives_what_is_committed_while_it_is_open(client, namespace, settings):
    settings.STREAM_MAX_LIFE_S = 20
    transact(client, "before")
    timer = later(0.2, lambda: wake(namespace, "after"))
    opened = frames(stream(client, after="now"))
    assert next(opened).data["operations"][0]["id"] == "after"
    timer.join()


def test_collections_filter_a_stream_and_it_still_resumes_exactly(client):
    transact(client, "a")
    transact(client, "c", collection="customers")
    transact(client, "b")
    seen = list(frames(stream(client, collections="orders")))
    assert [frame.data["operations"][0]["id"] for frame in seen] == ["a", "b"]
    rest = list(frames(stream(client, seen[0].id, collections="orders")))
    assert [frame.data["operations"][0]["id"] for frame in rest] == ["b"]


def test_a_key_for_some_collections_sees_those_alone(client, api, make_key):
    transact(client, "a")
    transact(client, "s", collection="secrets")
    narrow = api(make_key(collections=["orders"]))
    assert [frame.data["operations"][0]["id"] for frame in frames(stream(narrow))] == ["a"]
    assert stream(narrow, collections="secrets").status_code == 403


def test_silence_is_filled_with_comments_that_carry_no_id(client, monkeypatch):
    monkeypatch.setattr(events, "KEEP_ALIVE_S", 0.0)
    blocks = list(stream(client).streaming_content)
    assert blocks[0] == b"retry: 1000\n\n"
    assert len(blocks) > 1 and set(blocks[1:]) == {b": keep-alive\n\n"}


def test_a_stream_ends_at_its_life_and_gives_its_place_back(client):
    answer = stream(client)
    assert events.room._held.total() == 1
    list(answer.streaming_content)
    assert events.room._held.total() == 0


@pytest.mark.parametrize("read", [0, 1])
def test_a_stream_that_is_closed_early_or_never_read_gives_its_place_back(client, read):
    transact(client, "a")
    for _ in range(events.room.limit + 2):
        answer = stream(client)
        for _, _ in zip(range(read), answer.streaming_content, strict=False):
            pass
        assert events.room._held.total() == 1
        answer.close()
        answer.close()
        assert events.room._held.total() == 0


def test_more_streams_than_the_process_serves_are_refused_and_polling_goes_on(client, monkeypatch, api):
    monkeypatch.setattr(events, "room", events.Room(3))
    held = [stream(api()) for _ in range(3)]
    answer = stream(client)
    assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_OVERLOADED")
    assert (answer["Retry-After"], answer.json()["reason"]) == ("1", "STREAM_LIMIT")
    assert client.get("/v1/changes").status_code == 200
    held[0].close()
    assert stream(client).status_code == 200


def test_one_key_takes_half_of_the_streams_at_most(client, monkeypatch, api, make_key):
    monkeypatch.setattr(events, "room", events.Room(5))
    greedy, modest = make_key(), make_key()
    taken = [stream(api(greedy)) for _ in range(4)]
    assert [each.status_code for each in taken] == [200, 200, 200, 503]
    assert stream(api(modest)).status_code == 200


def test_a_stream_whose_key_ends_ends_and_shows_nothing_more(client, api, make_key, namespace, settings):
    from apps.keys import services
    from apps.keys.principal import operator

    settings.STREAM_MAX_LIFE_S = 30
    key = make_key()
    transact(client, "before")
    opened = frames(stream(api(key)))
    assert next(opened).data["operations"][0]["id"] == "before"
    services.revoke_key(key.key.id, by=operator("tests"))
    wake(namespace, "after")
    [last] = list(opened)
    assert (last.id, last.event, last.data["code"]) == (None, "error", "AUTHENTICATION_REQUIRED")


def test_an_idle_stream_ends_within_moments_of_its_key(client, api, make_key, settings):
    from apps.keys import services
    from apps.keys.principal import operator

    settings.STREAM_MAX_LIFE_S = 30
    key = make_key()
    opened = frames(stream(api(key)))
    services.revoke_key(key.key.id, by=operator("tests"))
    assert [frame.data["code"] for frame in opened] == ["AUTHENTICATION_REQUIRED"]


def test_stopping_the_process_ends_a_stream_at_once(client, monkeypatch, settings):
    settings.STREAM_MAX_LIFE_S = 60
    monkeypatch.setattr(stopping, "_asked", threading.Event())
    opened = stream(client)
    timer = later(0.2, stopping.begin)
    assert list(frames(opened)) == []
    timer.join()


def test_a_reader_that_is_gone_ends_its_stream(client, settings):
    settings.STREAM_MAX_LIFE_S = 60

    class Gone:
        def stream(self):
            pass

        def gone(self):
            return True

    answer = client.get("/v1/events", **{"gunicorn.socket": Gone()})
    assert list(frames(answer)) == []


@pytest.mark.parametrize("after", ["1", "latest", "abc-x", "-5", "x" * 500])
def test_a_place_that_is_no_cursor_is_refused_before_a_stream_opens(client, after):
    for answer in (stream(client, after=after), stream(client, after)):
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_CURSOR")
    assert events.room._held.total() == 0


def test_a_cursor_of_another_namespace_is_unknown_here(client, api, make_key):
    from apps.keys.services import ensure_namespace

    other = api(make_key(namespaces=[ensure_namespace("elsewhere").name]))
    transact(other, "o-1")
    foreign = other.get("/v1/changes").json()["cursor"]
    for answer in (stream(client, after=foreign), stream(client, foreign)):
        assert (answer.status_code, answer.json()["code"]) == (410, "CURSOR_UNKNOWN")


def test_a_cursor_beyond_the_head_is_refused(client):
    instance = client.get("/v1/revision").json()["scope"]
    answer = stream(client, f"{instance}-99")
    assert (answer.status_code, answer.json()["code"]) == (410, "CURSOR_AHEAD")


def test_misspelt_and_doubled_parameters_are_refused(client):
    assert stream(client, since="now").status_code == 400
    assert stream(client, after="now", cursor="now").status_code == 400


def test_a_head_opens_no_stream(client):
    answer = client.head("/v1/events")
    assert (answer.status_code, answer["Content-Type"], answer.content) == (200, "text/event-stream", b"")
    assert events.room._held.total() == 0


def test_a_rewound_cursor_is_said_once_with_where_to_go_on(client, monkeypatch):
    transact(client, "a")
    instance = client.get("/v1/revision").json()["scope"]
    whole = Store.changes
    monkeypatch.setattr(
        Store,
        "changes",
        lambda self, after, **asked: (
            Changes(operations=(), cursor=Cursor(instance_id=instance, sequence=0), head=1, floor=0, rewound_from=9)
            if after.sequence == 9
            else whole(self, after, **asked)
        ),
    )
    first, second = frames(stream(client, f"{instance}-9"))
    assert (first.event, first.id, first.data["rewound_from"]) == ("state.rewound", f"{instance}-0", 9)
    assert second.data["operations"][0]["id"] == "a"
    assert client.get("/v1/changes", {"after": f"{instance}-9"}).json()["rewound_from"] == 9


def test_numbers_come_in_the_form_the_reader_asks_for(client):
    client.put_json("/v1/collections/orders/a", {"n": 2**60})
    plain = next(frames(stream(client)))
    assert plain.data["operations"][0]["value"] == {"n": 2**60}
    asked = client.get("/v1/events", headers={"FeltDB-Numbers": "string"})
    assert next(frames(asked)).data["operations"][0]["value"] == {"n": str(2**60)}


def test_a_test_client_has_no_connection_to_ask(rf):
    unknown = connection(rf.get("/"))
    unknown.stream()
    assert unknown.gone() is False


def test_streams_take_a_quarter_of_the_threads_and_leave_room_for_all_else():
    for asked in ({}, {"WEB_WORKERS": "8"}, {"FELTDB_MAX_IN_FLIGHT": "64", "WEB_WORKERS": "1"}, {"WEB_THREADS": "64"}):
        got = capacity.of(asked, cores=2)
        assert got.streams == got.threads // 4 >= 1
        if "WEB_THREADS" not in asked:
            others = got.permits + got.feed_waiting + capacity.MAX_WAITING_CLAIMS + capacity.SPARE_THREADS
            assert got.threads - got.streams >= others
    with pytest.raises(ImproperlyConfigured):
        capacity.of({"WEB_THREADS": "4"}, cores=2)
