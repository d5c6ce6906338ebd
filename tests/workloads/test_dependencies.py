"""Work that waits for other work: released, stranded, and never passed over."""

import pytest

from apps.workloads.commands import ClaimNext, Completion, DependsOn, Failure, RetryPolicy
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Dependency, Event, Workload
from apps.workloads.services import admit_many, cancel, claim_next, complete, fail, prepare, retry, sweep
from tests.workloads.conftest import NAMESPACE, state_of

pytestmark = pytest.mark.django_db


def after(*works, state="SUCCEEDED"):
    return tuple(DependsOn(workload_id=work.workload_id, required_state=state) for work in works)


def next_ids(clock):
    request = ClaimNext(
        namespace=NAMESPACE, worker_id="w", principal="worker:w", capabilities=frozenset({"identity"}), max=10
    )
    return [claim.workload_id for claim in claim_next(request, now_ms=clock.ms)]


def test_a_child_is_claimed_only_when_every_parent_has_succeeded(make_work, run, take, clock):
    """W33: even where the child has the higher priority."""
    one, two = make_work("p1"), make_work("p2")
    child = make_work("c", priority=9, dependencies=after(one, two))
    claims = {work.pk: run(work) for work in (one, two)}
    assert next_ids(clock) == []
    with pytest.raises(WorkloadError) as refused:
        take(child)
    assert refused.value.code == "WORKLOAD_NOT_READY"
    assert set(refused.value.details["waiting_for"]) == {one.workload_id, two.workload_id}
    complete(claims[one.pk].fence, Completion(result_id="r1", output=1), now_ms=clock.ms)
    assert next_ids(clock) == []
    complete(claims[two.pk].fence, Completion(result_id="r2", output=1), now_ms=clock.ms)
    assert next_ids(clock) == [child.workload_id]


@pytest.mark.parametrize(("policy", "state"), [("dead_letter", "DEAD_LETTER"), ("cancel", "CANCELLED")])
def test_a_child_whose_parent_ended_otherwise_follows_its_policy_and_so_do_its_own_children(
    make_work, clock, policy, state
):
    parent = make_work("p")
    child = make_work("c", dependencies=after(parent), when_unreachable=policy)
    grandchild = make_work("g", dependencies=after(child), when_unreachable="cancel")
    cancel(NAMESPACE, parent.workload_id, actor="human:ada", now_ms=clock.ms)
    assert sweep(now_ms=clock.ms).stranded == [child.workload_id]
    assert state_of(child) == state
    event = Event.objects.filter(workload=child).latest("sequence")
    assert event.evidence == {"reason": "dependency_unreachable", "dependencies": [parent.workload_id]}
    sweep(now_ms=clock.ms)
    # A dead letter may still be retried, so only a child of what ended for good is stranded.
    assert state_of(grandchild) == ("CANCELLED" if state == "CANCELLED" else "READY")


def test_a_dead_parent_holds_its_child_until_it_is_retried_and_succeeds(make_work, run, clock):
    parent = make_work("p", retry_policy=RetryPolicy(max_attempts=1))
    child = make_work("c", dependencies=after(parent))
    fail(run(parent).fence, Failure(kind="timeout"), now_ms=clock.ms)
    sweep(now_ms=clock.ms)
    assert state_of(parent) == "DEAD_LETTER" and state_of(child) == "READY" and next_ids(clock) == []
    retry(NAMESPACE, parent.workload_id, actor="human:ada", now_ms=clock.ms)
    complete(run(parent).fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    assert next_ids(clock) == [child.workload_id]


def test_work_may_wait_for_the_death_of_other_work(make_work, run, clock):
    parent = make_work("p", retry_policy=RetryPolicy(max_attempts=1))
    cleanup = make_work("c", dependencies=after(parent, state="DEAD_LETTER"))
    fail(run(parent).fence, Failure(kind="timeout"), now_ms=clock.ms)
    assert next_ids(clock) == [cleanup.workload_id]


def test_a_stranded_dead_letter_cannot_be_retried_while_its_parent_stands_in_the_way(make_work, clock):
    parent = make_work("p")
    child = make_work("c", dependencies=after(parent))
    cancel(NAMESPACE, parent.workload_id, actor="human:ada", now_ms=clock.ms)
    sweep(now_ms=clock.ms)
    with pytest.raises(WorkloadError) as refused:
        retry(NAMESPACE, child.workload_id, actor="human:ada", now_ms=clock.ms)
    assert refused.value.code == "WORKLOAD_TRANSITION_DENIED"
    assert refused.value.details == {"unreachable": [parent.workload_id]}


def test_a_dependency_already_met_does_not_hold_work_back(make_work, run, clock):
    parent = make_work("p")
    complete(run(parent).fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    child = make_work("c", dependencies=after(parent))
    assert child.waiting_on == 0 and Dependency.objects.get(child=child).met_at_ms == clock.ms
    assert next_ids(clock) == [child.workload_id]


def test_waiting_for_what_can_never_be_is_refused_at_once(make_work, run, clock):
    parent = make_work("p")
    complete(run(parent).fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    with pytest.raises(WorkloadError) as refused:
        make_work("c", dependencies=after(parent, state="CANCELLED"))
    assert refused.value.details == {"pointer": "/dependencies/0"}


def test_a_dependency_on_another_namespace_is_as_one_that_does_not_exist(make_work):
    foreign = make_work("p", namespace="other")
    with pytest.raises(WorkloadError) as refused:
        make_work("c", dependencies=after(foreign))
    assert refused.value.code == "WORKLOAD_INVALID"


def test_no_cycle_can_be_made_since_nothing_can_wait_for_what_does_not_exist_yet(command, clock):
    one, two = prepare(command("a")), prepare(command("b"))
    first = command("a", dependencies=(DependsOn(workload_id=two.workload_id),))
    second = command("b", dependencies=(DependsOn(workload_id=one.workload_id),))
    itself = command("c", dependencies=(DependsOn(workload_id=prepare(command("c")).workload_id),))
    for batch in ([first, second], [itself]):
        with pytest.raises(WorkloadError):
            admit_many(batch, now_ms=clock.ms)
    assert Workload.objects.count() == 0
    made = admit_many([command("a"), second], now_ms=clock.ms)
    assert made[1].workload.waiting_on == 1, "an earlier row of the same batch exists"
