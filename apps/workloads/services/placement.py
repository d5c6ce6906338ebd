"""Whether a registered worker may be given work, and how much. Asked by the claim; nothing is written here."""

from dataclasses import dataclass

from django.db import connection
from django.db.models import Count

from apps.keys.grants import standing
from apps.workloads import capabilities, declared, errors, statements
from apps.workloads.lifecycle import Health, Lifecycle
from apps.workloads.models import Lane, RegisteredWorker, Workload
from apps.workloads.services.moving import load
from apps.workloads.states import State


@dataclass(frozen=True, kw_only=True, slots=True)
class Eligible:
    """A registered worker that could be given a workload now, and how much room it has."""

    worker: RegisteredWorker
    active: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Takers:
    """Who could take a workload: processes of ours (`ours`; whether one lives is not told here), others that are
    registered and fit or hold such work now (`alive`), anybody at all that was ever heard of (`known`).
    """

    ours: bool
    alive: bool
    known: bool


def placeable(namespace: str, worker_id: str, *, now_ms: int) -> RegisteredWorker | None:
    """Return the worker where it has registered; None for one that has not, which is held to nothing here.

    Raises MESH_PLACEMENT_DENIED while it is not READY and healthy, or where the grant it registered with has ended.
    """
    worker = statements.first(RegisteredWorker, namespace=namespace, worker_id=worker_id)
    if worker is not None:
        _check_standing(worker, now_ms)
    return worker


def takers(row: Workload) -> Takers | None:
    """Return who could take ready work; None for work that is not ready.

    A worker of somebody's that has neither registered nor runs such work now may still come and claim it.
    """
    if row.state != State.READY:
        return None
    lane = statements.get(Lane, id=row.lane_id)
    needed = set(lane.capabilities) - capabilities.names()
    ours = (not needed and row.definition_id in capabilities.names()) or (
        needed <= {row.definition_id} and declared.is_declared(row.namespace, row.definition_id)
    )
    holding = Workload.objects.filter(namespace=row.namespace, worker_id__isnull=False, lane=lane).exists()
    registered = [worker for worker in RegisteredWorker.objects.filter(namespace=row.namespace) if takes(worker, lane)]
    fit = any(worker.lifecycle == Lifecycle.READY and worker.health == Health.HEALTHY for worker in registered)
    return Takers(ours=ours, alive=holding or fit, known=ours or holding or bool(registered))


def nobody_known(row: Workload) -> bool:
    """Tell whether ready work is known to no worker: not to our own, to none that has registered or runs such work."""
    found = takers(row)
    return found is not None and not found.known


def _check_standing(worker: RegisteredWorker, now_ms: int) -> None:
    if worker.lifecycle != Lifecycle.READY:
        raise errors.placement_denied(f"the worker is {worker.lifecycle}", lifecycle=str(worker.lifecycle))
    if worker.health != Health.HEALTHY:
        raise errors.placement_denied(f"the worker is {worker.health}", health=str(worker.health))
    if worker.grant_id and (ended := standing.refusal(worker.namespace, worker.grant_id, now_ms=now_ms)):
        raise errors.placement_denied(ended.message, grant_code=ended.code)


def takes(worker: RegisteredWorker | None, lane: Lane) -> bool:
    """Tell whether the worker was granted what work of the lane needs, and takes its kind."""
    if worker is None:
        return True
    kinds = worker.workload_kinds
    return set(lane.capabilities) <= set(worker.granted_capabilities) and (not kinds or lane.definition_id in kinds)


def room(worker: RegisteredWorker | None, most: int) -> int:
    """Return how many more claims the worker may be given, at most `most`. Inside the claim's transaction.

    The worker's row is locked where the database locks rows, so that two claims at once do not both take the last
    place; a worker that was registered anew or drained meanwhile gets nothing.
    """
    if worker is None:
        return most
    lock = " FOR UPDATE" if connection.features.has_select_for_update else ""
    if not statements.fetch(
        RegisteredWorker, lock, id=worker.pk, incarnation_id=worker.incarnation_id, lifecycle=Lifecycle.READY
    ):
        return 0
    return max(0, min(most, worker.concurrency - active(worker)))


def active(worker: RegisteredWorker) -> int:
    """Return how many claims the worker holds."""
    return Workload.objects.filter(namespace=worker.namespace, worker_id=worker.worker_id).count()


def actives(namespace: str) -> dict[str, int]:
    """Return how many claims each worker of the namespace holds, registered or not."""
    held = Workload.objects.filter(namespace=namespace, worker_id__isnull=False)
    return dict(held.values_list("worker_id").annotate(count=Count("pk")))


def eligible(namespace: str, workload_id: str, *, now_ms: int) -> list[Eligible]:
    """Return the registered workers that could be given this workload now: least loaded, then largest, then by name."""
    row = load(namespace, workload_id)
    lane = statements.get(Lane, id=row.lane_id)
    held = actives(namespace)
    found = []
    for worker in RegisteredWorker.objects.filter(namespace=namespace, lifecycle=Lifecycle.READY):
        try:
            _check_standing(worker, now_ms)
        except errors.WorkloadError:
            continue
        if takes(worker, lane) and held.get(worker.worker_id, 0) < worker.concurrency:
            found.append(Eligible(worker=worker, active=held.get(worker.worker_id, 0)))
    return sorted(found, key=lambda each: (each.active, -each.worker.concurrency, each.worker.worker_id))
