"""One claim while its program runs: the context the program sees, and what the worker knows of it."""

import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from apps.http.errors import ApiError
from apps.state.calls import Call
from apps.state.services import committing
from apps.state.stores import store
from apps.workloads import limits, services
from apps.workloads.capabilities import Cancelled, Failed
from apps.workloads.clock import now_ms
from apps.workloads.commands import Claim
from apps.workloads.errors import WorkloadError
from apps.workloads.states import State
from feltdb_engine import Actor, CommitResult, EngineError, Mutation, Precondition, Record, Store
from feltdb_engine.errors import DeadlineExceeded

_STEP = re.compile(rf"[A-Za-z0-9_.:-]{{1,{limits.MAX_STEP_CHARS}}}\Z")
_COMMIT_S = 10.0
"""Seconds a program's write may wait for its turn."""


class Running:
    """A claim in a slot of the worker. Implements `capabilities.Context`."""

    def __init__(self, claim: Claim, lease_ms: int) -> None:
        self.claim = claim
        self._lease_ms = lease_ms
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._begun: bool | None = None
        self.cancel_requested = False
        self.lost: str | None = None
        self.renew_every_s = min(lease_ms, claim.timeouts.get("heartbeat_ms", lease_ms)) / 3000
        self.expires_at_ms = claim.expires_at_ms
        self.started_at_ms = claim.claimed_at_ms
        self.program_over = False

    @property
    def workload_id(self) -> str:
        """The work's id."""
        return self.claim.workload_id

    @property
    def namespace(self) -> str:
        """The namespace the work belongs to."""
        return self.claim.namespace

    @property
    def attempt(self) -> int:
        """Which attempt this is: the fencing token."""
        return self.claim.fencing_token

    @property
    def traceparent(self) -> str | None:
        """The place in a trace of what made the work."""
        return self.claim.traceparent

    @property
    def deadline_at_ms(self) -> int | None:
        """When the attempt will be timed out."""
        length = self.claim.timeouts.get("execution_ms")
        return None if length is None else self.started_at_ms + length

    def cancelled(self) -> bool:
        """Tell whether to give up."""
        return self.cancel_requested or self.lost is not None or self._stopping.is_set()

    def heartbeat(self) -> None:
        """Show life now; raises Cancelled where the work is to be given up."""
        self.renew()
        if self.cancelled():
            raise Cancelled

    def begin(self) -> bool:
        """Begin, unless the claim was withdrawn; the slot's side of the race with `withdraw`."""
        with self._lock:
            if self._begun is None:
                self._begun = True
            return self._begun

    def withdraw(self) -> bool:
        """Keep the claim from beginning. Returns False where it has begun already."""
        with self._lock:
            if self._begun is None:
                self._begun = False
            return not self._begun

    def give_up(self) -> None:
        """Have the program learn, when it next looks, that nobody waits for it any more."""
        self._stopping.set()

    def renew(self) -> None:
        """Extend the lease, and note whether the work is to be given up. A refusal means that the claim is lost."""
        with self._lock:
            if self.lost is not None:
                return
            try:
                answer = services.heartbeat(self.claim.fence, extend_ms=self._lease_ms, now_ms=now_ms())
            except WorkloadError as error:
                self.lost = error.code
                return
            self.expires_at_ms = answer.expires_at_ms
            self.cancel_requested = self.cancel_requested or answer.cancel_requested

    def checkpoint(self, state: Any) -> None:
        """Keep something for an attempt that goes on after this one."""
        if self.lost is not None:
            raise Cancelled
        try:
            services.checkpoint(self.claim.fence, state, now_ms=now_ms())
        except WorkloadError as error:
            self._give_up_or_fail(error)

    def checkpoints(self) -> Sequence[Any]:
        """Return what this and earlier attempts kept, oldest first."""
        try:
            return [each.state for each in services.context(self.claim.fence, now_ms=now_ms()).checkpoints]
        except WorkloadError as error:
            self._give_up_or_fail(error)

    def _give_up_or_fail(self, error: WorkloadError) -> NoReturn:
        """What was given is the program's failure; any other refusal means that the claim is not to be used."""
        if error.code in ("WORKLOAD_INVALID", "WORKLOAD_SECRET_REJECTED"):
            raise error
        if error.details and error.details.get("state") == State.CANCELLATION_REQUESTED:
            self.cancel_requested = True
        else:
            self.lost = error.code
        raise Cancelled from error

    def commit(
        self, step: str, mutations: Sequence[Mutation], *, preconditions: Sequence[Precondition] = ()
    ) -> CommitResult:
        """Write records under `work:{workload_id}:{step}`, after a look at the lease.

        Two stores: between the look and the write the lease may end, so a stale worker's *first* write of a step can
        still land, once; the attempt after it then gets that outcome, or IDEMPOTENCY_CONFLICT.
        """
        if not _STEP.match(step):
            raise ValueError(f"{step!r} names no step: letters, digits, '_', '.', ':' and '-'")
        for mutation in mutations:
            self._store(mutation.collection, "state:write")
        self.renew()
        if self.lost is not None:
            raise Cancelled
        claim = self.claim
        call = Call(
            namespace=claim.namespace,
            # The attempt's name carries the fencing token.
            actor=Actor(
                subject=claim.principal,
                request_id=claim.attempt_id,
                workload_id=claim.workload_id,
                trigger_id=claim.trigger_id,
                traceparent=claim.traceparent,
            ),
            now_ms=now_ms(),
            deadline=time.monotonic() + _COMMIT_S,
            transaction_id=f"work:{claim.workload_id}:{step}",
        )
        try:
            return committing.commit(store(claim.namespace), call, mutations, preconditions)
        except DeadlineExceeded as error:
            raise Failed("transient_connection", f"step {step} found no turn to write", effect="none") from error
        except (EngineError, ApiError) as error:
            if error.code == "COMMIT_UNKNOWN":
                raise Failed("transient_connection", f"whether {step} was written is not known yet") from error
            raise

    def get(self, collection: str, record_id: str) -> Record | None:
        """Read one record."""
        return self._store(collection).get(f"{collection}:{record_id}")

    def page(self, collection: str, *, after: str | None = None, limit: int = 100) -> Sequence[Record]:
        """Read records in the order of their ids."""
        return self._store(collection).page(collection, after=after, limit=limit).records

    def query(
        self,
        collection: str,
        *,
        where: Mapping[str, Any] | None = None,
        order_by: Sequence[tuple[str, str]] = (),
        limit: int = 100,
    ) -> Sequence[Record]:
        """Read records that match."""
        return self._store(collection).query(collection, where=where, order_by=order_by, limit=limit).records

    def _store(self, collection: str, scope: str = "state:read") -> Store:
        if collection.startswith("_"):
            raise Failed("collection_denied", f"{collection} is a system collection; work does not touch those")
        try:
            services.check_touches(self.claim, scope, collection, now_ms=now_ms())
        except WorkloadError as error:
            raise Failed("authorization_denied", error.message) from error
        return store(self.namespace)
