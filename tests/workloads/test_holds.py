"""A namespace whose claims are stopped: nobody gets its work, by any door, and everybody is told why."""

from typing import Any

import pytest

from apps.workloads.commands import ClaimNext, Completion
from apps.workloads.errors import WorkloadError
from apps.workloads.services import claim_next, complete, holds, ready_definitions
from tests.workloads.conftest import NAMESPACE, state_of

pytestmark = pytest.mark.django_db
CODE = "CONTROL_PLANE_MISMATCH"


def take_next(clock: Any) -> list[Any]:
    command = ClaimNext(
        namespace=NAMESPACE, worker_id="w", principal="worker:w", capabilities=frozenset({"identity"}), lease_ms=30_000
    )
    return claim_next(command, now_ms=clock.ms)


def ready(clock: Any) -> dict[str, frozenset[str]]:
    return ready_definitions(
        now_ms=clock.ms, capabilities=frozenset({"identity"}), declared=lambda *_: False, namespaces=None
    )


def test_held_work_is_claimed_by_nobody_and_the_reason_is_told(make_work: Any, take: Any, clock: Any) -> None:
    work = make_work()
    holds.hold(NAMESPACE, code=CODE, message="rolled back apart", now_ms=clock.ms)
    for attempt in (lambda: take(work), lambda: take_next(clock)):
        with pytest.raises(WorkloadError) as refused:
            attempt()
        assert (refused.value.code, refused.value.message) == (CODE, "rolled back apart")
    assert ready(clock) == {}
    assert state_of(work) == "READY"


def test_other_namespaces_go_on(make_work: Any, clock: Any) -> None:
    make_work()
    holds.hold("another", code=CODE, message="rolled back apart", now_ms=clock.ms)
    assert ready(clock) == {NAMESPACE: frozenset({"identity"})}
    assert len(take_next(clock)) == 1


def test_what_was_claimed_before_is_finished(make_work: Any, run: Any, clock: Any) -> None:
    claim = run(make_work())
    holds.hold(NAMESPACE, code=CODE, message="rolled back apart", now_ms=clock.ms)
    complete(claim.fence, Completion(result_id="r", output=1), now_ms=clock.ms)


def test_claims_go_on_once_released_for_the_reason_they_were_stopped(make_work: Any, clock: Any) -> None:
    make_work()
    holds.hold(NAMESPACE, code=CODE, message="first", now_ms=clock.ms)
    holds.hold(NAMESPACE, code="OTHER", message="second", now_ms=clock.ms)
    holds.release(NAMESPACE, code="OTHER")
    with pytest.raises(WorkloadError, match="first"):
        take_next(clock)
    holds.release(NAMESPACE, code=CODE)
    assert len(take_next(clock)) == 1
