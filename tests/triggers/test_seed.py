"""The reference's nine acceptance tests of state triggers, S1 to S9, with its ids, instants and states."""

import hashlib
from typing import Any

import pytest

from apps.http.errors import ApiError
from apps.keys.grants.form import GrantSubject, Resource
from apps.keys.grants.services import issue
from apps.workloads import services as work
from feltdb_engine import Mutation
from tests.triggers.conftest import BY

WORKER = {"worker_id": "worker", "principal": "service:k1"}


def claim(world: Any, workload_id: str, *, capabilities: set[str], now_ms: int) -> Any:
    wanted = work.ClaimById(
        namespace=world.namespace,
        workload_id=workload_id,
        capabilities=frozenset(capabilities),
        lease_ms=30_000,
        **WORKER,
    )
    return work.claim(wanted, now_ms=now_ms)


def grant(*, subject: dict[str, str], tenant: str, application: str) -> dict[str, Any]:
    return {
        "grant": {
            "contract_version": 1,
            "id": "trigger-grant",
            "subject": subject,
            "tenant_id": tenant,
            "application_id": application,
            "capabilities": ["workload:execute"],
        },
        "key_id": "k",
        "signature": "00",
    }


# S1
def test_matching_change_creates_workload_with_provenance(world: Any) -> None:
    world.define("on-order")
    committed = world.put("orders", "1", {"status": "new"})
    created = world.evaluate()

    change_id = f"{committed.instance_id}:{committed.revision}"
    assert [(row.trigger_id, row.source_change_id) for row in created] == [("on-order", change_id)]
    assert not created[0].duplicate
    workload = world.workload(created[0].workload_id)
    assert workload.state == "READY"
    assert workload.trigger == "state_change:on-order"
    assert workload.definition_id == "identity"
    assert workload.created_at_ms == 10
    request = workload.request
    assert request.idempotency_key == f"state-trigger:on-order:{change_id}"
    assert (request.requester_kind, request.requester_id) == ("agent", "trigger-agent")
    operation = world.store.changes(None).operations[0]
    provenance = request.input["provenance"]
    contract_input = (
        '{"change":{"change_kind":"insert","collection":"orders","value":{"status":"new"}},'
        '"contract":"feltdb.trigger.match","trigger":{"change_kind":"insert","enabled":true,'
        '"source_collection":"orders"},"version":1}'
    )
    assert provenance.pop("contract") == {
        "id": "feltdb.trigger.match",
        "version": 1,
        "runtime": "native",
        "input_digest": "sha256:" + hashlib.sha256(contract_input.encode()).hexdigest(),
    }
    assert provenance == {
        "trigger_id": "on-order",
        "trigger_revision": 1,
        "source_change_id": change_id,
        "source_collection": "orders",
        "source_key": "orders:1",
        "change_kind": "insert",
        "depth": 1,
    }
    assert request.input["source"] == {
        "origin": committed.instance_id,
        "sequence": committed.revision,
        "key": "orders:1",
        "collection": "orders",
        "content_hash": operation.content_hash,
    }
    assert request.input["record"] == {"status": "new"}


# S2
def test_nonmatching_change_creates_nothing(world: Any) -> None:
    world.define("on-order")
    world.put("customers", "1", {"name": "Ada"})
    assert world.evaluate() == []
    assert world.workloads() == []


# S3
def test_predicate_accepts_and_rejects_deterministically(world: Any) -> None:
    world.define("paid", predicate={"field": "status", "equals": "paid"})
    world.put("orders", "1", {"status": "draft"})
    world.put("orders", "2", {"status": "paid"})
    created = world.evaluate()
    assert len(created) == 1
    assert world.workload(created[0].workload_id).request.input["record"] == {"status": "paid"}


# S4
def test_multiple_triggers_create_independent_workloads(world: Any) -> None:
    world.define("one")
    world.define("two")
    world.put("orders", "1", {"status": "paid"})
    created = world.evaluate()
    assert [row.trigger_id for row in created] == ["one", "two"]
    assert len({row.workload_id for row in created}) == 2
    assert len(world.workloads()) == 2


# S5
def test_duplicate_and_replayed_change_create_exactly_one_workload(world: Any) -> None:
    world.define("on-order")
    world.put("orders", "1", {"status": "paid"})
    first = world.evaluate()
    assert len(first) == 1
    assert world.evaluate() == []  # the durable cursor is past the change

    world.set_cursor(0)
    world.restart()
    replayed = world.evaluate()
    assert [(row.workload_id, row.duplicate) for row in replayed] == [(first[0].workload_id, True)]
    assert len(world.workloads()) == 1


# S6
def test_restart_after_observing_before_workload_creation_replays(world: Any) -> None:
    world.define("on-order")
    world.put("orders", "1", {"status": "paid"})
    world.restart()
    assert len(world.evaluate()) == 1
    assert len(world.workloads()) == 1


