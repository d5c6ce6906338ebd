"""The feed over HTTP: complete, ordered, by whole transactions, resumable, and waiting without loss."""

import threading
import time

import pytest

from apps.http import stopping
from apps.state.services import feed


def changes(client, **parameters):
    answer = client.get("/v1/changes", parameters)
    assert answer.status_code == 200, answer.content
    return answer.json()


def transact(client, *ids, collection="orders"):
    operations = [{"collection": collection, "id": each, "value": {"id": each}} for each in ids]
    assert client.post_json("/v1/transactions", {"operations": operations}).status_code == 201


def test_an_operation_says_what_changed_who_did_it_and_when(client, make_key, api):
    key = make_key(name="writer")
    writer = api(key)
    traced = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = {"Idempotency-Key": "k-1", "X-Request-ID": "r-1", "traceparent": traced}
    put = writer.put_json("/v1/collections/orders/o-1", {"n": 1}, headers=headers)
    page = changes(client)
    [operation] = page["operations"]
    assert operation == {
        "sequence": 1,
        "instance_id": client.get("/v1/revision").json()["scope"],
        "transaction_id": "k-1",
        "kind": "insert",
        "collection": "orders",
        "id": "o-1",
        "key": "orders:o-1",
        "version": 1,
        "previous_version": 0,
        "value": {"n": 1},
        "content_hash": operation["content_hash"],
        "at_ms": put.json()["updated_at_ms"],
        "actor": {
            "subject": f"service:{key.key.pk}",
            "key_id": key.key.pk,
            "request_id": "r-1",
            "workload_id": None,
            "trigger_id": None,
            "traceparent": traced,
        },
    }
    assert len(operation["content_hash"]) == 64
    assert (page["head"], page["floor"]) == (1, 0)


def test_a_delete_carries_the_value_it_removed(client):
    client.put_json("/v1/collections/orders/o-1", {"n": 1})
    client.put_json("/v1/collections/orders/o-1", {"n": 2})
    client.delete("/v1/collections/orders/o-1")
    seen = [
        (each["kind"], each["version"], each["previous_version"], each["value"])
        for each in changes(client)["operations"]
    ]
    assert seen == [("insert", 1, 0, {"n": 1}), ("update", 2, 1, {"n": 2}), ("delete", 3, 2, {"n": 2})]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_pages_resume_exactly_and_never_split_a_transaction(client, limit):
    sizes = [1, 3, 2, 5, 1, 1, 4]
    for at, size in enumerate(sizes):
        transact(client, *(f"t{at}-{n}" for n in range(size)))
    sequences, after = [], "start"
    boundaries = {sum(sizes[: n + 1]) for n in range(len(sizes))}
    while True:
        page = changes(client, after=after, limit=limit)
        sequences += [each["sequence"] for each in page["operations"]]
        after = page["cursor"]
        if not page["operations"]:
            break
        assert sequences[-1] in boundaries
    assert sequences == list(range(1, sum(sizes) + 1))


def test_the_feed_without_a_place_begins_at_the_start_and_now_is_the_end(client):
    transact(client, "o-1")
    assert len(changes(client)["operations"]) == 1
    now = changes(client, after="now")
    assert now["operations"] == []
    transact(client, "o-2")
    assert [each["id"] for each in changes(client, after=now["cursor"])["operations"]] == ["o-2"]


def test_collections_filter_the_feed_and_the_cursor_moves_past_the_rest(client):
    transact(client, "o-1")
    transact(client, "c-1", collection="customers")
    transact(client, "i-1", collection="items")
    page = changes(client, collections="orders,items")
    assert [each["id"] for each in page["operations"]] == ["o-1", "i-1"]
    rest = changes(client, collections="customers", after=page["cursor"])
    assert rest["operations"] == []


@pytest.mark.parametrize("after", ["1", "", "0", "-1", "latest", "abc-x", "abc-", "-5", "x" * 500])
def test_a_place_that_is_no_cursor_is_refused(client, after):
    answer = client.get("/v1/changes", {"after": after})
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_CURSOR")


def test_a_cursor_of_another_namespace_is_unknown_here(client, api, make_key):
    from apps.keys.services import ensure_namespace

    other = api(make_key(namespaces=[ensure_namespace("elsewhere").name]))
    transact(other, "o-1")
    answer = client.get("/v1/changes", {"after": changes(other)["cursor"]})
    assert (answer.status_code, answer.json()["code"]) == (410, "CURSOR_UNKNOWN")


def test_a_cursor_beyond_the_head_is_refused(client):
    instance = client.get("/v1/revision").json()["scope"]
    answer = client.get("/v1/changes", {"after": f"{instance}-99"})
    assert (answer.status_code, answer.json()["code"]) == (410, "CURSOR_AHEAD")


@pytest.mark.parametrize("wait", ["-1", "31", "x", "1.5"])
def test_a_wait_outside_its_range_is_refused(client, wait):
    answer = client.get("/v1/changes", {"wait": wait})
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "wait"})


def test_a_wait_in_vain_gives_an_empty_page_and_the_same_cursor(client):
    transact(client, "o-1")
    before = changes(client)["cursor"]
    began = time.monotonic()
    page = changes(client, after=before, wait=1)
    assert time.monotonic() - began >= 1
    assert (page["operations"], page["cursor"]) == ([], before)


def later(seconds, action):
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def wake(namespace, *ids, collection="orders"):
    """Write from another thread, past HTTP: a test's database is not seen from there."""
    from apps.state.stores import directory
    from feltdb_engine import Mutation, Store

    with Store.open(directory(namespace)) as opened:
        opened.commit([Mutation(kind="put", collection=collection, id=each, value={}) for each in ids])


def test_a_waiting_reader_wakes_as_soon_as_something_is_written(client, namespace):
    before = changes(client, after="now")["cursor"]
    timer = later(0.2, lambda: wake(namespace, "o-1"))
    began = time.monotonic()
    page = changes(client, after=before, wait=20)
    timer.join()
    assert [each["id"] for each in page["operations"]] == ["o-1"]
    assert time.monotonic() - began < 15


def test_a_waiting_reader_of_one_collection_sleeps_through_writes_to_others(client, namespace):
    before = changes(client, after="now")["cursor"]
    timers = [
        later(0.1, lambda: wake(namespace, "c-1", collection="customers")),
        later(0.5, lambda: wake(namespace, "o-1")),
    ]
    page = changes(client, after=before, wait=20, collections="orders")
    for timer in timers:
        timer.join()
    assert [each["id"] for each in page["operations"]] == ["o-1"]
    assert page["operations"][0]["sequence"] == 2


def test_more_waiting_readers_than_the_bound_are_told_to_come_back(client, monkeypatch):
    monkeypatch.setattr(feed, "_waiters", feed.Waiters(1))
    with feed._waiters:
        answer = client.get("/v1/changes", {"wait": 5})
    assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_OVERLOADED")
    assert answer["Retry-After"] == "1"
    assert changes(client, wait=1)["operations"] == []


def test_stopping_the_process_ends_every_wait(client, monkeypatch):
    monkeypatch.setattr(stopping, "_asked", threading.Event())
    timer = later(0.2, stopping.begin)
    began = time.monotonic()
    assert changes(client, wait=30)["operations"] == []
    timer.join()
    assert time.monotonic() - began < 15
