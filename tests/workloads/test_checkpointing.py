"""Checkpoints and contexts: what an attempt leaves, and what its successor reads through its own fence only."""

import pytest

from apps.workloads import limits
from apps.workloads.commands import RetryPolicy, Timeouts
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Attempt, Checkpoint, Event, Workload
from apps.workloads.services import cancel, checkpoint, complete, context, sweep
from apps.workloads.services.reporting import Completion
from tests.workloads.conftest import NAMESPACE, history_of, state_of
from tests.workloads.test_api import PATH, claim_and_start, create, fits
from tests.workloads.test_lifecycle import refusal

pytestmark = pytest.mark.django_db


def test_a_resumed_attempt_reads_the_input_and_the_lost_attempts_checkpoints_through_its_fence(make_work, run, clock):
    """W17."""
    work = make_work(input={"order": 7}, retry_policy=RetryPolicy(initial_delay_ms=0))
    dead = run(work, "dead", lease_ms=1_000)
    checkpoint(dead.fence, {"packed": 1}, now_ms=clock.ms)
    checkpoint(dead.fence, {"packed": 2}, now_ms=clock.ms)
    clock.pass_ms(1_000)
    sweep(now_ms=clock.ms)
    alive = run(work, "alive")
    found = context(alive.fence, now_ms=clock.ms)
    assert found.input == {"order": 7} and found.fencing_token == 2 and found.worker_id == "alive"
    assert [(each.sequence, each.state, each.attempt.number) for each in found.checkpoints] == [
        (1, {"packed": 1}, 1),
        (2, {"packed": 2}, 1),
    ]
    for late in (
        lambda: context(dead.fence, now_ms=clock.ms),
        lambda: checkpoint(dead.fence, {"packed": 3}, now_ms=clock.ms),
    ):
        with refusal("WORKLOAD_STALE_FENCE"):
            late()
    checkpoint(alive.fence, {"packed": 3}, now_ms=clock.ms)
    assert [each.sequence for each in context(alive.fence, now_ms=clock.ms).checkpoints] == [1, 2, 3]


def test_only_the_first_checkpoint_of_an_attempt_is_a_transition_and_the_newest_are_kept(make_work, run, clock):
    work = make_work()
    claim = run(work)
    before = Workload.objects.get(pk=work.pk)
    for number in range(limits.MAX_CHECKPOINTS + 3):
        clock.pass_ms(10)
        made = checkpoint(claim.fence, number, now_ms=clock.ms)
        assert made.sequence == number + 1
    after = Workload.objects.get(pk=work.pk)
    assert history_of(work)[-1] == ("RUNNING", "CHECKPOINTED") and Event.objects.count() == before.history_length + 1
    assert after.heartbeat_at_ms == clock.ms and after.lease_expires_at_ms == before.lease_expires_at_ms
    kept = Checkpoint.objects.order_by("sequence")
    assert [each.state for each in kept] == list(range(3, limits.MAX_CHECKPOINTS + 3))
    assert Attempt.objects.get().status == "CHECKPOINTED"
    complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms)
    assert state_of(work) == "SUCCEEDED"


def test_a_checkpoint_is_life_to_the_heartbeat_deadline(make_work, run, clock):
    work = make_work(timeouts=Timeouts(heartbeat_ms=1_000), retry_policy=RetryPolicy(initial_delay_ms=0))
    claim = run(work, lease_ms=60_000)
    for _ in range(3):
        clock.pass_ms(900)
        checkpoint(claim.fence, "still here", now_ms=clock.ms)
        assert not sweep(now_ms=clock.ms).timed_out
    clock.pass_ms(1_000)
    with refusal("WORKLOAD_TIMED_OUT"):
        checkpoint(claim.fence, "too late", now_ms=clock.ms)
    assert Checkpoint.objects.count() == 3 and state_of(work) == "READY"


def test_a_secret_is_refused_first_and_too_much_after_it_and_nothing_is_kept(make_work, run, take, clock):
    """W38, the checkpoint half."""
    claim = run(make_work())
    with pytest.raises(WorkloadError) as refused:
        checkpoint(claim.fence, {"a": [{"password": "x"}]}, now_ms=clock.ms + 10**9)
    assert (
        refused.value.code == "WORKLOAD_SECRET_REJECTED" and refused.value.details["pointer"] == "/state/a/0/password"
    )
    exact = "x" * (limits.MAX_CHECKPOINT_BYTES - 2)
    checkpoint(claim.fence, exact, now_ms=clock.ms)
    with refusal("WORKLOAD_INVALID"):
        checkpoint(claim.fence, exact + "x", now_ms=clock.ms)
    assert Checkpoint.objects.count() == 1


def test_work_that_has_not_begun_or_is_to_be_given_up_takes_no_checkpoint(make_work, take, run, clock):
    claimed = take(make_work("a"))
    with refusal("WORKLOAD_TRANSITION_DENIED"):
        checkpoint(claimed.fence, 1, now_ms=clock.ms)
    running = run(make_work("b"))
    cancel(NAMESPACE, running.workload_id, actor="human:ada", now_ms=clock.ms)
    with refusal("WORKLOAD_TRANSITION_DENIED"):
        checkpoint(running.fence, 1, now_ms=clock.ms)
    assert context(running.fence, now_ms=clock.ms).input == {"n": 1}, "the context may still be read"


def test_checkpoint_and_context_over_http(api, make_key):
    client = api()
    worker = api(make_key(worker_id="w1", scopes=["workload:claim", "workload:execute"]))
    workload_id = create(client).json()["workload_id"]
    fence = claim_and_start(worker, workload_id)
    made = worker.post_json(f"{PATH}/{workload_id}/checkpoint", {**fence, "state": {"n": 1}})
    assert made.status_code == 200 and fits("WorkloadCheckpointed", made.json())["sequence"] == 1
    found = worker.post_json(f"{PATH}/{workload_id}/context", {**fence, "secret_references": ["secret://mail"]})
    body = fits("WorkloadContext", found.json())
    assert body["checkpoints"] == [{**made.json(), "state": {"n": 1}}] and body["secret_references"] == [
        "secret://mail"
    ]
    refused = worker.post_json(f"{PATH}/{workload_id}/context", {**fence, "secret_references": ["mail"]})
    assert (refused.status_code, refused.json()["details"]) == (422, {"pointer": "/secret_references/0"})
    stale = worker.post_json(f"{PATH}/{workload_id}/context", {**fence, "fencing_token": 2})
    assert (stale.status_code, stale.json()["code"]) == (409, "WORKLOAD_STALE_FENCE")
    history = fits("WorkloadHistory", client.get(f"{PATH}/{workload_id}/history").json())
    assert history["checkpoints"] == body["checkpoints"]
