"""Rows that offer what a row of each kind as it is made does not: resume, enable, approve, stop, recover and the like.

With the plain samples (`every_page.py`) every action of the console is on some page, as it is when it can be done.
"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.urls import reverse

from apps.keys import people
from apps.keys.models import Operator
from apps.keys.principal import Principal, operator
from apps.keys.services import ensure_namespace
from apps.operations.services.operators import Role, create_operator, set_active
from apps.state import stores
from apps.triggers import services as triggers
from apps.triggers.models import Trigger, TriggerQuarantine
from apps.workloads import bulk, services
from apps.workloads.clock import now_ms
from apps.workloads.commands import ApprovalPolicy, ClaimById, CreateWorkload, Subject
from apps.workloads.lifecycle import HEARTBEAT_TIMEOUT_MS
from apps.workloads.models import BulkOrder, RegisteredWorker, Schedule, Workload
from apps.workloads.services import registry, scheduling
from feltdb_engine.model import Mutation
from tests.operations.rows import a_bulk_order, a_schedule, a_worker

BY = operator("tests")
SUBJECT = Subject(kind="human", id="tests")
RECOVERED = "recovered"
"""A namespace whose store was recovered, which nobody has looked at yet."""


def pages(namespace: str, by: str = "admin") -> list[str]:
    """Make the rows and return the addresses of their pages; `by` is the person who chose what is done to many."""
    stopped = _person("stopped")
    set_active(stopped.pk, False, by=BY)
    stores.store(namespace).commit([Mutation(kind="put", collection="scenes", id="1", value={"a": 1})])
    replayed = a_trigger(namespace, "replayed")
    triggers.replay(
        namespace, "replayed", start_from="beginning", end_at="now", by=BY, now_ms=now_ms(), reason="a scene"
    )
    paused, disabled = a_trigger(namespace, "paused"), a_trigger(namespace, "disabled")
    triggers.pause(namespace, "paused", by=BY, now_ms=now_ms(), reason="a scene")
    triggers.disable(namespace, "disabled", by=BY, now_ms=now_ms())
    started = a_bulk_order(namespace, by)
    bulk.start(namespace, started.bulk_id, by=author(started), now_ms=now_ms())
    halted = a_schedule(namespace, now_ms(), "halted")
    scheduling.pause(namespace, "halted", by=BY, now_ms=now_ms())
    silent = a_worker(namespace, now_ms() - 2 * HEARTBEAT_TIMEOUT_MS, "silent")
    registry.detect_silence(now_ms=now_ms())
    a_recovered_store()
    return [
        *(_of(person) for person in (_person("otto"), stopped)),
        *(_of(row) for row in (paused, disabled, replayed, quarantined(a_trigger(namespace, "scened")))),
        *(_of(row) for row in (halted, a_worker(namespace, now_ms(), "lively"), silent)),
        reverse("admin:workloads_bulkorder_change", args=[started.bulk_id]),
        *(_page_of(work) for work in (held(namespace), waiting(namespace))),
        reverse("admin:storage"),
    ]


def a_trigger(namespace: str, trigger_id: str) -> Trigger:
    """Return an active trigger."""
    document = {
        "trigger_id": trigger_id,
        "source_collection": "scenes",
        "change_kind": "insert",
        "target_capability": "identity",
        "start_from": "beginning",
    }
    return triggers.define(namespace, document, by=BY, now_ms=now_ms()).trigger


def quarantined(trigger: Trigger) -> TriggerQuarantine:
    """Return a change of its collection that stands aside and could become work now."""
    store = stores.store(trigger.namespace)
    operation = store.changes(store.start(), limit=1, collections=("scenes",)).operations[0]
    return TriggerQuarantine.objects.create(
        trigger=trigger,
        namespace=trigger.namespace,
        instance_id=operation.instance_id,
        sequence=operation.sequence,
        record_key=operation.key,
        change_kind=operation.kind,
        content_hash=operation.content_hash,
        trigger_revision=trigger.revision,
        code="WORKLOAD_INVALID",
        message="it was too large",
        at_ms=now_ms(),
    )


def waiting(namespace: str) -> Workload:
    """Return work that waits for a person's approval."""
    return _work(namespace, "waits", approval=ApprovalPolicy())


def held(namespace: str) -> Workload:
    """Return work that a worker has begun."""
    work = _work(namespace, "held")
    command = ClaimById(namespace=namespace, workload_id=work.workload_id, worker_id="w1", principal="worker:w1")
    services.start(services.claim(command, now_ms=now_ms()).fence, now_ms=now_ms())
    return work


def author(order: BulkOrder) -> Principal:
    """Return who chose it, as they act."""
    return people.principal_of(Operator.objects.get(pk=order.person_id))


def a_recovered_store() -> None:
    """Leave half a frame behind the log of a store, as a power cut does, and open it."""
    ensure_namespace(RECOVERED)
    store = stores.store(RECOVERED)
    store.commit([Mutation(kind="put", collection="a", id="1", value={})])
    end = store.health().written
    stores.close_all()
    place = Path(settings.DATA_DIR) / "namespaces" / RECOVERED
    with next((place / "log").iterdir()).open("r+b") as log:
        log.seek(end)
        log.write(b"torn")
    for file in (place / "view").iterdir():
        file.unlink()
    assert stores.store(RECOVERED).health().storage == "recovered-incomplete-write"


def _work(namespace: str, key: str, **members: Any) -> Workload:
    asked = CreateWorkload(
        namespace=namespace,
        definition_id="identity",
        requested_by=SUBJECT,
        idempotency_key=key,
        **members,
    )
    return services.admit(asked, now_ms=now_ms()).workload


def _person(name: str) -> Operator:
    return create_operator(name=name, password="correct horse battery", role=Role.VIEWER, by=BY)


def _of(row: Operator | Trigger | TriggerQuarantine | Schedule | RegisteredWorker) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def _page_of(work: Workload) -> str:
    return reverse("admin:workloads_workload_change", args=[work.workload_id])
