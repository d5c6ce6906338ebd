"""Retention waits for triggers: the pins evaluators keep in the store, what they hold back, and when they let go."""

from collections.abc import Callable
from typing import Any

import pytest

from apps.triggers import services
from apps.triggers.evaluation import pins
from apps.triggers.evaluation.walker import NamespaceWalker
from apps.triggers.evaluator import Evaluator
from apps.triggers.limits import PIN_MS, PIN_RENEW_MS
from feltdb_engine import Store
from tests.triggers.conftest import BY
from tests.triggers.test_evaluator import Clock, drain


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def evaluator(clock: Clock) -> Evaluator:
    return Evaluator(clock=clock.ms, monotonic=clock.monotonic)


def pinned(world: Any, clock: Clock, name: str = pins.NEEDED) -> int | None:
    found = {pin.name: pin.sequence for pin in world.store.pins(now_ms=clock.ms())}
    return found.get(name)


def put(world: Any, count: int) -> None:
    for number in range(count):
        world.put("orders", str(number), {"n": number})


def act(world: Any, name: str, trigger_id: str = "on-order", **kwargs: Any) -> None:
    getattr(services, name)(world.namespace, trigger_id, by=BY, now_ms=11, reason="because", **kwargs)


def test_the_store_keeps_what_the_hindmost_trigger_has_yet_to_see(
    world: Any, evaluator: Evaluator, clock: Clock
) -> None:
    world.define("fast")
    world.define("slow")
    put(world, 2)
    drain(evaluator)
    assert pinned(world, clock) == 2
    act(world, "pause", "slow")
    put(world, 3)
    clock.seconds += PIN_RENEW_MS / 1000
    drain(evaluator)
    assert (world.cursor("fast"), pinned(world, clock)) == (5, 2)
    act(world, "resume", "slow")
    clock.seconds += PIN_RENEW_MS / 1000
    drain(evaluator)
    assert pinned(world, clock) == 5


def test_it_waits_no_longer_than_the_trigger_may_lag(world: Any, evaluator: Evaluator, clock: Clock) -> None:
    world.define(max_lag_operations=3)
    drain(evaluator)
    act(world, "pause")
    put(world, 10)
    clock.seconds += PIN_RENEW_MS / 1000
    world.define("other", source_collection="others")  # whose turn renews the pin
    drain(evaluator)
    assert pinned(world, clock) == 7


def test_a_paused_trigger_that_is_the_only_one_holds_back_no_more_than_it_may_lag(
    world: Any, evaluator: Evaluator, clock: Clock
) -> None:
    """Nothing is seen meanwhile, so what the store was told of that must not keep history either."""
    world.define(max_lag_operations=3)
    put(world, 2)
    drain(evaluator)
    act(world, "pause")
    put(world, 10)
    clock.seconds += PIN_RENEW_MS / 1000
    evaluator.run_once()
    assert {pin.name: pin.sequence for pin in world.store.pins(now_ms=clock.ms())} == {pins.NEEDED: 9}
    act(world, "resume")
    clock.seconds += PIN_RENEW_MS / 1000
    drain(evaluator)
    seen = {pin.name: pin.sequence for pin in world.store.pins(now_ms=clock.ms())}
    assert sorted(seen.values()) == [12, 12]  # and the store is told again


def test_disabled_and_archived_triggers_hold_nothing_back(world: Any, evaluator: Evaluator, clock: Clock) -> None:
    world.define("one")
    world.define("two")
    put(world, 2)
    drain(evaluator)
    act(world, "disable", "one")
    act(world, "archive", "two")
    clock.seconds += PIN_RENEW_MS / 1000
    evaluator.run_once()
    assert world.store.pins(now_ms=clock.ms()) == []


def test_an_open_replay_holds_back_what_it_has_yet_to_see(world: Any, evaluator: Evaluator, clock: Clock) -> None:
    world.define()
    put(world, 4)
    drain(evaluator)
    act(world, "replay", start_from="beginning", end_at="now")
    act(world, "pause")
    clock.seconds += PIN_RENEW_MS / 1000
    evaluator.run_once()
    assert pinned(world, clock) == 0


def test_an_idle_namespace_is_pinned_again_before_the_pin_ends(world: Any, evaluator: Evaluator, clock: Clock) -> None:
    world.define()
    put(world, 1)
    drain(evaluator)
    until = world.store.pins(now_ms=clock.ms())[0].expires_at_ms
    clock.seconds += PIN_MS / 2000
    evaluator.run_once()
    assert world.store.pins(now_ms=clock.ms())[0].expires_at_ms == until + PIN_MS // 2


def test_pins_are_not_renewed_for_every_change(
    world: Any, evaluator: Evaluator, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.define()
    said: list[str] = []
    pin = Store.pin
    monkeypatch.setattr(Store, "pin", lambda self, name, *args, **kw: said.append(name) or pin(self, name, *args, **kw))
    for number in range(5):
        world.put("orders", str(number), {})
        drain(evaluator)
    assert len(said) <= 2


def test_what_a_pin_would_keep_is_gone_already_is_no_failure(
    world: Any, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    from feltdb_engine.errors import FeedCompacted

    def gone(*_: Any, **__: Any) -> None:
        raise FeedCompacted("What this pin would keep is gone.", floor=5, head=9)

    monkeypatch.setattr(Store, "pin", gone)
    world.define()
    put(world, 1)
    assert len(world.evaluate()) == 1


def test_the_position_is_told_after_it_is_committed_never_before(world: Any, clock: Clock) -> None:
    """Told too early, a crash in between would look like a database that was put back."""
    world.define()
    put(world, 3)
    walker = NamespaceWalker(world.namespace, clock=clock.ms, monotonic=clock.monotonic, pause=lambda _: None)
    walker.renew_pins(world.store)
    assert pins.told(world.store, now_ms=clock.ms()) == 0
    while walker.step(world.store).more:
        pass
    walker.renew_pins(world.store)
    assert pins.told(world.store, now_ms=clock.ms()) == 3


def test_an_evaluator_that_read_before_another_moved_on_raises_no_alarm(
    world: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the store was told is read before the position, which only grows: in between, others may go on."""
    world.define()
    put(world, 1)
    told: Callable[..., int] = pins.told
    happened = []

    def others_go_on(store: Any, *, now_ms: int) -> int:
        answer = told(store, now_ms=now_ms)
        if not happened:
            happened.append(True)
            put(world, 1)
            world.evaluate()
        return answer

    monkeypatch.setattr(pins, "told", others_go_on)
    walker = NamespaceWalker(world.namespace, clock=clock.ms, monotonic=clock.monotonic, pause=lambda _: None)
    while walker.step(world.store).more:
        pass
    assert happened
