"""The table of a registered worker's life: every event from every state."""

import pytest

from apps.workloads.errors import WorkloadError
from apps.workloads.lifecycle import BUSY, EVENTS, LIVING, TABLE, Lifecycle, after

# What the reference allows, BUSY being READY here; a worker that never showed life may be drained too.
CLOSED = {
    "REGISTERED": {"READY", "DRAINING", "OFFLINE"},
    "READY": {"READY", "DRAINING", "OFFLINE"},
    "DRAINING": {"DRAINING", "OFFLINE"},
    "OFFLINE": {"RECOVERING"},
    "RECOVERING": {"READY", "RECOVERING", "OFFLINE"},
}


@pytest.mark.parametrize("lifecycle", list(Lifecycle))
def test_what_can_follow_is_exactly_the_closed_table(lifecycle):
    assert {target for source, _, target in TABLE if source == lifecycle} == CLOSED[lifecycle]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("lifecycle", list(Lifecycle))
def test_every_event_from_every_state_leads_where_the_table_says_or_is_refused(lifecycle, event):
    rows = [target for source, name, target in TABLE if (source, name) == (lifecycle, event)]
    if rows:
        assert [after(lifecycle, event)] == rows
        return
    with pytest.raises(WorkloadError) as refused:
        after(lifecycle, event)
    assert refused.value.code == "WORKER_TRANSITION_DENIED"
    assert refused.value.details == {"lifecycle": lifecycle.value, "event": event}


def test_only_an_offline_worker_need_show_no_life_and_busy_is_no_state_of_its_own():
    assert set(Lifecycle) - set(LIVING) == {Lifecycle.OFFLINE} and BUSY not in list(Lifecycle)
