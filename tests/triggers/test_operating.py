"""What operators do: rebase, skip, retry, and letting a blocked trigger go on. Each is in the audit."""

from typing import Any

import pytest

from apps.http.errors import ApiError
from apps.triggers import services
from apps.triggers.models import TriggerQuarantine, TriggerRevision
from tests.triggers.conftest import BY
from tests.triggers.operated import act, audited, block, fired, refusal, without_secrets


# rebase
def test_rebasing_forwards_passes_changes_over(three: Any) -> None:
    act(three, "rebase", to="now")
    assert three.evaluate() == []
    three.put("orders", "4", {})
    assert fired(three.evaluate()) == [4]


def test_rebasing_back_finds_the_work_already_there(three: Any) -> None:
    three.evaluate()
    act(three, "rebase", to="beginning")
    again = three.evaluate()
    assert [row.duplicate for row in again] == [True] * 3
    assert len(three.workloads()) == 3


def test_a_rebase_is_a_revision_that_says_from_where_to_where(three: Any) -> None:
    three.evaluate()
    instance = three.store.head().instance_id
    act(three, "rebase", to=f"{instance}-1")
    revision = TriggerRevision.objects.latest("pk")
    assert (revision.action, revision.reason) == ("rebase", "because")
    assert revision.diff["cursor"] == [f"{instance}-3", f"{instance}-1"]
    assert audited()[-1] == ("trigger.rebase", "on-order", "because")


def test_a_rebase_lets_a_blocked_trigger_go_on_and_leaves_a_paused_one_paused(three: Any) -> None:
    block(three, "FEED_COMPACTED")
    assert act(three, "rebase", to="now").state == "active"
    act(three, "pause")
    assert act(three, "rebase", to="beginning").state == "paused"
    assert three.evaluate() == []
    act(three, "resume")
    assert len(three.evaluate()) == 3


def test_what_is_no_place_to_rebase_to_is_refused(three: Any) -> None:
    assert refusal(three, "rebase", to="somewhere") == "TRIGGER_INVALID"
    assert refusal(three, "rebase", to="00-1") == "TRIGGER_INVALID"
    assert refusal(three, "rebase", to="now", trigger_id="unknown") == "TRIGGER_NOT_FOUND"
    act(three, "disable")
    assert refusal(three, "rebase", to="now") == "CONFLICT"


# blocked
def test_a_blocked_trigger_keeps_its_place_and_goes_on_from_there(three: Any) -> None:
    block(three)
    assert three.evaluate() == []
    assert services.status(three.namespace, now_ms=20)["held_up"] == [
        {"trigger_id": "on-order", "state": "blocked", "code": "FEED_COMPACTED", "message": "why"}
    ]
    act(three, "resume")
    assert fired(three.evaluate()) == [1, 2, 3]


def test_one_whose_authority_has_ended_is_enabled_not_resumed(three: Any) -> None:
    block(three, "GRANT_REVOKED")
    assert refusal(three, "resume") == "CONFLICT"
    act(three, "enable")
    assert fired(three.evaluate()) == [1, 2, 3]


def test_enabling_a_blocked_trigger_passes_nothing_over_unless_told_to(three: Any) -> None:
    block(three)
    act(three, "enable")
    assert fired(three.evaluate()) == [1, 2, 3]
    three.put("orders", "4", {})
    block(three)
    act(three, "enable", start_from="now")
    assert three.evaluate() == []


# skip
def test_a_change_the_trigger_has_not_come_to_can_be_skipped(three: Any) -> None:
    act(three, "skip", "2")
    assert fired(three.evaluate()) == [1, 3]
    row = TriggerQuarantine.objects.get()
    assert (row.code, row.sequence, row.resolved_by, row.resolution) == ("SKIPPED", 2, BY.label, "because")
    assert audited()[-1] == ("trigger.skip", "on-order/2", "because")
    told = services.explain(three.namespace, "on-order", "2")["outcome"]
    assert told == {"kind": "skipped", "code": "SKIPPED", "because": "because"}


def test_a_skipped_change_is_passed_over_for_good(three: Any) -> None:
    act(three, "skip", "2")
    three.evaluate()
    act(three, "rebase", to="beginning")
    act(three, "replay", start_from="beginning", end_at="now")
    assert sorted(fired(three.evaluate())) == [1, 1, 3, 3]


def test_only_the_trigger_it_was_said_to_skips_a_change(three: Any) -> None:
    three.define("other", start_from="beginning")
    act(three, "skip", "2")
    assert sorted((row.trigger_id, row.source_change_id[-1]) for row in three.evaluate()) == [
        ("on-order", "1"),
        ("on-order", "3"),
        ("other", "1"),
        ("other", "2"),
        ("other", "3"),
    ]


