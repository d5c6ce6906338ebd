"""Dry runs and explanations: what would fire, what did not and why. Neither writes anything."""

from typing import Any

import pytest
from django.apps import apps

from apps.http.errors import ApiError
from apps.triggers import limits, services
from feltdb_engine import Actor, Mutation
from tests.triggers.conftest import BY

PAID = {"field": "status", "equals": "paid"}
BIG = {"field": "total", "op": "gte", "value": 100}
WHOLE = {"source_collection": "orders", "change_kind": "insert", "target_capability": "identity"}


def dry_run(world: Any, trigger_id: str = "on-order", members: Any = None, **kwargs: Any) -> dict[str, Any]:
    return services.dry_run(world.namespace, trigger_id, members or {}, by=BY, **kwargs)


def explain(world: Any, sequence: int | str, trigger_id: str = "on-order") -> dict[str, Any]:
    return services.explain(world.namespace, trigger_id, str(sequence))


def keys(found: Any) -> list[str]:
    return [each["record_key"] for each in found["samples"]]


@pytest.fixture
def orders(world: Any) -> Any:
    for number, (status, total) in enumerate([("paid", 50), ("paid", 150), ("draft", 500), ("draft", 1)]):
        world.put("orders", str(number), {"status": status, "total": total})
        world.put("others", str(number), {})
    return world


def rows_of_everything() -> int:
    return sum(model._default_manager.count() for model in apps.get_models())


# dry run
def test_a_new_definition_is_tried_on_the_changes_there_are_and_nothing_is_written(orders: Any) -> None:
    before = rows_of_everything()
    ran = dry_run(orders, "not-there", {**WHOLE, "predicate": PAID})
    assert (ran["matched"], ran["changes"], ran["operations"], ran["next_from"]) == (2, 4, 8, None)
    assert keys(ran) == ["orders:0", "orders:1"]
    assert ran["against"] is None
    assert rows_of_everything() == before


def test_a_change_of_a_trigger_is_held_against_what_it_says_now(orders: Any) -> None:
    orders.define(predicate=PAID)
    ran = dry_run(orders, members={"predicate": BIG})
    assert ran["matched"] == 2
    assert ran["against"]["matched"] == 2
    assert keys(ran["against"]["only_new"]) == ["orders:2"]
    assert keys(ran["against"]["only_old"]) == ["orders:0"]


def test_a_trigger_tried_as_it_stands_has_nothing_beside_it(orders: Any) -> None:
    orders.define(predicate=PAID)
    ran = dry_run(orders)
    assert (ran["matched"], ran["against"]) == (2, None)


def test_what_matches_and_could_not_become_work_is_told_apart(orders: Any) -> None:
    orders.put("orders", "poison", {"password": "hunter2"})
    ran = dry_run(orders, "new", WHOLE)
    assert ran["matched"] == 5
    assert ran["refused"]["codes"] == {"WORKLOAD_SECRET_REJECTED": 1}
    assert keys(ran["refused"]) == ["orders:poison"]


