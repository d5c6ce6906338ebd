"""Triggers that ask for the record before a change: from the page, from history, or not to be had any more."""

from typing import Any

import pytest

from apps.triggers.evaluation import previous
from apps.triggers.models import TriggerQuarantine
from feltdb_engine import Mutation

PAID_NOW = {"all": [{"changed": "status"}, {"field": "status", "equals": "paid"}]}
FROM_DRAFT = {"was": {"field": "status", "equals": "draft"}}


def ids(world: Any) -> list[str]:
    return [row.request.input["source"]["key"] for row in world.workloads()]


def test_a_change_of_a_field_fires_and_a_change_beside_it_does_not(world: Any) -> None:
    world.define("paid", change_kind=["insert", "update"], predicate=PAID_NOW)
    world.put("orders", "1", {"status": "draft"})
    world.put("orders", "1", {"status": "paid"})
    world.put("orders", "1", {"status": "paid", "note": "x"})
    world.put("orders", "2", {"status": "paid"})
    made = world.evaluate()
    assert [row.source_change_id.rpartition(":")[2] for row in made] == ["2", "4"]
    assert {row.request.input["provenance"]["contract"]["version"] for row in world.workloads()} == {2}


def test_the_record_before_is_found_on_another_page_and_in_another_process(world: Any) -> None:
    world.define("left-draft", change_kind="update", predicate=FROM_DRAFT)
    for number in range(3):
        world.put("orders", str(number), {"status": "draft" if number else "new", "pad": "x" * 20_000})
    world.evaluate()
    world.restart()
    for number in range(3):
        world.put("orders", str(number), {"status": "sent"})
    world.evaluate()
    assert ids(world) == ["orders:1", "orders:2"]


def test_within_a_page_each_change_is_held_against_the_one_before_it(world: Any) -> None:
    world.define("left-draft", change_kind=["insert", "update", "delete"], predicate=FROM_DRAFT)
    for status in ("draft", "draft", "paid", "draft"):
        world.put("orders", "1", {"status": status})
    world.delete("orders", "1")
    world.put("orders", "1", {"status": "draft"})  # an insert: there was no record before it
    assert [row.source_change_id.rpartition(":")[2] for row in world.evaluate()] == ["2", "3", "5"]


def test_the_digest_covers_the_record_before(world: Any) -> None:
    world.define("left-draft", change_kind="update", predicate=FROM_DRAFT)
    world.put("orders", "a", {"status": "draft", "n": 1})
    world.put("orders", "b", {"status": "draft", "n": 2})
    world.put("orders", "a", {"status": "sent"})
    world.put("orders", "b", {"status": "sent"})
    world.evaluate()
    digests = {row.request.input["provenance"]["contract"]["input_digest"] for row in world.workloads()}
    assert len(digests) == 2


def test_history_is_asked_only_where_the_answer_hangs_on_it(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.define("paid", change_kind="update", predicate=PAID_NOW)
    world.define("other", change_kind="update", predicate={"field": "status", "equals": "paid"})
    for number in range(4):
        world.put("orders", str(number), {"status": "draft"})
    world.evaluate()
    world.write(
        *[
            Mutation(kind="put", collection="orders", id=str(number), value={"status": "paid" if number == 3 else "x"})
            for number in range(4)
        ]
    )
    asked: list[str] = []
    of = previous.PreviousRecords.of

    def counted(self: Any, operation: Any) -> Any:
        asked.append(operation.id)
        return of(self, operation)

    monkeypatch.setattr(previous.PreviousRecords, "of", counted)
    assert len(world.evaluate()) == 2
    assert asked == ["3"]


def test_a_record_before_that_history_has_lost_is_quarantined_and_not_guessed(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.triggers.predicate import ABSENT

    world.define("paid", change_kind="update", predicate=PAID_NOW)
    world.put("orders", "1", {"status": "draft"})
    world.evaluate()
    world.put("orders", "1", {"status": "paid"})
    world.put("orders", "1", {"status": "sent"})
    monkeypatch.setattr(previous.PreviousRecords, "of", lambda *_: ABSENT)
    assert world.evaluate() == []
    row = TriggerQuarantine.objects.get()
    assert (row.code, row.sequence) == ("TRIGGER_PREVIOUS_GONE", 2)
    assert world.cursor("paid") == 3
