"""The audit trail over HTTP: filters, pages, whose events one sees, the export."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.signals import request_finished
from django.db import close_old_connections

from apps.http.pages import exporting
from apps.http.pages.limits import MAX_EXPORTS
from apps.keys.audit import reading
from apps.keys.audit.models import AuditEvent
from apps.keys.audit.services import record
from apps.keys.principal import operator
from tests.conftest import ApiClient

NOW_MS = 1_800_000_000_000


@pytest.fixture
def reader(api: Callable[..., ApiClient], make_key: Callable[..., Any]) -> ApiClient:
    """A client that may read the audit of the tests' namespace."""
    return api(make_key(scopes=["audit:read"]))


@pytest.fixture
def auditor(api: Callable[..., ApiClient], make_key: Callable[..., Any]) -> ApiClient:
    """A client that may read the audit of the whole instance."""
    return api(make_key(scopes=["audit:read"], namespaces=["*"]))


def add(action: str, **members: Any) -> AuditEvent:
    asked = {"target": "it", "namespace": "test", "at_ms": NOW_MS, **members}
    return record(operator(asked.pop("who", "ops")), action, **asked)


def actions(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [event["action"] for event in answer.json()["events"]]


def test_an_event_says_who_did_what_to_what_where_when_and_for_which_request(
    api: Callable[..., ApiClient], make_key: Callable[..., Any], reader: ApiClient
) -> None:
    admin = make_key(scopes=["keys:admin", "state:read"], name="admin")
    made = api(admin).post_json("/v1/keys", {"name": "new key", "scopes": ["state:read"]})
    event = reader.get(f"/v1/audit?key_id={admin.key.id}").json()["events"][0]
    digests = (event.pop("before_digest"), event.pop("after_digest"))
    assert event.pop("id") > 0 and event.pop("at_ms") > NOW_MS - 10**11
    assert event == {
        "namespace": "test",
        "principal_kind": "service",
        "subject": f"service:{admin.key.id}",
        "key_id": admin.key.id,
        "address": None,
        "action": "key.issued",
        "target": made.json()["id"],
        "outcome": "done",
        "code": None,
        "reason": "new key",
        "request_id": made["X-Request-ID"],
        "count": 1,
    }
    assert digests[0] is None and len(digests[1]) == 64


def test_each_filter_chooses_and_they_are_combined(auditor: ApiClient) -> None:
    add("a.one", target="x", at_ms=NOW_MS + 1)
    add("a.two", target="y", at_ms=NOW_MS + 2, who="eve")
    add("a.three", namespace="", outcome="failed", code="CONFLICT", at_ms=NOW_MS + 3)
    ours = f"from_ms={NOW_MS}"
    assert actions(auditor.get(f"/v1/audit?{ours}")) == ["a.three", "a.two", "a.one"]
    for query, found in {
        "action=a.two": ["a.two"],
        "subject=human:eve": ["a.two"],
        "target=x": ["a.one"],
        "outcome=failed": ["a.three"],
        "code=CONFLICT": ["a.three"],
        "namespace=test": ["a.two", "a.one"],
        f"to_ms={NOW_MS + 2}": ["a.two", "a.one"],
        "namespace=test&target=y": ["a.two"],
        "request_id=none": [],
        "key_id=none": [],
        "action=": ["a.three", "a.two", "a.one"],
    }.items():
        assert actions(auditor.get(f"/v1/audit?{ours}&{query}")) == found, query


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "from_ms=x", "from_ms=-1", "to_ms=1e5", "outcome=perhaps", "action=%01", "subject=a%0Ab"],
)
def test_a_malformed_filter_is_named(reader: ApiClient, query: str) -> None:
    answer = reader.get(f"/v1/audit?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"]["field"] == query.partition("=")[0]


