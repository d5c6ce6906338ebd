"""Durable work at rest, by subject: the work itself (`work.py`), decisions on it (`approving.py`), the workers that
registered (`workers.py`), schedules (`schedules.py`), namespaces whose claims are stopped (`holds.py`).
"""

from apps.workloads.models.approving import Decision
from apps.workloads.models.holds import NamespaceHold
from apps.workloads.models.schedules import Schedule
from apps.workloads.models.work import (
    Attempt,
    Checkpoint,
    Dependency,
    Event,
    Lane,
    Request,
    Result,
    Workload,
)
from apps.workloads.models.workers import RegisteredWorker

__all__ = [
    "Attempt",
    "Checkpoint",
    "Decision",
    "Dependency",
    "Event",
    "Lane",
    "NamespaceHold",
    "RegisteredWorker",
    "Request",
    "Result",
    "Schedule",
    "Workload",
]
