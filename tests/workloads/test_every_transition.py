"""Every operation tried on work in every state: it moves as the table says or is refused, and then nothing is written.

And at the database itself: history takes no transition that is not in the table.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.keys.principal import operator
from apps.workloads import limits
from apps.workloads.commands import ApprovalPolicy, ClaimById, Completion, Failure, Fence, RetryPolicy, Timeouts
from apps.workloads.errors import WorkloadError
from apps.workloads.machine import targets
from apps.workloads.models import Attempt, Checkpoint, Decision, Event, Result, Workload
from apps.workloads.services import (
    cancel,
    checkpoint,
    claim,
    complete,
    confirm_cancel,
    decide_approval,
    fail,
    hand_back,
    heartbeat,
    retry,
    start,
    sweep,
)
from apps.workloads.states import RESTING, Approval, State
from tests.workloads.conftest import NAMESPACE, state_of
from tests.workloads.test_models import refused

pytestmark = pytest.mark.django_db

ADA = operator("ada")
S = State
STARTED = (S.RUNNING, S.CHECKPOINTED)
HELD = (S.CLAIMED, *STARTED)

# Where each operation leads from the states it is possible in; in every other state it is refused.
POSSIBLE: dict[str, dict[State, State]] = {
    "claim": {S.READY: S.CLAIMED},
    "start": {S.CLAIMED: S.RUNNING},
    "heartbeat": {state: state for state in (*HELD, S.CANCELLATION_REQUESTED)},
    "checkpoint": dict.fromkeys(STARTED, S.CHECKPOINTED),
    "complete": dict.fromkeys(STARTED, S.SUCCEEDED),
    "fail and try again": dict.fromkeys(HELD, S.READY),
    "fail and bury": dict.fromkeys(HELD, S.DEAD_LETTER),
    "hand back": dict.fromkeys(HELD, S.READY),
    "confirm cancel": {S.CANCELLATION_REQUESTED: S.CANCELLED},
    "cancel": {
        **dict.fromkeys((S.READY, S.AWAITING_APPROVAL, S.DEAD_LETTER), S.CANCELLED),
        **dict.fromkeys((*HELD, S.CANCELLATION_REQUESTED), S.CANCELLATION_REQUESTED),
    },
    "retry": {S.DEAD_LETTER: S.READY},
    "approve": {S.AWAITING_APPROVAL: S.READY},
    "reject": dict.fromkeys((S.AWAITING_APPROVAL, S.REJECTED), S.REJECTED),
    # What time does is never refused: where it may not, nothing happens.
    "lease over": {**dict.fromkeys(HELD, S.READY), S.CANCELLATION_REQUESTED: S.CANCELLED},
    "grace over": {S.CANCELLATION_REQUESTED: S.CANCELLED},
    "overall deadline": dict.fromkeys((S.READY, S.AWAITING_APPROVAL, *HELD), S.DEAD_LETTER),
}
BY_TIME = ("lease over", "grace over", "overall deadline")


@pytest.fixture
def work_in(make_work, take, clock):
    """A function that brings work into a state, and returns it with the fence that was the last."""

    def make(state: State, *, overall: bool = False) -> tuple[Workload, Fence]:
        waits = state in (S.AWAITING_APPROVAL, S.REJECTED)
        work = make_work(
            approval=ApprovalPolicy() if waits else None,
            retry_policy=RetryPolicy(initial_delay_ms=0),
            timeouts=Timeouts(overall_ms=10_000) if overall else Timeouts(),
        )
        nobody = Fence(
            namespace=NAMESPACE,
            workload_id=work.workload_id,
            worker_id="w1",
            claim_id="claim_0",
            fencing_token=1,
            principal="worker:w1",
        )
        if state in (S.READY, S.AWAITING_APPROVAL):
            return work, nobody
        if state == S.REJECTED:
            _decide(work, Approval.REJECTED, clock)
            return work, nobody
        fence = take(work).fence
        if state == S.CLAIMED:
            return work, fence
        start(fence, now_ms=clock.ms)
        if state == S.CHECKPOINTED:
            checkpoint(fence, 1, now_ms=clock.ms)
        elif state == S.SUCCEEDED:
            complete(fence, Completion(result_id="r", output=1), now_ms=clock.ms)
        elif state == S.DEAD_LETTER:
            fail(fence, Failure(kind="broken"), now_ms=clock.ms)
        elif state in (S.CANCELLATION_REQUESTED, S.CANCELLED):
            cancel(NAMESPACE, work.workload_id, actor="human:ada", now_ms=clock.ms)
            if state == S.CANCELLED:
                confirm_cancel(fence, now_ms=clock.ms)
        return work, fence

    return make


def _decide(work: Workload, outcome: Approval, clock: Any) -> None:
    decide_approval(
        NAMESPACE,
        work.workload_id,
        outcome,
        by=ADA,
        input_hash=work.request.input_hash,
        now_ms=clock.ms,
        reason="seen",
    )


def operations(work: Workload, fence: Fence, clock: Any) -> dict[str, Callable[[], Any]]:
    now = clock.ms
    by_id = ClaimById(namespace=NAMESPACE, workload_id=work.workload_id, worker_id="w2", principal="worker:w2")
    return {
        "claim": lambda: claim(by_id, now_ms=now),
        "start": lambda: start(fence, now_ms=now),
        "heartbeat": lambda: heartbeat(fence, extend_ms=5_000, now_ms=now),
        "checkpoint": lambda: checkpoint(fence, 2, now_ms=now),
        "complete": lambda: complete(fence, Completion(result_id="new", output=1), now_ms=now),
        "fail and try again": lambda: fail(fence, Failure(kind="transient_connection"), now_ms=now),
        "fail and bury": lambda: fail(fence, Failure(kind="broken for good"), now_ms=now),
        "hand back": lambda: hand_back(fence, now_ms=now),
        "confirm cancel": lambda: confirm_cancel(fence, now_ms=now),
        "cancel": lambda: cancel(NAMESPACE, work.workload_id, actor="human:ada", now_ms=now),
        "retry": lambda: retry(NAMESPACE, work.workload_id, actor="human:ada", now_ms=now),
        "approve": lambda: _decide(work, Approval.APPROVED, clock),
        "reject": lambda: _decide(work, Approval.REJECTED, clock),
        "lease over": lambda: sweep(now_ms=now + limits.DEFAULT_LEASE_MS),
        "grace over": lambda: sweep(now_ms=now + limits.DEFAULT_GRACE_MS),
        "overall deadline": lambda: sweep(now_ms=now + 10_000),
    }


def everything() -> list[Any]:
    models = (Workload, Event, Attempt, Checkpoint, Decision, Result)
    return [list(model.objects.order_by("pk").values()) for model in models]


@pytest.mark.parametrize("name", POSSIBLE)
@pytest.mark.parametrize("state", RESTING)
def test_every_operation_in_every_state_moves_as_the_table_says_or_writes_nothing(work_in, clock, state, name):
    work, fence = work_in(state, overall=name == "overall deadline")
    assert state_of(work) == state
    if name == "grace over" and state in (*HELD, S.CANCELLATION_REQUESTED):
        heartbeat(fence, extend_ms=50_000, now_ms=clock.ms)  # so that only the grace can end it
    before = everything()
    target = POSSIBLE[name].get(state)
    operation = operations(work, fence, clock)[name]
    if target is None and name not in BY_TIME:
        with pytest.raises(WorkloadError):
            operation()
    else:
        operation()
    if target is None:
        assert everything() == before, "what was refused wrote something"
    else:
        assert state_of(work) == target


def test_the_operations_reach_every_state_that_work_can_rest_in():
    reached = {target for moves in POSSIBLE.values() for target in moves.values()}
    assert reached == set(RESTING) - {S.AWAITING_APPROVAL}


def test_history_takes_every_transition_of_the_table_and_no_other(make_work):
    """All 196 pairs of states, at the database itself."""
    work = make_work()
    values = {"workload": work, "namespace": NAMESPACE, "event_type": "t", "actor": "a", "at_ms": 1, "evidence": {}}
    sequence = 1
    for source in State:
        for target in State:
            sequence += 1
            event = Event(**values, sequence=sequence, from_state=source, to_state=target)
            if target in targets(source):
                event.save(force_insert=True)
            else:
                refused("event_is_in_the_table", lambda event=event: event.save(force_insert=True))
    assert Event.objects.count() == 1 + sum(len(targets(source)) for source in State)


@pytest.mark.parametrize("state", [S.CREATED, S.RECOVERING, S.FAILED, S.TIMED_OUT])
def test_the_database_lets_no_work_rest_where_it_only_passes(make_work, state):
    work = make_work()
    with pytest.raises(IntegrityError), transaction.atomic():
        Workload.objects.filter(pk=work.pk).update(state=state)
