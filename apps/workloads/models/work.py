"""Durable work at rest. A narrow row says where a workload stands; everything else is written once, beside it.

    Lane        what kind of work may be taken together: definition, capabilities, priority, authority
    Workload    state, eligibility, lease, fence, counters: the only row that changes with every transition
    Request     what was asked: identity, input, policies; never changed
    Attempt     one claim and what became of it
    Event       one transition
    Checkpoint  what an attempt left for its successor
    Result      the one success
    Dependency  one workload waiting for another

Instants are milliseconds since 1970 by the server's clock. Transitions: `machine.py`. Who moves rows: `services/`.
"""

from functools import reduce
from operator import or_

from django.db import models
from django.db.models import F, Q

from apps.http import trace
from apps.workloads import limits
from apps.workloads.fields import JSONText
from apps.workloads.machine import targets
from apps.workloads.states import (
    CLAIMED_STATES,
    REQUIRABLE,
    RESTING,
    STARTED,
    UNDECIDED_ENDS,
    Approval,
    AttemptStatus,
    Effect,
    State,
    WhenUnreachable,
)


class Lane(models.Model):
    """Work of one namespace that the same workers can take at the same priority, under the same authority.

    Claims look for a lane first and then at the head of it, so that neither work nobody can run nor work of the
    future stands in the way of what is ready. `grant_id` is the grant it runs under, "" for the instance's own work.
    `digest` names the other columns.
    """

    namespace = models.CharField(max_length=63)
    definition_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    capabilities = JSONText()
    priority = models.IntegerField()
    grant_id = models.CharField(max_length=limits.MAX_NAME_CHARS, blank=True, default="")
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["namespace", "digest"], name="lane_digest_unique")]
        indexes = [models.Index(F("namespace"), F("priority").desc(), name="lane_by_priority")]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.definition_id} at {self.priority}"


