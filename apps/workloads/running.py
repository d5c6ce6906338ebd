"""One claim while its program runs: the context the program sees, and what the worker knows of it."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from apps.state.stores import store
from apps.workloads import services
from apps.workloads.capabilities import Cancelled, Failed
from apps.workloads.clock import now_ms
from apps.workloads.commands import Claim
from apps.workloads.errors import WorkloadError
from feltdb_engine import Record, Store


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

    def _store(self, collection: str) -> Store:
        if collection.startswith("_"):
            raise Failed("collection_denied", f"{collection} is a system collection; work does not read those")
        return store(self.namespace)
