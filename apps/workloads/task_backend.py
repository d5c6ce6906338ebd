"""Django Tasks on durable work: `@task` functions of any installed app, enqueued here, run by any worker.

    TASKS = {"default": {"BACKEND": "apps.workloads.task_backend.FeltDBBackend", "QUEUES": [],
                         "OPTIONS": {"namespace": "default", "retry_policy": {"max_attempts": 5}, "timeouts": {...}}}}

A task is work of the capability `django-task`; its result's id is the work's. Enqueued within a transaction, it is
there exactly when the transaction is. A queue is a name that the work carries; every worker serves every queue.
"""

import re
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import uuid_utils
from django.utils.module_loading import import_string
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
from django_tasks.exceptions import TaskResultDoesNotExist
from django_tasks.signals import task_enqueued, task_finished, task_started
from django_tasks.utils import normalize_json

from apps.workloads import services, wanted
from apps.workloads.capabilities import JSON, Context, Failed, capability
from apps.workloads.clock import now_ms
from apps.workloads.commands import CreateWorkload, Subject
from apps.workloads.errors import WorkloadError
from apps.workloads.models import Attempt, Workload
from apps.workloads.services import reading
from apps.workloads.services.reading import Details
from apps.workloads.states import CLAIMED_STATES, State

DEFINITION = "django-task"
REQUESTER = Subject(kind="service", id="django-tasks")

_TRACEBACK_CHARS = 3_000
_ERROR = re.compile(r"(?P<path>[A-Za-z_][\w.]*): ")
_STATUS = {
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    State.READY: TaskResultStatus.READY,
    State.AWAITING_APPROVAL: TaskResultStatus.READY,
    **{state: TaskResultStatus.RUNNING for state in CLAIMED_STATES},
}
"""Every other state has failed for good, as far as Django Tasks can say."""


class FeltDBBackend(BaseTaskBackend):
    """A backend of `django-tasks`: deferred, prioritised, asynchronous functions too, results from anywhere."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.namespace: str = self.options.get("namespace", "default")
        self._policies = {name: self.options[name] for name in ("retry_policy", "timeouts") if name in self.options}

    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Make work of a call, in the caller's transaction if there is one.

        Raises what Django Tasks raises for a task that cannot be, and WorkloadError for arguments that are too large
        or look like a secret.
        """
        self.validate_task(task)
        after = task.run_after
        command = CreateWorkload(
            namespace=self.namespace,
            definition_id=DEFINITION,
            requested_by=REQUESTER,
            idempotency_key=str(uuid_utils.uuid7()),
            input={
                "task": task.module_path,
                "args": normalize_json(args),
                "kwargs": normalize_json(kwargs),
                "queue": task.queue_name,
                "backend": self.alias,
            },
            trigger=f"task:{task.module_path}",
            priority=task.priority,
            not_before_at_ms=None if after is None else max(0, int(after.timestamp() * 1000)),
            **wanted.members(self._policies),
        )
        workload = services.admit(command, now_ms=now_ms()).workload
        result = _result(reading.get(self.namespace, workload.workload_id), task)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Return a result as it stands. Raises TaskResultDoesNotExist, also for work that is no task."""
        try:
            details = reading.get(self.namespace, result_id)
        except WorkloadError as error:
            raise TaskResultDoesNotExist(result_id) from error
        if details.workload.definition_id != DEFINITION:
            raise TaskResultDoesNotExist(result_id)
        return _result(details, _task(details.workload.request.input, details.workload.priority))


@capability(DEFINITION)
def run(input: JSON, context: Context) -> JSON:
    """Run a task's function. An exception is a failure of kind `execution_error` that names its class."""
    task = _task(input, None)
    result = _result(reading.get(context.namespace, context.workload_id), task)
    backend = type(task.get_backend())
    task_started.send(backend, task_result=result)
    first = [TaskContext(task_result=result)] if task.takes_context else []
    try:
        output = normalize_json(task.call(*first, *input["args"], **input["kwargs"]))
    except Failed:
        raise
    except Exception as error:
        raise Failed("execution_error", _told(error)) from error
    done = replace(result, status=TaskResultStatus.SUCCESSFUL)
    object.__setattr__(done, "_return_value", output)
    task_finished.send(backend, task_result=done)
    return output


def _task(input: JSON, priority: int | None) -> Task[Any, Any]:
    """Return the task a call is of. Raises Failed where it is not installed here, or is none any more."""
    try:
        found = import_string(input["task"])
    except ImportError as error:
        raise Failed("capability_missing", f"{input['task']} is not installed here") from error
    if not isinstance(found, Task):
        raise Failed("capability_missing", f"{input['task']} is no task")
    return found.using(priority=priority, queue_name=input["queue"], backend=input["backend"])


def _told(error: Exception) -> str:
    kind = type(error)
    trace = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARS:]
    return f"{kind.__module__}.{kind.__qualname__}: {error}\n{trace}"


def _result(details: Details, task: Task[Any, Any]) -> TaskResult[Any]:
    row = details.workload
    input = row.request.input
    over = row.state not in (State.READY, State.AWAITING_APPROVAL, *CLAIMED_STATES)
    started = [each.started_at_ms for each in details.attempts if each.started_at_ms is not None]
    result: TaskResult[Any] = TaskResult(
        task=task,
        id=row.workload_id,
        status=_STATUS.get(State(row.state), TaskResultStatus.FAILED),
        enqueued_at=_at(row.created_at_ms),
        started_at=_at(started[0]) if started else None,
        finished_at=_at(row.updated_at_ms) if over else None,
        last_attempted_at=_at(started[-1]) if started else None,
        args=input["args"],
        kwargs=input["kwargs"],
        backend=input["backend"],
        errors=[_error(each, row) for each in details.attempts if each.error],
        worker_ids=[each.worker_id for each in details.attempts],
    )
    if details.result is not None:
        object.__setattr__(result, "_return_value", details.result.output)
    return result


def _error(attempt: Attempt, row: Workload) -> TaskError:
    named = _ERROR.match(attempt.error)
    path = named["path"] if named and "." in named["path"] else "builtins.RuntimeError"
    return TaskError(exception_class_path=path, traceback=attempt.error)


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)