class Workload(models.Model):
    """Where one piece of durable work stands.

    `fencing_token` grows with every claim and never falls. `history_length` counts the events and, with state and
    token, is what a transition compares and sets. `eligible_at_ms` is the one instant before which nobody may claim.
    `approval` says whether work needs it and how it stands: only approved work is ever READY or claimed.
    `waiting_on` counts dependencies not yet met. `budget_used` counts the attempts since the work was last armed
    (`armed_at_ms`: created, or retried by an operator). `due_at_ms` is when the sweep must next look, null for never.
    """

    workload_id = models.CharField(max_length=40, unique=True)
    namespace = models.CharField(max_length=63)
    application_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    definition_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    trigger = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, related_name="workloads", db_index=False)
    priority = models.IntegerField()
    state = models.CharField(max_length=24, choices=[(state.value, state.value) for state in State])

    eligible_at_ms = models.BigIntegerField()
    approval = models.CharField(
        max_length=12, choices=[(choice.value, choice.value) for choice in Approval], default=Approval.NONE
    )
    waiting_on = models.IntegerField(default=0)
    when_unreachable = models.CharField(
        max_length=16,
        choices=[(choice.value, choice.value) for choice in WhenUnreachable],
        default=WhenUnreachable.DEAD_LETTER,
    )
    timeouts = JSONText(null=True)
    due_at_ms = models.BigIntegerField(null=True)

    max_attempts = models.IntegerField()
    attempt_count = models.IntegerField(default=0)
    budget_used = models.IntegerField(default=0)
    handback_count = models.IntegerField(default=0)
    retry_count = models.IntegerField(default=0)
    operator_retry_count = models.IntegerField(default=0)

    fencing_token = models.BigIntegerField(default=0)
    history_length = models.IntegerField(default=0)
    worker_id = models.CharField(max_length=limits.MAX_NAME_CHARS, null=True)  # noqa: DJ001 - absent, not empty
    claimed_by = models.CharField(max_length=limits.MAX_TEXT_CHARS, null=True)  # noqa: DJ001 - absent, not empty
    claimed_at_ms = models.BigIntegerField(null=True)
    started_at_ms = models.BigIntegerField(null=True)
    heartbeat_at_ms = models.BigIntegerField(null=True)
    lease_expires_at_ms = models.BigIntegerField(null=True)
    cancel_deadline_at_ms = models.BigIntegerField(null=True)

    last_failure = models.CharField(max_length=limits.MAX_FAILURE_CHARS, blank=True, default="")
    armed_at_ms = models.BigIntegerField()
    created_at_ms = models.BigIntegerField()
    updated_at_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=RESTING), name="workload_state_rests"),
            models.CheckConstraint(
                condition=Q(
                    state__in=CLAIMED_STATES,
                    worker_id__isnull=False,
                    claimed_by__isnull=False,
                    claimed_at_ms__isnull=False,
                    heartbeat_at_ms__isnull=False,
                    lease_expires_at_ms__isnull=False,
                )
                | ~Q(state__in=CLAIMED_STATES)
                & Q(
                    worker_id__isnull=True,
                    claimed_by__isnull=True,
                    claimed_at_ms__isnull=True,
                    heartbeat_at_ms__isnull=True,
                    lease_expires_at_ms__isnull=True,
                ),
                name="workload_claim_exactly_when_claimed",
            ),
            models.CheckConstraint(
                condition=Q(state__in=STARTED, started_at_ms__isnull=False)
                | Q(state=State.CANCELLATION_REQUESTED)
                | ~Q(state__in=STARTED) & Q(started_at_ms__isnull=True),
                name="workload_start_exactly_when_started",
            ),
            models.CheckConstraint(
                condition=Q(state=State.CANCELLATION_REQUESTED, cancel_deadline_at_ms__isnull=False)
                | ~Q(state=State.CANCELLATION_REQUESTED) & Q(cancel_deadline_at_ms__isnull=True),
                name="workload_cancel_deadline_exactly_when_requested",
            ),
            models.CheckConstraint(
                condition=Q(lease_expires_at_ms__isnull=True)
                | Q(
                    lease_expires_at_ms__gt=F("heartbeat_at_ms"),
                    lease_expires_at_ms__lte=F("heartbeat_at_ms") + limits.MAX_LEASE_MS,
                ),
                name="workload_lease_is_bounded",
            ),
            models.CheckConstraint(
                condition=Q(state__in=CLAIMED_STATES, due_at_ms__isnull=False) | ~Q(state__in=CLAIMED_STATES),
                name="workload_claimed_is_swept",
            ),
            models.CheckConstraint(
                condition=Q(state=State.AWAITING_APPROVAL, approval=Approval.PENDING)
                | Q(state=State.REJECTED, approval=Approval.REJECTED)
                | Q(state__in=UNDECIDED_ENDS, approval=Approval.PENDING)
                | ~Q(state__in=(State.AWAITING_APPROVAL, State.REJECTED))
                & Q(approval__in=(Approval.NONE, Approval.APPROVED)),
                name="workload_runs_only_approved",
            ),
            models.CheckConstraint(condition=Q(fencing_token__gte=0), name="workload_fence_not_negative"),
            models.CheckConstraint(
                condition=Q(attempt_count=F("fencing_token")), name="workload_one_attempt_per_fence"
            ),
            models.CheckConstraint(
                condition=Q(budget_used__gte=0, budget_used__lte=F("max_attempts"))
                & Q(budget_used__lte=F("attempt_count")),
                name="workload_attempts_within_budget",
            ),
            models.CheckConstraint(
                condition=Q(
                    max_attempts__gte=1,
                    handback_count__gte=0,
                    retry_count__gte=0,
                    operator_retry_count__gte=0,
                    waiting_on__gte=0,
                    history_length__gte=1,
                ),
                name="workload_counters_not_negative",
            ),
            models.CheckConstraint(
                condition=~Q(workload_id="") & ~Q(application_id="") & ~Q(definition_id=""),
                name="workload_is_named",
            ),
        ]
        indexes = [
            models.Index(
                fields=["lane", "eligible_at_ms", "id"],
                condition=Q(state=State.READY, waiting_on=0),
                name="workload_claim_order",
            ),
            models.Index(
                fields=["namespace", "worker_id"], condition=Q(worker_id__isnull=False), name="workload_held_by_worker"
            ),
            models.Index(fields=["due_at_ms"], condition=Q(due_at_ms__isnull=False), name="workload_due"),
            models.Index(fields=["namespace", "id"], name="workload_by_age"),
            models.Index(fields=["namespace", "state", "id"], name="workload_by_state"),
            models.Index(fields=["namespace", "trigger", "id"], name="workload_by_trigger"),
            models.Index(fields=["namespace", "definition_id", "id"], name="workload_by_definition"),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.state}"