# S7
def test_future_eligibility_and_unsupported_capability_are_preserved(world: Any) -> None:
    world.define(
        "future", target_capability="missing-capability", capability_snapshot=["missing-capability"], not_before=1_000
    )
    world.put("orders", "1", {"status": "paid"})
    workload = world.workload(world.evaluate()[0].workload_id)
    assert workload.eligible_at_ms == 1_000_000  # the reference counts seconds, we milliseconds
    with pytest.raises(ApiError) as refused:
        claim(world, workload.workload_id, capabilities={"identity"}, now_ms=1_000_000 - 1)
    assert refused.value.code in ("WORKLOAD_NOT_YET_ELIGIBLE", "WORKLOAD_CAPABILITY_DENIED")
    with pytest.raises(ApiError) as refused:
        claim(world, workload.workload_id, capabilities={"identity"}, now_ms=1_001_000)
    assert refused.value.code == "WORKLOAD_CAPABILITY_DENIED"


# S8
def test_cancellation_and_retry_use_normal_workload_semantics(world: Any) -> None:
    world.define("life", retry_policy={"max_attempts": 1})
    world.put("orders", "1", {"status": "paid"})
    world.put("orders", "2", {"status": "paid"})
    first, second = (row.workload_id for row in world.evaluate())

    work.cancel(world.namespace, first, actor="operator", now_ms=11)
    assert world.workload(first).state == "CANCELLED"
    with pytest.raises(ApiError) as refused:
        work.retry(world.namespace, first, actor="operator", now_ms=12)
    assert refused.value.code == "WORKLOAD_TRANSITION_DENIED"

    claimed = claim(world, second, capabilities={"identity"}, now_ms=12)
    work.start(claimed.fence, now_ms=13)
    work.fail(claimed.fence, work.Failure(kind="worker_failure", error="crashed"), now_ms=14)
    assert world.workload(second).state == "DEAD_LETTER"
    work.retry(world.namespace, second, actor="operator", now_ms=15)
    assert world.workload(second).state == "READY"


# S9
def test_atomic_transaction_changes_are_replayed_into_triggers(world: Any) -> None:
    world.define("on-order")
    world.write(
        Mutation(kind="insert", collection="orders", id="1", value={"status": "paid"}),
        Mutation(kind="insert", collection="lines", id="1", value={"order": 1}),
        transaction_id="tx-1",
    )
    assert len(world.evaluate()) == 1


def test_the_reference_json_is_accepted_as_it_is(world: Any) -> None:
    """Every member that the reference writes, nulls and sets included; the grant is one that this server issued."""
    subject = {"kind": "agent", "id": "trigger-agent"}
    issued = issue(
        BY,
        tenant_id=world.namespace,
        application_id="app",
        subject=GrantSubject("agent", "trigger-agent"),
        capabilities=["workload:create", "workload:execute"],
        scopes=[Resource("RESOURCE_PREFIX", "flow://app/workloads")],
        expires_at=3600,
        now_ms=world.now_ms,
        grant_id="trigger-grant",
    )
    world.define(
        "whole",
        predicate=None,
        environment="production",
        definition_revision="r1",
        requested_by=subject,
        authorization_snapshot=issued.signed().wire(),
        capability_snapshot=["identity"],
        connection_scopes=[],
        priority=3,
        retry_policy={
            "max_attempts": 3,
            "initial_delay_ms": 1000,
            "max_delay_ms": 300000,
            "backoff": "exponential",
            "retry_on": ["timeout", "worker_failure"],
        },
        timeouts={
            "queue_ms": None,
            "claim_ms": None,
            "execution_ms": 5000,
            "heartbeat_ms": None,
            "overall_ms": None,
            "approval_ms": None,
        },
        not_before=None,
        enabled=True,
    )
    world.put("orders", "1", {"status": "new"})
    workload = world.workload(world.evaluate()[0].workload_id)
    assert workload.priority == 3
    assert workload.timeouts == {"execution_ms": 5000}
    assert workload.request.retry_policy["retry_on"] == ["timeout", "worker_failure"]
    assert workload.request.definition_revision == "r1"
    assert workload.request.authorization_snapshot["grant"]["id"] == "trigger-grant"


@pytest.mark.parametrize("member", ["subject", "tenant_id", "application_id"])
def test_a_snapshot_that_does_not_bind_the_requester_is_refused(world: Any, member: str) -> None:
    subject = {"kind": "agent", "id": "trigger-agent"}
    snapshot = grant(subject=subject, tenant=world.namespace, application="app")
    snapshot["grant"][member] = {"kind": "agent", "id": "other"} if member == "subject" else "other"
    with pytest.raises(ApiError) as refused:
        world.define("bound", requested_by=subject, authorization_snapshot=snapshot)
    assert (refused.value.code, refused.value.status) == ("TRIGGER_UNAUTHORIZED", 400)


@pytest.mark.parametrize(
    "member", ["trigger_id", "source_collection", "target_capability", "application_id", "tenant_id", "change_kind"]
)
def test_a_blank_member_is_refused_by_its_name(world: Any, member: str) -> None:
    with pytest.raises(ApiError) as refused:
        world.define(**{member: " "})
    assert (refused.value.code, refused.value.status) == ("TRIGGER_INVALID", 400)
    assert refused.value.details["field"] == member
