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
