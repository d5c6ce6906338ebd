"""Exactly once, whatever fails: a crash between every two steps of a batch, and others who come in between.

A crash is an exception that nothing expects, raised where the process would have died; afterwards everything that
only the process knew is forgotten.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.http.errors import ApiError
from apps.triggers import changing, services
from apps.triggers.evaluation import batches, matching, position, standing, walker
from apps.triggers.models import TriggerCursor
from tests.triggers.conftest import BY


class Died(BaseException):
    """The process is gone. Not an Exception: nobody may handle it."""


def dying(original: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if before:
            raise Died
        original(*args, **kwargs)
        raise Died

    return run


STEPS = [
    (walker.standing, "load"),
    (position, "check"),
    (matching, "matches"),
    (matching, "prepared"),
    (walker.batches, "commit"),
    (batches, "_hold_position"),
    (batches, "admit_many"),
    (batches, "refuse_foreign"),
    (batches, "_quarantine"),
    (batches, "_move"),
]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(("module", "step"), STEPS, ids=[step for _, step in STEPS])
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(
    world: Any, monkeypatch: pytest.MonkeyPatch, module: Any, step: str, before: bool
) -> None:
    world.define("one")
    world.define("two", change_kind=["insert", "update"])
    for number in range(3):
        world.put("orders", str(number), {"n": number})
    world.put("orders", "poison", {"password": "hunter2"})
    with monkeypatch.context() as patch:
        patch.setattr(module, step, dying(getattr(module, step), before=before))
        with pytest.raises(Died):
            world.evaluate()
    made = len(world.workloads())
    committed = (step, before) == ("commit", False)
    assert made == (6 if committed else 0), "a batch is there whole or not at all"
    assert set(TriggerCursor.objects.values_list("sequence", flat=True)) == ({4} if committed else {0})
    world.restart()
    world.evaluate()
    keys = sorted(row.request.idempotency_key.split(":")[1] for row in world.workloads())
    assert keys == ["one"] * 3 + ["two"] * 3
    assert set(TriggerCursor.objects.values_list("sequence", flat=True)) == {4}


def test_a_crash_between_two_batches_of_a_page_goes_on_where_it_stopped(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "BATCH_ROWS", 2)
    world.define("one")
    world.define("two")
    for number in range(4):
        world.put("orders", str(number), {})
    commit, done = batches.commit, 0

    def twice(*args: Any, **kwargs: Any) -> Any:
        nonlocal done
        if done == 2:
            raise Died
        done += 1
        return commit(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(walker.batches, "commit", twice)
        with pytest.raises(Died):
            world.evaluate()
    assert len(world.workloads()) == 4
    world.restart()
    rest = world.evaluate()
    assert [row.duplicate for row in rest] == [False] * 4
    assert len(world.workloads()) == 8


@contextmanager
def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> Iterator[None]:
    """Let something happen once, after a page was matched and before its first batch is committed."""
    commit, happened = batches.commit, False

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal happened
        if not happened:
            happened = True
            happens()
        return commit(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(walker.batches, "commit", run)
        yield
    assert happened


def test_a_redefinition_between_matching_and_writing_throws_the_batch_away(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.define(predicate={"field": "n", "equals": 1})
    world.put("orders", "1", {"n": 1})
    world.put("orders", "2", {"n": 2})
    with meanwhile(monkeypatch, lambda: world.define(predicate={"field": "n", "equals": 2})):
        results = world.evaluate()
    assert len(results) == 1
    assert [row.request.input["record"] for row in world.workloads()] == [{"n": 2}]


def test_disabling_between_matching_and_writing_stops_the_work(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.define()
    world.put("orders", "1", {})
    off = lambda: services.disable(world.namespace, "on-order", by=BY, now_ms=11)  # noqa: E731 - named for the reader
    with meanwhile(monkeypatch, off):
        assert world.evaluate() == []
    assert world.workloads() == []
    assert world.cursor() == 0


def test_another_evaluator_in_between_makes_the_work_and_this_one_makes_none(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.define()
    world.put("orders", "1", {})
    others: list[Any] = []
    with meanwhile(monkeypatch, lambda: others.extend(world.evaluate())):
        assert world.evaluate() == []
    assert [row.duplicate for row in others] == [False]
    assert len(world.workloads()) == 1


def test_a_cursor_put_back_in_between_finds_its_work_already_there(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.define()
    world.put("orders", "1", {})
    world.evaluate()
    world.put("orders", "2", {})
    with meanwhile(monkeypatch, lambda: world.set_cursor(0)):
        results = world.evaluate()
    assert [(row.source_change_id[-1], row.duplicate) for row in results] == [("1", True), ("2", False)]


@pytest.mark.parametrize("column", ["revision", "live", "instance_id", "sequence"])
def test_the_cursor_moves_only_where_all_four_are_as_read(
    world: Any, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """The guard itself: each of its terms alone throws the batch away."""
    world.define()
    world.put("orders", "1", {})
    other = {"revision": 7, "live": False, "instance_id": "another", "sequence": 1}[column]
    stale: list[Any] = []
    original = batches._move

    def moved_first(moves: Any) -> None:
        TriggerCursor.objects.update(**{column: other})
        try:
            original(moves)
        except batches.BatchStale as error:
            stale.append(error)
            raise Died from error

    monkeypatch.setattr(batches, "_move", moved_first)
    with pytest.raises(Died):
        world.evaluate()
    assert len(stale) == 1
    assert world.workloads() == []


def test_an_evaluation_that_is_always_overtaken_gives_up_and_says_so(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*_: Any, **__: Any) -> None:
        raise batches.BatchStale("overtaken")

    world.define()
    world.put("orders", "1", {})
    monkeypatch.setattr(walker.batches, "commit", overtaken)
    with pytest.raises(ApiError) as given_up:
        world.evaluate()
    assert given_up.value.code == "TRIGGER_STORAGE_FAILURE"


def test_a_database_that_fails_is_told_as_such_and_nothing_is_half_done(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OperationalError("disk I/O error")

    world.define()
    world.put("orders", "1", {})
    with monkeypatch.context() as patch:
        patch.setattr(batches, "_move", broken)
        with pytest.raises(ApiError) as failed:
            world.evaluate()
    assert (failed.value.code, failed.value.status) == ("TRIGGER_STORAGE_FAILURE", 503)
    assert world.workloads() == []
    assert len(world.evaluate()) == 1


def test_what_was_looked_at_and_not_stored_is_looked_at_again_after_a_failure(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walker's memory runs ahead of the cursors; a failed batch must not let it run over its own work."""
    world.define()
    world.put("orders", "1", {})
    one = walker.NamespaceWalker(world.namespace, clock=lambda: 10, pause=lambda _: None)
    with monkeypatch.context() as patch:
        patch.setattr(batches, "_move", dying(batches._move, before=True))
        with pytest.raises(Died):
            one.step(world.store)
    one.flush(world.store)
    assert world.cursor() == 0
    results = one.step(world.store).results
    assert len(results) == 1


def test_nothing_is_read_from_the_store_inside_a_transaction(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from feltdb_engine import Store

    changes, inside = Store.changes, []

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        inside.append(connection.in_atomic_block)
        return changes(self, *args, **kwargs)

    monkeypatch.setattr(Store, "changes", watched)
    world.define()
    world.put("orders", "1", {})
    world.evaluate()
    assert inside
    assert not any(inside)


def test_blocking_a_trigger_that_was_changed_meanwhile_leaves_it_alone(world: Any) -> None:
    trigger = world.define()
    world.define(priority=1)
    assert not changing.block(trigger.pk, revision=1, code="FEED_COMPACTED", reason="gone", now_ms=11)
    assert changing.block(trigger.pk, revision=2, code="FEED_COMPACTED", reason="gone", now_ms=11)
    assert standing.load(world.namespace, {}) == []
