"""Work against a small model, by hypothesis: any sequence of operations, passing time and sweeps, on three workloads.

The model knows nothing of rows, lanes or transactions: a few numbers for each workload and what follows from them.
"""

import os
from dataclasses import dataclass, field

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from apps.keys.principal import operator
from apps.workloads import services
from apps.workloads.commands import (
    ApprovalPolicy,
    ClaimById,
    ClaimNext,
    Completion,
    CreateWorkload,
    Failure,
    Fence,
    RetryPolicy,
    Subject,
    Timeouts,
)
from apps.workloads.errors import WorkloadError
from apps.workloads.machine import targets
from apps.workloads.models import Attempt, Checkpoint, Event, Result, Workload
from apps.workloads.states import Approval
from tests.workloads.conftest import NAMESPACE, START_MS

WORKS = 3
MAX_ATTEMPTS = 2
LEASE_MS = 10_000
GRACE_MS = 4_000
EXECUTION_MS = 15_000
HELD = ("CLAIMED", "RUNNING", "CHECKPOINTED")
ADA = operator("ada")

which = st.integers(0, WORKS - 1)
worker = st.sampled_from(["w1", "w2"])


@dataclass
class Model:
    """What one workload should be."""

    workload_id: str
    input_hash: str
    state: str
    timed: bool
    approved: bool
    decided: bool = False
    token: int = 0
    used: int = 0
    checkpoints: int = 0
    lease_end: int = 0
    started: int = 0
    grace_end: int = 0
    fences: list[Fence] = field(default_factory=list)

    def lost(self) -> None:
        """An attempt ended without success: again or never."""
        self.state = "READY" if self.used < MAX_ATTEMPTS else "DEAD_LETTER"

    def late(self, now: int) -> bool:
        """Tell whether the execution deadline has passed."""
        return self.timed and self.state in ("RUNNING", "CHECKPOINTED") and self.started + EXECUTION_MS <= now


