"""Engine and database rolled back apart, in both directions: found, stopped, and brought back in step, with nothing
dropped in silence and nothing done twice.
"""

import shutil
from typing import Any

import pytest

from apps.http.errors import ApiError
from apps.triggers import services
from apps.triggers.evaluation import pins
from apps.triggers.models import NamespaceMark
from apps.triggers.services import Unseen
from feltdb_engine import Retention
from tests.triggers.apart import Copies, names, put, reconcile, stopped
from tests.triggers.conftest import BY


# the store behind
@pytest.mark.parametrize("how", ["put_store_back", "put_store_elsewhere"])
def test_a_store_put_back_makes_no_work_twice_and_loses_no_new_change(world: Any, copies: Copies, how: str) -> None:
    world.define()
    put(world, "a", "b")
    world.evaluate()
    copies.keep_store()
    put(world, "lost-1", "lost-2", "lost-3")
    world.evaluate()
    getattr(copies, how)()
    put(world, "new-1", "new-2")
    stopped(world)
    apart = reconcile(world)
    assert (apart.kind, apart.common, apart.database_seen, apart.head) == ("store_behind", 2, 5, 4)
    put(world, "new-3")
    world.evaluate()
    assert names(world)[:5] == ["a", "b", "lost-1", "lost-2", "lost-3"]
    assert sorted(names(world)[5:]) == ["new-1", "new-2", "new-3"]
    assert world.evaluate() == []


def test_new_changes_under_the_numbers_of_lost_ones_are_told_from_them(world: Any, copies: Copies) -> None:
    """After reconciling, the store goes on with sequences that lost changes had: on a timeline of its own."""
    world.define()
    copies.keep_store()
    put(world, "lost-1", "lost-2", "lost-3")
    world.evaluate()
    copies.put_store_back()
    stopped_or_not = reconcile(world)
    assert stopped_or_not.unseen == 0
    put(world, "new-1", "new-2", "new-3", "new-4")
    made = world.evaluate()
    assert [row.duplicate for row in made] == [False] * 4
    assert names(world)[3:] == ["new-1", "new-2", "new-3", "new-4"]


