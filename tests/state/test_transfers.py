"""Export and import: exact, of one moment, by whole batches, and going on where they stopped."""

import json

import pytest

from apps.state import limits, rows
from apps.state.services import transfers
from feltdb_engine import Store, exporting
from feltdb_engine.errors import ReadOnlyStore, StorageFull

NDJSON = "application/x-ndjson"


def lines(answer):
    """The lines of a streamed answer, which is closed with its last."""
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == NDJSON
    raw = b"".join(answer.streaming_content)
    assert raw.endswith(b"\n")
    return [json.loads(line) for line in raw.splitlines()]


def export(client, **parameters):
    return lines(client.get("/v1/export", parameters))


def import_(client, *records, query="", key=None, raw=None):
    body = raw if raw is not None else b"".join(json.dumps(each).encode() + b"\n" for each in records)
    headers = {"Idempotency-Key": key} if key else {}
    return client.call("POST", f"/v1/import{query}", body, content_type=NDJSON, headers=headers)


def row(name, collection="orders", **value):
    return {"collection": collection, "id": name, "value": value}


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(rows, "IMPORT_BATCH_ROWS", 3)


def names(client, collection="orders"):
    return [each["id"] for each in client.get(f"/v1/collections/{collection}").json()["records"]]


def test_an_export_holds_every_record_between_a_head_and_an_end(client, orders):
    orders("b", n=1.0)
    orders("a", n=2**64 - 1, t="ü\u2028")
    client.put_json("/v1/collections/customers/c", {})
    client.put_json("/v1/capabilities/find", {"steps": [{"op": "identity"}]})
    head, *records, end = export(client)
    position = client.get("/v1/revision").json()
    assert head == {
        "feltdb_export": 1,
        "namespace": "test",
        "instance_id": position["scope"],
        "revision": position["revision"],
    }
    assert [(each["collection"], each["id"]) for each in records] == [
        ("customers", "c"),
        ("orders", "a"),
        ("orders", "b"),
    ]
    assert records[1]["value"] == {"n": 2**64 - 1, "t": "ü\u2028"}
    assert type(records[2]["value"]["n"]) is float
    assert end == {"records": 3, "revision": position["revision"], "complete": True}
    assert client.get("/v1/revision").json()["revision"] == position["revision"], "an export changes nothing"


def test_an_export_is_of_one_moment_whatever_is_written_while_it_runs(client, orders, monkeypatch):
    monkeypatch.setattr(exporting, "_BATCH_RECORDS", 2)
    for n in range(10):
        orders(f"o-{n}", n=0)
    answer = client.get("/v1/export")
    stream = iter(answer.streaming_content)
    seen = [next(stream)]
    for n in range(0, 10, 2):
        orders(f"o-{n}", n=1)
        orders(f"p-{n}", n=1)
        client.delete(f"/v1/collections/orders/o-{n + 1}")
    seen += list(stream)
    _, *records, end = [json.loads(line) for line in b"".join(seen).splitlines()]
    assert [(each["id"], each["value"]["n"], each["version"]) for each in records] == [
        (f"o-{n}", 0, 1) for n in range(10)
    ]
    assert end["complete"] is True


def test_an_export_of_an_earlier_revision_and_of_some_collections(client, orders):
    orders("a", n=1)
    client.put_json("/v1/collections/customers/c", {})
    then = client.get("/v1/revision").json()["revision"]
    orders("a", n=2)
    _, *records, end = export(client, asOf=then, collections="orders")
    assert [each["value"] for each in records] == [{"n": 1}]
    assert end == {"records": 1, "revision": then, "complete": True}
    assert client.get("/v1/export", {"asOf": 99}).status_code == 410
    assert client.get("/v1/export", {"asOf": "x"}).status_code == 400
    assert client.get("/v1/export", {"collection": "orders"}).status_code == 400


def test_an_export_shows_a_key_its_own_collections_alone(client, api, make_key, orders):
    orders("a", n=1)
    client.put_json("/v1/collections/secrets/s", {})
    narrow = api(make_key(collections=["orders"]))
    assert [each["id"] for each in export(narrow)[1:-1]] == ["a"]
    assert narrow.get("/v1/export", {"collections": "orders,secrets"}).status_code == 403


def test_an_export_holds_its_moment_by_a_pin_and_lets_it_go(client, orders, namespace):
    from apps.state.stores import store

    orders("a", n=1)
    answer = client.get("/v1/export")
    [pin] = store(namespace).pins()
    assert pin.name.startswith("export-") and pin.sequence == 1
    lines(answer)
    assert store(namespace).pins() == []
    assert transfers.exports._value == limits.MAX_EXPORTS


