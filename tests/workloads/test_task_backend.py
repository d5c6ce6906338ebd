"""Django Tasks as durable work: what the backend promises, and the project of the documentation as it is written."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from django_tasks import task
from django_tasks.base import TaskResultStatus
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist, TaskResultMismatch
from django_tasks.signals import task_enqueued, task_finished, task_started

from apps.keys.services import ensure_namespace
from apps.workloads import services
from apps.workloads.capabilities import Failed
from apps.workloads.clock import now_ms
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Workload
from apps.workloads.worker import Worker
from tests.workloads.test_races import ROOT, database_url
from tests.workloads.test_worker import options

EXAMPLE = ROOT / "docs" / "django-tasks"
in_a_worker = pytest.mark.django_db(transaction=True)


@task()
def add(left, right=1):
    return {"sum": left + right}


@task(takes_context=True)
def count(context, things):
    return [context.attempt, context.task_result.id, len(things)]


@task()
async def later(text):
    return text.upper()


@task()
def broken():
    raise LookupError("nothing here")


@task()
def picky():
    raise Failed("transient_connection", "not now", retry_after_ms=60_000)


@task()
def odd():
    return object()


def work():
    Worker(options()).run_once()


@in_a_worker
def test_a_task_is_enqueued_run_and_its_result_read_from_anywhere():
    told = []

    def hear(signal, task_result, **kwargs):
        told.append((signal, task_result.id, task_result.status))

    for signal in (task_enqueued, task_started, task_finished):
        signal.connect(hear)
    try:
        result = add.enqueue(2, right=3)
        assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [2], {"right": 3})
        assert not result.is_finished and result.started_at is None and result.attempts == 0
        work()
    finally:
        for signal in (task_enqueued, task_started, task_finished):
            signal.disconnect(hear)
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL and result.return_value == {"sum": 5}
    assert result.attempts == 1 and result.enqueued_at <= result.started_at <= result.finished_at
    assert add.get_result(result.id) == result
    assert told == [
        (task_enqueued, result.id, TaskResultStatus.READY),
        (task_started, result.id, TaskResultStatus.RUNNING),
        (task_finished, result.id, TaskResultStatus.SUCCESSFUL),
    ]
    row = Workload.objects.get(workload_id=result.id)
    assert row.definition_id == "django-task" and row.trigger == "task:tests.workloads.test_task_backend.add"


@in_a_worker
def test_context_and_coroutines():
    counted, upper = count.enqueue([1, 2]), later.enqueue("tea")
    work()
    for result in (counted, upper):
        result.refresh()
    assert counted.return_value == [1, counted.id, 2] and upper.return_value == "TEA"


@in_a_worker
def test_an_exception_is_kept_with_its_class_and_traceback(caplog):
    result, strange = broken.enqueue(), odd.enqueue()
    work()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED and result.is_finished
    [error] = result.errors
    assert error.exception_class is LookupError and "nothing here" in error.traceback and "in broken" in error.traceback
    with pytest.raises(ValueError, match="failed"):
        assert result.return_value
    strange.refresh()
    assert strange.errors[0].exception_class is TypeError


@in_a_worker
def test_a_task_may_say_itself_how_it_failed_and_is_tried_again():
    result = picky.enqueue()
    work()
    result.refresh()
    row = Workload.objects.get(workload_id=result.id)
    assert result.status == TaskResultStatus.READY and row.eligible_at_ms > now_ms() + 50_000
    assert result.errors[0].exception_class is RuntimeError and result.attempts == 1


@pytest.mark.django_db
def test_priority_queue_and_run_after_go_with_the_work():
    after = timezone.now() + timedelta(hours=1)
    result = add.using(priority=7, queue_name="mail", run_after=after).enqueue(1)
    row = Workload.objects.select_related("request").get(workload_id=result.id)
    assert (row.priority, row.eligible_at_ms) == (7, int(after.timestamp() * 1000))
    assert row.request.input["queue"] == "mail"
    read = add.get_result(result.id)
    assert (read.task.priority, read.task.queue_name) == (7, "mail")


@pytest.mark.django_db
def test_a_task_due_before_all_instants_is_due_now_and_arguments_that_are_no_json_are_refused():
    result = add.using(run_after=datetime(1900, 1, 1, tzinfo=UTC)).enqueue(1)
    assert Workload.objects.get(workload_id=result.id).eligible_at_ms <= now_ms()
    for argument in (float("nan"), {1: 2}, 2**70, "\ud800"):
        with pytest.raises(WorkloadError) as refused:
            add.enqueue(argument)
        assert refused.value.code == "WORKLOAD_INVALID"
    assert Workload.objects.count() == 1


@in_a_worker
def test_a_task_enqueued_in_a_transaction_is_there_exactly_when_the_transaction_is():
    class Undone(Exception):
        pass

    with pytest.raises(Undone), transaction.atomic():
        add.enqueue(1)
        raise Undone
    assert not Workload.objects.exists()
    with transaction.atomic():
        result = add.enqueue(1)
    work()
    result.refresh()
    assert result.return_value == {"sum": 2}


@pytest.mark.django_db
def test_what_cannot_be_a_task_or_its_arguments_is_refused(command, clock):
    with pytest.raises(InvalidTaskError):
        task()(lambda: 1)
    with pytest.raises(TypeError):
        add.enqueue(object())
    with pytest.raises(WorkloadError, match="secret"):
        add.enqueue({"password": "x"})
    other = services.admit(command(namespace="default"), now_ms=clock.ms).workload
    for unknown in ("workload_nothing", other.workload_id):
        with pytest.raises(TaskResultDoesNotExist):
            add.get_result(unknown)
    result = add.enqueue(1)
    with pytest.raises(TaskResultMismatch):
        broken.get_result(result.id)


@in_a_worker
def test_a_task_that_is_gone_fails_its_work_and_not_the_worker():
    result = add.enqueue(1)
    Workload.objects.get(workload_id=result.id)
    from apps.workloads.models import Request

    for name in ("shop.gone.task", "os.getpid"):
        Request.objects.update(input={"task": name, "args": [], "kwargs": {}, "queue": "q", "backend": "default"})
        work()
        row = Workload.objects.get(workload_id=result.id)
        assert row.state == "DEAD_LETTER" and row.last_failure.startswith("capability_missing")
        services.retry("default", result.id, actor="tests", now_ms=now_ms())


@pytest.mark.acceptance
@in_a_worker
def test_the_documentations_commands_enqueue_run_and_show_its_projects_task(settings, tmp_path):
    lines = sum(len(path.read_text().splitlines()) for path in EXAMPLE.rglob("*.py"))
    assert lines <= 24, "about twenty lines"
    ensure_namespace("default")
    block = re.search(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)[1]
    export, order, worker, result = block.replace(".venv/bin/python", sys.executable).splitlines()
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DJANGO_SETTINGS_MODULE")},
        "DATABASE_URL": database_url(),
        "FELTDB_DATA_DIR": str(tmp_path),
    }

    def run(line):
        done = subprocess.run(
            ["bash", "-c", f"{export}\n{line}"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    workload_id = run(order).strip()
    assert "1 attempt" in run(worker)
    assert Workload.objects.get(workload_id=workload_id).state == "SUCCEEDED"
    assert "the receipt of order 7 is on its way" in run(result.replace("workload_...", workload_id))
