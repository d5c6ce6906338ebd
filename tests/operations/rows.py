"""Rows of every kind that the console shows, each made by its service."""

from pathlib import Path

from apps.keys import people
from apps.keys.models import Operator
from apps.keys.principal import operator
from apps.operations.services.backups.bundle import DATABASES, MANIFEST, STORES, Bundle, StoreEntry, encode
from apps.workloads import bulk, errors, services
from apps.workloads.clock import now_ms
from apps.workloads.commands import Fence, Subject, WorkerRegistration
from apps.workloads.models import BulkOrder, RefusedWord, RegisteredWorker, Schedule, Workload
from apps.workloads.services import registry, scheduling
from apps.workloads.states import BulkAction
from feltdb_engine.bundle import FileEntry


def a_bulk_order(namespace: str, name: str = "admin") -> BulkOrder:
    """Return a draft of retrying all dead letters, by the person of that name."""
    by = people.principal_of(Operator.objects.get(username=name))
    return bulk.draft(namespace, BulkAction.RETRY, bulk.Selection(state="DEAD_LETTER"), by=by, now_ms=now_ms())


def a_refused_word(work: Workload, worker: str = "w1", token: int = 1) -> RefusedWord:
    """Return what is kept of a heartbeat of a claim that is over."""
    fence = Fence(
        namespace=work.namespace,
        workload_id=work.workload_id,
        worker_id=worker,
        claim_id="claim_of_before",
        fencing_token=token,
        principal=f"worker:{worker}",
    )
    try:
        services.heartbeat(fence, extend_ms=30_000, now_ms=now_ms())
    except errors.WorkloadError:
        return RefusedWord.objects.filter(workload_id=work.workload_id).latest("pk")
    raise AssertionError("the fence let it pass")


def a_worker(namespace: str, at_ms: int, worker_id: str = "press-1") -> RegisteredWorker:
    """Return a registered worker."""
    command = WorkerRegistration(
        namespace=namespace,
        worker_id=worker_id,
        capabilities=frozenset({"print"}),
        workload_kinds=frozenset(),
        concurrency=2,
    )
    return registry.register(command, by=operator("tests"), now_ms=at_ms)


def a_schedule(namespace: str, at_ms: int, schedule_id: str = "nightly") -> Schedule:
    """Return a schedule that is due each night in Berlin."""
    definition = scheduling.ScheduleDefinition(
        namespace=namespace,
        schedule_id=schedule_id,
        expression="0 3 * * *",
        time_zone="Europe/Berlin",
        work={"definition_id": "identity", "input": {"n": 1}},
    )
    return scheduling.define(
        definition, by=operator("tests"), requested_by=Subject(kind="human", id="tests"), now_ms=at_ms
    ).schedule


def a_backup(folder: Path, name: str, namespace: str) -> str:
    """Put a backup among the others that says it holds one store, and return its name; its files are not there."""
    store = StoreEntry(name=namespace, store_id="s", instance_id="i", sequence=2**53 + 1)
    files = [f"{STORES}/{namespace}/MANIFEST.json", DATABASES["sqlite"]]
    made = Bundle(
        made_at_ms=now_ms(),
        version="1.0",
        database="sqlite",
        migrations=("keys.0001_initial",),
        stores=(store,),
        files=tuple(FileEntry(name=each, size=1_000, sha256="0" * 64) for each in files),
    )
    (folder / name).mkdir(parents=True)
    (folder / name / MANIFEST).write_bytes(encode(made))
    return name
