"""`/v1/triggers` over HTTP: what each route answers, its codes, and that the document of the API tells the truth."""

from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from apps.triggers import limits, services
from apps.triggers.api.schemas import SCHEMAS
from apps.triggers.models import Trigger
from apps.workloads.clock import now_ms
from feltdb_engine import Mutation

NEW = {
    "trigger_id": "big-order",
    "source_collection": "orders",
    "change_kind": ["insert", "update"],
    "predicate": {"field": "amount", "op": "gte", "value": 100},
    "target_capability": "identity",
}


@pytest.fixture
def client(world: Any, api: Callable[..., Any]) -> Any:
    world.now_ms = now_ms()  # what a route does, it does by the clock
    return api()


def fits(shape: str, document: Any) -> None:
    """Hold a document to the shape that the API's document gives it."""
    definitions = {"components": {"schemas": SCHEMAS}}
    Draft202012Validator({**SCHEMAS[shape], **definitions}).validate(document)


def test_a_trigger_is_defined_read_changed_and_archived(client: Any) -> None:
    made = client.post_json("/v1/triggers", NEW)
    assert made.status_code == 201, made.content
    fits("Trigger", made.json())
    assert made.json()["state"] == "active"
    assert made.json()["tenant_id"] == "test"

    again = client.post_json("/v1/triggers", NEW)
    assert (again.status_code, again.json()) == (200, made.json())

    changed = client.patch_json("/v1/triggers/big-order", {"priority": 5, "predicate": None})
    assert changed.status_code == 200
    assert (changed.json()["priority"], changed.json()["predicate"], changed.json()["revision"]) == (5, None, 2)
    assert client.get("/v1/triggers/big-order").json() == changed.json()

    assert client.call("DELETE", "/v1/triggers/big-order").status_code == 204
    assert client.get("/v1/triggers/big-order").json()["code"] == "TRIGGER_NOT_FOUND"
    assert client.get("/v1/triggers").json()["triggers"] == []

    revived = client.put_json("/v1/triggers/big-order", {**NEW, "priority": 1})
    assert (revived.status_code, revived.json()["revision"]) == (201, 4)


def test_work_follows_from_a_trigger_defined_over_http(client: Any, world: Any) -> None:
    client.post_json("/v1/triggers", NEW)
    world.put("orders", "1", {"amount": 100})
    world.put("orders", "2", {"amount": 99})
    [made] = world.evaluate()
    request = world.workload(made.workload_id).request
    assert request.requester_kind == "service"
    assert request.input["record"] == {"amount": 100}


def test_a_list_goes_page_by_page_in_the_order_of_the_ids(client: Any) -> None:
    for name in ("c", "a", "b"):
        client.post_json("/v1/triggers", {**NEW, "trigger_id": name})
    first = client.get("/v1/triggers?limit=2").json()
    fits("TriggerPage", first)
    assert [each["trigger_id"] for each in first["triggers"]] == ["a", "b"]
    rest = client.get(f"/v1/triggers?limit=2&cursor={first['next_cursor']}").json()
    assert [each["trigger_id"] for each in rest["triggers"]] == ["c"]
    assert rest["next_cursor"] is None
    assert client.get("/v1/triggers?cursor=rubbish").json()["code"] == "INVALID_CURSOR"
    assert client.get("/v1/triggers?limit=0").json()["code"] == "VALIDATION_ERROR"