@pytest.mark.parametrize("fault", [StorageFull("no room"), ReadOnlyStore("read-only")])
def test_an_export_is_given_by_a_store_that_takes_no_writes(client, orders, monkeypatch, fault):
    orders("a", n=1)

    def refuse(*_, **__):
        raise fault

    monkeypatch.setattr(Store, "pin", refuse)
    monkeypatch.setattr(Store, "unpin", refuse)
    *_, last = export(client)
    assert last == {"records": 1, "revision": 1, "complete": True}


def test_an_export_that_breaks_says_so_and_is_not_complete(client, orders, monkeypatch, api, make_key):
    from apps.keys import services
    from apps.keys.principal import operator

    orders("a", n=1)
    key = make_key()
    answer = api(key).get("/v1/export")
    services.revoke_key(key.key.id, by=operator("tests"))
    *_, last = lines(answer)
    assert last["error"]["code"] == "AUTHENTICATION_REQUIRED" and "complete" not in last


def test_more_exports_or_imports_than_run_at_once_are_refused(client, monkeypatch):
    held = [client.get("/v1/export") for _ in range(limits.MAX_EXPORTS)]
    over = client.get("/v1/export")
    assert (over.status_code, over.json()["code"], over["Retry-After"]) == (503, "SERVICE_OVERLOADED", "5")
    for each in held:
        each.close()
    assert lines(client.get("/v1/export"))
    for _ in range(limits.MAX_IMPORTS):
        transfers.imports.acquire()
    assert import_(client, row("a")).status_code == 503
    for _ in range(limits.MAX_IMPORTS):
        transfers.imports.release()
    assert client.head("/v1/export").status_code == 200


def test_what_was_exported_comes_in_elsewhere_as_it_was(client, api, make_key, orders):
    from apps.keys.services import ensure_namespace

    orders("a%2Fb", n=1.0, big=2**63)
    orders("b", text="\u0001ü", deep={"x": [None, True]})
    raw = b"".join(client.get("/v1/export").streaming_content)
    other = api(make_key(namespaces=[ensure_namespace("elsewhere").name]))
    [*_, last] = lines(import_(other, raw=raw))
    assert (last["records"], last["complete"]) == (2, True)
    mine, theirs = export(client)[1:-1], export(other)[1:-1]
    assert [each["value"] for each in mine] == [each["value"] for each in theirs]
    assert [each["id"] for each in mine] == [each["id"] for each in theirs]


def test_an_import_tells_how_far_it_is_and_that_it_is_done(client, small_batches, monkeypatch):
    from apps.state.api import transfers as view

    monkeypatch.setattr(view, "PROGRESS_S", 0.0)
    told = lines(import_(client, *(row(f"o-{n}", n=n) for n in range(8)), key="i-1"))
    assert [(each["rows"], each["batches"]) for each in told] == [(3, 1), (6, 2), (8, 3), (8, 3)]
    assert told[-1]["complete"] is True and told[-1]["import_id"] == "i-1"
    assert names(client) == [f"o-{n}" for n in range(8)]
    operations = client.get("/v1/changes").json()["operations"]
    assert [each["transaction_id"] for each in operations][::3] == ["import:i-1:1", "import:i-1:4", "import:i-1:7"]


@pytest.mark.parametrize("bad", [b'{"collection":"orders","id":"x"', b'{"collection":"orders","id":"x","value":7}'])
def test_a_bad_row_in_the_middle_stops_the_import_exactly_there_and_mended_it_goes_on(client, small_batches, bad):
    good = [json.dumps(row(f"o-{n}", n=n)).encode() for n in range(10)]
    body = b"\n".join([*good[:7], bad, *good[8:]])
    *_, last = lines(import_(client, raw=body, key="i-1"))
    assert (last["row"], last["rows"], last["batches"]) == (8, 6, 2)
    assert last["error"]["code"] in ("JSON_INVALID", "VALIDATION_ERROR")
    assert names(client) == [f"o-{n}" for n in range(6)], "nothing of the bad row's batch, nothing after it"
    before = client.get("/v1/revision").json()["revision"]
    *_, again = lines(import_(client, raw=b"\n".join(good), key="i-1"))
    assert (again["complete"], again["repeated"], again["records"]) == (True, 2, 10)
    assert names(client) == [f"o-{n}" for n in range(10)]
    assert client.get("/v1/revision").json()["revision"] == before + 4, "what was in is not written again"


