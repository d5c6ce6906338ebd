"""Grants over HTTP."""

import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from apps.keys.audit.models import AuditEvent
from tests.conftest import ApiClient

HOUR_MS = 3_600_000
ORDERS = "flow://app/state/orders"


def wanted(**members: Any) -> dict[str, Any]:
    return {
        "subject": {"kind": "worker", "id": "w1"},
        "application_id": "app",
        "capabilities": ["state:read"],
        "resources": [{"kind": "RESOURCE_PREFIX", "uri": ORDERS}],
        "expires_at_ms": time.time_ns() // 1_000_000 + HOUR_MS,
        **members,
    }


def question(grant: Any, **members: Any) -> dict[str, Any]:
    return {"grant": grant, "application_id": "app", "capability": "state:read", "resource": ORDERS, **members}


@pytest.fixture
def issuer(api: Callable[..., ApiClient]) -> ApiClient:
    """A client with every scope."""
    return api()


@pytest.fixture
def the_worker(api: Callable[..., ApiClient], make_key: Callable[..., Any]) -> ApiClient:
    """The worker w1, who may delegate."""
    return api(make_key(worker_id="w1", scopes=["grants:write"]))


def test_a_grant_is_signed_used_delegated_and_revoked(issuer: ApiClient, the_worker: ApiClient) -> None:
    made = issuer.post_json("/v1/grants", wanted())
    assert made.status_code == 201, made.content
    signed = made.json()
    assert set(signed) == {"algorithm", "key_id", "grant", "digest", "signature"}
    assert issuer.get(f"/v1/grants/{signed['grant']['id']}").json() == signed
    assert the_worker.post_json("/v1/authorization/check", question(signed)).json()["code"] == "GRANT_ALLOWED"

    path = f"/v1/grants/{signed['grant']['id']}"
    child = the_worker.post_json(f"{path}/delegate", {"subject": {"kind": "agent", "id": "a"}})
    assert child.status_code == 201 and child.json()["grant"]["parent_grant"] == signed["grant"]["id"]

    ended = issuer.post_json(f"{path}/revoke", {"reason": "done"})
    assert (ended.status_code, ended.json()["grant"]["status"]) == (200, "REVOKED")
    assert issuer.post_json(f"{path}/revoke").json() == ended.json()
    for presented in (signed, ended.json()):
        assert the_worker.post_json("/v1/authorization/check", question(presented)).json()["code"] == "GRANT_REVOKED"


def test_a_whole_grant_may_be_sent_and_the_issuer_is_who_asks(issuer: ApiClient, make_key: Callable[..., Any]) -> None:
    body = wanted(
        id="mine", contract_version=1, status="ACTIVE", parent_grant=None, revision=3, tenant_id="test", issued_at=5,
        issuer={"kind": "human", "id": "owner"}, expires_at=2_000_000_000,
    )  # fmt: skip
    del body["expires_at_ms"]
    grant = issuer.post_json("/v1/grants", body).json()["grant"]
    assert (grant["id"], grant["revision"], grant["expires_at"]) == ("mine", 3, 2_000_000_000)
    assert grant["issuer"]["kind"] == "service" and grant["issued_at"] > 1_700_000_000
    assert issuer.post_json("/v1/grants", wanted(id="mine")).json()["code"] == "CONFLICT"


