"""A trigger's work runs under a grant, and a trigger whose grant has ended is blocked where it stands."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.http.errors import ApiError
from apps.keys import services as keys
from apps.keys.grants import services as grants
from apps.keys.grants.form import GrantSubject, Resource
from apps.keys.grants.models import IssuedGrant
from apps.keys.principal import operator
from apps.keys.verify import principal_for
from apps.triggers import services
from apps.triggers.evaluator import Evaluator
from apps.triggers.models import TriggerRevision
from apps.workloads.clock import now_ms
from tests.triggers.conftest import BY

ROOT = operator("root")
LEAST = {
    "trigger_id": "t",
    "source_collection": "orders",
    "change_kind": "insert",
    "target_capability": "identity",
    "application_id": "app",
}


@pytest.fixture
def definer(world: Any, make_key: Callable[..., Any]) -> Any:
    """A key that has defined the trigger `t`."""
    world.now_ms = now_ms()
    issued = make_key(scopes=["triggers:write", "workload:create", "state:read"])
    services.define(world.namespace, LEAST, by=principal_for(issued.key), now_ms=world.now_ms)
    return issued


def end(world: Any, definer: Any, how: str) -> None:
    if how == "key":
        keys.revoke_key(definer.key.id, by=ROOT)
    else:
        grants.revoke(world.trigger("t").grant_id, ROOT, tenant_id=world.namespace, now_ms=world.now_ms)


def test_a_triggers_work_carries_the_grant_of_who_defined_it(world: Any, definer: Any) -> None:
    world.put("orders", "1", {})
    [made] = world.evaluate()
    grant_id = world.workload(made.workload_id).lane.grant_id
    assert grant_id == world.trigger("t").grant_id
    grant = IssuedGrant.objects.get(grant_id=grant_id).signed().grant
    assert grant.subject.id == definer.key.id and "workload:create" in grant.capabilities


@pytest.mark.parametrize("how", ["key", "grant"])
def test_a_trigger_whose_authority_ended_is_blocked_before_it_makes_work_and_loses_nothing(
    world: Any, definer: Any, how: str
) -> None:
    world.define("other")
    world.put("orders", "1", {})
    end(world, definer, how)
    world.put("orders", "2", {})
    assert {row.trigger_id for row in world.evaluate()} == {"other"}
    blocked = world.trigger("t")
    assert (blocked.state, blocked.reason_code, world.cursor("t")) == ("blocked", "GRANT_REVOKED", 0)
    world.put("orders", "3", {})
    services.enable(world.namespace, "t", by=BY, now_ms=world.now_ms)
    assert world.trigger("t").grant_id != blocked.grant_id
    made = [row for row in world.evaluate() if row.trigger_id == "t"]
    assert [row.source_change_id.partition(":")[2] for row in made] == ["1", "2", "3"]
    assert {world.workload(row.workload_id).lane.grant_id for row in made} == {world.trigger("t").grant_id}


def test_an_evaluator_with_nothing_new_notices_that_authority_ended(world: Any, definer: Any) -> None:
    evaluator = Evaluator()
    evaluator.run_once()
    assert world.trigger("t").state == "active"
    end(world, definer, "key")
    evaluator.run_once()
    assert (world.trigger("t").state, world.trigger("t").reason_code) == ("blocked", "GRANT_REVOKED")
    evaluator.close()


def test_whoever_revises_a_trigger_lends_it_their_authority_and_the_same_again_changes_nothing(
    world: Any, definer: Any
) -> None:
    before = world.trigger("t").grant_id
    services.define(world.namespace, LEAST | {"requested_by": None}, by=principal_for(definer.key), now_ms=world.now_ms)
    assert world.trigger("t").grant_id == before and world.trigger("t").revision == 1
    services.revise(world.namespace, "t", {"priority": 3}, by=BY, now_ms=world.now_ms)
    after = world.trigger("t")
    assert after.grant_id != before
    assert TriggerRevision.objects.get(trigger=after, revision=2).diff["grant_id"] == [before, after.grant_id]
    assert (after.requested_by_kind, after.requested_by_id) == ("service", definer.key.id)


def test_who_may_not_make_work_defines_no_trigger(world: Any, make_key: Callable[..., Any]) -> None:
    with pytest.raises(ApiError) as refused:
        services.define("test", LEAST, by=principal_for(make_key(scopes=["triggers:write"]).key), now_ms=now_ms())
    assert (refused.value.code, refused.value.status) == ("TRIGGER_UNAUTHORIZED", 400)
    assert "workload:create" in refused.value.message


def test_a_named_grant_is_verified_when_a_trigger_is_defined(world: Any) -> None:
    world.now_ms = now_ms()
    subject = {"kind": "agent", "id": "trigger-agent"}
    asked = {
        "tenant_id": world.namespace,
        "application_id": "app",
        "subject": GrantSubject("agent", "trigger-agent"),
        "capabilities": ["workload:create"],
        "scopes": [Resource("RESOURCE_PREFIX", "flow://app/workloads")],
        "expires_at": world.now_ms // 1000 + 3600,
        "now_ms": world.now_ms,
    }
    good = grants.issue(ROOT, **asked).signed().wire()
    for bad in (
        {**good, "signature": f"{int(good['signature'], 16) ^ 1:0{len(good['signature'])}x}"},
        {**good, "grant": {**good["grant"], "expires_at": good["grant"]["expires_at"] + 1}},
        grants.issue(ROOT, **asked | {"capabilities": ["state:read"]}).signed().wire(),
        grants.issue(ROOT, **asked | {"scopes": [Resource("COLLECTION", "flow://app/state/x")]}).signed().wire(),
    ):
        with pytest.raises(ApiError) as refused:
            world.define("bound", requested_by=subject, authorization_snapshot=bad)
        assert (refused.value.code, refused.value.status) == ("TRIGGER_UNAUTHORIZED", 400)
    assert world.define("bound", requested_by=subject, authorization_snapshot=good).grant_id == good["grant"]["id"]
