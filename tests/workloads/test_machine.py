"""The transition table: every event from every state, against the reference's closed list."""

import pytest

from apps.workloads.errors import WorkloadError
from apps.workloads.machine import EVENT_TYPES, EVENTS, TABLE, move, targets
from apps.workloads.states import CLAIMED_STATES, FINAL, RESTING, State

CLOSED = {
    "CREATED": "READY CANCELLED AWAITING_APPROVAL",
    "AWAITING_APPROVAL": "READY CANCELLED TIMED_OUT REJECTED",
    "READY": "CLAIMED CANCELLED TIMED_OUT DEAD_LETTER",
    "CLAIMED": "RUNNING RECOVERING CANCELLATION_REQUESTED FAILED TIMED_OUT",
    "RUNNING": "CHECKPOINTED RECOVERING CANCELLATION_REQUESTED SUCCEEDED FAILED TIMED_OUT",
    "CHECKPOINTED": "CHECKPOINTED RECOVERING CANCELLATION_REQUESTED SUCCEEDED FAILED TIMED_OUT",
    "RECOVERING": "READY DEAD_LETTER",
    "CANCELLATION_REQUESTED": "CANCELLED",
    "FAILED": "READY CANCELLED DEAD_LETTER AWAITING_APPROVAL",
    "TIMED_OUT": "READY DEAD_LETTER AWAITING_APPROVAL",
    "DEAD_LETTER": "READY CANCELLED AWAITING_APPROVAL",
    "SUCCEEDED": "",
    "CANCELLED": "",
    "REJECTED": "",
}


def test_there_are_fourteen_states():
    assert len(State) == 14 and set(CLOSED) == set(State)


@pytest.mark.parametrize("state", list(State))
def test_what_can_follow_a_state_is_exactly_the_closed_table(state):
    assert targets(state) == set(CLOSED[state].split())


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", list(State))
def test_every_event_from_every_state_moves_as_the_table_says_or_is_refused(state, event):
    rows = [row for row in TABLE if (row.source, row.event) == (state, event)]
    if rows:
        assert move(state, event) is rows[0] and len(rows) == 1 and rows[0].guard
        assert rows[0].event_type == EVENT_TYPES[rows[0].target]
    else:
        with pytest.raises(WorkloadError) as refused:
            move(state, event)
        assert refused.value.code == "WORKLOAD_TRANSITION_DENIED"
        assert refused.value.details == {"state": state.value, "event": event}


def test_nothing_leaves_a_final_state_and_no_state_but_created_is_unreachable():
    assert all(not targets(state) for state in FINAL)
    reached = {row.target for row in TABLE}
    assert set(State) - reached == {State.CREATED}


def test_states_that_are_passed_through_are_never_rested_in():
    assert set(State) - set(RESTING) == {State.CREATED, State.RECOVERING, State.FAILED, State.TIMED_OUT}
    assert set(CLAIMED_STATES) <= set(RESTING)