@pytest.mark.parametrize(
    ("members", "status", "code"),
    [
        ({"contract_version": 2}, 400, "GRANT_INVALID"),
        ({"contract_version": True}, 400, "GRANT_INVALID"),
        ({"status": "SUPERSEDED"}, 400, "GRANT_INVALID"),
        ({"parent_grant": "g0"}, 400, "GRANT_INVALID"),
        ({"tenant_id": "another"}, 400, "GRANT_INVALID"),
        ({"issued_at": 4_000_000_000}, 400, "GRANT_INVALID"),
        ({"issued_at": "now"}, 400, "GRANT_INVALID"),
        ({"expires_at": 5}, 400, "GRANT_INVALID"),
        ({"expires_at_ms": 5}, 400, "GRANT_INVALID"),
        ({"expires_at_ms": 1.5}, 400, "GRANT_INVALID"),
        ({"expires_at_ms": None}, 400, "GRANT_INVALID"),
        ({"expires_at_ms": 2**63 - 1}, 400, "GRANT_INVALID"),
        ({"subject": None}, 400, "GRANT_INVALID"),
        ({"subject": {"kind": "worker"}}, 400, "GRANT_INVALID"),
        ({"capabilities": "state:read"}, 400, "GRANT_INVALID"),
        ({"capabilities": ["*"]}, 400, "GRANT_INVALID"),
        ({"resources": [{"kind": "RESOURCE", "uri": "flow://app/%2e%2e/x"}]}, 400, "GRANT_INVALID"),
        ({"constraints": {"nonsense": 1}}, 400, "GRANT_INVALID"),
        ({"revision": -1}, 400, "GRANT_INVALID"),
        ({"id": "a/b"}, 400, "GRANT_INVALID"),
        ({"signature": "00"}, 400, "VALIDATION_ERROR"),
    ],
    ids=str,
)
def test_every_malformed_grant_is_refused_by_its_code(
    issuer: ApiClient, members: dict[str, Any], status: int, code: str
) -> None:
    answer = issuer.post_json("/v1/grants", wanted(**members))
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content


def test_a_key_gives_no_more_than_it_holds(api: Callable[..., ApiClient], make_key: Callable[..., Any]) -> None:
    limited = api(make_key(scopes=["grants:write", "state:read"], collections=["orders"]))
    assert limited.post_json("/v1/grants", wanted()).status_code == 201
    for more in (
        {"capabilities": ["state:read", "keys:admin"]},
        {"resources": [{"kind": "APPLICATION", "uri": "flow://app"}]},
    ):
        answer = limited.post_json("/v1/grants", wanted(**more))
        assert (answer.status_code, answer.json()["code"]) == (403, "GRANT_SCOPE_DENIED")


