"""A row of everything that the console shows, in a real instance, with hostile text wherever text can be."""

from pathlib import Path

from django.conf import settings
from django.urls import reverse

from apps.keys.grants.services import issue_for
from apps.keys.models import Operator
from apps.keys.principal import operator
from apps.keys.services import issue_key
from apps.keys.sessions.services import open_session
from apps.keys.verify import principal_for
from apps.state.stores import store
from apps.triggers.models import Trigger, TriggerQuarantine
from apps.triggers.services import define
from apps.workloads import bulk, services
from apps.workloads.clock import now_ms
from apps.workloads.commands import ApprovalPolicy, ClaimById, CreateWorkload, Failure, Subject
from apps.workloads.models import BulkOrder, Workload
from apps.workloads.states import BulkOutcome
from feltdb_engine.model import Mutation
from tests.operations import scenes
from tests.operations.rows import a_backup, a_bulk_order, a_refused_word, a_schedule, a_worker


def fill(namespace: str, hostile: str) -> list[str]:
    """Make the rows; `root` is an administrator. Returns the addresses of those that something can be done to."""
    by = operator("tests")
    printable = "".join(each for each in hostile if each.isprintable())[:90]
    value = {hostile: hostile, ".".join("a" * 200): {"exact": 2**53 + 1}, "long": "x" * 1_000_000}
    opened = store(namespace)
    opened.commit([Mutation(kind="put", collection="c", id="hostile", value=value)], transaction_id="t1")
    key = issue_key(name=printable, scopes=["state:read"], namespaces=[namespace], issuer=by).key
    issue_for(principal_for(key), tenant_id=namespace, application_id="app", now_ms=now_ms())
    dead = _dead(namespace, hostile)
    a_refused_word(dead, worker=hostile)
    a_worker(namespace, now_ms(), worker_id=hostile)
    schedule = a_schedule(namespace, now_ms())
    told_of(a_bulk_order(namespace, "root"), hostile)
    draft = a_bulk_order(namespace, "root")
    session = open_session(Operator.objects.get(username="root"), now_ms=now_ms()).session
    a_backup(Path(settings.BACKUP_DIR), "nightly", namespace)
    (Path(settings.BACKUP_DIR) / printable.replace("/", "")).mkdir()
    document = {
        "trigger_id": "hostile",
        "source_collection": "c",
        "change_kind": ["insert", "update"],
        "predicate": {"all": [{"field": "a", "equals": hostile}, {"not": {"changed": "b"}}]},
        "target_capability": printable,
    }
    trigger = define(namespace, document, by=by, now_ms=now_ms()).trigger
    define(namespace, {**document, "trigger_id": "plain"}, by=by, now_ms=now_ms())
    TriggerQuarantine.objects.create(
        trigger=trigger,
        namespace=namespace,
        instance_id=opened.head().instance_id,
        sequence=1,
        record_key=f"c:{hostile}",
        change_kind="insert",
        content_hash="0",
        trigger_revision=1,
        code="WORKLOAD_INVALID",
        message=hostile,
        at_ms=now_ms(),
    )
    Trigger.objects.filter(pk=trigger.pk).update(state="blocked", reason_code="FEED_COMPACTED", reason=hostile)
    waits = {"approval": ApprovalPolicy(), "idempotency_key": "waits", "input": value}
    services.admit(_ask(namespace, **waits), now_ms=now_ms())
    return [
        reverse("admin:workloads_workload_change", args=[dead.workload_id]),
        reverse("admin:workloads_schedule_change", args=[schedule.pk]),
        reverse("admin:workloads_bulkorder_change", args=[draft.bulk_id]),
        reverse("admin:keys_humansession_change", args=[session.pk]),
    ]


def told_of(order: BulkOrder, hostile: str) -> None:
    """Let an order have ended with rows that were refused for a hostile reason."""
    by = scenes.author(order)
    bulk.start(order.namespace, order.bulk_id, by=by, now_ms=now_ms(), reason=hostile)
    order.items.update(outcome=BulkOutcome.REFUSED, message=hostile, at_ms=now_ms())
    bulk.stop(order.namespace, order.bulk_id, by=by, now_ms=now_ms())


def _ask(namespace: str, **members: object) -> CreateWorkload:
    asked = {"definition_id": "identity", "requested_by": Subject(kind="service", id="tests"), **members}
    return CreateWorkload(namespace=namespace, **asked)  # type: ignore[arg-type]


def _dead(namespace: str, hostile: str) -> Workload:
    asked = _ask(namespace, idempotency_key="dies", definition_id=hostile, trigger=hostile, input={hostile: hostile})
    work = services.admit(asked, now_ms=now_ms()).workload
    command = ClaimById(namespace=namespace, workload_id=work.workload_id, worker_id=hostile, principal="worker:w")
    claim = services.claim(command, now_ms=now_ms())
    services.start(claim.fence, now_ms=now_ms())
    services.checkpoint(claim.fence, {hostile: 1}, now_ms=now_ms())
    services.fail(claim.fence, Failure(kind="execution_error", error=hostile), now_ms=now_ms())
    return Workload.objects.get(pk=work.pk)
