"""Triggers that stand at different places: one scan serves those near each other, and no cursor goes back."""

from typing import Any

import pytest

from apps.triggers.evaluation import walker
from apps.triggers.models import TriggerCursor
from feltdb_engine import Mutation


def _orders(first: int, last: int) -> list[Mutation]:
    return [
        Mutation(kind="put", collection="orders", id=str(number), value={"n": number}) for number in range(first, last)
    ]


@pytest.fixture
def short_pages(monkeypatch: pytest.MonkeyPatch) -> int:
    from apps.triggers.evaluation import standing

    for module in (walker, standing):
        monkeypatch.setattr(module, "SCAN_OPERATIONS", 10)
    return 10


def test_a_trigger_beyond_the_page_that_serves_its_neighbours_keeps_its_place(world: Any, short_pages: int) -> None:
    for trigger_id in ("hindmost", "middle", "foremost"):
        world.define(trigger_id, predicate={"field": "n", "equals": -1})
    for number in range(30):
        world.write(*_orders(number, number + 1))
    places = {"hindmost": 0, "middle": 9, "foremost": 18}
    for trigger_id, place in places.items():
        TriggerCursor.objects.filter(trigger__trigger_id=trigger_id).update(sequence=place)
    one = walker.NamespaceWalker(world.namespace, clock=lambda: 1)
    one.step(world.store)
    reached = {each.compiled.trigger_id: each.reached.sequence for each in one._standings}
    assert all(reached[trigger_id] >= place for trigger_id, place in places.items()), reached
    while one.step(world.store).more:
        pass
    one.flush(world.store)
    assert set(TriggerCursor.objects.values_list("sequence", flat=True)) == {30}