def test_without_the_scope_one_sees_ones_own_grants_only(
    issuer: ApiClient, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    mine, others = (
        issuer.post_json("/v1/grants", wanted(subject={"kind": "worker", "id": worker})).json()["grant"]["id"]
        for worker in ("w1", "w2")
    )
    me = api(make_key(worker_id="w1", scopes=["workload:claim"]))
    assert [item["grant"]["id"] for item in me.get("/v1/grants").json()["grants"]] == [mine]
    assert me.get(f"/v1/grants/{mine}").status_code == 200
    for path in (f"/v1/grants/{others}", "/v1/grants/none"):
        assert (me.get(path).status_code, me.get(path).json()["code"]) == (404, "NOT_FOUND")
    other_namespace = api(make_key(namespaces=["another"]))
    assert other_namespace.get(f"/v1/grants/{mine}").status_code == 404
    assert other_namespace.get("/v1/grants").json()["grants"] == []


def test_pages_are_newest_first_complete_and_their_cursors_good_for_their_own_list(issuer: ApiClient) -> None:
    for number in range(5):
        kind = "agent" if number % 2 else "worker"
        issuer.post_json("/v1/grants", wanted(id=f"g{number}", subject={"kind": kind, "id": "x"}))
    seen: list[str] = []
    cursor = ""
    while True:
        answer = issuer.get(f"/v1/grants?limit=2&cursor={cursor}").json()
        seen += [item["grant"]["id"] for item in answer["grants"]]
        issuer.post_json("/v1/grants", wanted())
        cursor = answer["next_cursor"]
        if cursor is None:
            break
        last = cursor
    assert seen == ["g4", "g3", "g2", "g1", "g0"]
    agents = issuer.get("/v1/grants?subject=agent:x").json()["grants"]
    assert [item["grant"]["id"] for item in agents] == ["g3", "g1"]
    for query in (f"subject=agent:x&cursor={last}", f"cursor={last}x", "cursor=%C3%A4", "cursor=MQ"):
        assert issuer.get(f"/v1/grants?{query}").json()["code"] == "INVALID_CURSOR"
    for query in ("limit=0", "limit=1001", "limit=x", "limit=-1"):
        assert issuer.get(f"/v1/grants?{query}").json()["code"] == "VALIDATION_ERROR"
    issuer.post_json("/v1/grants/g0/revoke")
    live = [item["grant"]["id"] for item in issuer.get("/v1/grants?live=true").json()["grants"]]
    assert "g0" not in live and "g1" in live


def test_asking_about_another_subject_needs_the_scope(
    issuer: ApiClient, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    signed = issuer.post_json("/v1/grants", wanted()).json()
    about = question(signed, subject={"kind": "worker", "id": "w1"})
    assert issuer.post_json("/v1/authorization/check", about).json()["allowed"]
    weak = api(make_key(scopes=["state:read"]))
    answer = weak.post_json("/v1/authorization/check", about)
    assert (answer.status_code, answer.json()["required_scope"]) == (403, "grants:write")
    own = weak.post_json("/v1/authorization/check", question(signed)).json()
    assert (own["allowed"], own["code"]) == (False, "GRANT_SCOPE_DENIED")


@pytest.mark.parametrize("grant", [None, 1, "x", [], {}, {"grant": {}}], ids=repr)
def test_any_json_in_place_of_a_grant_is_a_decision_not_an_error(issuer: ApiClient, grant: Any) -> None:
    answer = issuer.post_json("/v1/authorization/check", question(grant))
    assert (answer.status_code, answer.json()["allowed"], answer.json()["code"]) == (200, False, "GRANT_INVALID")


@pytest.mark.parametrize(
    "context",
    [
        {"now_ms": 5},
        {"environment": 5},
        {"schema_version": "2"},
        {"schema_version": True},
        {"attributes": {"a": 1}},
        {"attributes": None},
        {"connection_enabled": "true"},
        [],
        "production",
    ],
    ids=str,
)
def test_a_context_of_another_form_is_refused(issuer: ApiClient, context: Any) -> None:
    answer = issuer.post_json("/v1/authorization/check", question({}, context=context))
    assert (answer.status_code, answer.json()["code"]) == (400, "GRANT_INVALID")


def test_a_question_may_assume_circumstances(issuer: ApiClient, the_worker: ApiClient) -> None:
    signed = issuer.post_json("/v1/grants", wanted(constraints={"environments": ["production"]})).json()
    for environment, allowed in (("production", True), ("staging", False), (None, False)):
        asked = question(signed, context={"environment": environment})
        assert the_worker.post_json("/v1/authorization/check", asked).json()["allowed"] is allowed


def test_the_public_key_verifies_a_grant_with_nothing_but_a_library(issuer: ApiClient, the_worker: ApiClient) -> None:
    signed = issuer.post_json("/v1/grants", wanted()).json()
    ring = the_worker.get("/v1/authorization/key").json()
    assert ring["key_id"] == signed["key_id"] == ring["keys"][0]["key_id"]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(ring["public_key"]))
    key.verify(bytes.fromhex(signed["signature"]), orjson.dumps(signed["grant"]))
    assert "seed" not in str(ring)


def test_refused_grants_leave_an_audit_event_with_who_and_why(
    issuer: ApiClient, api: Callable[..., ApiClient], make_key: Callable[..., Any]
) -> None:
    key = make_key(scopes=["grants:write"])
    answer = api(key).post_json("/v1/grants", wanted())
    event = AuditEvent.objects.filter(action="request.refused").get()
    assert (event.key_id, event.code, event.target) == (key.key.id, "GRANT_SCOPE_DENIED", "POST /v1/grants")
    assert (event.namespace, event.request_id) == ("test", answer["X-Request-ID"])