def test_a_run_is_bounded_and_says_where_to_go_on(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.triggers.services import trying

    monkeypatch.setattr(trying.limits, "SCAN_OPERATIONS", 2)
    monkeypatch.setattr(trying.limits, "DRY_RUN_OPERATIONS", 3)
    start, matched = "beginning", 0
    for _ in range(10):
        ran = dry_run(orders, "new", {**WHOLE, "predicate": PAID}, start_from=start)
        matched += ran["matched"]
        assert ran["operations"] <= 4
        if ran["next_from"] is None:
            break
        start = ran["next_from"]
    assert matched == 2
    assert dry_run(orders, "new", WHOLE)["from"].rpartition("-")[2] == "5", "recent: the newest there are"


def test_a_run_ends_when_its_time_is_over(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.triggers.services import trying

    monkeypatch.setattr(trying.limits, "SCAN_OPERATIONS", 1)
    ticks = iter([0.0, limits.DRY_RUN_S])
    ran = dry_run(orders, "new", WHOLE, monotonic=lambda: next(ticks))
    assert ran["next_from"] is not None


def test_a_run_out_of_time_stops_inside_a_large_transaction_and_goes_on_there(world: Any) -> None:
    world.store.commit(
        [Mutation(kind="put", collection="orders", id=f"{number:03d}", value={}) for number in range(250)]
    )
    start, looked_at = "beginning", []
    for _ in range(3):
        ran = dry_run(world, "new", WHOLE, start_from=start, within_s=100.0, monotonic=iter([0.0, 100.0]).__next__)
        looked_at.append((ran["changes"], ran["operations"], ran["matched"]))
        start = ran["next_from"]
    assert looked_at == [(100, 100, 100), (100, 100, 100), (50, 50, 50)] and start is None


def test_a_run_reads_no_further_than_its_time_where_nothing_is_of_the_collection(world: Any) -> None:
    for number in range(5):
        world.put("others", str(number), {})
    ran = dry_run(world, "new", WHOLE, start_from="beginning", within_s=0.0)
    assert ran["operations"] < 5 and ran["next_from"] is not None


@pytest.mark.parametrize("members", [{"predicate": {"field": 1}}, {"change_kind": "upsert"}, {"unknown": 1}])
def test_what_is_no_definition_is_refused(orders: Any, members: Any) -> None:
    with pytest.raises(ApiError) as refused:
        dry_run(orders, "new", {**WHOLE, **members})
    assert refused.value.code == "TRIGGER_INVALID"


# explain
def test_each_clause_is_shown_with_the_value_it_found(orders: Any) -> None:
    orders.define(predicate={"all": [PAID, {"any": [BIG, {"field": "vip", "equals": True}]}]}, start_from="beginning")
    orders.evaluate()
    told = explain(orders, 1)
    assert (told["matched"], told["reason"]) == (False, "predicate_value_mismatch")
    assert told["predicate"] == {
        "says": "predicate_value_mismatch",
        "all": [
            {"says": "matched", "clause": PAID, "found": "paid"},
            {
                "says": "predicate_value_mismatch",
                "any": [
                    {"says": "predicate_value_mismatch", "clause": BIG, "found": 50},
                    {"says": "predicate_field_absent", "clause": {"field": "vip", "equals": True}},
                ],
            },
        ],
    }
    assert told["outcome"] == {"kind": "no_match", "because": "the predicate does not hold"}
    assert told["evaluated"]


def test_the_record_before_is_shown_where_it_was_asked_for(world: Any) -> None:
    world.define(change_kind="update", predicate={"all": [{"was": PAID}, {"changed": "total"}, {"not": PAID}]})
    world.put("orders", "1", {"status": "paid", "total": 1})
    world.put("orders", "1", {"status": "paid", "total": 2})
    told = explain(world, 2)
    assert told["predicate"]["all"] == [
        {"says": "matched", "was": {"says": "matched", "clause": PAID, "found": "paid"}},
        {"says": "matched", "changed": "total", "before": 1, "after": 2},
        {"says": "predicate_value_mismatch", "not": {"says": "matched", "clause": PAID, "found": "paid"}},
    ]


def test_every_check_is_shown_also_after_the_first_that_fails(orders: Any) -> None:
    orders.define(change_kind=["update", "delete"], predicate=PAID, enabled=False)
    told = explain(orders, 2)
    assert told["reason"] == "collection_mismatch"
    assert [(check["check"], check["passes"], check["found"]) for check in told["checks"]] == [
        ("state", False, "disabled"),
        ("collection", False, "others"),
        ("change_kind", False, "insert"),
    ]


def outcome(world: Any, sequence: int) -> tuple[str, str]:
    found = explain(world, sequence)["outcome"]
    return found["kind"], found.get("code", found.get("workload_id", found["because"]))


def test_what_became_of_a_change_is_told(world: Any) -> None:
    world.put("orders", "before", {})
    world.now_ms = 20
    world.define()
    world.put("orders", "good", {})
    world.put("orders", "poison", {"password": "hunter2"})
    made = world.evaluate()
    assert outcome(world, 1) == (
        "passed_by",
        "the trigger was defined after this change and did not start before it",
    )
    assert outcome(world, 2) == ("work", made[0].workload_id)
    assert outcome(world, 3) == ("quarantined", "WORKLOAD_SECRET_REJECTED")
    world.put("orders", "new", {})
    assert outcome(world, 4)[0] == "waiting"
    services.pause(world.namespace, "on-order", by=BY, now_ms=21, reason="maintenance")
    assert outcome(world, 4) == ("held_up", "PAUSED_BY_OPERATOR")


def test_a_change_that_an_earlier_definition_passed_by_names_that_revision(world: Any) -> None:
    world.define(predicate=PAID)
    world.put("orders", "1", {"status": "draft"})
    world.evaluate()
    world.now_ms = 20
    world.define()
    assert outcome(world, 1) == (
        "passed_by",
        "the definition of that time, revision 1, did not match: the predicate does not hold",
    )


def test_a_change_made_while_the_trigger_was_disabled_says_so(world: Any) -> None:
    world.define()
    services.disable(world.namespace, "on-order", by=BY, now_ms=11)
    world.now_ms = 12
    world.put("orders", "1", {})
    services.enable(world.namespace, "on-order", by=BY, now_ms=13)
    assert outcome(world, 1) == ("passed_by", "the trigger was disabled when the change was made (revision 2)")


def test_a_trigger_that_would_feed_itself_is_found_in_quarantine(world: Any) -> None:
    world.define(change_kind=["insert", "update"])
    world.put("orders", "1", {})
    [made] = world.evaluate()
    world.put("orders", "1", {"n": 2}, actor=Actor(workload_id=made.workload_id, trigger_id="on-order"))
    world.evaluate()
    assert outcome(world, 2) == ("quarantined", "TRIGGER_FEEDS_ITSELF")


@pytest.mark.parametrize(("change", "code"), [("9", "NOT_FOUND"), ("other:1", "NOT_FOUND"), ("x", "VALIDATION_ERROR")])
def test_a_change_that_is_not_there_is_refused(world: Any, change: str, code: str) -> None:
    world.define()
    world.put("orders", "1", {})
    with pytest.raises(ApiError) as refused:
        explain(world, change)
    assert refused.value.code == code