def test_a_bad_row_in_the_first_batch_is_a_plain_refusal_and_nothing_is_in(client):
    answer = import_(client, row("a"), {"collection": "-", "id": "b", "value": {}})
    assert (answer.status_code, answer.json()["code"], answer.json()["row"]) == (400, "VALIDATION_ERROR", 2)
    assert answer.json()["details"] == {"pointer": "/collection"}
    assert names(client) == []
    assert transfers.imports._value == limits.MAX_IMPORTS


def test_rows_that_were_changed_under_the_same_id_are_refused_not_skipped(client, small_batches):
    lines(import_(client, *(row(f"o-{n}", n=n) for n in range(6)), key="i-1"))
    answer = import_(client, *(row(f"o-{n}", n=n + 1) for n in range(6)), key="i-1")
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")


def test_insert_refuses_a_record_that_is_there_and_names_its_row(client, small_batches, orders):
    orders("o-4", n=0)
    *_, last = lines(import_(client, *(row(f"o-{n}", n=n) for n in range(9)), query="?mode=insert"))
    assert (last["row"], last["rows"], last["error"]["code"]) == (5, 3, "PRECONDITION_FAILED")
    assert names(client) == ["o-0", "o-1", "o-2", "o-4"]


def test_a_record_that_comes_twice_is_written_twice_in_order(client):
    *_, last = lines(import_(client, row("a", n=1), row("b"), row("a", n=2)))
    assert (last["batches"], last["records"]) == (2, 3)
    record = client.get("/v1/collections/orders/a").json()
    assert (record["value"], record["version"]) == ({"n": 2}, 2)


def test_rows_may_leave_the_collection_to_the_target_and_lines_may_be_blank(client):
    body = b'\n{"id":"a","value":{}}\r\n\n{"id":"b","value":{},"collection":"other"}'
    *_, last = lines(import_(client, raw=body, query="?collection=orders"))
    assert (last["rows"], last["records"]) == (4, 2)
    assert (names(client), names(client, "other")) == (["a"], ["b"])


def test_an_import_of_nothing_is_done_at_once(client):
    *_, last = lines(import_(client, raw=b"\n"))
    assert (last["rows"], last["complete"]) == (0, True)


@pytest.mark.parametrize(
    ("query", "extra", "status"),
    [
        ("?mode=merge", {}, 400),
        ("?collection=-", {}, 400),
        ("?rows=5", {}, 400),
        ("", {"content_type": "application/json"}, 415),
        ("", {"headers": {"Idempotency-Key": "x" * 97}}, 400),
        ("", {"headers": {"Content-Encoding": "gzip"}}, 415),
    ],
)
def test_an_import_that_says_what_there_is_not_is_refused(client, query, extra, status):
    extra = {"content_type": NDJSON, **extra}
    assert client.call("POST", f"/v1/import{query}", b"{}", **extra).status_code == status


def test_a_line_over_its_limit_is_refused_with_its_row(client, monkeypatch):
    from apps.state.api import transfers as view

    monkeypatch.setattr(view, "IMPORT_LINE_BYTES", 100)
    good = json.dumps(row("a")).encode()
    for body in (good + b"\n" + b"x" * 101, good + b"\n" + b"x" * 101 + b"\n"):
        answer = import_(client, raw=body)
        assert (answer.status_code, answer.json()["code"], answer.json()["row"]) == (413, "BODY_TOO_LARGE", 2)


def test_neither_system_collections_nor_other_keys_collections_are_written(client, api, make_key):
    narrow = api(make_key(collections=["orders"]))
    for caller, collection in ((client, "_flow_capabilities"), (narrow, "secrets")):
        answer = import_(caller, row("a", collection))
        assert (answer.status_code, answer.json()["reason"]) == (403, "COLLECTION_DENIED")


def test_the_same_lines_always_make_the_same_batches_by_count_and_by_bytes(monkeypatch):
    monkeypatch.setattr(rows, "IMPORT_BATCH_BYTES", 150)
    source = [json.dumps(row(f"o-{n}", t="x" * n)).encode() for n in range(0, 60, 7)]
    cut = [each.rows for each in rows.batches(source, kind="put", collection=None)]
    assert cut == [each.rows for each in rows.batches(list(source), kind="put", collection=None)]
    assert [number for part in cut for number in part] == list(range(1, 10)) and len(cut) > 3