def test_what_both_may_have_seen_is_looked_at_again_and_its_work_recognised(
    world: Any, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two marks nobody knows what the database saw: every change there is held against the work there is."""
    monkeypatch.setattr("apps.triggers.evaluation.walker.MARK_MS", 10**9)
    monkeypatch.setattr("apps.triggers.evaluation.walker.MARK_OPERATIONS", 10**9)
    world.define()
    put(world, "a", "b", "c")
    world.evaluate()
    copies.keep_store()
    put(world, "lost")
    world.evaluate()
    NamespaceMark.objects.all().delete()
    put(world, "lost-too")
    world.evaluate()
    NamespaceMark.objects.update(sequence=1, content_hash=world.store.changes(None).operations[0].content_hash)
    copies.put_store_back()
    put(world, "new")
    stopped(world)
    assert reconcile(world).common == 1
    made = world.evaluate()
    assert names(world) == ["a", "b", "c", "lost", "lost-too", "new"]
    assert [row.duplicate for row in made] == [True, True, False]


def test_a_trigger_that_was_behind_anyway_goes_on_from_where_it_stood(world: Any, copies: Copies) -> None:
    world.define("fast")
    world.define("slow")
    put(world, "a", "b")
    world.evaluate()
    services.pause(world.namespace, "slow", by=BY, now_ms=11, reason="maintenance")
    put(world, "c")
    world.evaluate()
    copies.keep_store()
    put(world, "lost")
    world.evaluate()
    copies.put_store_back()
    put(world, "new")
    stopped(world)
    reconcile(world)
    services.resume(world.namespace, "slow", by=BY, now_ms=12)
    made = world.evaluate()
    assert sorted(
        (row.trigger_id, world.workload(row.workload_id).request.input["record"]["name"]) for row in made
    ) == [
        ("fast", "new"),
        ("slow", "c"),
        ("slow", "new"),
    ]


def test_a_store_that_is_another_one_needs_a_word_and_then_goes_on(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    world.restart()
    shutil.rmtree(copies.directory)
    put(world, "other-1", "other-2")
    stopped(world)
    with pytest.raises(ApiError) as refused:
        reconcile(world)
    assert (refused.value.code, refused.value.details["kind"]) == ("CONFLICT", "store_unknown")
    stopped(world)
    reconcile(world, Unseen.EVALUATE)
    world.evaluate()
    assert names(world) == ["a", "other-1", "other-2"]


def test_a_store_that_is_another_one_may_be_gone_on_with_from_its_head(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    world.restart()
    shutil.rmtree(copies.directory)
    put(world, "other-1", "other-2")
    reconcile(world, Unseen.PASS_OVER)
    put(world, "other-3")
    world.evaluate()
    assert names(world) == ["a", "other-3"]


# two timelines
def test_two_copies_of_one_store_under_one_database_stop_and_the_one_chosen_goes_on(world: Any, copies: Copies) -> None:
    """Both were written to; the database had followed the one. The other is put in its place."""
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_store()
    copies.put_store_elsewhere()  # the first copy, on a timeline of its own
    put(world, "first-1", "first-2")
    world.evaluate()
    copies.put_store_elsewhere()  # the second, on another
    put(world, "second-1")
    stopped(world)
    assert reconcile(world).common == 1
    put(world, "second-2")
    world.evaluate()
    assert names(world)[:3] == ["a", "first-1", "first-2"]
    assert sorted(names(world)[3:]) == ["second-1", "second-2"]


# the database behind
def test_a_database_put_back_is_noticed_by_what_the_store_was_told(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_database()
    put(world, "b", "c")
    world.evaluate()
    copies.put_database_back()
    assert "put back" in stopped(world)
    with pytest.raises(ApiError) as refused:
        world.define("another")
    assert refused.value.code == "CONTROL_PLANE_MISMATCH"
    with pytest.raises(ApiError) as refused:
        reconcile(world)
    assert refused.value.details["kind"] == "database_behind"


def test_what_a_database_forgot_is_evaluated_again_under_the_same_ids(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_database()
    put(world, "b", "c")
    forgotten = [row.workload_id for row in world.evaluate()]
    copies.put_database_back()
    stopped(world)
    assert reconcile(world, Unseen.EVALUATE).unseen == 2
    again = world.evaluate()
    assert [row.workload_id for row in again] == forgotten
    assert names(world) == ["a", "b", "c"]


def test_what_a_database_forgot_may_be_passed_over_on_somebody_s_word(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_database()
    put(world, "b", "c")
    world.evaluate()
    copies.put_database_back()
    put(world, "d")
    stopped(world)
    reconcile(world, Unseen.PASS_OVER)
    world.evaluate()
    assert names(world) == ["a", "d"]


def test_both_put_back_to_the_same_moment_need_nothing(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_database()
    copies.keep_store()
    put(world, "b")
    world.evaluate()
    copies.put_database_back()
    copies.put_store_back()
    put(world, "c")
    world.evaluate()
    assert names(world) == ["a", "c"]
    assert services.look(world.namespace, now_ms=world.now_ms).kind == "nothing"


def test_a_store_restored_on_purpose_to_a_later_moment_than_the_database_needs_nothing(
    world: Any, copies: Copies
) -> None:
    """As from a bundle, whose database is the older part: a restored directory has a timeline of its own."""
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_database()
    put(world, "b")
    forgotten = world.evaluate()
    copies.keep_store()
    copies.put_database_back()
    copies.put_store_elsewhere()
    again = world.evaluate()
    assert [row.workload_id for row in again] == [row.workload_id for row in forgotten]


# meanwhile
def test_a_trigger_deleted_and_revived_between_does_not_do_its_work_again(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_store()
    put(world, "lost")
    world.evaluate()
    services.archive(world.namespace, "on-order", by=BY, now_ms=11)
    copies.put_store_back()
    put(world, "new")
    with pytest.raises(ApiError):
        world.define(start_from="beginning")
    reconcile(world)
    world.define(start_from="beginning")
    made = world.evaluate()
    assert [row.duplicate for row in made] == [True, False]
    assert names(world) == ["a", "lost", "new"]


def test_a_redefinition_between_two_passes_of_a_reconciliation_counts_and_doubles_nothing(
    world: Any, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.triggers.test_crashes import meanwhile

    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_store()
    put(world, "lost")
    world.evaluate()
    copies.put_store_back()
    put(world, "new-1", "new-2")
    stopped(world)
    reconcile(world)
    only = {"field": "name", "equals": "new-2"}
    with meanwhile(monkeypatch, lambda: world.define(predicate=only)):
        world.evaluate()
    assert names(world) == ["a", "lost", "new-2"]


# where history was compacted up to its end
def forget_all(world: Any) -> None:
    for pin in world.store.pins():
        world.store.unpin(pin.name)
    world.store.compact(Retention(age_ms=0))
    assert world.store.start() == world.store.head()


@pytest.mark.parametrize("unseen", list(Unseen))
def test_a_store_put_back_that_holds_no_history_goes_on_from_its_head(
    world: Any, copies: Copies, unseen: Unseen
) -> None:
    world.define()
    put(world, "a", "b")
    world.evaluate()
    forget_all(world)
    copies.keep_store()
    put(world, "lost-1", "lost-2")
    world.evaluate()
    copies.put_store_back()
    stopped(world)
    assert reconcile(world, unseen).kind == "store_behind"
    assert world.cursor() == 2
    put(world, "new-1", "new-2", "new-3")
    world.evaluate()
    assert names(world) == ["a", "b", "lost-1", "lost-2", "new-1", "new-2", "new-3"]


def database_put_back_beyond_history(world: Any, copies: Copies) -> None:
    world.define()
    put(world, "a")
    world.evaluate()
    copies.keep_database()
    put(world, "b", "c")
    world.evaluate()
    world.store.unpin(pins.NEEDED)
    world.store.compact(Retention(age_ms=0))
    assert world.store.start().sequence == 3
    copies.put_database_back()
    assert "put back" in stopped(world)


def test_what_a_database_forgot_and_history_does_not_hold_blocks_the_trigger_and_is_not_passed_over_in_silence(
    world: Any, copies: Copies
) -> None:
    database_put_back_beyond_history(world, copies)
    assert reconcile(world, Unseen.EVALUATE).unseen == 2
    put(world, "d")
    world.evaluate()
    assert (world.trigger().state, world.trigger().reason_code) == ("blocked", "FEED_COMPACTED")
    assert names(world) == ["a"]


def test_what_a_database_forgot_and_history_does_not_hold_may_be_passed_over(world: Any, copies: Copies) -> None:
    database_put_back_beyond_history(world, copies)
    reconcile(world, Unseen.PASS_OVER)
    put(world, "d")
    world.evaluate()
    assert names(world) == ["a", "d"]
