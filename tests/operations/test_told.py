"""What the console tells when something is not as it should be: titles of refusals, and who could take waiting work."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.keys.models import Operator
from apps.operations.console import dashboard
from apps.operations.models import WorkerProcess
from apps.operations.services import liveness
from apps.operations.services.roles import Role
from apps.workloads.clock import now_ms
from apps.workloads.lifecycle import Health
from apps.workloads.models import RegisteredWorker, Workload
from apps.workloads.worker_options import WorkerOptions
from tests.operations.rows import a_worker
from tests.operations.test_roles import person, signed_in


def title(answer: Any) -> str:
    found = re.search(r"<title>(.*?)</title>", answer.content.decode())
    assert found is not None
    return found[1]


def test_every_refusal_has_a_title_of_its_own(
    console: Client, namespace: str, make_dead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = make_dead()
    act = reverse("admin:workloads_workload_retry", args=[dead.workload_id])
    vera = signed_in(person("vera", Role.VIEWER), namespace)
    assert title(vera.post(act)) == "You may not do this · FeltDB"
    assert title(console.get("/admin/workloads/workload/none/change/")) == "There is nothing here · FeltDB"
    assert title(console.post(act, {"seen": "0"})) == f"Not done: {dead.workload_id} · FeltDB"
    assert title(console.post("/admin/workloads/bulkorder/choose/", {"act": "retry"})).startswith("Not done: ")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(Operator.objects.get(username="admin"))
    assert title(strict.post(act)) == "The form was not accepted · FeltDB"
    missing = console.get("/admin/records/collection/?collection=c&as_of=999")
    assert (missing.status_code, title(missing)[:18]) == (422, "Cannot be shown: c")

    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(dashboard, "page", fail)
    console.raise_request_exception = False
    broken = console.get("/admin/")
    assert (broken.status_code, title(broken)) == (500, "The server failed · FeltDB")


def told(console: Client, work: Workload) -> str:
    """Return what the work's page says in strong words of who could take it."""
    page = console.get(reverse("admin:workloads_workload_change", args=[work.workload_id])).content.decode()
    found = re.search(r"<strong>(No worker[^<]*)</strong>", page)
    return found[1] if found else ""


def test_waiting_work_tells_when_no_process_of_ours_is_alive(console: Client, make_work: Any, namespace: str) -> None:
    work = make_work("ours")
    assert told(console, work) == "No worker is alive."
    for serves, says in (((namespace,), ""), (("another",), "No worker is alive."), (None, "")):
        WorkerProcess.objects.all().delete()
        liveness._beat(liveness._this_process(WorkerOptions(worker_id="w1", namespaces=serves)))
        assert told(console, work) == says, serves
    WorkerProcess.objects.update(started_ticks=1)  # another process has the number now
    assert told(console, work) == "No worker is alive."


def test_waiting_work_tells_when_those_registered_for_it_are_unfit_or_nobody_knows_it(
    console: Client, make_work: Any, namespace: str
) -> None:
    work = make_work("theirs", definition_id="print")
    assert told(console, work) == "No worker can run this."
    a_worker(namespace, now_ms())
    unfit = "No worker that can run this is fit."
    for lifecycle, says in (("READY", ""), ("OFFLINE", unfit), ("DRAINING", unfit), ("REGISTERED", unfit)):
        RegisteredWorker.objects.update(lifecycle=lifecycle, health=Health.HEALTHY)
        assert told(console, work) == says, lifecycle
