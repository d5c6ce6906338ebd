"""Fixtures of the console: an operator who is signed in, and work in every condition."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.keys.models import Operator
from apps.workloads import services
from apps.workloads.commands import CreateWorkload, Failure, Subject
from apps.workloads.models import Workload

NOW_MS = 1_790_000_000_000


@pytest.fixture
def operator(db: None) -> Operator:
    return Operator.objects.create_superuser("admin", password="correct horse battery")


@pytest.fixture
def console(operator: Operator, namespace: str) -> Client:
    """A browser signed in as the administrator, looking at the test namespace."""
    client = Client(raise_request_exception=True)
    client.force_login(operator)
    session = client.session
    session["console_namespace"] = namespace
    session.save()
    return client


@pytest.fixture
def make_work(namespace: str) -> Callable[..., Workload]:
    """A function that admits work: `make_work("key", definition_id=..., input=...)`."""

    def make(key: str = "a", **members: Any) -> Workload:
        command = CreateWorkload(
            namespace=namespace,
            definition_id=members.pop("definition_id", "identity"),
            requested_by=Subject(kind="service", id="tests"),
            idempotency_key=key,
            **members,
        )
        return services.admit(command, now_ms=NOW_MS).workload

    return make


@pytest.fixture
def make_dead(make_work: Callable[..., Workload]) -> Callable[..., Workload]:
    """A function that makes a dead letter: `make_dead("key", error="...", kind="execution_error")`."""

    def make(
        key: str = "a", *, error: str = "the counter is closed", kind: str = "execution_error", **members: Any
    ) -> Any:
        work = make_work(key, **members)
        claim = services.claim(
            services.ClaimById(
                namespace=work.namespace, workload_id=work.workload_id, worker_id="w1", principal="worker:w1"
            ),
            now_ms=NOW_MS + 10,
        )
        services.start(claim.fence, now_ms=NOW_MS + 20)
        services.fail(claim.fence, Failure(kind=kind, error=error), now_ms=NOW_MS + 30)
        return Workload.objects.get(pk=work.pk)

    return make


@pytest.fixture
def one_of_each(make_dead: Any, make_key: Any, namespace: str) -> dict[Any, Any]:
    """Return a row of every model the console shows."""
    from apps.keys.grants.services import issue_for
    from apps.keys.models import ApiKey, AuditEvent, HumanSession, IssuedGrant, Namespace, Operator
    from apps.keys.principal import operator
    from apps.keys.sessions.services import open_session
    from apps.keys.verify import principal_for
    from apps.triggers.models import Trigger, TriggerQuarantine
    from apps.triggers.services import define
    from apps.workloads.clock import now_ms
    from apps.workloads.models import BulkOrder, RefusedWord, RegisteredWorker, Schedule
    from tests.operations.rows import a_bulk_order, a_refused_word, a_schedule, a_worker

    dead, key = make_dead(), make_key().key
    document = {
        "trigger_id": "t",
        "source_collection": "c",
        "change_kind": "insert",
        "target_capability": "identity",
    }
    trigger = define(namespace, document, by=operator("tests"), now_ms=NOW_MS).trigger
    quarantined = TriggerQuarantine.objects.create(
        trigger=trigger,
        namespace=namespace,
        instance_id="i",
        sequence=1,
        record_key="c:1",
        change_kind="insert",
        content_hash="0",
        trigger_revision=1,
        code="WORKLOAD_INVALID",
        message="no",
        at_ms=NOW_MS,
    )
    grant = issue_for(principal_for(key), tenant_id=namespace, application_id="app", now_ms=NOW_MS)
    person = Operator.objects.get(username="admin")
    session = open_session(person, now_ms=now_ms()).session
    return {
        ApiKey: key,
        HumanSession: session,
        AuditEvent: AuditEvent.objects.latest("pk"),
        IssuedGrant: IssuedGrant.objects.get(grant_id=grant.grant.id),
        Namespace: Namespace.objects.get(pk=namespace),
        Operator: person,
        Trigger: trigger,
        TriggerQuarantine: quarantined,
        Workload: dead,
        BulkOrder: a_bulk_order(namespace),
        RefusedWord: a_refused_word(dead),
        RegisteredWorker: a_worker(namespace, now_ms()),
        Schedule: a_schedule(namespace, now_ms()),
    }
