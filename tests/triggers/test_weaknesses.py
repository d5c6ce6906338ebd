"""Weaknesses of the reference's triggers, rows 7 to 11 of its review, each shown not to exist here.

The table of all rows, with the tests that hold them, stands in `tests/workloads/test_weaknesses.py`.
"""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.http.errors import ApiError
from apps.triggers import services
from apps.triggers.evaluation.compiled import CompiledTrigger
from apps.triggers.evaluation.walker import NamespaceWalker
from apps.triggers.models import TriggerQuarantine
from feltdb_engine import Actor, Mutation, Retention
from tests.triggers.conftest import BY

WRITES = ("INSERT", "UPDATE", "DELETE")


def fill(world: Any, collection: str, count: int) -> None:
    """Write records to a collection, in one transaction."""
    world.write(*[Mutation(kind="put", collection=collection, id=str(n), value={"n": n}) for n in range(count)])


def written_by(world: Any) -> list[str]:
    """Evaluate all there is and return the statements that wrote."""
    with CaptureQueriesContext(
        connection,
    ) as captured:
        world.evaluate()
    return [query["sql"] for query in captured if query["sql"].split()[0] in WRITES]


def test_row_7_what_a_pass_writes_grows_neither_with_the_changes_nor_with_the_triggers(world: Any) -> None:
    world.define("t00", source_collection="watched0")
    fill(world, "elsewhere", 5)
    few = written_by(world)
    for number in range(1, 40):
        world.define(f"t{number:02}", source_collection=f"watched{number}")
    fill(world, "elsewhere", 500)
    many = written_by(world)
    assert 0 < len(many) <= len(few) + 1, "one more is the mark of what was seen, kept once a second"
    assert {world.cursor(f"t{number:02}") for number in range(40)} == {505}


def test_row_7_looking_at_changes_that_match_nothing_writes_nothing(world: Any) -> None:
    """Where the triggers stand is stored after a while, not for each change: a restart only looks again."""
    world.define()
    walker = NamespaceWalker(world.namespace, clock=lambda: 10, monotonic=lambda: 0.0, pause=lambda _: None)
    walker.step(world.store)
    fill(world, "elsewhere", 50)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        while walker.step(world.store).more:
            pass
    assert [query["sql"] for query in captured if query["sql"].split()[0] in WRITES] == []


def test_row_8_only_triggers_of_the_changes_collection_and_kind_are_asked(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    decide = CompiledTrigger.decide

    def watched(self: CompiledTrigger, change: Any) -> Any:
        asked.append((self.trigger_id, change.collection))
        return decide(self, change)

    monkeypatch.setattr(CompiledTrigger, "decide", watched)
    world.define("mine", change_kind=["insert", "update"])
    world.define("another-kind", change_kind="delete")
    for number in range(40):
        world.define(f"another-{number}", source_collection=f"others{number}")
    world.put("orders", "1", {"n": 1})
    world.put("others7", "1", {"n": 1})
    world.put("unwatched", "1", {"n": 1})
    world.evaluate()
    assert sorted(asked) == [("another-7", "others7"), ("mine", "orders")]


def test_row_9_neither_a_poisoned_change_nor_a_redefinition_stops_a_trigger(world: Any) -> None:
    """There each stopped all triggers for ever: the one as no work, the other as a known key with another request."""
    world.define("one")
    world.define("two")
    world.put("orders", "1", {"n": 1})
    world.put("orders", "2", {"password": "hunter2"})
    world.put("orders", "3", {"n": 3})
    assert [row.source_change_id[-1] for row in world.evaluate()] == ["1", "1", "3", "3"]
    assert {(row.trigger.trigger_id, row.sequence) for row in TriggerQuarantine.objects.all()} == {
        ("one", 2),
        ("two", 2),
    }
    world.define("one", target_capability="search", priority=7)
    world.set_cursor(0, "one")  # all of it once more, by another definition
    world.put("orders", "4", {"n": 4})
    results = [(row.trigger_id, row.source_change_id[-1], row.duplicate) for row in world.evaluate()]
    assert sorted(results) == [("one", "1", True), ("one", "3", True), ("one", "4", False), ("two", "4", False)]
    assert {world.trigger(name).state for name in ("one", "two")} == {"active"}


def test_row_10_history_that_is_gone_is_told_and_held_against_the_trigger_until_somebody_acts(world: Any) -> None:
    """A real compaction, not a pretended one; there the gap was passed over in silence."""
    world.define("behind", max_lag_operations=1)
    world.define("near", source_collection="others")
    services.pause(world.namespace, "behind", by=BY, now_ms=11, reason="away")
    fill(world, "orders", 6)
    assert world.evaluate() == []
    world.store.compact(Retention(age_ms=0))
    services.resume(world.namespace, "behind", by=BY, now_ms=12)
    world.put("others", "1", {})
    assert [row.trigger_id for row in world.evaluate()] == ["near"]
    trigger = world.trigger("behind")
    assert (trigger.state, trigger.reason_code, world.cursor("behind")) == ("blocked", "FEED_COMPACTED", 0)
    [held_up] = services.status(world.namespace, now_ms=world.now_ms)["held_up"]
    assert held_up["code"] == "FEED_COMPACTED"
    world.put("orders", "later", {})
    assert world.evaluate() == [], "it stands until somebody acts"
    services.rebase(world.namespace, "behind", to="now", by=BY, now_ms=13, reason="six orders are lost to it")
    world.put("orders", "last", {})
    assert [row.trigger_id for row in world.evaluate()] == ["behind"]


def test_row_11_no_trigger_feeds_itself_and_none_watches_what_work_is_made_of(world: Any) -> None:
    with pytest.raises(ApiError) as refused:
        world.define("system", source_collection="_flow_capabilities")
    assert (refused.value.code, refused.value.details) == ("TRIGGER_INVALID", {"field": "source_collection"})
    world.define("loop", change_kind=["insert", "update"])
    world.put("orders", "1", {"n": 0})
    made, rounds = world.evaluate(), 0
    while made and rounds < 5:
        rounds += 1
        own = Actor(workload_id=made[0].workload_id, trigger_id="loop")
        world.put("orders", "1", {"n": rounds}, actor=own)
        made = world.evaluate()
    assert rounds == 1
    assert TriggerQuarantine.objects.get().code == "TRIGGER_FEEDS_ITSELF"
