"""Fixtures of the workloads room: a clock that only moves when told, and work made with few words."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from apps.workloads.commands import Claim, ClaimById, CreateWorkload, Subject
from apps.workloads.models import Workload

NAMESPACE = "test"
START_MS = 1_700_000_000_000


@dataclass
class Clock:
    """The moment of a test, in milliseconds."""

    ms: int = START_MS

    def pass_ms(self, ms: int) -> int:
        """Let time pass and return the new moment."""
        self.ms += ms
        return self.ms


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture(autouse=True)
def _own_bell(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def command() -> Callable[..., CreateWorkload]:
    """A function that makes a request for work from the members a test cares about."""

    def make(key: str = "k1", **members: Any) -> CreateWorkload:
        return CreateWorkload(
            **{
                "namespace": NAMESPACE,
                "definition_id": "identity",
                "requested_by": Subject(kind="service", id="tests"),
                "idempotency_key": key,
                "input": {"n": 1},
                **members,
            }
        )

    return make


@pytest.fixture
def make_work(db: None, clock: Clock, command: Callable[..., CreateWorkload]) -> Callable[..., Workload]:
    """A function that admits work now."""
    from apps.workloads.services import admit

    def make(key: str = "k1", **members: Any) -> Workload:
        return admit(command(key, **members), now_ms=clock.ms).workload

    return make


@pytest.fixture
def take(db: None, clock: Clock) -> Callable[..., Claim]:
    """A function that claims work by its id now."""
    from apps.workloads.services import claim

    def make(work: Workload | str, worker: str = "w1", *, lease_ms: int = 30_000, **members: Any) -> Claim:
        workload_id = work if isinstance(work, str) else work.workload_id
        return claim(
            ClaimById(
                namespace=members.pop("namespace", NAMESPACE),
                workload_id=workload_id,
                worker_id=worker,
                principal=members.pop("principal", f"worker:{worker}"),
                lease_ms=lease_ms,
                **members,
            ),
            now_ms=clock.ms,
        )

    return make


@pytest.fixture
def run(take: Callable[..., Claim], clock: Clock) -> Callable[..., Claim]:
    """A function that claims and starts work now."""
    from apps.workloads.services import start

    def make(work: Workload | str, worker: str = "w1", **members: Any) -> Claim:
        claim = take(work, worker, **members)
        start(claim.fence, now_ms=clock.ms)
        return claim

    return make


def state_of(work: Workload | str) -> str:
    """Return the stored state."""
    workload_id = work if isinstance(work, str) else work.workload_id
    return Workload.objects.values_list("state", flat=True).get(workload_id=workload_id)


def history_of(work: Workload | str) -> list[tuple[str, str]]:
    """Return the stored transitions in order."""
    from apps.workloads.models import Event

    workload_id = work if isinstance(work, str) else work.workload_id
    rows = Event.objects.filter(workload__workload_id=workload_id).order_by("sequence")
    return list(rows.values_list("from_state", "to_state"))