def test_an_evaluator_that_has_the_change_in_hand_already_does_not_make_its_work(
    three: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.triggers.test_crashes import meanwhile

    with meanwhile(monkeypatch, lambda: act(three, "skip", "2")):
        assert fired(three.evaluate()) == [1, 3]


def test_a_quarantined_change_can_be_given_up(world: Any) -> None:
    world.define()
    world.put("orders", "1", {"password": "hunter2"})
    world.evaluate()
    assert len(services.quarantined(world.namespace, "on-order", before=None, limit=10)) == 1
    act(world, "skip", "1")
    assert services.quarantined(world.namespace, "on-order", before=None, limit=10) == []
    assert audited()[-1] == ("trigger.skip", "on-order/1", "because")
    assert refusal(world, "retry", "1") == "NOT_FOUND"


def test_a_change_that_made_work_cannot_be_skipped_any_more(three: Any) -> None:
    three.evaluate()
    assert refusal(three, "skip", "2") == "CONFLICT"


# retry
def test_a_retry_that_is_refused_again_says_why_and_leaves_it_in_quarantine(poisoned: Any) -> None:
    assert refusal(poisoned, "retry", "1") == "WORKLOAD_SECRET_REJECTED"
    assert TriggerQuarantine.objects.filter(resolved_at_ms__isnull=True).count() == 1


def test_a_retry_makes_the_work_under_the_change_s_own_key_once(poisoned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without_secrets(monkeypatch)
    made = act(poisoned, "retry", "1")
    assert not made.duplicate
    row = TriggerQuarantine.objects.get()
    assert (row.resolved_by, row.resolution) == (BY.label, f"retried: {made.workload_id}")
    assert audited()[-1] == ("trigger.retry", "on-order/1", "because")
    poisoned.set_cursor(0)
    assert [row.duplicate for row in poisoned.evaluate()] == [True]
    assert len(poisoned.workloads()) == 1
    assert refusal(poisoned, "retry", "1") == "NOT_FOUND"


def test_a_retry_is_by_the_trigger_as_it_is_defined_now(poisoned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without_secrets(monkeypatch)
    poisoned.define(predicate={"field": "n", "equals": 1})
    assert refusal(poisoned, "retry", "1") == "CONFLICT"
    poisoned.define(priority=7, predicate=None)
    act(poisoned, "retry", "1")
    assert poisoned.workloads()[0].priority == 7


def test_a_change_that_stays_a_loop_is_refused_as_such(world: Any) -> None:
    from feltdb_engine import Actor

    world.define(change_kind=["insert", "update"])
    world.put("orders", "1", {})
    [made] = world.evaluate()
    world.put("orders", "1", {"n": 2}, actor=Actor(workload_id=made.workload_id, trigger_id="on-order"))
    world.evaluate()
    assert refusal(world, "retry", "2") == "CONFLICT"
    world.define(change_kind=["insert", "update"], depth_limit=2)
    assert not act(world, "retry", "2").duplicate


# lag
def test_lag_is_told_in_operations_and_in_time(three: Any) -> None:
    status = services.status(three.namespace, now_ms=2_010)
    assert (status["lag_operations"], status["lag_ms"]) == ({"on-order": 3}, {"on-order": 2_000})
    standing = services.standing_of(three.trigger(), now_ms=2_010)
    assert standing == {"lag_operations": 3, "lag_ms": 2_000, "quarantined": 0, "open_replays": 0}
    three.evaluate()
    assert services.status(three.namespace, now_ms=2_010)["lag_ms"] == {"on-order": 0}


def test_what_was_defined_meanwhile_is_not_written_over(world: Any) -> None:
    document = {
        "trigger_id": "on-order",
        "source_collection": "orders",
        "change_kind": "insert",
        "target_capability": "identity",
    }

    def define(seen: int, **members: Any) -> Any:
        return services.define(world.namespace, {**document, **members}, by=BY, now_ms=world.now_ms, seen=seen)

    assert define(0).created
    assert not define(0).changed  # says the same: pressed twice
    for seen, told in ((0, "there is a trigger on-order already"), (7, "has changed meanwhile")):
        with pytest.raises(ApiError, match=told) as refused:
            define(seen, priority=9)
        assert refused.value.code == "CONFLICT"
    assert define(1, priority=9).trigger.revision == 2
    act(world, "archive")
    assert define(0, priority=3).created


def test_a_change_that_was_given_up_is_not_given_up_again_though_the_trigger_comes_to_it_once_more(three: Any) -> None:
    change = f"{three.store.head().instance_id}:2"
    act(three, "rebase", to="beginning")
    act(three, "skip", change)
    with pytest.raises(ApiError, match="has seen to change 2 already: because") as refused:
        act(three, "skip", change)
    assert refused.value.code == "CONFLICT"