class Machine(RuleBasedStateMachine):
    """Operations on the services, each with what the model says of it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START_MS
        self.works: list[Model] = []
        self.undo = transaction.atomic()
        self.undo.__enter__()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.undo.__exit__(None, None, None)

    @initialize(approval=st.tuples(*[st.booleans()] * WORKS), timed=st.tuples(*[st.booleans()] * WORKS))
    def admit(self, approval, timed):
        for number in range(WORKS):
            command = CreateWorkload(
                namespace=NAMESPACE,
                definition_id="identity",
                requested_by=Subject(kind="service", id="tests"),
                idempotency_key=f"k{number}",
                input=number,
                approval=ApprovalPolicy() if approval[number] else None,
                timeouts=Timeouts(execution_ms=EXECUTION_MS) if timed[number] else Timeouts(),
                retry_policy=RetryPolicy(max_attempts=MAX_ATTEMPTS, initial_delay_ms=0),
            )
            made = services.admit(command, now_ms=self.now).workload
            state = "AWAITING_APPROVAL" if approval[number] else "READY"
            self.works.append(
                Model(made.workload_id, made.request.input_hash, state, timed[number], not approval[number])
            )

    def tried(self, possible, operation):
        """Run the operation; it succeeds exactly when the model says it can."""
        before = list(Event.objects.values_list("pk", flat=True))
        try:
            answer = operation()
        except WorkloadError as error:
            assert not possible, f"refused with {error.code}"
            if error.code != "WORKLOAD_TIMED_OUT":
                assert list(Event.objects.values_list("pk", flat=True)) == before, "a refusal wrote history"
            return None
        assert possible, "it should have been refused"
        return answer

    def found_late(self, work):
        """Whoever speaks of work whose time is up finds it timed out."""
        if work.late(self.now):
            work.lost()
            return True
        return False

    @rule(number=which, name=worker)
    def claim(self, number, name):
        work = self.works[number]
        possible = work.state == "READY" and not self.found_late(work)
        command = ClaimById(
            namespace=NAMESPACE,
            workload_id=work.workload_id,
            worker_id=name,
            principal=f"worker:{name}",
            lease_ms=LEASE_MS,
        )
        if (claim := self.tried(possible, lambda: services.claim(command, now_ms=self.now))) is not None:
            self.claimed(work, claim)

    @rule(name=worker, most=st.integers(1, 3))
    def claim_next(self, name, most):
        command = ClaimNext(
            namespace=NAMESPACE,
            worker_id=name,
            principal=f"worker:{name}",
            capabilities=frozenset({"identity"}),
            max=most,
            lease_ms=LEASE_MS,
        )
        claims = services.claim_next(command, now_ms=self.now)
        ready = [work for work in self.works if work.state == "READY"]
        assert len(claims) == min(most, len(ready))
        by_id = {work.workload_id: work for work in ready}
        for claim in claims:
            self.claimed(by_id[claim.workload_id], claim)

    def claimed(self, work, claim):
        work.token += 1
        work.used += 1
        work.state, work.lease_end = "CLAIMED", self.now + LEASE_MS
        assert claim.fencing_token == work.token
        work.fences.append(claim.fence)

    def fence(self, work, age):
        """A fence that was given some time: the current one, an older one, or one that never was."""
        if age < len(work.fences):
            return work.fences[-1 - age], age == 0
        forged = Fence(
            namespace=NAMESPACE,
            workload_id=work.workload_id,
            worker_id="w1",
            claim_id="claim_0",
            fencing_token=work.token + 1,
            principal="worker:w1",
        )
        return forged, False

    def holds(self, work, current):
        return current and work.state in (*HELD, "CANCELLATION_REQUESTED") and self.now < work.lease_end

    @rule(number=which, age=st.integers(0, 2))
    def start(self, number, age):
        work = self.works[number]
        fence, current = self.fence(work, age)
        possible = not self.found_late(work) and self.holds(work, current) and work.state == "CLAIMED"
        if self.tried(possible, lambda: services.start(fence, now_ms=self.now)) is not None:
            work.state, work.started = "RUNNING", self.now

    @rule(number=which, age=st.integers(0, 2), extend=st.sampled_from([1_000, LEASE_MS]))
    def heartbeat(self, number, age, extend):
        work = self.works[number]
        fence, current = self.fence(work, age)
        possible = not self.found_late(work) and self.holds(work, current)
        answer = self.tried(possible, lambda: services.heartbeat(fence, extend_ms=extend, now_ms=self.now))
        if answer is not None:
            work.lease_end = self.now + extend
            assert answer.cancel_requested == (work.state == "CANCELLATION_REQUESTED")

    @rule(number=which, age=st.integers(0, 1))
    def checkpoint(self, number, age):
        work = self.works[number]
        fence, current = self.fence(work, age)
        late = self.found_late(work)
        possible = not late and self.holds(work, current) and work.state in ("RUNNING", "CHECKPOINTED")
        if self.tried(possible, lambda: services.checkpoint(fence, work.checkpoints, now_ms=self.now)) is not None:
            work.state = "CHECKPOINTED"
            work.checkpoints += 1

    @rule(number=which, age=st.integers(0, 2))
    def complete(self, number, age):
        work = self.works[number]
        fence, current = self.fence(work, age)
        completion = Completion(result_id=f"result-{fence.fencing_token}-{number}", output=number)
        replay = work.state == "SUCCEEDED" and current
        late = self.found_late(work)
        possible = replay or (not late and self.holds(work, current) and work.state in ("RUNNING", "CHECKPOINTED"))
        answer = self.tried(possible, lambda: services.complete(fence, completion, now_ms=self.now))
        if answer is not None:
            assert answer[1] != replay
            work.state = "SUCCEEDED"

    @rule(number=which, age=st.integers(0, 1), kind=st.sampled_from(["transient_connection", "broken"]))
    def fail(self, number, age, kind):
        work = self.works[number]
        fence, current = self.fence(work, age)
        last = Attempt.objects.filter(workload__workload_id=work.workload_id, number=fence.fencing_token).first()
        if last is not None and last.status == "FAILED" and last.failure_kind == kind:
            services.fail(fence, Failure(kind=kind), now_ms=self.now)  # said again: nothing happens
            return
        possible = not self.found_late(work) and self.holds(work, current) and work.state in HELD
        if self.tried(possible, lambda: services.fail(fence, Failure(kind=kind), now_ms=self.now)) is not None:
            work.lost()
            if kind == "broken":
                work.state = "DEAD_LETTER"

    @rule(number=which, age=st.integers(0, 1))
    def hand_back(self, number, age):
        work = self.works[number]
        fence, current = self.fence(work, age)
        possible = not self.found_late(work) and self.holds(work, current) and work.state in HELD
        if self.tried(possible, lambda: services.hand_back(fence, now_ms=self.now)) is not None:
            work.state = "READY"
            work.used -= 1

    @rule(number=which)
    def cancel(self, number):
        work = self.works[number]
        possible = work.state not in ("SUCCEEDED", "CANCELLED", "REJECTED")
        asked = {"actor": "human:ada", "now_ms": self.now, "grace_ms": GRACE_MS}
        if self.tried(possible, lambda: services.cancel(NAMESPACE, work.workload_id, **asked)) is not None:
            if work.state in HELD:
                work.state, work.grace_end = "CANCELLATION_REQUESTED", self.now + GRACE_MS
            elif work.state != "CANCELLATION_REQUESTED":
                work.state = "CANCELLED"

    @rule(number=which, age=st.integers(0, 1))
    def confirm(self, number, age):
        work = self.works[number]
        fence, current = self.fence(work, age)
        possible = self.holds(work, current) and work.state == "CANCELLATION_REQUESTED"
        if self.tried(possible, lambda: services.confirm_cancel(fence, now_ms=self.now)) is not None:
            work.state = "CANCELLED"

    @rule(number=which)
    def retry(self, number):
        work = self.works[number]
        possible = work.state == "DEAD_LETTER"
        asked = {"actor": "human:ada", "now_ms": self.now}
        if self.tried(possible, lambda: services.retry(NAMESPACE, work.workload_id, **asked)) is not None:
            work.state = "READY" if work.approved else "AWAITING_APPROVAL"
            work.used = 0

    @rule(number=which, outcome=st.sampled_from([Approval.APPROVED, Approval.REJECTED]))
    def decide(self, number, outcome):
        work = self.works[number]
        asked = {"by": ADA, "input_hash": work.input_hash, "reason": "seen", "now_ms": self.now}
        again = work.decided and work.approved and outcome == Approval.APPROVED
        again = again or (work.state == "REJECTED" and outcome == Approval.REJECTED)
        possible = work.state == "AWAITING_APPROVAL" or again
        answer = self.tried(possible, lambda: services.decide_approval(NAMESPACE, work.workload_id, outcome, **asked))
        if answer is not None and not again:
            work.approved, work.decided = outcome == Approval.APPROVED, True
            work.state = "READY" if work.approved else "REJECTED"

    @rule(ms=st.sampled_from([1, 999, 4_000, 10_000, 15_000]))
    def time_passes(self, ms):
        self.now += ms

    @rule()
    def sweep(self):
        report = services.sweep(now_ms=self.now)
        assert not report.more
        for work in self.works:
            if work.late(self.now) or (work.state in HELD and work.lease_end <= self.now):
                work.lost()
            elif work.state == "CANCELLATION_REQUESTED" and min(work.lease_end, work.grace_end) <= self.now:
                work.state = "CANCELLED"
        assert not Workload.objects.filter(due_at_ms__lte=self.now).exists(), "nothing is stuck past one sweep"

    @invariant()
    def rows_are_as_the_model_says(self):
        for work in self.works:
            row = Workload.objects.get(workload_id=work.workload_id)
            assert (row.state, row.fencing_token, row.budget_used) == (work.state, work.token, work.used)
            events = list(Event.objects.filter(workload=row).order_by("sequence"))
            assert [event.sequence for event in events] == list(range(1, row.history_length + 1))
            at = "CREATED"
            for event in events:
                assert event.from_state == at and event.to_state in targets(event.from_state)
                at = event.to_state
            assert at == row.state
            attempts = list(Attempt.objects.filter(workload=row).order_by("number"))
            assert [attempt.number for attempt in attempts] == list(range(1, work.token + 1))
            assert sum(attempt.ended_at_ms is None for attempt in attempts) == (row.worker_id is not None)
            succeeded = sum(attempt.status == "SUCCEEDED" for attempt in attempts)
            assert succeeded == Result.objects.filter(workload=row).count() == (work.state == "SUCCEEDED")
            kept = Checkpoint.objects.filter(workload=row).order_by("-sequence").values_list("state", flat=True)
            assert list(kept)[:1] == ([work.checkpoints - 1] if work.checkpoints else [])


def run(examples: int, steps: int) -> None:
    """Run so many sequences of so many steps; a failing one is shrunk and printed."""
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=how)


@pytest.mark.django_db
def test_any_sequence_of_operations_leaves_work_as_the_model_says():
    run(examples=8, steps=25)


@pytest.mark.torture
@pytest.mark.timeout(0)
@pytest.mark.django_db
def test_many_long_sequences_leave_work_as_the_model_says():
    minutes = float(os.environ.get("FELTDB_TORTURE_MINUTES", "1"))
    run(examples=max(1, int(minutes * 40)), steps=60)
