"""Evaluation by hand in one process: what fires, what does not, what is put aside, and what is done twice (nothing)."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.http.errors import ApiError
from apps.triggers import limits, services
from apps.triggers.models import NamespacePosition, TriggerCursor, TriggerQuarantine
from apps.workloads import services as workloads
from apps.workloads.commands import ClaimNext
from feltdb_engine import Actor, Mutation
from tests.triggers.conftest import BY


def put(record_id: int | str, value: dict[str, Any] | None = None, collection: str = "orders") -> Mutation:
    return Mutation(kind="put", collection=collection, id=str(record_id), value=value or {"n": record_id})


def records(world: Any) -> list[Any]:
    return [row.request.input["record"] for row in world.workloads()]


# what fires
def test_each_kind_of_change_reaches_the_triggers_that_watch_it(world: Any) -> None:
    for kind in ("insert", "update", "delete"):
        world.define(f"on-{kind}", change_kind=kind)
    world.define("on-all", change_kind=["delete", "insert", "update"])
    world.put("orders", "1", {"n": 1})
    world.put("orders", "1", {"n": 2})
    world.delete("orders", "1")
    world.delete("orders", "1")  # removing nothing is no change
    fired = [row.trigger_id for row in world.evaluate()]
    assert fired == ["on-all", "on-insert", "on-all", "on-update", "on-all", "on-delete"]


def test_a_delete_is_matched_on_the_record_it_removed_and_hands_it_over(world: Any) -> None:
    world.define("gone", change_kind="delete", predicate={"field": "status", "equals": "paid"})
    world.put("orders", "1", {"status": "paid", "total": 9})
    world.put("orders", "2", {"status": "draft"})
    world.delete("orders", "1")
    world.delete("orders", "2")
    assert len(world.evaluate()) == 1
    handed = world.workloads()[0].request.input
    assert handed["record"] == {"status": "paid", "total": 9}
    assert handed["provenance"]["change_kind"] == "delete"
    assert handed["source"]["key"] == "orders:1"


def test_a_tree_decides_which_changes_fire(world: Any) -> None:
    tree = {"all": [{"field": "total", "op": "gte", "value": 100}, {"not": {"field": "status", "equals": "draft"}}]}
    world.define("big", predicate=tree)
    for number, (total, status) in enumerate([(100, "paid"), (99, "paid"), (500, "draft"), (100.5, "new")]):
        world.put("orders", str(number), {"total": total, "status": status})
    world.evaluate()
    assert [record["total"] for record in records(world)] == [100, 100.5]
    assert world.workloads()[0].request.input["provenance"]["contract"]["version"] == 2


def test_every_operation_of_a_transaction_is_a_change_of_its_own(world: Any) -> None:
    world.define()
    world.write(*[put(number) for number in range(5)], put(1, collection="other"))
    assert [row.source_change_id.rpartition(":")[2] for row in world.evaluate()] == ["1", "2", "3", "4", "5"]


def test_delay_counts_from_the_change_and_not_from_its_evaluation(world: Any) -> None:
    world.define(delay_ms=5_000)
    world.now_ms = 100
    world.put("orders", "1", {})
    world.now_ms = 90_000
    world.evaluate()
    assert world.workloads()[0].request.not_before_at_ms == 5_100


# where triggers start, and what passes them by
def test_a_trigger_added_later_sees_what_comes_after_it(world: Any) -> None:
    world.define("first")
    world.put("orders", "1", {})
    world.define("later")
    world.put("orders", "2", {})
    fired = [(row.trigger_id, row.source_change_id[-1]) for row in world.evaluate()]
    assert fired == [("first", "1"), ("first", "2"), ("later", "2")]


def test_a_trigger_may_start_at_the_beginning_or_at_a_cursor(world: Any) -> None:
    for number in range(3):
        world.put("orders", str(number), {})
    second = world.store.changes(None, limit=1)
    world.define("all", start_from="beginning")
    world.define("some", start_from=str(second.cursor))
    fired = [(row.trigger_id, row.source_change_id[-1]) for row in world.evaluate()]
    assert sorted(fired) == [("all", "1"), ("all", "2"), ("all", "3"), ("some", "2"), ("some", "3")]


def test_changes_pass_a_disabled_trigger_and_enabling_starts_from_now(world: Any) -> None:
    world.define()
    services.disable(world.namespace, "on-order", by=BY, now_ms=11)
    world.put("orders", "passed-by", {})
    assert world.evaluate() == []
    services.enable(world.namespace, "on-order", by=BY, now_ms=12)
    assert world.evaluate() == []
    world.put("orders", "seen", {})
    assert len(world.evaluate()) == 1


def test_enabling_from_the_beginning_makes_up_for_what_passed_by(world: Any) -> None:
    world.define(enabled=False)
    world.put("orders", "1", {})
    services.enable(world.namespace, "on-order", by=BY, now_ms=12, start_from="beginning")
    assert len(world.evaluate()) == 1


def test_a_paused_trigger_keeps_its_place_and_catches_up(world: Any) -> None:
    world.define()
    services.pause(world.namespace, "on-order", by=BY, now_ms=11, reason="maintenance", resumes_at_ms=50)
    world.put("orders", "1", {})
    assert world.evaluate() == []
    assert services.resume_due(now_ms=49) == 0
    assert services.resume_due(now_ms=50) == 1
    assert len(world.evaluate()) == 1


def test_a_new_definition_holds_for_every_change_not_yet_evaluated(world: Any) -> None:
    world.define(predicate={"field": "n", "equals": 1})
    world.put("orders", "1", {"n": 1})
    world.put("orders", "2", {"n": 2})
    world.define(predicate={"field": "n", "equals": 2})
    assert len(world.evaluate()) == 1
    handed = world.workloads()[0].request.input
    assert handed["record"] == {"n": 2}
    assert handed["provenance"]["trigger_revision"] == 2


def test_a_change_evaluated_before_a_redefinition_is_not_done_again_after_it(world: Any) -> None:
    world.define(priority=1)
    world.put("orders", "1", {})
    first = world.evaluate()
    world.define(priority=2, target_capability="search")
    world.set_cursor(0)
    again = world.evaluate()
    assert [(row.workload_id, row.duplicate) for row in again] == [(first[0].workload_id, True)]
    assert [row.priority for row in world.workloads()] == [1]


def test_an_archived_trigger_is_silent_and_its_id_revived_makes_no_work_twice(world: Any) -> None:
    world.define()
    world.put("orders", "1", {})
    first = world.evaluate()
    services.archive(world.namespace, "on-order", by=BY, now_ms=11)
    world.put("orders", "2", {})
    assert world.evaluate() == []
    world.define(start_from="beginning")
    again = world.evaluate()
    assert [row.duplicate for row in again] == [True, False]
    assert again[0].workload_id == first[0].workload_id
    assert len(world.workloads()) == 2


def test_namespaces_do_not_see_each_other(world: Any, other_world: Callable[[str], Any]) -> None:
    other = other_world("other")
    world.define()
    other.define()
    world.put("orders", "1", {})
    assert other.evaluate() == []
    assert len(world.evaluate()) == 1


# many at once
def test_more_matches_than_a_batch_holds_are_all_made_in_order(world: Any) -> None:
    world.define()
    count = 2 * limits.BATCH_ROWS + 7
    world.write(*[put(number) for number in range(count)])
    results = world.evaluate()
    assert [int(row.source_change_id.rpartition(":")[2]) for row in results] == list(range(1, count + 1))
    assert len(world.workloads()) == count


def test_one_change_may_fire_more_triggers_than_a_batch_holds(world: Any) -> None:
    count = limits.BATCH_ROWS + 3
    for number in range(count):
        world.define(f"t{number:03}")
    world.put("orders", "1", {})
    world.put("orders", "2", {})
    results = world.evaluate()
    assert len(results) == 2 * count
    assert len(world.workloads()) == 2 * count
    assert set(TriggerCursor.objects.values_list("sequence", flat=True)) == {2}


def test_cursors_far_apart_are_all_served(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.triggers.evaluation import standing, walker

    monkeypatch.setattr(standing, "SCAN_OPERATIONS", 3)
    monkeypatch.setattr(walker, "SCAN_OPERATIONS", 3)
    world.define("old")
    for number in range(20):
        world.put("orders", str(number), {})
    world.define("young")
    world.put("orders", "last", {})
    results = world.evaluate()
    assert sum(row.trigger_id == "old" for row in results) == 21
    assert sum(row.trigger_id == "young" for row in results) == 1
    assert {world.cursor("old"), world.cursor("young")} == {21}


def test_changes_that_match_nothing_move_the_cursor_all_the_same(world: Any) -> None:
    world.define()
    for number in range(10):
        world.put("other", str(number), {})
    world.evaluate()
    assert world.cursor() == 10


# what cannot become work
def test_a_poisoned_change_is_put_aside_and_hinders_nothing(world: Any) -> None:
    world.define("one")
    world.define("two", predicate={"field": "n", "op": "exists", "value": True})
    world.put("orders", "1", {"n": 1})
    world.put("orders", "2", {"password": "hunter2"})
    world.put("orders", "3", {"n": 3})
    fired = [(row.trigger_id, row.source_change_id[-1]) for row in world.evaluate()]
    assert fired == [("one", "1"), ("two", "1"), ("one", "3"), ("two", "3")]
    [aside] = TriggerQuarantine.objects.all()
    assert (aside.trigger.trigger_id, aside.sequence, aside.record_key) == ("one", 2, "orders:2")
    assert aside.code == "WORKLOAD_SECRET_REJECTED"
    assert "hunter2" not in aside.message
    assert world.cursor("one") == 3


def test_a_poisoned_change_seen_again_is_put_aside_once(world: Any) -> None:
    world.define()
    world.put("orders", "1", {"password": "hunter2"})
    world.evaluate()
    world.set_cursor(0)
    assert world.evaluate() == []
    assert TriggerQuarantine.objects.count() == 1


def test_a_record_too_large_to_be_handed_over_is_put_aside(world: Any) -> None:
    world.define()
    world.put("orders", "1", {"text": "x" * (1024 * 1024 - 20)})
    assert world.evaluate() == []
    assert TriggerQuarantine.objects.get().code == "WORKLOAD_INVALID"


def test_a_trigger_is_not_fed_by_its_own_work(world: Any) -> None:
    world.define("loop", change_kind=["insert", "update"])
    world.put("orders", "1", {"n": 1})
    [made] = world.evaluate()
    own = Actor(workload_id=made.workload_id, trigger_id="loop")
    world.put("orders", "1", {"n": 2}, actor=own)
    assert world.evaluate() == []
    assert TriggerQuarantine.objects.get().code == "TRIGGER_FEEDS_ITSELF"


def test_a_place_in_a_trace_goes_from_the_change_to_its_work_and_to_what_the_work_writes(world: Any) -> None:
    traced = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    world.define("traced")
    world.put("orders", "1", {"n": 1}, actor=Actor(traceparent=traced))
    world.put("orders", "2", {"n": 1})
    with_it, without = [world.workload(made.workload_id) for made in world.evaluate()]
    assert with_it.request.input["provenance"]["traceparent"] == traced
    assert "traceparent" not in without.request.input["provenance"]
    asked = ClaimNext(
        namespace=world.namespace,
        worker_id="w",
        principal="w",
        capabilities=frozenset(with_it.lane.capabilities),
        max=2,
    )
    claims = workloads.claim_next(asked, now_ms=world.now_ms)
    assert sorted(claim.traceparent or "" for claim in claims) == ["", traced]


def test_a_depth_limit_allows_a_trigger_to_feed_itself_that_often(world: Any) -> None:
    world.define("loop", change_kind=["insert", "update"], depth_limit=3)
    world.put("orders", "1", {"n": 0})
    made = world.evaluate()
    rounds = 0
    while made:
        rounds += 1
        actor = Actor(workload_id=made[0].workload_id, trigger_id="loop")
        world.put("orders", "1", {"n": rounds}, actor=actor)
        made = world.evaluate()
    assert rounds == 3
    assert [row.request.input["provenance"]["depth"] for row in world.workloads()] == [1, 2, 3]
    assert "3" in TriggerQuarantine.objects.get().message


def test_a_circle_of_triggers_ends_at_the_depth_that_holds_for_all(world: Any) -> None:
    world.define("ping", source_collection="pings")
    world.define("pong", source_collection="pongs")
    world.put("pings", "0", {})
    made, rounds = world.evaluate(), 0
    while made:
        rounds += 1
        [row] = made
        target = "pongs" if row.trigger_id == "ping" else "pings"
        world.put(target, str(rounds), {}, actor=Actor(workload_id=row.workload_id, trigger_id=row.trigger_id))
        made = world.evaluate()
    assert rounds == limits.MAX_DEPTH


# store and database that do not belong together
def test_work_under_a_known_key_by_another_change_stops_the_trigger_and_is_no_duplicate(world: Any) -> None:
    from apps.workloads.models import Request

    world.define("mine")
    world.define("other", source_collection="others")
    world.put("orders", "1", {})
    world.evaluate()
    request = Request.objects.get()
    source = {**request.input["source"], "content_hash": "0" * 64}
    Request.objects.update(input={**request.input, "source": source}, fingerprint="0" * 64)
    world.set_cursor(0, "mine")
    world.put("others", "1", {})
    results = world.evaluate()
    assert [row.trigger_id for row in results] == ["other"]
    trigger = world.trigger("mine")
    assert (trigger.state, trigger.reason_code) == ("blocked", "CONTROL_PLANE_MISMATCH")
    assert world.cursor("mine") == 0


def test_a_store_that_lost_what_was_seen_stops_the_namespace(world: Any, tmp_path: Any) -> None:
    import shutil

    world.define()
    world.put("orders", "1", {})
    world.restart()
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "namespaces" / world.namespace, kept)
    world.put("orders", "2", {})
    world.evaluate()
    world.restart()
    shutil.rmtree(tmp_path / "namespaces" / world.namespace)
    shutil.copytree(kept, tmp_path / "namespaces" / world.namespace)
    world.put("orders", "3", {})
    for _ in range(2):  # it stands until an operator acts
        with pytest.raises(ApiError) as stopped:
            world.evaluate()
        assert stopped.value.code == "CONTROL_PLANE_MISMATCH"
    assert len(world.workloads()) == 2
    assert NamespacePosition.objects.get().mismatch_code == "CONTROL_PLANE_MISMATCH"
    assert services.status(world.namespace, now_ms=world.now_ms)["mismatch"]["code"] == "CONTROL_PLANE_MISMATCH"


def test_another_store_in_the_directory_stops_the_namespace(world: Any, tmp_path: Any) -> None:
    import shutil

    world.define()
    world.put("orders", "1", {})
    world.evaluate()
    world.restart()
    shutil.rmtree(tmp_path / "namespaces" / world.namespace)
    with pytest.raises(ApiError) as stopped:
        world.evaluate()
    assert stopped.value.code == "CONTROL_PLANE_MISMATCH"


def test_history_that_is_gone_blocks_the_trigger_that_needed_it_and_no_other(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from feltdb_engine import Store
    from feltdb_engine.errors import FeedCompacted

    world.define("behind")
    for number in range(3):
        world.put("orders", str(number), {})
    world.define("ahead")
    world.put("orders", "last", {})
    changes = Store.changes

    def compacted(self: Any, after: Any, **kwargs: Any) -> Any:
        if after is not None and after.sequence < 2:
            raise FeedCompacted("The history after this cursor is gone.", floor=2, head=4)
        return changes(self, after, **kwargs)

    monkeypatch.setattr(Store, "changes", compacted)
    assert [row.trigger_id for row in world.evaluate()] == ["ahead"]
    behind = world.trigger("behind")
    assert (behind.state, behind.reason_code) == ("blocked", "FEED_COMPACTED")
    assert services.status(world.namespace, now_ms=world.now_ms)["held_up"][0]["code"] == "FEED_COMPACTED"


def test_the_feed_failing_changes_nothing_and_is_tried_again(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from feltdb_engine import Store
    from feltdb_engine.errors import StorageFailed

    world.define()
    world.put("orders", "1", {})
    with monkeypatch.context() as patch:
        patch.setattr(Store, "changes", lambda *_, **__: (_ for _ in ()).throw(StorageFailed("a force failed")))
        with pytest.raises(ApiError) as failed:
            world.evaluate()
    assert (failed.value.code, failed.value.status) == ("TRIGGER_STATE_REPLAY_FAILED", 503)
    assert len(world.evaluate()) == 1
