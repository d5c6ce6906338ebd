"""Actions on many workloads: a frozen set, each row once, as the person who may, stopped where it stands.

Costs: a hundred that fail again 2 s, twenty thousand dead letters 3 s, the rest under a second each.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from apps.http.errors import ApiError
from apps.keys import people
from apps.keys.audit.models import AuditEvent
from apps.keys.models import Operator
from apps.keys.principal import Principal, operator
from apps.workloads import bulk, limits, services
from apps.workloads.bulk import program
from apps.workloads.by_hand import act
from apps.workloads.capabilities import Cancelled, Failed
from apps.workloads.clock import now_ms
from apps.workloads.commands import ClaimById, CreateWorkload, Failure, RetryPolicy, Subject
from apps.workloads.models import Attempt, BulkItem, BulkOrder, Workload
from apps.workloads.states import BulkAction, BulkOutcome, State
from tests.workloads.bulk_orders import carry_out, claimed

NAMESPACE = "test"
MANY = 1_000
"""As many, and more, with real processes, are in `tests/acceptance/journey/many.py`."""


@pytest.fixture
def person(db: None) -> Operator:
    return Operator.objects.create_superuser("olga", password="correct horse battery")


@pytest.fixture
def olga(person: Operator) -> Principal:
    return people.principal_of(person)


def ask(key: str, **members: Any) -> CreateWorkload:
    return CreateWorkload(
        namespace=NAMESPACE,
        definition_id=members.pop("definition_id", "fails"),
        requested_by=Subject(kind="service", id="tests"),
        idempotency_key=key,
        **members,
    )


def fail_once(work: Workload, error: str = "the counter is closed") -> None:
    command = ClaimById(namespace=NAMESPACE, workload_id=work.workload_id, worker_id="w1", principal="worker:w1")
    claim = services.claim(command, now_ms=now_ms())
    services.fail(claim.fence, Failure(kind="execution_error", error=error), now_ms=now_ms())


@pytest.fixture
def make_dead(db: None) -> Callable[..., Workload]:
    def make(key: str, error: str = "the counter is closed", **members: Any) -> Workload:
        work = services.admit(ask(key, **members), now_ms=now_ms()).workload
        fail_once(work, error)
        return Workload.objects.get(pk=work.pk)

    return make


def all_dead(**members: Any) -> bulk.Selection:
    return bulk.Selection(state="DEAD_LETTER", **members)


def started(action: BulkAction, selection: bulk.Selection, by: Principal, reason: str = "") -> BulkOrder:
    order = bulk.draft(NAMESPACE, action, selection, by=by, now_ms=now_ms())
    return bulk.start(NAMESPACE, order.bulk_id, by=by, now_ms=now_ms(), reason=reason)


def outcomes(order: BulkOrder) -> dict[str, tuple[str, str]]:
    return {item.workload_id: (item.outcome, item.message) for item in order.items.order_by("position")}


def test_retrying_all_makes_exactly_one_attempt_more_of_each_however_soon_they_fail_again(olga: Principal) -> None:
    commands = [ask(f"k{number}", retry_policy=RetryPolicy(max_attempts=3)) for number in range(MANY)]
    for begin in range(0, MANY, 100):
        for admission in services.admit_many(commands[begin : begin + 100], now_ms=now_ms()):
            fail_once(admission.workload)
    order = started(BulkAction.RETRY, all_dead(), olga)
    assert order.total == MANY
    running = claimed(order)
    while True:
        try:
            program.carry_out(running.claim.input, _StopsAfter(running, rows=MANY // 4))
            break
        except Cancelled:
            # What it armed so far fails at once, while the order goes on.
            for work in Workload.objects.filter(state=State.READY):
                fail_once(work)
    for work in Workload.objects.filter(state=State.READY):
        fail_once(work)
    assert Attempt.objects.exclude(workload__definition_id="bulk-action").count() == 2 * MANY
    assert set(Workload.objects.filter(definition_id="fails").values_list("attempt_count", "state")) == {
        (2, "DEAD_LETTER")
    }
    assert bulk.standing(BulkOrder.objects.get(pk=order.pk)).done == MANY


class _StopsAfter:
    """A context that gives up after so many looks, as where a worker is killed between two rows."""

    def __init__(self, running: Any, rows: int) -> None:
        self._running, self._looks = running, rows // limits.BULK_STEP
        self.workload_id = running.workload_id

    def heartbeat(self) -> None:
        self._looks -= 1
        if self._looks < 0:
            raise Cancelled
        self._running.heartbeat()


def test_twenty_thousand_dead_letters_are_all_kept_and_all_taken(olga: Principal, make_dead: Any) -> None:
    make_dead("first")
    names = [field.column for field in Workload._meta.concrete_fields if field.column not in ("id", "workload_id")]
    columns, table = ", ".join(names), Workload._meta.db_table
    with connection.cursor() as cursor:
        for double in range(15):
            left = 20_000 - Workload.objects.count()
            some = f"SELECT 'copy-{double}-' || id, {columns} FROM {table} ORDER BY id LIMIT {left}"  # noqa: S608
            cursor.execute(f"INSERT INTO {table} (workload_id, {columns}) {some}")
    order = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(like=None), by=olga, now_ms=now_ms())
    assert (order.total, order.more) == (20_000, False)
    assert order.items.count() == 20_000
    assert Workload.objects.filter(state=State.DEAD_LETTER).count() == 20_000


def test_more_than_the_most_are_said_to_be_there(olga: Principal, make_dead: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "MAX_BULK", 2)
    for key in "ab":
        make_dead(key)
    order = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms())
    assert (order.total, order.more) == (2, False)
    make_dead("c")
    order = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms())
    assert (order.total, order.more) == (2, True)
    with pytest.raises(ApiError, match="at most 2"):
        bulk.draft(NAMESPACE, BulkAction.RETRY, bulk.Selection(ids=("a", "b", "c")), by=olga, now_ms=now_ms())


def test_nothing_is_done_before_it_is_started_and_what_comes_later_is_not_in_it(
    olga: Principal, make_dead: Any
) -> None:
    first = make_dead("a")
    order = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms())
    later = make_dead("b")
    assert Workload.objects.filter(state=State.DEAD_LETTER).count() == 2
    order = bulk.start(NAMESPACE, order.bulk_id, by=olga, now_ms=now_ms(), reason="opened")
    assert carry_out(order) == {"done": 1, "refused": 0}
    states = {each: Workload.objects.get(pk=each.pk).state for each in (first, later)}
    assert list(states.values()) == ["READY", "DEAD_LETTER"]
    event = first.events.order_by("-sequence")[0]
    assert (event.actor, event.evidence["reason"]) == ("human:olga", "opened")


def test_a_filter_takes_what_matches_and_only_of_this_namespace(olga: Principal, make_dead: Any) -> None:
    ours = make_dead("a", error="flight UA7 is unknown", definition_id="pay")
    make_dead("b", error="no connection", definition_id="pay")
    make_dead("c", error="flight UA8 is unknown", definition_id="mail")
    Workload.objects.filter(pk=make_dead("d", error="flight UA9 is unknown", definition_id="pay").pk).update(
        namespace="elsewhere"
    )
    selection = all_dead(definition_id="pay", like="execution_error: flight # is unknown")
    order = bulk.draft(NAMESPACE, BulkAction.DISCARD, selection, by=olga, now_ms=now_ms())
    assert [item.workload_id for item in order.items.all()] == [ours.workload_id]


def test_started_twice_it_is_carried_out_once(olga: Principal, make_dead: Any) -> None:
    make_dead("a")
    order = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms())
    answers = [bulk.start(NAMESPACE, order.bulk_id, by=olga, now_ms=now_ms()) for _ in range(3)]
    assert len({each.workload_id for each in answers}) == 1
    assert Workload.objects.filter(definition_id="bulk-action").count() == 1
    assert AuditEvent.objects.filter(action="bulk.retry").count() == 1


def test_what_changed_since_it_was_chosen_is_left_alone_and_says_so(olga: Principal, make_dead: Any) -> None:
    same, retried, again, cancelled = (make_dead(key) for key in "abcd")
    order = started(BulkAction.RETRY, all_dead(), olga)
    for work in (retried, again):
        act("retry", work, by=olga, now_ms=now_ms())
    fail_once(again)
    act("cancel", cancelled, by=olga, now_ms=now_ms())
    assert carry_out(order) == {"done": 1, "refused": 3}
    found = outcomes(order)
    assert found[same.workload_id] == ("done", "")
    assert found[retried.workload_id] == ("refused", "it has changed since it was chosen: it is ready now")
    assert found[again.workload_id] == ("refused", "it has changed since it was chosen: it is dead letter again now")
    assert found[cancelled.workload_id] == ("refused", "it has changed since it was chosen: it is cancelled now")
    assert Workload.objects.get(pk=again.pk).operator_retry_count == 1


def test_cancelling_asks_workers_and_leaves_alone_what_has_ended_meanwhile(olga: Principal, db: None) -> None:
    waiting, held, ends = (services.admit(ask(key), now_ms=now_ms()).workload for key in "abc")
    order = bulk.draft(NAMESPACE, BulkAction.CANCEL, bulk.Selection(), by=olga, now_ms=now_ms())
    order = bulk.start(NAMESPACE, order.bulk_id, by=olga, now_ms=now_ms())
    command = {"namespace": NAMESPACE, "worker_id": "w1", "principal": "worker:w1"}
    services.claim(ClaimById(workload_id=held.workload_id, **command), now_ms=now_ms())
    fail_once(ends)
    assert carry_out(order) == {"done": 2, "refused": 1}
    states = [Workload.objects.get(pk=each.pk).state for each in (waiting, held, ends)]
    assert states == ["CANCELLED", "CANCELLATION_REQUESTED", "DEAD_LETTER"]
    assert outcomes(order)[ends.workload_id] == ("refused", "it is dead letter now: there is nothing to cancel")


def test_a_stopped_order_does_no_further_row_and_says_what_is_left(olga: Principal, make_dead: Any) -> None:
    for number in range(5):
        make_dead(f"k{number}")
    order = started(BulkAction.RETRY, all_dead(), olga)
    running = claimed(order)
    assert program._one(order, order.items.get(position=1), olga)
    bulk.stop(NAMESPACE, order.bulk_id, by=olga, now_ms=now_ms(), reason="wrong ones")
    assert not program._one(order, order.items.get(position=2), olga)
    with pytest.raises(Cancelled):
        program.carry_out(running.claim.input, running)
    order = BulkOrder.objects.get(pk=order.pk)
    assert bulk.standing(order).phase == "stopping"
    services.confirm_cancel(running.claim.fence, now_ms=now_ms())
    standing = bulk.standing(order)
    assert (standing.phase, standing.done, standing.pending) == ("stopped", 1, 4)
    assert bulk.stop(NAMESPACE, order.bulk_id, by=olga, now_ms=now_ms()).stopped_by == "human:olga"
    assert AuditEvent.objects.filter(action="bulk.stop").count() == 1


def test_an_order_that_no_worker_has_begun_is_stopped_at_once(olga: Principal, make_dead: Any) -> None:
    make_dead("a")
    order = started(BulkAction.RETRY, all_dead(), olga)
    assert bulk.standing(order).phase == "waiting"
    order = bulk.stop(NAMESPACE, order.bulk_id, by=olga, now_ms=now_ms())
    assert bulk.standing(order).phase == "stopped"


def test_an_order_that_has_ended_cannot_be_stopped_any_more(olga: Principal, make_dead: Any) -> None:
    make_dead("a")
    order = started(BulkAction.RETRY, all_dead(), olga)
    carry_out(order)
    with pytest.raises(ApiError, match="SUCCEEDED"):
        bulk.stop(NAMESPACE, order.bulk_id, by=olga, now_ms=now_ms())
    assert bulk.standing(BulkOrder.objects.get(pk=order.pk)).phase == "finished"


def test_it_acts_as_the_person_and_ends_where_the_person_may_no_more(
    olga: Principal, person: Operator, make_dead: Any
) -> None:
    dead = make_dead("a")
    order = started(BulkAction.RETRY, all_dead(), olga)
    Operator.objects.filter(pk=person.pk).update(is_superuser=False)
    assert carry_out(order) == {"done": 0, "refused": 1}
    assert outcomes(order)[dead.workload_id] == ("refused", "human:olga may not do this any more")
    assert Workload.objects.get(pk=dead.pk).state == State.DEAD_LETTER


def test_nobody_without_an_account_or_without_the_right_begins_one(
    olga: Principal, person: Operator, make_dead: Any
) -> None:
    make_dead("a")
    viewer = people.principal_of(Operator.objects.create_user("vera", password="correct horse battery"))
    for other in (viewer, operator("the command line")):
        with pytest.raises(ApiError) as refused:
            bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=other, now_ms=now_ms())
        assert refused.value.code == "WORKLOAD_UNAUTHORIZED"
    order = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms())
    another = people.principal_of(Operator.objects.create_superuser("otto", password="correct horse battery"))
    with pytest.raises(ApiError, match="chosen by human:olga"):
        bulk.start(NAMESPACE, order.bulk_id, by=another, now_ms=now_ms())
    for other in (viewer, operator("the command line")):
        with pytest.raises(ApiError):
            bulk.start(NAMESPACE, order.bulk_id, by=other, now_ms=now_ms())
    assert not Workload.objects.filter(definition_id="bulk-action").exists()


def test_work_that_somebody_else_makes_under_its_name_carries_nothing_out(olga: Principal, make_dead: Any) -> None:
    dead = make_dead("a")
    order = started(BulkAction.RETRY, all_dead(), olga)
    forged = services.admit(
        ask("forged", definition_id="bulk-action", input={"bulk_id": order.bulk_id}), now_ms=now_ms()
    ).workload
    order.workload_id = forged.workload_id
    running = claimed(order)
    for given in (running.claim.input, None, {"bulk_id": 7}, []):
        with pytest.raises(Failed, match="made by nobody"):
            program.carry_out(given, running)
    assert Workload.objects.get(pk=dead.pk).state == State.DEAD_LETTER


def test_no_bulk_action_is_ever_part_of_what_it_cancels(olga: Principal, make_dead: Any) -> None:
    make_dead("a")
    running = started(BulkAction.RETRY, all_dead(), olga)
    order = bulk.draft(NAMESPACE, BulkAction.CANCEL, bulk.Selection(), by=olga, now_ms=now_ms())
    assert running.workload_id not in outcomes(order)


def test_a_state_that_the_action_means_nothing_in_is_refused(olga: Principal) -> None:
    for action, state in ((BulkAction.RETRY, "READY"), (BulkAction.CANCEL, "SUCCEEDED"), (BulkAction.DISCARD, "x")):
        with pytest.raises(ApiError) as refused:
            bulk.draft(NAMESPACE, action, bulk.Selection(state=state), by=olga, now_ms=now_ms())
        assert refused.value.code == "WORKLOAD_INVALID"
    assert not BulkOrder.objects.exists()


def test_an_empty_set_is_not_started_and_a_draft_is_discarded(olga: Principal, make_dead: Any) -> None:
    empty = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms())
    with pytest.raises(ApiError, match="nothing in this set"):
        bulk.start(NAMESPACE, empty.bulk_id, by=olga, now_ms=now_ms())
    bulk.discard(NAMESPACE, empty.bulk_id, by=olga)
    make_dead("a")
    order = started(BulkAction.RETRY, all_dead(), olga)
    with pytest.raises(ApiError, match="started already"):
        bulk.discard(NAMESPACE, order.bulk_id, by=olga)
    with pytest.raises(ApiError, match="looks like a secret"):
        again = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms())
        bulk.start(NAMESPACE, again.bulk_id, by=olga, now_ms=now_ms(), reason="fdb_live_1234abcd")


def test_old_drafts_and_old_orders_are_forgotten_with_new_ones(olga: Principal, make_dead: Any) -> None:
    make_dead("a")
    draft = bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms() - limits.BULK_DRAFT_MS - 1)
    order = started(BulkAction.RETRY, all_dead(), olga)
    assert not BulkOrder.objects.filter(pk=draft.pk).exists()
    BulkOrder.objects.filter(pk=order.pk).update(created_at_ms=now_ms() - limits.BULK_KEPT_MS - 1)
    bulk.draft(NAMESPACE, BulkAction.RETRY, all_dead(), by=olga, now_ms=now_ms())
    assert not BulkOrder.objects.filter(pk=order.pk).exists()
    assert not BulkItem.objects.filter(order_id=order.pk).exists()


def test_a_retry_beside_a_living_twin_is_refused_and_names_it(olga: Principal, make_dead: Any) -> None:
    dead = make_dead("a")
    twin = services.resubmit(
        NAMESPACE,
        dead.workload_id,
        by=olga,
        requested_by=Subject(kind="human", id="olga"),
        idempotency_key="again",
        edits={"input": {"n": 2}},
        now_ms=now_ms(),
    ).workload
    with pytest.raises(ApiError, match=twin.workload_id) as refused:
        act("retry", dead, by=olga, now_ms=now_ms())
    assert (refused.value.status, refused.value.details["reason"]) == (409, "TWIN_LIVES")
    order = started(BulkAction.RETRY, all_dead(), olga)
    assert carry_out(order) == {"done": 0, "refused": 1}
    act("cancel", twin, by=olga, now_ms=now_ms())
    assert act("retry", dead, by=olga, now_ms=now_ms()).state == State.READY


def test_the_database_keeps_orders_and_rows_in_order(olga: Principal, make_dead: Any) -> None:
    make_dead("a")
    order = started(BulkAction.RETRY, all_dead(), olga)
    item = order.items.get()
    broken: list[tuple[Any, dict[str, Any]]] = [
        (BulkOrder, {"action": "x"}),
        (BulkOrder, {"state": "x"}),
        (BulkOrder, {"workload_id": ""}),
        (BulkOrder, {"started_at_ms": None}),
        (BulkOrder, {"total": -1}),
        (BulkItem, {"outcome": "x"}),
        (BulkItem, {"outcome": BulkOutcome.DONE}),
        (BulkItem, {"at_ms": 1}),
    ]
    for model, change in broken:
        with pytest.raises(IntegrityError), transaction.atomic():
            model.objects.update(**change)
    for change in ({"position": 1}, {"workload_id": item.workload_id, "position": 2}):
        values = {"order": order, "workload_id": "other", "seen_state": "READY", "seen_length": 1, **change}
        with pytest.raises(IntegrityError), transaction.atomic():
            BulkItem.objects.create(**values)