class Request(models.Model):
    """What was asked for, once and for all. `fingerprint` digests everything two equal requests must agree on."""

    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, primary_key=True, related_name="request")
    namespace = models.CharField(max_length=63)
    application_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    requester_kind = models.CharField(max_length=16)
    requester_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    idempotency_key = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    fingerprint = models.CharField(max_length=64)
    environment = models.CharField(max_length=limits.MAX_NAME_CHARS)
    definition_revision = models.CharField(max_length=limits.MAX_NAME_CHARS)
    session_id = models.CharField(max_length=limits.MAX_TEXT_CHARS, blank=True, default="")
    capability_snapshot = JSONText()
    connection_scopes = JSONText()
    retry_policy = JSONText()
    approval = JSONText(null=True)
    not_before_at_ms = models.BigIntegerField(null=True)
    authorization_snapshot = JSONText(null=True)
    traceparent = models.CharField(max_length=trace.MAX_CHARS, null=True)  # noqa: DJ001 - absent, not empty
    input_hash = models.CharField(max_length=64)
    input = JSONText()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                # The key first, so that what was done under a key is found by it alone.
                fields=["namespace", "idempotency_key", "application_id", "requester_kind", "requester_id"],
                name="request_idempotency_scope_unique",
            ),
            models.CheckConstraint(condition=~Q(idempotency_key=""), name="request_has_an_idempotency_key"),
        ]

    def __str__(self) -> str:
        return f"{self.idempotency_key} by {self.requester_kind} {self.requester_id}"


class Attempt(models.Model):
    """One claim: who, when, and what became of it. `number` counts from 1 and equals the fencing token."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    namespace = models.CharField(max_length=63)
    number = models.IntegerField()
    claim_id = models.CharField(max_length=40)
    worker_id = models.CharField(max_length=limits.MAX_NAME_CHARS)
    claimed_by = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    claimed_at_ms = models.BigIntegerField()
    started_at_ms = models.BigIntegerField(null=True)
    ended_at_ms = models.BigIntegerField(null=True)
    status = models.CharField(max_length=16, choices=[(status.value, status.value) for status in AttemptStatus])
    failure_kind = models.CharField(max_length=limits.MAX_NAME_CHARS, blank=True, default="")
    error = models.CharField(max_length=limits.MAX_ERROR_CHARS, blank=True, default="")
    effect = models.CharField(
        max_length=8, choices=[(effect.value, effect.value) for effect in Effect], blank=True, default=""
    )
    result_hash = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workload", "number"], name="attempt_number_unique"),
            models.CheckConstraint(condition=Q(number__gte=1), name="attempt_counts_from_one"),
            models.CheckConstraint(condition=Q(status__in=list(AttemptStatus)), name="attempt_status_is_known"),
            models.CheckConstraint(
                condition=Q(status__in=["CLAIMED", "RUNNING", "CHECKPOINTED"], ended_at_ms__isnull=True)
                | ~Q(status__in=["CLAIMED", "RUNNING", "CHECKPOINTED"]) & Q(ended_at_ms__isnull=False),
                name="attempt_ends_exactly_when_over",
            ),
            models.UniqueConstraint(
                fields=["workload"], condition=Q(status="SUCCEEDED"), name="attempt_one_success_per_workload"
            ),
            models.UniqueConstraint(
                fields=["workload"], condition=Q(ended_at_ms__isnull=True), name="attempt_one_open_per_workload"
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.workload_id}: {self.status}"


_IN_THE_TABLE = reduce(
    or_,
    (Q(from_state=state, to_state__in=sorted(targets(state))) for state in sorted(State) if targets(state)),
)


class Event(models.Model):
    """One transition, as it happened. `sequence` counts from 1 within its workload, without gaps."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="events", db_index=False)
    namespace = models.CharField(max_length=63)
    sequence = models.IntegerField()
    event_type = models.CharField(max_length=40)
    from_state = models.CharField(max_length=24)
    to_state = models.CharField(max_length=24)
    actor = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    at_ms = models.BigIntegerField()
    evidence = JSONText()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workload", "sequence"], name="event_sequence_unique"),
            models.CheckConstraint(condition=Q(sequence__gte=1), name="event_counts_from_one"),
            models.CheckConstraint(condition=_IN_THE_TABLE, name="event_is_in_the_table"),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.sequence} of {self.workload_id}"