def test_enable_disable_pause_and_resume_change_the_state(client: Any) -> None:
    client.post_json("/v1/triggers", NEW)
    path = "/v1/triggers/big-order"
    assert client.post_json(f"{path}/disable").json()["state"] == "disabled"
    assert client.post_json(f"{path}/disable", {"reason": "again"}).json()["revision"] == 2
    assert client.post_json(f"{path}/enable", {"start_from": "beginning"}).json()["state"] == "active"
    paused = client.post_json(f"{path}/pause", {"reason": "maintenance", "resumes_at_ms": 2**52}).json()
    fits("Trigger", paused)
    assert paused["reason"] == {"code": "PAUSED_BY_OPERATOR", "message": "maintenance"}
    assert client.post_json(f"{path}/pause", {}).json()["code"] == "CONFLICT"
    assert client.post_json(f"{path}/resume").json()["state"] == "active"
    assert client.post_json(f"{path}/resume").json()["code"] == "CONFLICT"
    assert client.post_json("/v1/triggers/nobody/enable").json()["code"] == "TRIGGER_NOT_FOUND"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "", {**NEW, "change_kind": "upsert"}, 400, "TRIGGER_INVALID"),
        ("POST", "", {**NEW, "source_collection": "_flow"}, 400, "TRIGGER_INVALID"),
        ("POST", "", {**NEW, "tenant_id": "other"}, 400, "TRIGGER_INVALID"),
        ("POST", "", [NEW], 400, "TRIGGER_INVALID"),
        ("POST", "", {**NEW, "authorization_snapshot": {"grant": {}}}, 400, "TRIGGER_UNAUTHORIZED"),
        ("POST", "", b"{", 400, "JSON_INVALID"),
        ("PUT", "/other", NEW, 400, "VALIDATION_ERROR"),
        ("PATCH", "/nobody", {"priority": 1}, 404, "TRIGGER_NOT_FOUND"),
        ("DELETE", "/nobody", None, 404, "TRIGGER_NOT_FOUND"),
        ("POST", "/nobody/enable", {"colour": 1}, 400, "VALIDATION_ERROR"),
        ("GET", "/nobody/quarantine", None, 404, "TRIGGER_NOT_FOUND"),
    ],
)
def test_a_refusal_has_its_status_and_code(
    client: Any, method: str, path: str, body: Any, status: int, code: str
) -> None:
    answer = client.call(method, f"/v1/triggers{path}", body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_key_for_some_collections_defines_triggers_on_those_only(
    world: Any, api: Callable[..., Any], make_key: Callable[..., Any]
) -> None:
    client = api(make_key(scopes=["triggers:read", "triggers:write", "workload:create"], collections=["orders"]))
    assert client.post_json("/v1/triggers", NEW).status_code == 201
    refused = client.post_json("/v1/triggers", {**NEW, "trigger_id": "x", "source_collection": "salaries"})
    assert (refused.status_code, refused.json()["reason"]) == (403, "COLLECTION_DENIED")
    moved = client.patch_json("/v1/triggers/big-order", {"source_collection": "salaries"})
    assert (moved.status_code, moved.json()["reason"]) == (403, "COLLECTION_DENIED")
    assert Trigger.objects.get().source_collection == "orders"


def test_another_namespace_sees_nothing(
    client: Any, world: Any, api: Callable[..., Any], make_key: Callable[..., Any]
) -> None:
    client.post_json("/v1/triggers", NEW)
    stranger = api(make_key(namespaces=["elsewhere"]))
    assert stranger.get("/v1/triggers").json()["triggers"] == []
    assert stranger.get("/v1/triggers/big-order").json()["code"] == "TRIGGER_NOT_FOUND"


def test_what_could_not_become_work_is_shown(client: Any, world: Any) -> None:
    client.post_json("/v1/triggers", {**NEW, "predicate": None})
    for number in range(3):
        world.put("orders", str(number), {"password": "hunter2"})
    world.evaluate()
    first = client.get("/v1/triggers/big-order/quarantine?limit=2").json()
    fits("QuarantinePage", first)
    assert [row["record_key"] for row in first["quarantined"]] == ["orders:2", "orders:1"]
    rest = client.get(f"/v1/triggers/big-order/quarantine?cursor={first['next_cursor']}").json()
    assert [row["code"] for row in rest["quarantined"]] == ["WORKLOAD_SECRET_REJECTED"]


def test_revisions_tell_who_changed_what(client: Any) -> None:
    client.post_json("/v1/triggers", NEW)
    client.patch_json("/v1/triggers/big-order", {"priority": 5})
    page = client.get("/v1/triggers/big-order/revisions").json()
    fits("TriggerRevisionPage", page)
    assert page["revisions"][0]["diff"] == {"priority": [0, 5]}
    assert page["revisions"][0]["author"].startswith("service:")


def test_a_namespace_that_stands_still_says_so(client: Any, world: Any) -> None:
    from apps.triggers.models import NamespacePosition

    client.post_json("/v1/triggers", NEW)
    NamespacePosition.objects.update(mismatch_code="CONTROL_PLANE_MISMATCH", mismatch="apart")
    answer = client.post_json("/v1/triggers", {**NEW, "trigger_id": "more"})
    assert (answer.status_code, answer.json()["code"]) == (409, "CONTROL_PLANE_MISMATCH")


@pytest.mark.parametrize("document", ["NewTrigger", "WholeTrigger", "TriggerPatch"])
def test_the_api_document_knows_every_member_of_a_definition(document: str) -> None:
    from apps.triggers.definition import MEMBERS

    assert set(SCHEMAS[document]["properties"]) == set(MEMBERS)


def test_a_feed_that_cannot_be_read_is_told_as_such(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from feltdb_engine import Store
    from feltdb_engine.errors import StorageFailed

    def failed(self: Store, *_: Any, **__: Any) -> None:
        raise StorageFailed("a force failed")

    monkeypatch.setattr(Store, "head", failed)
    answer = client.post_json("/v1/triggers", NEW)
    assert (answer.status_code, answer.json()["code"]) == (503, "TRIGGER_STATE_REPLAY_FAILED")
    assert not Trigger.objects.exists()


def test_triggers_are_listed_without_a_store(client: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of triggers is told also while the store is being rebuilt; only the lag is unknown."""
    from apps.state import stores
    from feltdb_engine.errors import StoreRebuilding

    world.define()
    world.write(Mutation(kind="put", collection="orders", id="1", value={}))

    def rebuilding(namespace: str) -> Any:
        raise StoreRebuilding("the view is being rebuilt")

    monkeypatch.setattr(stores, "store", rebuilding)
    assert len(client.get("/v1/triggers").json()["triggers"]) == 1
    assert services.status(world.namespace, now_ms=world.now_ms)["lag_operations"] == {"on-order": None}


# operating
def test_a_trigger_is_moved_replayed_and_its_changes_skipped_over_http(client: Any, world: Any) -> None:
    client.post_json("/v1/triggers", NEW)
    for number in range(1, 4):
        world.put("orders", str(number), {"amount": 100})
    world.evaluate()
    on = "/v1/triggers/big-order"
    start = str(world.store.start())
    assert client.post_json(f"{on}/rebase", {"to": start, "reason": "again"}).json()["cursor"] == start
    skipped = client.post_json(f"{on}/skip", {"change": "2", "reason": "a test"})
    fits("ChangeName", skipped.json())
    assert len(world.evaluate()) == 2
    ordered = client.post_json(f"{on}/replay", {"from": "beginning", "to": "now", "reason": "the program was wrong"})
    assert ordered.status_code == 202
    fits("TriggerReplay", ordered.json())
    world.evaluate()
    listed = client.get(f"{on}/replays").json()
    fits("TriggerReplayPage", listed)
    assert [(row["number"], row["outcome"], row["made"]) for row in listed["replays"]] == [(1, "done", 2)]
    client.post_json(f"{on}/replay", {"from": "beginning", "to": "now"})
    ended = client.post_json(f"{on}/replays/2/cancel", {"reason": "enough"})
    fits("TriggerReplay", ended.json())
    assert ended.json()["outcome"] == "cancelled"


def test_a_quarantined_change_is_retried_over_http(client: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.triggers.operated import without_secrets

    client.post_json("/v1/triggers", {**NEW, "predicate": None})
    world.put("orders", "1", {"password": "hunter2"})
    world.evaluate()
    refused = client.post_json("/v1/triggers/big-order/retry", {"change": "1"})
    assert (refused.status_code, refused.json()["code"]) == (422, "WORKLOAD_SECRET_REJECTED")
    without_secrets(monkeypatch)
    made = client.post_json("/v1/triggers/big-order/retry", {"change": "1"})
    assert made.status_code == 200
    fits("TriggeredWorkload", made.json())


def test_what_a_trigger_would_do_and_did_not_do_is_told_over_http(client: Any, world: Any) -> None:
    client.post_json("/v1/triggers", NEW)
    world.put("orders", "1", {"amount": 99})
    world.put("orders", "1", {"amount": 100})
    tried = client.post_json(
        "/v1/triggers/big-order/dry-run",
        {"definition": {"predicate": {"changed": "amount"}}, "from": "beginning", "samples": 1},
    )
    assert tried.status_code == 200, tried.content
    fits("TriggerDryRunResult", tried.json())
    assert (tried.json()["matched"], len(tried.json()["samples"])) == (2, 1)
    told = client.get("/v1/triggers/big-order/explain?change=1")
    fits("TriggerExplanation", told.json())
    assert told.json()["predicate"]["found"] == 99
    standing = client.get("/v1/triggers/big-order/status").json()
    fits("TriggerStanding", standing)
    assert standing["lag_operations"] == 2
    status = client.get("/v1/trigger-status").json()
    fits("TriggerStatus", status)
    assert status["lag_operations"] == {"big-order": 2}


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("rebase", {}, "/to"),
        ("rebase", {"to": 1}, "/to"),
        ("skip", {"reason": "x"}, "/change"),
        ("replay", {"from": "beginning"}, "/to"),
        ("pause", {"reason": ""}, "/reason"),
        ("disable", {"to": "now"}, "/to"),
        ("dry-run", {"definition": []}, "/definition"),
        ("dry-run", {"samples": limits.DRY_RUN_MAX_SAMPLES + 1}, "/samples"),
    ],
)
def test_a_body_that_lacks_or_has_what_it_should_not_is_refused_at_its_place(
    client: Any, path: str, body: Any, pointer: str
) -> None:
    client.post_json("/v1/triggers", NEW)
    refused = client.post_json(f"/v1/triggers/big-order/{path}", body)
    assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
    assert refused.json()["details"]["pointer"] == pointer


@pytest.mark.parametrize(
    "key",
    [
        ([], None),
        (["state:read"], ["others"]),
    ],
)
def test_who_may_not_read_the_collection_is_shown_nothing_of_its_records(
    client: Any,
    api: Callable[..., Any],
    make_key: Callable[..., Any],
    world: Any,
    key: tuple[list[str], list[str] | None],
) -> None:
    client.post_json("/v1/triggers", NEW)
    world.put("orders", "1", {"amount": 99})
    scopes, collections = key
    other = api(make_key(scopes=["triggers:read", "triggers:write", *scopes], collections=collections))
    for answer in (
        other.get("/v1/triggers/big-order/explain?change=1"),
        other.post_json("/v1/triggers/big-order/dry-run", {}),
        other.post_json("/v1/triggers/new/dry-run", {"definition": NEW}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
