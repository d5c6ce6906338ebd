"""Replays: the work of old changes made once more, under keys of its own, in batches that survive a crash."""

from typing import Any

import pytest

from apps.triggers import limits
from apps.triggers.models import TriggerQuarantine, TriggerReplay
from tests.triggers.operated import act, audited, fired, refusal


def replay(world: Any, start: str = "beginning", end: str = "now", **kwargs: Any) -> TriggerReplay:
    row: TriggerReplay = act(world, "replay", start_from=start, end_at=end, **kwargs)
    return row


def keys(world: Any) -> list[str]:
    return [row.request.idempotency_key.partition("on-order:")[2].partition(":")[2] for row in world.workloads()]


def test_a_replay_makes_the_work_of_old_changes_once_more_under_keys_of_its_own(three: Any) -> None:
    three.evaluate()
    row = replay(three)
    again = three.evaluate()
    assert (fired(again), [each.duplicate for each in again]) == ([1, 2, 3], [False] * 3)
    assert keys(three) == ["1", "2", "3", "1:r1", "2:r1", "3:r1"]
    assert three.workloads()[3].request.input["provenance"]["replay"] == 1
    row.refresh_from_db()
    assert (row.outcome, row.made, row.position) == ("done", 3, 3)
    assert three.evaluate() == []
    assert audited()[-1] == ("trigger.replay", "on-order/r1", "because")


def test_the_next_replay_has_the_next_number(three: Any) -> None:
    three.evaluate()
    for _ in range(2):
        replay(three, "beginning")
        three.evaluate()
    assert keys(three)[3:] == ["1:r1", "2:r1", "3:r1", "1:r2", "2:r2", "3:r2"]


def test_a_replay_keeps_to_its_range_and_moves_no_cursor(three: Any) -> None:
    three.evaluate()
    instance = three.store.head().instance_id
    three.put("orders", "4", {})
    replay(three, f"{instance}-1", f"{instance}-2")
    assert sorted(fired(three.evaluate())) == [2, 4]
    assert three.cursor() == 4


def test_a_replay_is_by_the_definition_of_now(three: Any) -> None:
    three.evaluate()
    three.define(predicate={"field": "n", "equals": 2})
    replay(three)
    assert fired(three.evaluate()) == [2]


def test_a_replay_goes_on_in_batches_after_a_crash_and_makes_nothing_twice(
    three: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.triggers.evaluation import batches, matching
    from tests.triggers.test_crashes import Died

    three.evaluate()
    replay(three)
    monkeypatch.setattr(matching, "BATCH_ROWS", 1)
    commit, done = batches.commit, 0

    def twice(*args: Any, **kwargs: Any) -> Any:
        nonlocal done
        if done == 2:
            raise Died
        done += 1
        return commit(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(batches, "commit", twice)
        with pytest.raises(Died):
            three.evaluate()
    assert TriggerReplay.objects.get().position == 2
    three.restart()
    assert fired(three.evaluate()) == [3]
    assert len(three.workloads()) == 6


def test_a_replay_that_another_evaluator_carried_on_meanwhile_is_not_done_twice(
    three: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.triggers.test_crashes import meanwhile

    three.evaluate()
    replay(three)
    others: list[Any] = []
    with meanwhile(monkeypatch, lambda: others.extend(three.evaluate())):
        assert three.evaluate() == []
    assert fired(others) == [1, 2, 3]
    assert len(three.workloads()) == 6


def test_a_redefinition_while_a_replay_has_changes_in_hand_counts(three: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.triggers.test_crashes import meanwhile

    three.evaluate()
    replay(three)
    with meanwhile(monkeypatch, lambda: three.define(predicate={"field": "n", "equals": 3})):
        assert fired(three.evaluate()) == [3]


def test_a_replay_waits_while_its_trigger_is_paused(three: Any) -> None:
    three.evaluate()
    replay(three)
    act(three, "pause")
    assert three.evaluate() == []
    act(three, "resume")
    assert fired(three.evaluate()) == [1, 2, 3]


def test_a_cancelled_replay_makes_no_more(three: Any) -> None:
    three.evaluate()
    replay(three)
    assert act(three, "cancel_replay", 1).outcome == "cancelled"
    assert three.evaluate() == []
    assert refusal(three, "cancel_replay", 1) == "CONFLICT"
    assert refusal(three, "cancel_replay", 2) == "NOT_FOUND"


def test_archiving_a_trigger_ends_its_replays(three: Any) -> None:
    three.evaluate()
    replay(three)
    act(three, "archive")
    assert TriggerReplay.objects.get().outcome == "cancelled"
    three.define()
    assert three.evaluate() == []


def test_a_replay_whose_changes_history_has_lost_fails_and_says_so(three: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.triggers.evaluation import replaying

    three.evaluate()
    replay(three)
    monkeypatch.setattr(replaying, "read", lambda *_: None)
    assert three.evaluate() == []
    row = TriggerReplay.objects.get()
    assert (row.outcome, bool(row.message)) == ("failed", True)


def test_a_change_refused_in_a_replay_is_quarantined_for_that_replay(poisoned: Any) -> None:
    replay(poisoned)
    assert poisoned.evaluate() == []
    assert list(TriggerQuarantine.objects.order_by("replay").values_list("sequence", "replay")) == [(1, 0), (1, 1)]


def test_what_is_no_replay_is_refused(three: Any) -> None:
    assert refusal(three, "replay", start_from="now", end_at="now") == "TRIGGER_INVALID"
    assert refusal(three, "replay", start_from="x", end_at="now") == "TRIGGER_INVALID"
    for _ in range(limits.MAX_OPEN_REPLAYS):
        replay(three)
    assert refusal(three, "replay", start_from="beginning", end_at="now") == "CONFLICT"
    act(three, "disable")
    assert refusal(three, "replay", start_from="beginning", end_at="now") == "CONFLICT"