class Checkpoint(models.Model):
    """What an attempt saved for whoever goes on after it. `sequence` counts over all attempts of the workload."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="checkpoints", db_index=False)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="checkpoints", db_index=False)
    namespace = models.CharField(max_length=63)
    sequence = models.IntegerField()
    produced_by = models.CharField(max_length=limits.MAX_NAME_CHARS)
    created_at_ms = models.BigIntegerField()
    state_hash = models.CharField(max_length=64)
    state = JSONText()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workload", "sequence"], name="checkpoint_sequence_unique"),
            models.CheckConstraint(condition=Q(sequence__gte=1), name="checkpoint_counts_from_one"),
        ]

    def __str__(self) -> str:
        return f"checkpoint {self.sequence} of {self.workload_id}"


class Result(models.Model):
    """The success of a workload: at most one, under an id of the worker's choice that is unique in the namespace."""

    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, primary_key=True, related_name="result")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+", db_index=False)
    namespace = models.CharField(max_length=63)
    result_id = models.CharField(max_length=limits.MAX_TEXT_CHARS)
    produced_by = models.CharField(max_length=limits.MAX_NAME_CHARS)
    created_at_ms = models.BigIntegerField()
    schema_version = models.BigIntegerField()
    artifacts = JSONText()
    output_hash = models.CharField(max_length=64)
    output = JSONText()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["namespace", "result_id"], name="result_id_unique_in_namespace"),
            models.CheckConstraint(condition=~Q(result_id=""), name="result_is_named"),
        ]

    def __str__(self) -> str:
        return f"{self.result_id} of {self.workload_id}"


class Dependency(models.Model):
    """`child` may not be claimed before `parent` has reached `required_state`. Both are of one namespace."""

    child = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="dependencies", db_index=False)
    parent = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="dependants", db_index=False)
    namespace = models.CharField(max_length=63)
    required_state = models.CharField(max_length=24, choices=[(state.value, state.value) for state in REQUIRABLE])
    met_at_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["child", "parent"], name="dependency_once_per_parent"),
            models.CheckConstraint(condition=~Q(child=F("parent")), name="dependency_not_on_itself"),
            models.CheckConstraint(condition=Q(required_state__in=REQUIRABLE), name="dependency_state_is_requirable"),
        ]
        indexes = [
            models.Index(fields=["parent"], condition=Q(met_at_ms__isnull=True), name="dependency_open_by_parent")
        ]

    def __str__(self) -> str:
        return f"{self.child_id} waits for {self.parent_id} to be {self.required_state}"
