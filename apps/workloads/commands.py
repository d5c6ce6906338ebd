"""What callers ask of this room and what they get: frozen values, no behaviour but their own validity.

Not here: where they are kept (`models.py`), how they are carried out (`services/`), how they look as JSON (`api/`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from apps.workloads import limits
from apps.workloads.states import State, WhenUnreachable

if TYPE_CHECKING:
    from apps.workloads.errors import WorkloadError
    from apps.workloads.models import Checkpoint, RegisteredWorker, Workload

JSON: TypeAlias = Any
SubjectKind: TypeAlias = Literal["human", "service", "workload", "agent", "connection", "worker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """Who asked for the work."""

    kind: SubjectKind
    id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often and when work is tried again. `retry_on` lists failure kinds; a lost worker is `worker_failure`."""

    max_attempts: int = 3
    initial_delay_ms: int = 1_000
    max_delay_ms: int = 300_000
    backoff: Literal["exponential", "fixed"] = "exponential"
    retry_on: frozenset[str] = frozenset({"timeout", "worker_failure", "transient_connection"})

    def as_json(self) -> dict[str, JSON]:
        """Return the policy as it is stored and shown."""
        return {
            "max_attempts": self.max_attempts,
            "initial_delay_ms": self.initial_delay_ms,
            "max_delay_ms": self.max_delay_ms,
            "backoff": self.backoff,
            "retry_on": sorted(self.retry_on),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "RetryPolicy":
        """Read the stored form back."""
        return cls(**{**value, "retry_on": frozenset(value["retry_on"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Deadlines in milliseconds; None for no deadline."""

    queue_ms: int | None = None
    claim_ms: int | None = None
    execution_ms: int | None = None
    heartbeat_ms: int | None = None
    overall_ms: int | None = None
    approval_ms: int | None = None

    def as_json(self) -> dict[str, JSON]:
        """Return the deadlines that are set."""
        return {name: value for name in _DEADLINES if (value := getattr(self, name)) is not None}


_DEADLINES = tuple(each.name for each in fields(Timeouts))


@dataclass(frozen=True, kw_only=True, slots=True)
class ApprovalPolicy:
    """Who may decide on the work: subjects of these kinds, and of those only `approvers` where given."""

    approver_kinds: frozenset[str] = frozenset({"human"})
    approvers: frozenset[Subject] | None = None

    def as_json(self) -> dict[str, JSON]:
        """Return the policy as it is stored and shown."""
        listed = None if self.approvers is None else sorted((each.kind, each.id) for each in self.approvers)
        shown = {} if listed is None else {"approvers": [{"kind": kind, "id": id_} for kind, id_ in listed]}
        return {"approver_kinds": sorted(self.approver_kinds), **shown}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ApprovalPolicy":
        """Read the stored form back."""
        listed = value.get("approvers")
        return cls(
            approver_kinds=frozenset(value["approver_kinds"]),
            approvers=None if listed is None else frozenset(Subject(**each) for each in listed),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DependsOn:
    """Work that must have reached a state first."""

    workload_id: str
    required_state: str = State.SUCCEEDED


BY_CHANGE = "state_change:"
"""How `trigger` begins where a state trigger made the request; its id follows. Callers cannot say so themselves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateWorkload:
    """A request for work. An empty `capability_snapshot` means: whoever can run `definition_id`.

    With `approval` somebody must approve it before it can be claimed.

    `trigger` says in words where the request came from. `not_before_at_ms` is the earliest instant of the first
    claim. `authorization_snapshot` is a grant; its subject, tenant and application must be the request's own.
    `grant_id` names the grant the work runs under once that is settled (`services/authority.py`); "" is the
    instance's own work. `traceparent` is the caller's place in a trace (W3C Trace Context); two requests that differ
    in nothing else are the same.
    """

    namespace: str
    definition_id: str
    requested_by: Subject
    idempotency_key: str
    input: JSON = None
    application_id: str = "default"
    environment: str = "production"
    definition_revision: str = "1"
    trigger: str = "manual"
    session_id: str = ""
    capability_snapshot: frozenset[str] = frozenset()
    connection_scopes: frozenset[str] = frozenset()
    priority: int = 0
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)
    dependencies: tuple[DependsOn, ...] = ()
    when_unreachable: str = WhenUnreachable.DEAD_LETTER
    not_before_at_ms: int | None = None
    approval: ApprovalPolicy | None = None
    authorization_snapshot: Mapping[str, JSON] | None = None
    grant_id: str = ""
    traceparent: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """What became of one request: the work as it stands now, and whether this request made it.

    With `conflict`, the idempotency key is known with another request and `workload` is the one it made.
    """

    workload: "Workload"
    created: bool
    conflict: "WorkloadError | None" = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimById:
    """A worker asks for one workload. `capabilities` None: the worker vouches for itself by naming the work."""

    namespace: str
    workload_id: str
    worker_id: str
    principal: str
    lease_ms: int = limits.DEFAULT_LEASE_MS
    capabilities: frozenset[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimNext:
    """A worker asks for the next `max` workloads it can run. `definitions` None: any its capabilities allow.

    `start`: it begins them at once, so that claiming and starting are one step.
    """

    namespace: str
    worker_id: str
    principal: str
    capabilities: frozenset[str]
    definitions: frozenset[str] | None = None
    max: int = 1
    lease_ms: int = limits.DEFAULT_LEASE_MS
    start: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A claim that was made: what to run, until when, and the fence every later word must name."""

    namespace: str
    workload_id: str
    worker_id: str
    principal: str
    claim_id: str
    lease_id: str
    attempt_id: str
    fencing_token: int
    definition_id: str
    definition_revision: str
    environment: str
    grant_id: str
    trigger: str
    capability_snapshot: tuple[str, ...]
    connection_scopes: tuple[str, ...]
    traceparent: str | None
    input: JSON
    timeouts: Mapping[str, int]
    claimed_at_ms: int
    expires_at_ms: int

    @property
    def trigger_id(self) -> str | None:
        """Return the state trigger whose change made the work, if one did."""
        return self.trigger.removeprefix(BY_CHANGE) if self.trigger.startswith(BY_CHANGE) else None

    @property
    def fence(self) -> "Fence":
        """Return what the holder must name from now on."""
        return Fence(
            namespace=self.namespace,
            workload_id=self.workload_id,
            worker_id=self.worker_id,
            claim_id=self.claim_id,
            fencing_token=self.fencing_token,
            principal=self.principal,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Fence:
    """Which claim a worker speaks for. `principal` is who speaks; a claim is bound to whoever made it."""

    namespace: str
    workload_id: str
    worker_id: str
    claim_id: str
    fencing_token: int
    principal: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """The answer to a sign of life: until when the lease holds, and whether the work is to be given up."""

    claim_id: str
    fencing_token: int
    last_heartbeat_at_ms: int
    expires_at_ms: int
    cancel_requested: bool
    cancel_deadline_at_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutionContext:
    """What the holder of a claim goes on with. `checkpoints`: those kept of all attempts, oldest first."""

    workload_id: str
    attempt_id: str
    worker_id: str
    capabilities: tuple[str, ...]
    connection_scopes: tuple[str, ...]
    secret_references: tuple[str, ...]
    expires_at_ms: int
    fencing_token: int
    input: JSON
    checkpoints: "tuple[Checkpoint, ...]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """A success to be recorded."""

    result_id: str
    output: JSON
    artifacts: tuple[str, ...] = ()
    schema_version: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One success of several to be recorded together."""

    fence: Fence
    completion: Completion


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A failure to be recorded. `effect` says what the attempt may have done: none, unknown, or not said.

    `retry_after_ms`: the least wait before the next attempt, if there is one.
    """

    kind: str
    error: str = ""
    effect: str | None = None
    retry_after_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerRegistration:
    """A worker says what it is. `workload_kinds`: definitions it takes, empty for all. `grant`: what it may declare."""

    namespace: str
    worker_id: str
    capabilities: frozenset[str]
    workload_kinds: frozenset[str] = frozenset()
    concurrency: int = 1
    application_id: str = "default"
    grant: Mapping[str, JSON] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedClaim:
    """A claim a worker says it holds."""

    workload_id: str
    claim_id: str
    fencing_token: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimStanding:
    """How a claim stands: held; cancel, to be given up until the deadline; lost, to be dropped at once."""

    workload_id: str
    claim_id: str
    standing: Literal["held", "cancel", "lost"]
    expires_at_ms: int | None = None
    cancel_deadline_at_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerBeat:
    """The answer to a worker's heartbeat: where it stands, and how each claim it named does, in order."""

    worker: "RegisteredWorker"
    claims: Sequence[ClaimStanding]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepReport:
    """What one sweep did, by kind, as workload ids; `more` when it stopped before the end."""

    recovered: Sequence[str] = ()
    timed_out: Sequence[str] = ()
    cancelled: Sequence[str] = ()
    stranded: Sequence[str] = ()
    more: bool = False