def test_one_sees_the_events_of_ones_namespaces_and_the_instances_only_with_a_key_for_all(
    reader: ApiClient, auditor: ApiClient, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    both = api(make_key(scopes=["audit:read"], namespaces=["test", "another"]))
    add("n.test")
    add("n.another", namespace="another")
    add("n.instance", namespace="")
    recent = f"from_ms={NOW_MS}"
    assert actions(reader.get(f"/v1/audit?{recent}")) == ["n.test"]
    assert actions(both.get(f"/v1/audit?{recent}")) == ["n.another", "n.test"]
    assert actions(both.get(f"/v1/audit?{recent}&namespace=another")) == ["n.another"]
    assert actions(both.get(f"/v1/audit?{recent}", headers={"FeltDB-Namespace": "test"})) == ["n.test"]
    assert actions(auditor.get(f"/v1/audit?{recent}")) == ["n.instance", "n.another", "n.test"]
    for name in ("another", "never-made"):
        answer = reader.get(f"/v1/audit?namespace={name}")
        assert (answer.status_code, answer.json()["reason"]) == (403, "NAMESPACE_DENIED")
    exported = [json.loads(line)["action"] for line in reader.get(f"/v1/audit/export?{recent}").getvalue().splitlines()]
    assert exported == ["n.test"]


def test_pages_are_complete_and_stable_while_events_are_added_and_cursors_are_bound_to_their_query(
    reader: ApiClient, auditor: ApiClient
) -> None:
    for number in range(7):
        add(f"p.{number}")
    seen: list[str] = []
    last = ""
    cursor: str | None = ""
    while cursor is not None:
        answer = reader.get(f"/v1/audit?from_ms={NOW_MS}&limit=3&cursor={cursor}")
        seen += actions(answer)
        add("p.later")
        cursor = answer.json()["next_cursor"]
        last = cursor or last
    assert seen == [f"p.{number}" for number in range(6, -1, -1)]
    for client, query in ((reader, f"cursor={last}"), (auditor, f"from_ms={NOW_MS}&cursor={last}")):
        assert client.get(f"/v1/audit?{query}").json()["code"] == "INVALID_CURSOR"


def test_the_export_is_every_event_once_oldest_first_in_lines_of_ascii(
    auditor: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "EXPORT_ROWS", 10)
    hostile = '=cmd|"/C calc"!A0,\u2028"\x1b[31m\x00\x7f\r\n{"x":1}é'
    for number in range(25):
        add(f"e.{number}", reason=hostile)
    answer = auditor.get(f"/v1/audit/export?from_ms={NOW_MS}")
    assert answer["Content-Type"] == "application/x-ndjson" and answer["Cache-Control"] == "no-store"
    raw = answer.getvalue()
    assert set(raw) <= {0x0A, *range(0x20, 0x7F)}
    events = [json.loads(line) for line in raw.splitlines()]
    assert [event["action"] for event in events] == [f"e.{number}" for number in range(25)]
    assert events[0]["reason"].startswith("=cmd") and events[0]["reason"].endswith("é")
    assert AuditEvent.objects.filter(action="audit.exported").count() == 1


def test_exports_at_once_are_bounded_and_an_abandoned_one_gives_its_place_back(auditor: ApiClient) -> None:
    for _ in range(3):
        held = [auditor.get("/v1/audit/export") for _ in range(MAX_EXPORTS)]
        refused = auditor.get("/v1/audit/export")
        assert (refused.status_code, refused.json()["code"]) == (503, "SERVICE_OVERLOADED")
        # As the server does when a client went away; the tests' connection must survive it.
        request_finished.disconnect(close_old_connections)
        try:
            for answer in [*held, *held]:
                answer.close()
        finally:
            request_finished.connect(close_old_connections)
    assert auditor.get("/v1/audit/export").status_code == 200
    assert exporting.places.acquire(blocking=False)
    exporting.places.release()


def test_asking_for_the_head_of_an_export_reads_nothing_and_takes_no_place(auditor: ApiClient) -> None:
    for _ in range(MAX_EXPORTS + 1):
        answer = auditor.head("/v1/audit/export")
        assert (answer.status_code, answer["Content-Type"]) == (200, "application/x-ndjson")
        assert not answer.streaming and answer.content == b""
    assert not AuditEvent.objects.filter(action="audit.exported").exists()


def test_the_pages_of_a_large_trail_are_reached_by_index(reader: ApiClient, django_assert_max_num_queries: Any) -> None:
    AuditEvent.objects.bulk_create(
        [AuditEvent(at_ms=NOW_MS, namespace="test", action="a", outcome="done") for _ in range(2_000)]
    )
    with django_assert_max_num_queries(5):
        assert len(actions(reader.get("/v1/audit?limit=1000"))) == 1000
